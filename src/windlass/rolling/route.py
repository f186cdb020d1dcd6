"""Rolling kinds: how fresh their items are, whether the promise will hold, and single items."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import Field

from windlass.clock import SECOND
from windlass.core.task.kind import Kind
from windlass.errors import Unknown
from windlass.operate import fan_out as gather
from windlass.rolling.declare import Rolling
from windlass.rolling.model import Item
from windlass.rolling.operate import histogram
from windlass.value.duration import format_duration
from windlass.watch.audit.model import Action
from windlass.web.problem import problems
from windlass.web.request import Console, KindName, ReadyConsole, RequestLog
from windlass.web.view import (
    STORABLE,
    Body,
    Code,
    Done,
    Moment,
    Names,
    Page,
    Seconds,
    StatusName,
    View,
    many,
)

router = APIRouter(tags=["rolling"])

LONGEST_VISIT_SECONDS = 30.0
MOST_CODES = 1_000

Limit = Annotated[int, Query(ge=1, le=500)]


class FreshnessOut(View):
    """How fresh the items of a kind are. Counts are exact below 10,000, rates per second."""

    kind: str
    every: str
    every_seconds: float
    total: int
    never_visited: int
    due: int
    overdue: int
    oldest_age: Seconds
    needed_rate: float
    actual_rate: float
    forecast: str
    breaks_at: Moment | None
    head_room: float | None
    missing: Names


class BarOut(View):
    """How many items were last visited so long ago; the last bar has no end."""

    from_seconds: float
    to_seconds: float | None
    count: int
    is_late: bool


class HistogramOut(View):
    """The ages of all items: the time since the last visit, counted up to 20,000 items.

    `promise_seconds` is the age that none should pass. Those that were never visited are counted
    apart; in an estimate they are where their due time puts them.
    """

    bars: list[BarOut]
    never_visited: int
    promise_seconds: float
    is_estimate: bool


class RollingDetail(View):
    """A rolling kind."""

    freshness: FreshnessOut
    histogram: HistogramOut


class ItemOut(View):
    """What is known of an item; `status` is how its last visit ended, or that it runs now."""

    key: str
    status: StatusName
    started_at: Moment | None
    finished_at: Moment | None
    due_at: Moment | None
    remark: str | None


class Visit(Body):
    """Which item to visit now, unless its last visit is at most `fresh` seconds ago."""

    code: Code
    fresh: Annotated[float, Field(ge=0, le=10 * 365 * 86_400)] | None = None
    timeout: Annotated[float, Field(gt=0, le=LONGEST_VISIT_SECONDS)] = 10.0


class Codes(Body):
    """Which items."""

    codes: Annotated[list[Code], Field(min_length=1, max_length=MOST_CODES)]


class NewCodes(Codes):
    """Which items to add, and whether to visit them at once."""

    now: bool = False


@router.get("/rolling")
def rolling(console: ReadyConsole) -> list[FreshnessOut]:
    """All rolling kinds."""
    kinds = [kind for kind in console.app.registry.kinds.values() if kind.period is not None]
    return [_freshness(console, kind) for kind in sorted(kinds, key=lambda kind: kind.name)]


@router.get("/rolling/{kind}", responses=problems(404))
def one(kind: KindName, console: ReadyConsole) -> RollingDetail:
    """One rolling kind, with the ages of its items."""
    declared = console.rolling(kind)
    ages = histogram.look(console.app.fleet, declared)
    return RollingDetail(
        freshness=_freshness(console, declared),
        histogram=HistogramOut.model_validate(ages),
    )


@router.get("/rolling/{kind}/items", responses=problems(404))
def items(
    kind: KindName,
    console: ReadyConsole,
    prefix: Annotated[str, Query(max_length=255, pattern=STORABLE)] = "",
    after: Annotated[str, Query(max_length=255, pattern=STORABLE)] = "",
    limit: Limit = 50,
) -> Page[ItemOut]:
    """Items in the order of their codes, those that begin with `prefix`."""
    found = gather.items(
        console.app.fleet, console.rolling(kind), prefix=prefix, after=after, limit=limit
    )
    is_more = len(found) == limit
    return Page(
        items=many(ItemOut, found),
        next=found[-1].code if is_more else None,
        missing=found.missing,
    )


@router.get("/rolling/{kind}/item", responses=problems(404))
def item(
    kind: KindName,
    console: ReadyConsole,
    code: Annotated[str, Query(min_length=1, max_length=255, pattern=STORABLE)],
) -> ItemOut:
    """One item."""
    found = Rolling[..., object](console.app, console.rolling(kind)).item(code)
    if found is None:
        raise Unknown(f"rolling {kind!r} has no item {code!r}")
    return _item(found)


@router.post("/rolling/{kind}/visit", responses=problems(404, 409))
def visit(kind: KindName, body: Visit, console: ReadyConsole, log: RequestLog) -> ItemOut:
    """Have one item visited now, and wait for it; 409 if it takes longer than `timeout`."""
    declared = console.rolling(kind)
    fresh = None if body.fresh is None else int(body.fresh * SECOND)
    timeout = max(1, int(body.timeout * SECOND))
    with log.record(Action.ROLLING_VISIT, kind, code=body.code) as entry:
        found = console.app.visit_item(declared, body.code, fresh=fresh, timeout=timeout)
        entry.says(f"{body.code} was visited: {found.status}")
    return _item(found)


@router.post("/rolling/{kind}/add", responses=problems(404))
def add(kind: KindName, body: NewCodes, console: ReadyConsole, log: RequestLog) -> Done:
    """Add items; those that are there stay as they are."""
    handle = Rolling[..., object](console.app, console.rolling(kind))
    with log.record(Action.ROLLING_ADD, kind, codes=body.codes, now=body.now) as entry:
        count = handle.add(body.codes, now=body.now)
        message = entry.says(f"{count:,} of {len(body.codes):,} items are new")
    return Done(message=message, changed=count)


@router.post("/rolling/{kind}/remove", responses=problems(404))
def remove(kind: KindName, body: Codes, console: ReadyConsole, log: RequestLog) -> Done:
    """Visit these items no more."""
    handle = Rolling[..., object](console.app, console.rolling(kind))
    with log.record(Action.ROLLING_REMOVE, kind, codes=body.codes) as entry:
        count = handle.remove(body.codes)
        message = entry.says(f"{count:,} items are removed")
    return Done(message=message, changed=count)


def _freshness(console: Console, kind: Kind) -> FreshnessOut:
    assert kind.period is not None
    found = gather.fresh(console.app.fleet, console.app.clock, kind)
    return FreshnessOut.model_validate(
        {
            **vars(found),
            "kind": kind.name,
            "every": format_duration(kind.period.every),
            "every_seconds": kind.period.every / SECOND,
        }
    )


def _item(found: Item) -> ItemOut:
    return ItemOut.model_validate(found)
