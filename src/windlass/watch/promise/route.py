"""The API of promises."""

from __future__ import annotations

from fastapi import APIRouter

from windlass.view.listing import Listing
from windlass.watch.promise.model.promise import Promise
from windlass.watch.promise.operate import promise as operate
from windlass.web.problem import problems
from windlass.web.request import KindName, ReadyConsole
from windlass.web.view import answer

router = APIRouter(prefix="/promises", tags=["promises"])


@router.get("", response_model=answer(Listing[Promise], name="PromiseView"))
def promises(console: ReadyConsole) -> Listing[Promise]:
    """What kinds promise and how that stands, the worst first."""
    app = console.app
    return operate.listing(app.fleet, app.clock, app.registry)


@router.get("/{kind}", responses=problems(404), response_model=answer(Promise, name="PromiseView"))
def promise(kind: KindName, console: ReadyConsole) -> Promise:
    """The promise of one kind."""
    app = console.app
    return operate.show(app.fleet, app.clock, app.registry, kind)
