"""The routes of crons: show them, run one now, and change its schedule."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter
from pydantic import Field

from windlass.operate.cron import operate
from windlass.operate.cron.operate import CronDetail, CronView
from windlass.value.task import Call
from windlass.view.action import Action
from windlass.view.listing import Listing
from windlass.web.problem import problems
from windlass.web.request import KindName, ReadyConsole, RequestLog
from windlass.web.view import ActionResult, RequestBody, answer

router = APIRouter(tags=["crons"])

CRON = answer(CronDetail)
UNKNOWN = problems(404)
Text = Annotated[str, Field(min_length=1, max_length=200)]


class SetSchedule(RequestBody):
    """When to run: an expression, or a time between turns; without a zone, in the declared one."""

    cron: Text | None = Field(default=None, examples=["0 4 * * *"])
    every: Text | None = Field(default=None, examples=["30s"])
    tz: Text | None = Field(default=None, examples=["Asia/Shanghai"])


class CronStarted(ActionResult):
    """The task that runs the cron."""

    id: int


@router.get("/crons", response_model=answer(Listing[CronView]))
def crons(console: ReadyConsole) -> Listing[CronView]:
    """All declared crons."""
    return operate.listing(console.app.fleet, console.app.registry)


@router.get("/crons/{kind}", responses=UNKNOWN, response_model=CRON)
def cron(kind: KindName, console: ReadyConsole) -> CronDetail:
    """One cron, with its last results."""
    return operate.show(console.app.fleet, console.app.registry, kind)


@router.post("/crons/{kind}/run", responses=UNKNOWN)
def run(kind: KindName, console: ReadyConsole, log: RequestLog) -> CronStarted:
    """Run a cron once more, now; its next turn stays."""
    found = operate.kind_of(console.app.registry, kind)
    with log.record(Action.CRON_RUN, kind) as entry:
        ref = console.app.submit(found, [Call((), {}, None)], operate.NOW)[0]
        message = entry.says(f"{kind} runs now, as task {ref.id}")
    return CronStarted(message=message, id=ref.id)


@router.post("/crons/{kind}/set", responses=UNKNOWN, response_model=CRON)
def set_(kind: KindName, body: SetSchedule, console: ReadyConsole, log: RequestLog) -> CronDetail:
    """Change the schedule of a cron, until it is reset or declared differently."""
    fleet, registry = console.app.fleet, console.app.registry
    wanted = operate.wanted(registry, kind, cron=body.cron, every=body.every, tz=body.tz)
    old, new = operate.current(fleet, registry, kind), operate.told(wanted)
    with log.record(Action.CRON_SET, kind, old=old, new=new) as entry:
        operate.set_(fleet, registry, kind, wanted, who=log.who)
        entry.says(f"{kind} runs by {new}")
    return operate.show(fleet, registry, kind)


@router.post("/crons/{kind}/reset", responses=UNKNOWN, response_model=CRON)
def reset(kind: KindName, console: ReadyConsole, log: RequestLog) -> CronDetail:
    """Let a cron run as it is declared."""
    fleet, registry = console.app.fleet, console.app.registry
    old, new = operate.current(fleet, registry, kind), operate.declared(registry, kind)
    with log.record(Action.CRON_RESET, kind, old=old, new=new) as entry:
        operate.reset(fleet, registry, kind)
        entry.says(f"{kind} runs as declared: {new}")
    return operate.show(fleet, registry, kind)
