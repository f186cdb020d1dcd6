"""Control runs: how far they are, their steps, and releasing one that is stuck."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Query
from pydantic import Field

from windlass.control import operate
from windlass.control.model.argument import check_key, parse_cursor
from windlass.control.model.control import DONE, ControlRunDetail, Reply, RunStatus, RunView
from windlass.errors import NotPossible, Unknown
from windlass.view.action import Action
from windlass.view.listing import Listing
from windlass.web.problem import problems
from windlass.web.request import ReadyConsole, RequestLog, RunName
from windlass.web.view import STORABLE, ActionResult, Number, RequestBody, answer

router = APIRouter(tags=["control"])

RunStatusText = Literal["failed", "succeeded", "running", "ready"]
Partition = Annotated[str, Query(max_length=255, pattern=STORABLE)]


class Which(RequestBody):
    """Which run; with a batch only that try, not a later one."""

    partition: Annotated[str, Field(max_length=255)] = ""
    batch: Number | None = None


@router.get("/control", response_model=answer(Listing[RunView]))
def runs(
    console: ReadyConsole,
    name: Annotated[str | None, Query(max_length=255, pattern=STORABLE)] = None,
    status: Annotated[list[RunStatusText] | None, Query(max_length=4)] = None,
    after: Annotated[str | None, Query(max_length=1_000, pattern=STORABLE)] = None,
    limit: Annotated[int, Query(ge=1, le=500)] = 100,
) -> Listing[RunView]:
    """Control runs, by name and partition."""
    statuses = tuple(RunStatus) if status is None else [RunStatus[each.upper()] for each in status]
    return operate.listing(
        console.app.fleet, name=name, statuses=statuses, after=parse_cursor(after), limit=limit
    )


@router.get("/control/{name}", responses=problems(404), response_model=answer(ControlRunDetail))
def run(name: RunName, console: ReadyConsole, partition: Partition = "") -> ControlRunDetail:
    """One control run."""
    key = check_key(name, partition)
    found = operate.get(console.app.fleet, key)
    if found is None:
        raise Unknown(f"control {key}: nothing was ever started under that name")
    return ControlRunDetail(found, operate.history(console.app.fleet, key))


@router.post("/control/{name}/release", responses=problems(404, 409))
def release(name: RunName, body: Which, console: ReadyConsole, log: RequestLog) -> ActionResult:
    """Free a run that is stuck; its holder is fenced off, and the try is recorded as failed."""
    key = check_key(name, body.partition)
    with log.record(Action.CONTROL_RELEASE, str(key), batch=body.batch) as entry:
        reply = operate.release(console.app.fleet, key, who=log.who, batch=body.batch)
        return _done(reply, entry.says(f"{key} is released"))


@router.post("/control/{name}/reset", responses=problems(404, 409))
def reset(name: RunName, body: Which, console: ReadyConsole, log: RequestLog) -> ActionResult:
    """Make a run that failed start over: its steps and its data are forgotten."""
    key = check_key(name, body.partition)
    with log.record(Action.CONTROL_RESET, str(key), batch=body.batch) as entry:
        reply = operate.reset(console.app.fleet, key, who=log.who, batch=body.batch)
        return _done(reply, entry.says(f"{key} starts over"))


def _done(reply: Reply, message: str) -> ActionResult:
    if reply.code != DONE:
        raise NotPossible(reply.msg)
    return ActionResult(message=message)
