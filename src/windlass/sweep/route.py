"""Sweeps over HTTP: progress, ranges, rounds and failed items; split, start and retry."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import Field

from windlass.sweep.model import MOST_RANGES, Progress, RoundView, SetAside
from windlass.view.action import Action
from windlass.view.audit import Audit
from windlass.web.problem import problems
from windlass.web.request import KindName, ReadyConsole, RequestLog
from windlass.web.view import ActionResult, RequestBody, answer

router = APIRouter(tags=["sweeps"])

MOST_FAILURES = 1_000
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


@router.get("/sweeps", response_model=Summary)
def sweeps(console: ReadyConsole) -> list[Progress]:
    """All sweeps."""
    return console.app.sweeps.listing(console.app.registry.kinds.values())


@router.get("/sweeps/{kind}", response_model=answer(Progress), responses=problems(404))
def sweep(kind: KindName, console: ReadyConsole) -> Progress:
    """One sweep, with its ranges in the order of their keys and its last rounds."""
    return console.app.sweeps.progress(console.app.registry.of_face(kind, "sweep", what="a sweep"))


@router.get(
    "/sweeps/{kind}/rounds", response_model=answer(list[RoundView]), responses=problems(404)
)
def rounds(kind: KindName, console: ReadyConsole, limit: Limit = 20) -> list[RoundView]:
    """The rounds that ended, newest first."""
    return console.app.sweeps.rounds(
        console.app.registry.of_face(kind, "sweep", what="a sweep"), limit=limit
    )


@router.get(
    "/sweeps/{kind}/failures", response_model=answer(list[SetAside]), responses=problems(404)
)
def failures(kind: KindName, console: ReadyConsole, limit: Limit = 100) -> list[SetAside]:
    """Failed items, newest first. `key` is what `retry` takes; `shown` is for people."""
    return console.app.sweeps.failures(
        console.app.registry.of_face(kind, "sweep", what="a sweep"), limit=limit
    )


@router.get("/sweeps/{kind}/audit", response_model=answer(Audit), responses=problems(404))
def audit(kind: KindName, console: ReadyConsole) -> Audit:
    """Whether the ranges cover all keys: no gap and no overlap, across all splits."""
    return console.app.sweeps.audit(console.app.registry.of_face(kind, "sweep", what="a sweep"))


@router.post("/sweeps/{kind}/split", responses=problems(404))
def split(kind: KindName, body: Split, console: ReadyConsole, log: RequestLog) -> ActionResult:
    """Change the number of ranges, also while a round runs; `changed` is the new number."""
    declared = console.app.registry.of_face(kind, "sweep", what="a sweep")
    with log.record(Action.SWEEP_SPLIT, kind, ranges=body.ranges) as entry:
        made = console.app.sweeps.split(declared, body.ranges)
        message = entry.says(f"{kind} has {made:,} ranges")
    return ActionResult(message=message, changed=made)


@router.post("/sweeps/{kind}/start", responses=problems(404))
def start(kind: KindName, console: ReadyConsole, log: RequestLog) -> ActionResult:
    """Begin a round now, unless one runs."""
    declared = console.app.registry.of_face(kind, "sweep", what="a sweep")
    with log.record(Action.SWEEP_START, kind) as entry:
        number = console.app.sweeps.start(declared)
        message = entry.says(f"round {number:,} of {kind} runs")
    return ActionResult(message=message)


@router.post("/sweeps/{kind}/retry", responses=problems(404))
def retry(kind: KindName, body: RetryItems, console: ReadyConsole, log: RequestLog) -> ActionResult:
    """Have the workers of the sweep retry failed items."""
    declared = console.app.registry.of_face(kind, "sweep", what="a sweep")
    with log.record(Action.SWEEP_RETRY, kind, keys=body.keys) as entry:
        count = console.app.sweeps.ask_retry(declared, keys=body.keys)
        message = entry.says(f"{count:,} items of {kind} run again")
    return ActionResult(message=message, changed=count)
