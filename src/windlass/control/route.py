"""Control runs: how far they are, calls from elsewhere, and freeing one that is stuck."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from pydantic import Field, StrictInt, StrictStr

from windlass.control import operate
from windlass.control.model.argument import ControlKey, check_key, parse_cursor, parse_expires
from windlass.control.model.control import DONE, ControlRunDetail, Reply, RunStatus, RunView
from windlass.control.model.step import LARGEST_NUMBER, LONGEST_NAME
from windlass.errors import NotPossible, Unknown
from windlass.value.shard import CONTROL
from windlass.view.action import Action
from windlass.view.listing import Listing
from windlass.web.problem import problems
from windlass.web.request import ReadyConsole, RequestLog, RequestOnce, RunName
from windlass.web.view import (
    STORABLE,
    ActionResult,
    JsonValue,
    Number,
    RequestBody,
    answer,
    shown_as,
)

router = APIRouter(tags=["control"])

RunStatusText = Literal["failed", "succeeded", "running", "ready"]
Partition = Annotated[str, Query(max_length=255, pattern=STORABLE)]


PartitionText = Annotated[str, Field(max_length=LONGEST_NAME, pattern=STORABLE)]
# A body may have more than the database can keep of an error: it is cut.
ErrorText = Annotated[str, Field(max_length=100_000, pattern=STORABLE)]
StepNumber = Annotated[StrictInt, Field(ge=1, le=LARGEST_NUMBER)]
StepText = Annotated[StrictStr, Field(min_length=1, max_length=LONGEST_NAME, pattern=STORABLE)]
Kept = Annotated[JsonValue, Field(description="JSON to keep; null keeps nothing.")]

BATCH = 4_711
UNTIL = "A duration such as 1h, or a moment with its zone; without it, until it has ended."


class Which(RequestBody):
    """Which run; with a batch only that try, not a later one."""

    partition: PartitionText = ""
    batch: Number | None = None


class ControlStart(RequestBody):
    """A start: until when the run is held, what is kept with it, and whether it happens once."""

    model_config = shown_as({"partition": "2026-11", "expires": "1h", "data": {"file": "a.csv"}})

    partition: PartitionText = ""
    expires: Annotated[str, Field(max_length=50, description=UNTIL)] | None = None
    data: Kept = None
    once: bool = False


class ControlStep(Which):
    """The step that begins, and what is kept with it."""

    model_config = shown_as(
        {"partition": "2026-11", "step": 3, "batch": BATCH, "data": {"row": 1200}}
    )

    step: StepNumber | StepText
    data: Kept = None


class ControlNote(Which):
    """What is kept with the run: objects are merged, anything else replaces what was there."""

    model_config = shown_as({"partition": "2026-11", "batch": BATCH, "data": {"rows": 1200}})

    data: Annotated[JsonValue, Field()]


class ControlFinish(Which):
    """The end of a run that succeeded."""

    model_config = shown_as({"partition": "2026-11", "batch": BATCH, "data": {"rows": 2400}})

    data: Kept = None


class ControlError(ControlFinish):
    """The end of a run that failed, and why."""

    model_config = shown_as({"partition": "2026-11", "batch": BATCH, "error": "disk full"})

    error: ErrorText = ""


REPLY = answer(Reply)


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


@router.post("/control/{name}/start", responses=problems(409), response_model=REPLY)
def start(
    name: RunName, body: ControlStart, console: ReadyConsole, log: RequestLog, once: RequestOnce
) -> Any:
    """Start a run: 0, or 8 if it is running, or 2 if it happens once and has succeeded.

    `data.batch` is the number of this try: send it with every later call. `data.done` has the
    steps that earlier tries have done, and `data.status` is 9 if the run was free.
    """
    key, fleet = check_key(name, body.partition), console.app.fleet
    expires = parse_expires(_duration_or_moment(body.expires))

    def work() -> Reply:
        return operate.start(
            fleet, key, expires=expires, data=body.data, once=body.once, who=log.who
        )

    with log.record(Action.CONTROL_START, str(key)):
        return _once(once, key, work)


@router.post("/control/{name}/step", responses=problems(409), response_model=REPLY)
def step(
    name: RunName, body: ControlStep, console: ReadyConsole, log: RequestLog, once: RequestOnce
) -> Any:
    """Begin a step, which ends the one before: 0, or 2 if it is done already, or 451."""
    key, fleet = check_key(name, body.partition), console.app.fleet

    def work() -> Reply:
        return operate.step(fleet, key, body.step, batch=body.batch, data=body.data)

    with log.record(Action.CONTROL_STEP, str(key), batch=body.batch, step=body.step):
        return _once(once, key, work)


@router.post("/control/{name}/note", responses=problems(409), response_model=REPLY)
def note(
    name: RunName, body: ControlNote, console: ReadyConsole, log: RequestLog, once: RequestOnce
) -> Any:
    """Keep data with a running run: 0, or 451."""
    key, fleet = check_key(name, body.partition), console.app.fleet

    def work() -> Reply:
        return operate.note(fleet, key, body.data, batch=body.batch)

    with log.record(Action.CONTROL_NOTE, str(key), batch=body.batch):
        return _once(once, key, work)


@router.post("/control/{name}/finish", responses=problems(409), response_model=REPLY)
def finish(
    name: RunName, body: ControlFinish, console: ReadyConsole, log: RequestLog, once: RequestOnce
) -> Any:
    """End a run as succeeded: 0, or 451."""
    key, fleet = check_key(name, body.partition), console.app.fleet

    def work() -> Reply:
        return operate.finish(fleet, key, batch=body.batch, data=body.data)

    with log.record(Action.CONTROL_FINISH, str(key), batch=body.batch):
        return _once(once, key, work)


@router.post("/control/{name}/error", responses=problems(409), response_model=REPLY)
def error(
    name: RunName, body: ControlError, console: ReadyConsole, log: RequestLog, once: RequestOnce
) -> Any:
    """End a run as failed: 0, or 451. Its steps are kept for the next try."""
    key, fleet = check_key(name, body.partition), console.app.fleet

    def work() -> Reply:
        return operate.fail(fleet, key, body.error, batch=body.batch, data=body.data)

    with log.record(Action.CONTROL_ERROR, str(key), batch=body.batch):
        return _once(once, key, work)


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


def _duration_or_moment(given: str | None) -> str | datetime | None:
    """A moment if it is written as one; anything else is read as a duration."""
    try:
        return None if given is None else datetime.fromisoformat(given)
    except ValueError:
        return given


def _once(once: RequestOnce, key: ControlKey, work: Callable[[], Reply]) -> Any:
    """The answer to a call, which is done once for each idempotency key."""
    return once.answer(
        REPLY,
        lambda _conn: REPLY.model_validate(work()),
        kind=CONTROL,
        key=operate.home_key(key),
    )


def _done(reply: Reply, message: str) -> ActionResult:
    if reply.code != DONE:
        raise NotPossible(reply.msg)
    return ActionResult(message=message)
