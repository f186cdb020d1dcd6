"""The routes of kinds."""

from __future__ import annotations

from fastapi import APIRouter

from windlass.watch.kind import operate
from windlass.watch.kind.operate import KindDetail, KindView
from windlass.web.problem import problems
from windlass.web.request import KindName, ReadyConsole
from windlass.web.view import answer

router = APIRouter(tags=["kinds"])


@router.get("/kinds", response_model=answer(list[KindView]))
def kinds(console: ReadyConsole) -> list[KindView]:
    """All kinds that are declared, or have rows."""
    return operate.listing(console.app.fleet, console.app.registry)


@router.get("/kinds/{kind}", responses=problems(404), response_model=answer(KindDetail))
def kind(kind: KindName, console: ReadyConsole) -> KindDetail:
    """One kind."""
    return operate.show(console.app.fleet, console.app.registry, kind)
