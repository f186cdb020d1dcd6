"""Sweeps: their ranges, rounds and failures, and splitting, starting and retrying them."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import Field

from windlass.sweep.model import MOST_RANGES, SetAside
from windlass.value.key import encode_key
from windlass.watch.audit.model import Action
from windlass.web.problem import problems
from windlass.web.request import KindName, ReadyConsole, RequestLog
from windlass.web.view import Body, Done, KeyText, Moment, Seconds, StatusName, View, many

router = APIRouter(tags=["sweeps"])

MOST_FAILURES = 1_000
Limit = Annotated[int, Query(ge=1, le=MOST_FAILURES)]


class RangeOut(View):
    """A range: the keys after `begin` up to `end`; null is open. All is done up to `breakpoint`."""

    id: int
    begin: KeyText | None
    end: KeyText | None
    breakpoint: KeyText | None
    read_to: KeyText | None
    status: StatusName
    done: int
    failed: int
    repeated: int
    rows_estimate: int | None
    percent: float | None
    rate: float
    owner: int | None
    heartbeat_at: Moment | None
    is_straggler: bool


class RoundOut(View):
    """A round that ended, or the one that runs."""

    round: int
    started_at: Moment
    ended_at: Moment | None
    duration: Seconds
    done: int
    failed: int
    repeated: int
    ranges: int
    rate: float


class SweepOut(View):
    """How far a sweep is. Totals are estimates; null if the source does not count its rows."""

    sweep: str
    round: int
    is_running: bool
    percent: float | None
    done: int
    failed: int
    repeated: int
    total: int | None
    rate: float
    eta: Seconds | None
    started_at: Moment | None
    ended_at: Moment | None
    next_at: Moment | None
    error: str | None
    why: str


class SweepDetail(SweepOut):
    """A sweep with its ranges as they follow each other, and its last rounds."""

    ranges: list[RangeOut]
    history: list[RoundOut]


class AsideOut(View):
    """An item that failed and was set aside. `key` is what `retry` takes; `shown` is for people."""

    key: str
    shown: str
    error: str
    round: int
    failed_at: Moment
    tries: int


class AuditOut(View):
    """Whether the ranges tile the key space."""

    ok: bool
    problems: list[str]


class Split(Body):
    """Into how many ranges."""

    ranges: Annotated[int, Field(ge=1, le=MOST_RANGES)]


class Retry(Body):
    """Which items to run again; all of them without keys."""

    keys: (
        Annotated[
            list[Annotated[str, Field(max_length=1_000)]],
            Field(min_length=1, max_length=MOST_FAILURES),
        ]
        | None
    ) = None


@router.get("/sweeps")
def sweeps(console: ReadyConsole) -> list[SweepOut]:
    """All sweeps."""
    kinds = [kind for kind in console.app.registry.kinds.values() if kind.sweep is not None]
    found = [
        console.app.sweeps.progress(kind) for kind in sorted(kinds, key=lambda kind: kind.name)
    ]
    return many(SweepOut, found)


@router.get("/sweeps/{kind}", responses=problems(404))
def sweep(kind: KindName, console: ReadyConsole) -> SweepDetail:
    """One sweep."""
    return SweepDetail.model_validate(console.app.sweeps.progress(console.sweep(kind)))


@router.get("/sweeps/{kind}/rounds", responses=problems(404))
def rounds(kind: KindName, console: ReadyConsole, limit: Limit = 20) -> list[RoundOut]:
    """The rounds that ended, newest first."""
    return many(RoundOut, console.app.sweeps.rounds(console.sweep(kind), limit=limit))


@router.get("/sweeps/{kind}/failures", responses=problems(404))
def failures(kind: KindName, console: ReadyConsole, limit: Limit = 100) -> list[AsideOut]:
    """Items that failed and were set aside, newest first."""
    found = console.app.sweeps.failures(console.sweep(kind), limit=limit)
    return [_aside(each) for each in found]


@router.get("/sweeps/{kind}/audit", responses=problems(404))
def audit(kind: KindName, console: ReadyConsole) -> AuditOut:
    """Whether the ranges tile the key space: no gap and no overlap, across all splits."""
    return AuditOut.model_validate(console.app.sweeps.audit(console.sweep(kind)))


@router.post("/sweeps/{kind}/split", responses=problems(404))
def split(kind: KindName, body: Split, console: ReadyConsole, log: RequestLog) -> Done:
    """Have so many ranges, also while it runs; as near to that as can be had."""
    declared = console.sweep(kind)
    with log.record(Action.SWEEP_SPLIT, kind, ranges=body.ranges) as entry:
        made = console.app.sweeps.split(declared, body.ranges)
        message = entry.says(f"{kind} has {made:,} ranges")
    return Done(message=message, changed=made)


@router.post("/sweeps/{kind}/start", responses=problems(404))
def start(kind: KindName, console: ReadyConsole, log: RequestLog) -> Done:
    """Begin a round now; one that runs goes on."""
    declared = console.sweep(kind)
    with log.record(Action.SWEEP_START, kind) as entry:
        number = console.app.sweeps.start(declared)
        message = entry.says(f"round {number:,} of {kind} runs")
    return Done(message=message)


@router.post("/sweeps/{kind}/retry", responses=problems(404))
def retry(kind: KindName, body: Retry, console: ReadyConsole, log: RequestLog) -> Done:
    """Have items that were set aside run again, by the workers of the sweep."""
    declared = console.sweep(kind)
    with log.record(Action.SWEEP_RETRY, kind, keys=body.keys) as entry:
        count = console.app.sweeps.ask_retry(declared, keys=body.keys)
        message = entry.says(f"{count:,} items of {kind} run again")
    return Done(message=message, changed=count)


def _aside(each: SetAside) -> AsideOut:
    return AsideOut.model_validate({**vars(each), "key": encode_key(each.key), "shown": each.shown})
