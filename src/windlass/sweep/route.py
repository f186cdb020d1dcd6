"""Sweeps over HTTP: progress, ranges, rounds and failed items; split, start, retry and visit."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query
from pydantic import Field

from windlass.errors import Unknown
from windlass.sweep.declare import MOST_RANGES
from windlass.sweep.model import Progress, RoundView, SetAside, SweepVisit
from windlass.sweep.operate.run import SweepRun, find_sweep
from windlass.sweep.operate.state import SweepState
from windlass.sweep.operate.sweep import Sweep
from windlass.value.period import VisitSoon
from windlass.view.action import Action
from windlass.view.audit import Audit
from windlass.web.problem import problems
from windlass.web.request import KindName, ReadyConsole, RequestLog
from windlass.web.view import ActionResult, RequestBody, answer

router = APIRouter(tags=["sweeps"])
one = APIRouter(prefix="/sweeps/{kind}", responses=problems(404))

MOST_FAILURES = 1_000
LONGEST_VISIT_SECONDS = 30.0
Limit = Annotated[int, Query(ge=1, le=MOST_FAILURES)]
Summary = answer(list[Progress], name="ProgressSummary", without=("ranges", "history"))


class Split(RequestBody):
    """How many ranges there should be."""

    ranges: Annotated[int, Field(ge=1, le=MOST_RANGES)]


class RetryItems(RequestBody):
    """Which failed items to retry; all of them without keys."""

    keys: (
        Annotated[
            list[Annotated[str, Field(max_length=1_000)]],
            Field(min_length=1, max_length=MOST_FAILURES),
        ]
        | None
    ) = None


KeyPart = int | Annotated[str, Field(max_length=1_000)]


class VisitKeySoon(RequestBody):
    """Which key to visit, unless it was done at most `fresh` seconds ago."""

    key: KeyPart | Annotated[list[KeyPart], Field(min_length=1, max_length=16)]
    fresh: Annotated[float, Field(ge=0, le=10 * 365 * 86_400)] | None = None

    @property
    def source_key(self) -> Any:
        """The key as sources have it."""
        return tuple(self.key) if isinstance(self.key, list) else self.key

    @property
    def fresh_for(self) -> timedelta | None:
        return None if self.fresh is None else timedelta(seconds=self.fresh)


class VisitKey(VisitKeySoon):
    """Which key to visit now, and for how many seconds to wait."""

    timeout: Annotated[float, Field(gt=0, le=LONGEST_VISIT_SECONDS)] = 10.0


def _handle(kind: KindName, console: ReadyConsole) -> Sweep[..., Any]:
    declared = console.app.registry.of_face(kind, "sweep", what="a sweep")
    return Sweep(console.app.sweeps, declared)


def _state(kind: KindName, console: ReadyConsole) -> SweepState:
    if kind in console.app.registry.kinds:
        declared = console.app.registry.of_face(kind, "sweep", what="a sweep")
        return SweepState(console.app.sweeps, declared)
    return find_sweep(console.app.sweeps, console.app.registry, kind)


def _run(kind: KindName, console: ReadyConsole) -> SweepRun:
    found = find_sweep(console.app.sweeps, console.app.registry, kind)
    if not isinstance(found, SweepRun):
        raise Unknown(f"{kind!r} is not a run; a run has a number, such as {kind}@1")
    return found


Handle = Annotated[Sweep[..., Any], Depends(_handle)]
# A sweep, or one run of it: import_file@12.
State = Annotated[SweepState, Depends(_state)]
Run = Annotated[SweepRun, Depends(_run)]


@router.get("/sweeps", response_model=Summary)
def sweeps(console: ReadyConsole) -> list[Progress]:
    """All sweeps, and their open runs."""
    return console.app.sweeps.listing(console.app.registry.kinds.values())


@one.get("", response_model=answer(Progress))
def sweep(handle: State) -> Progress:
    """One sweep or run, with its ranges in the order of their keys and its last rounds."""
    return handle.progress()


@one.get("/rounds", response_model=answer(list[RoundView]))
def rounds(handle: State, limit: Limit = 20) -> list[RoundView]:
    """The rounds that ended, newest first."""
    return handle.rounds(limit)


@one.get("/failures", response_model=answer(list[SetAside]))
def failures(handle: State, limit: Limit = 100) -> list[SetAside]:
    """Failed items, newest first. `key` is what `retry` takes; `shown` is for people."""
    return handle.failures(limit)


@one.get("/audit", response_model=answer(Audit))
def audit(handle: State) -> Audit:
    """Whether the ranges cover all keys: no gap and no overlap, across all splits."""
    return handle.audit()


@one.get("/runs", response_model=Summary)
def runs(handle: Handle, limit: Limit = 20) -> list[Progress]:
    """The runs over sources that were given at their start, newest first."""
    return [run.progress() for run in handle.runs(limit)]


@one.post("/cancel")
def cancel(handle: Run, log: RequestLog) -> ActionResult:
    """End a run; what it did stays done. `changed` is 0 if it has ended."""
    with log.record(Action.SWEEP_CANCEL, handle.name) as entry:
        is_new = handle.cancel()
        message = entry.says(f"{handle.name} {'was cancelled' if is_new else 'has ended'}")
    return ActionResult(message=message, changed=int(is_new))


@one.post("/split")
def split(handle: State, body: Split, log: RequestLog) -> ActionResult:
    """Change the number of ranges, also while a round runs; `changed` is the new number."""
    with log.record(Action.SWEEP_SPLIT, handle.name, ranges=body.ranges) as entry:
        made = handle.split(body.ranges)
        message = entry.says(f"{handle.name} has {made:,} ranges")
    return ActionResult(message=message, changed=made)


@one.post("/start")
def start(handle: Handle, log: RequestLog) -> ActionResult:
    """Begin a round now, unless one runs."""
    with log.record(Action.SWEEP_START, handle.kind) as entry:
        number = handle.start()
        message = entry.says(f"round {number:,} of {handle.kind} runs")
    return ActionResult(message=message)


@one.post("/retry")
def retry(handle: State, body: RetryItems, log: RequestLog) -> ActionResult:
    """Have the workers of the sweep retry failed items."""
    with log.record(Action.SWEEP_RETRY, handle.name, keys=body.keys) as entry:
        count = handle.ask_retry(body.keys)
        message = entry.says(f"{count:,} items of {handle.name} run again")
    return ActionResult(message=message, changed=count)


@one.post("/visit", responses=problems(409), response_model=answer(SweepVisit))
def visit(handle: Handle, body: VisitKey, log: RequestLog) -> SweepVisit:
    """Visit one key now and wait for it; 409 if it takes longer than `timeout`."""
    timeout = max(timedelta(seconds=body.timeout), timedelta.resolution)
    with log.record(Action.SWEEP_VISIT, handle.kind, key=body.key) as entry:
        found = handle.visit(body.source_key, fresh=body.fresh_for, timeout=timeout)
        entry.says(f"{body.key} was visited: {found.status}")
    return found


@one.post("/visit-soon")
def visit_soon(handle: Handle, body: VisitKeySoon, log: RequestLog) -> ActionResult:
    """Have a worker visit one key soon; `changed` is 0 if it is asked for, or fresh, already."""
    with log.record(Action.SWEEP_VISIT, handle.kind, key=body.key, soon=True) as entry:
        found = handle.visit_soon(body.source_key, fresh=body.fresh_for)
        message = entry.says(f"visit of {body.key}: {found}")
    return ActionResult(message=message, changed=int(found is VisitSoon.ASKED))


router.include_router(one)
