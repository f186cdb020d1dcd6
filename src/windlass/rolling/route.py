"""Rolling kinds: how fresh their items are, whether the promise will hold, and single items."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import Field

from windlass.errors import Unknown
from windlass.rolling.model import Item, RollingDetail, RollingView
from windlass.rolling.operate.freshness import histogram, view, views
from windlass.rolling.operate.handle import Rolling
from windlass.rolling.operate.item import items as page_of
from windlass.value.period import VisitSoon
from windlass.view.action import Action
from windlass.view.listing import Listing
from windlass.web.problem import problems
from windlass.web.request import Console, KindName, ReadyConsole, RequestLog
from windlass.web.view import STORABLE, ActionResult, Code, RequestBody, answer

router = APIRouter(tags=["rolling"])

LONGEST_VISIT_SECONDS = 30.0
MOST_CODES = 1_000

ItemAnswer = answer(Item, without=("code",))


class VisitBody(RequestBody):
    """Which item to visit now, unless its last visit is at most `fresh` seconds ago."""

    code: Code
    fresh: Annotated[float, Field(ge=0, le=10 * 365 * 86_400)] | None = None
    timeout: Annotated[float, Field(gt=0, le=LONGEST_VISIT_SECONDS)] = 10.0


class VisitSoonBody(RequestBody):
    """Which item to visit soon, unless its last visit is at most `fresh` seconds ago."""

    code: Code
    fresh: Annotated[float, Field(ge=0, le=10 * 365 * 86_400)] | None = None


class Codes(RequestBody):
    """Which items."""

    codes: Annotated[list[Code], Field(min_length=1, max_length=MOST_CODES)]


class NewCodes(Codes):
    """Which items to add, and whether to visit them at once."""

    now: bool = False


@router.get("/rolling", response_model=answer(list[RollingView]))
def rolling(console: ReadyConsole) -> list[RollingView]:
    """All rolling kinds."""
    return views(console.app.fleet, console.app.clock, console.app.registry)


@router.get("/rolling/{kind}", responses=problems(404), response_model=answer(RollingDetail))
def one(kind: KindName, console: ReadyConsole) -> RollingDetail:
    """One rolling kind, with the ages of its items."""
    app, declared = console.app, console.app.registry.of_face(kind, "rolling", what="rolling")
    return RollingDetail(view(app.fleet, app.clock, declared), histogram(app.fleet, declared))


@router.get(
    "/rolling/{kind}/items",
    responses=problems(404),
    response_model=answer(Listing[Item], without=("code",)),
)
def items(
    kind: KindName,
    console: ReadyConsole,
    prefix: Annotated[str, Query(max_length=255, pattern=STORABLE)] = "",
    after: Annotated[str, Query(max_length=255, pattern=STORABLE)] = "",
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
) -> Listing[Item]:
    """Items in the order of their codes, those that begin with `prefix`."""
    declared = console.app.registry.of_face(kind, "rolling", what="rolling")
    return page_of(console.app.fleet, declared, prefix=prefix, after=after, limit=limit)


@router.get("/rolling/{kind}/item", responses=problems(404), response_model=ItemAnswer)
def item(
    kind: KindName,
    console: ReadyConsole,
    code: Annotated[str, Query(min_length=1, max_length=255, pattern=STORABLE)],
) -> Item:
    """One item."""
    found = _handle(console, kind).item(code)
    if found is None:
        raise Unknown(f"rolling {kind!r} has no item {code!r}")
    return found


@router.post("/rolling/{kind}/visit", responses=problems(404, 409), response_model=ItemAnswer)
def visit(kind: KindName, body: VisitBody, console: ReadyConsole, log: RequestLog) -> Item:
    """Visit one item now and wait for it; 409 if it takes longer than `timeout`."""
    handle = _handle(console, kind)
    fresh = None if body.fresh is None else timedelta(seconds=body.fresh)
    timeout = max(timedelta(seconds=body.timeout), timedelta.resolution)
    with log.record(Action.ROLLING_VISIT, kind, code=body.code) as entry:
        found = handle.visit(body.code, fresh=fresh, timeout=timeout)
        entry.says(f"{body.code} was visited: {found.status}")
    return found


@router.post("/rolling/{kind}/visit-soon", responses=problems(404))
def visit_soon(
    kind: KindName, body: VisitSoonBody, console: ReadyConsole, log: RequestLog
) -> ActionResult:
    """Have a worker visit one item soon; `changed` is 0 if it is asked for, or fresh, already."""
    fresh = None if body.fresh is None else timedelta(seconds=body.fresh)
    with log.record(Action.ROLLING_VISIT, kind, code=body.code, soon=True) as entry:
        found = _handle(console, kind).visit_soon(body.code, fresh=fresh)
        message = entry.says(f"visit of {body.code}: {found}")
    return ActionResult(message=message, changed=int(found is VisitSoon.ASKED))


@router.post("/rolling/{kind}/add", responses=problems(404))
def add(kind: KindName, body: NewCodes, console: ReadyConsole, log: RequestLog) -> ActionResult:
    """Add items; those that are there stay as they are."""
    handle = _handle(console, kind)
    with log.record(Action.ROLLING_ADD, kind, codes=body.codes, now=body.now) as entry:
        count = handle.add(body.codes, now=body.now)
        message = entry.says(f"{count:,} of {len(body.codes):,} items are new")
    return ActionResult(message=message, changed=count)


@router.post("/rolling/{kind}/remove", responses=problems(404))
def remove(kind: KindName, body: Codes, console: ReadyConsole, log: RequestLog) -> ActionResult:
    """Stop visiting these items."""
    handle = _handle(console, kind)
    with log.record(Action.ROLLING_REMOVE, kind, codes=body.codes) as entry:
        count = handle.remove(body.codes)
        message = entry.says(f"{count:,} items are removed")
    return ActionResult(message=message, changed=count)


def _handle(console: Console, kind: str) -> Rolling[..., object]:
    return Rolling(
        console.app.rolling_tools, console.app.registry.of_face(kind, "rolling", what="rolling")
    )
