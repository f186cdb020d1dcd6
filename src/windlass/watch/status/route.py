"""The first page: what runs, what is held back and why, how fast, what failed, who works."""

from __future__ import annotations

from fastapi import APIRouter

from windlass.clock import to_datetime
from windlass.flow.operate import look as flow_look
from windlass.flow.route.flow import FlowRunOut, run_views
from windlass.operate import fan_out as gather
from windlass.operate.kind.route import KindOut, MinuteOut, kind_views, minutes
from windlass.value.status import Status
from windlass.watch.alert import operate as alert
from windlass.watch.status.pace import HOUR, pace
from windlass.web.request import Console, ReadyConsole
from windlass.web.view import FailureOut, Moment, Names, View, many

ALERTS_SHOWN = 5
RUNS_SHOWN = 5

router = APIRouter(tags=["overview"])


class AlertOut(View):
    """An alert. It is open until a person acknowledges it, and again after `quiet_until`."""

    id: int
    what: str
    kind: str | None
    task_id: int | None
    raised_at: Moment
    text: str
    is_open: bool
    seen_by: str | None
    seen_at: Moment | None
    quiet_until: Moment | None


class WorkerOut(View):
    """A worker that is there. `idle` is how many tasks it could start while it has none."""

    id: int
    host: str
    pid: int
    joined_at: Moment
    lease_until: Moment
    idle: int
    kinds: Names
    is_alive: bool


class FlowsNow(View):
    """The newest runs that go on, and the newest that failed and are kept."""

    running: list[FlowRunOut]
    failed: list[FlowRunOut]


class Overview(View):
    """How everything is doing. Counts are exact up to 10,000; more is shown as 10,001."""

    now: Moment
    database: str
    shards: Names
    missing: Names
    kinds: list[KindOut]
    workers: list[WorkerOut]
    failures: list[FailureOut]
    alerts: list[AlertOut]
    flows: FlowsNow
    # One entry for each of the last 60 minutes, oldest first; the last one is not over.
    minutes: list[MinuteOut]


@router.get("/overview")
def overview(console: ReadyConsole) -> Overview:
    """How everything is doing now."""
    fleet = console.app.fleet
    found = gather.look(fleet, console.app.registry)
    workers = [
        WorkerOut.model_validate({**vars(each), "is_alive": each.lease_until >= found.now})
        for each in found.workers
    ]
    return Overview(
        now=to_datetime(found.now),
        database=found.database,
        shards=found.shards,
        missing=found.missing,
        kinds=kind_views(console, found.kinds),
        workers=workers,
        failures=many(FailureOut, found.failures),
        alerts=many(AlertOut, alert.listing(fleet, limit=ALERTS_SHOWN)),
        flows=FlowsNow(
            running=_runs(console, Status.RUNNING),
            failed=_runs(console, Status.FAILED),
        ),
        minutes=minutes(pace(fleet, minutes=HOUR)),
    )


def _runs(console: Console, status: Status) -> list[FlowRunOut]:
    found = flow_look.page(console.app.fleet, console.app.registry, status=status, limit=RUNS_SHOWN)
    return run_views(found.lines)
