"""The routes of the first page (what runs, waits, failed, and who works) and of kinds."""

from __future__ import annotations

from dataclasses import dataclass

from fastapi import APIRouter

from windlass.flow.operate import view as flow_view
from windlass.flow.operate.view import FlowRunView
from windlass.value.status import Status
from windlass.value.task import FailureView
from windlass.view.field import Moment
from windlass.watch.alert import operate as alert
from windlass.watch.alert.model import AlertView
from windlass.watch.status import kind as kind_view
from windlass.watch.status import operate
from windlass.watch.status.kind import KindDetail, KindView, kind_views
from windlass.watch.status.model import WorkerLine, worker_lines
from windlass.watch.status.pace import HOUR, Minute, pace
from windlass.web.problem import problems
from windlass.web.request import Console, KindName, ReadyConsole
from windlass.web.view import answer

ALERTS_SHOWN = 5
RUNS_SHOWN = 5
HIDDEN = ("workers.left_at", "workers.left_why", "workers.declared")

router = APIRouter()


@dataclass(frozen=True)
class FlowsNow:
    """The newest flow runs that go on, and the newest that failed and are kept."""

    running: list[FlowRunView]
    failed: list[FlowRunView]


@dataclass(frozen=True)
class Overview:
    """How everything is doing. Counts are exact up to 10,000; more is shown as 10,001."""

    now: Moment
    database: str
    shards: tuple[str, ...]
    missing: tuple[str, ...]
    kinds: list[KindView]
    workers: list[WorkerLine]
    failures: list[FailureView]
    alerts: list[AlertView]
    flows: FlowsNow
    # One entry for each of the last 60 minutes, oldest first; the last one is not over.
    minutes: list[Minute]


@router.get("/overview", tags=["overview"], response_model=answer(Overview, without=HIDDEN))
def overview(console: ReadyConsole) -> Overview:
    """How everything is doing now."""
    fleet, registry = console.app.fleet, console.app.registry
    found = operate.look(fleet, registry)
    return Overview(
        now=found.now,
        database=found.database,
        shards=found.shards,
        missing=found.missing,
        kinds=kind_views(found.kinds, registry),
        workers=worker_lines(found),
        failures=found.failures,
        alerts=alert.listing(fleet, limit=ALERTS_SHOWN),
        flows=FlowsNow(_runs(console, Status.RUNNING), _runs(console, Status.FAILED)),
        minutes=pace(fleet, minutes=HOUR),
    )


@router.get("/kinds", tags=["kinds"], response_model=answer(list[KindView]))
def kinds(console: ReadyConsole) -> list[KindView]:
    """All kinds that are declared, or have rows."""
    return kind_view.listing(console.app.fleet, console.app.registry)


@router.get(
    "/kinds/{kind}", tags=["kinds"], responses=problems(404), response_model=answer(KindDetail)
)
def kind(kind: KindName, console: ReadyConsole) -> KindDetail:
    """One kind."""
    return kind_view.show(console.app.fleet, console.app.registry, kind)


def _runs(console: Console, status: Status) -> list[FlowRunView]:
    return flow_view.page(console.app.flows.finder, status=status, limit=RUNS_SHOWN)
