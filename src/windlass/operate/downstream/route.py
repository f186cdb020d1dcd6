"""The routes of downstreams."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path

from windlass.operate.downstream import operate
from windlass.operate.downstream.operate import DownstreamView
from windlass.web.problem import problems
from windlass.web.request import ReadyConsole
from windlass.web.view import answer

router = APIRouter(tags=["downstreams"])

DownstreamName = Annotated[str, Path(max_length=100, description="The name of the downstream.")]


@router.get("/downstreams", response_model=answer(list[DownstreamView]))
def downstreams(console: ReadyConsole) -> list[DownstreamView]:
    """All declared downstreams, by name."""
    app = console.app
    return list(operate.listing(app.fleet, app.registry, app.clock))


@router.get("/downstreams/{name}", responses=problems(404), response_model=answer(DownstreamView))
def downstream(name: DownstreamName, console: ReadyConsole) -> DownstreamView:
    """One downstream: its limits now, who has its permits, and what each kind takes."""
    app = console.app
    return operate.show(app.fleet, app.registry, app.clock, name=name)
