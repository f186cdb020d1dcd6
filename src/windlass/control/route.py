"""Named runs: where they are, their steps, and freeing one that is stuck."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from fastapi import APIRouter, Query
from pydantic import BeforeValidator, Field

from windlass.control import operate
from windlass.control.model.control import DONE, Place, Reply, RunStatus, RunView, check_place
from windlass.control.model.step import StepView
from windlass.errors import BadInput, NotPossible, Unknown
from windlass.operate import fan_out as gather
from windlass.watch.audit.model import Action
from windlass.web.problem import problems
from windlass.web.request import ReadyConsole, RequestLog, RunName
from windlass.web.view import STORABLE, Body, Done, Moment, Number, Page, View

router = APIRouter(tags=["control"])

RunStatusText = Literal["failed", "succeeded", "running", "ready"]
RunStatusName = Annotated[RunStatusText, BeforeValidator(str)]
Partition = Annotated[str, Query(max_length=255, pattern=STORABLE)]
HISTORY = 20


class StepOut(View):
    """A step; `result` is JSON."""

    step: str
    state: str
    began_at: Moment
    ended_at: Moment | None
    seconds: float | None
    result: str | None


class ProgressOut(View):
    """How far a loop has come; the total may be unknown."""

    done: int
    total: int | None


class RunOut(View):
    """A named run, or a try of it that ended. `data` is JSON."""

    name: str
    partition: str
    status: RunStatusName
    expired: bool
    stat_date: str | None
    step: str | None
    steps: list[StepOut]
    first_time: Moment | None
    start_time: Moment | None
    expire_time: Moment | None
    end_time: Moment | None
    run_seconds: float | None
    error: str | None
    data: str | None
    batch: int | None
    tries: int
    who: str | None
    progress: ProgressOut | None


class RunDetail(View):
    """A named run, and its tries that ended, newest first."""

    run: RunOut
    history: list[RunOut]


class Which(Body):
    """Which run; with a batch only that try, not one that somebody has started since."""

    partition: Annotated[str, Field(max_length=255)] = ""
    batch: Number | None = None


@router.get("/control")
def runs(
    console: ReadyConsole,
    name: Annotated[str | None, Query(max_length=255, pattern=STORABLE)] = None,
    status: Annotated[list[RunStatusText] | None, Query(max_length=4)] = None,
    after: Annotated[str | None, Query(max_length=1_000, pattern=STORABLE)] = None,
    limit: Annotated[int, Query(ge=1, le=500)] = 100,
) -> Page[RunOut]:
    """Named runs, by name and partition."""
    statuses = tuple(RunStatus) if status is None else [RunStatus[each.upper()] for each in status]
    found = gather.controls(
        console.app.fleet, name=name, statuses=statuses, after=_place(after), limit=limit
    )
    last = found[-1] if len(found) == limit else None
    return Page(
        items=[_run(each) for each in found],
        next=None if last is None else _cursor(last),
        missing=found.missing,
    )


@router.get("/control/{name}", responses=problems(404))
def run(name: RunName, console: ReadyConsole, partition: Partition = "") -> RunDetail:
    """One named run."""
    place = check_place(name, partition)
    found = gather.control_at(console.app.fleet, place)
    if found is None:
        raise Unknown(f"control {place}: nothing was ever started under that name")
    history = gather.control_history(console.app.fleet, place, limit=HISTORY)
    return RunDetail(run=_run(found), history=[_run(each) for each in history])


@router.post("/control/{name}/release", responses=problems(404, 409))
def release(name: RunName, body: Which, console: ReadyConsole, log: RequestLog) -> Done:
    """Free a run that is stuck; its holder is fenced off, and the try is recorded as failed."""
    place = check_place(name, body.partition)
    with log.record(Action.CONTROL_RELEASE, str(place), batch=body.batch) as entry:
        reply = operate.release(console.app.fleet, place, who=log.who, batch=body.batch)
        return _told(reply, entry.says(f"{place} is released"))


@router.post("/control/{name}/reset", responses=problems(404, 409))
def reset(name: RunName, body: Which, console: ReadyConsole, log: RequestLog) -> Done:
    """Have a run that failed start over: its steps and its data are forgotten."""
    place = check_place(name, body.partition)
    with log.record(Action.CONTROL_RESET, str(place), batch=body.batch) as entry:
        reply = operate.reset(console.app.fleet, place, who=log.who, batch=body.batch)
        return _told(reply, entry.says(f"{place} starts over"))


def _told(reply: Reply, message: str) -> Done:
    if reply.code != DONE:
        raise NotPossible(reply.msg)
    return Done(message=message)


def _run(found: RunView) -> RunOut:
    plain = {name: getattr(found, name) for name in found.__struct_fields__}
    return RunOut.model_validate(
        {
            **plain,
            "step": None if found.step is None else str(found.step),
            "steps": [_step(each) for each in found.steps],
            "data": _json(found.data),
        }
    )


def _step(found: StepView) -> StepOut:
    return StepOut(
        step=str(found.step),
        state=found.state.value,
        began_at=found.began_at,
        ended_at=found.ended_at,
        seconds=found.seconds,
        result=_json(found.result),
    )


def _json(value: Any) -> str | None:
    return None if value is None else msgspec.json.encode(value).decode()


def _cursor(last: RunView) -> str:
    return msgspec.json.encode([last.name, last.partition]).decode()


def _place(cursor: str | None) -> Place | None:
    if cursor is None:
        return None
    try:
        return check_place(*msgspec.json.decode(cursor, type=tuple[str, str]))
    except msgspec.MsgspecError:
        raise BadInput(f"{cursor!r} is not the cursor of a page; begin again") from None
