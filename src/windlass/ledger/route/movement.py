"""The ledger's HTTP API, which is served by itself and in the console.

In the console its paths are below /api/ledger, and the audit log has every movement.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Depends, Path, Query, Response
from fastapi.concurrency import contextmanager_in_threadpool
from pydantic import BeforeValidator

from windlass.errors import NotPossible
from windlass.ledger.ledger import Ledger
from windlass.ledger.model.ledger import (
    Confirmation,
    Deduction,
    Entry,
    Movement,
    Receipt,
    Return,
    Stock,
    movement_of,
)
from windlass.ledger.route import api
from windlass.ledger.route.api import (
    AdjustLineBody,
    AdjustmentBody,
    DeductionBody,
    ExchangeBody,
    LineBody,
    MovementBody,
    Problems,
    Responses,
    pairs,
)
from windlass.ledger.route.ledger import Shard
from windlass.value.task import LONGEST_KEY
from windlass.view.action import Action
from windlass.view.audit import Audit
from windlass.web.problem import problems
from windlass.web.request import ReadyConsole, RequestLog, decoded

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T", Receipt, Deduction, Return, Confirmation)
Describe = Callable[[Problems], Responses]

# The audit log has the first lines of a movement; the ledger has all of them.
LINES_LOGGED = 50


def _part(name: str, what: str) -> Any:
    return Path(
        alias=name, min_length=1, max_length=LONGEST_KEY, description=f"{what} {api.ANY_TEXT}"
    )


OfDeduction = Annotated[str, BeforeValidator(decoded), _part("id", "The id of a deduction.")]
OfSku = Annotated[str, BeforeValidator(decoded), _part("sku", "A SKU.")]
AfterSku = Annotated[str, Query(max_length=LONGEST_KEY, description="Only SKUs after this one.")]
AfterEntry = Annotated[int, Query(ge=0, le=2**62, description="Only entries after this one.")]
Limit = Annotated[int, Query(ge=1, le=10_000, description="At most this many.")]

UNREADABLE: Problems = {400: (), 413: ()}
QUANTITIES = (api.INVALID_QUANTITY, api.MalformedProblem)
MOVED: Problems = UNREADABLE | {409: (api.ID_CONFLICT,)}
RESTOCKED: Problems = MOVED | {422: (api.BALANCE_LIMIT, *QUANTITIES)}
NO_SKU: Problems = {404: (api.UNKNOWN_SKU,)}
NO_DEDUCTION: Problems = {404: (api.UNKNOWN_DEDUCTION,)}
TOO_LITTLE = (api.OUT_OF_STOCK, api.BALANCE_LIMIT)
DEDUCTED: Problems = MOVED | NO_SKU | {422: (*TOO_LITTLE, *QUANTITIES)}
RETURNED: Problems = MOVED | NO_DEDUCTION | {422: (api.OVER_RETURN, *QUANTITIES)}
EXCHANGED: Problems = MOVED | {
    404: (api.UNKNOWN_DEDUCTION, api.UNKNOWN_SKU),
    422: (api.OVER_RETURN, *TOO_LITTLE, *QUANTITIES),
}
CONFIRMED: Problems = NO_DEDUCTION | {422: (api.NOT_HELD, api.MalformedProblem)}


@dataclass(frozen=True)
class LedgerCall:
    """A call of the API: the ledger that it is for, the response, and the log of movements."""

    ledger: Ledger
    response: Response
    log: RequestLog | None = None
    shard: str | None = None

    async def make(
        self, action: Action, about: str, move: Callable[[], Awaitable[T]], **detail: Any
    ) -> T:
        """What the ledger answers to `move`; the status is 200 if it was made before."""
        if self.log is None:
            return await self._answer(move)
        record = self.log.record(action, about, shard=self.shard, **detail)
        # If the request is cancelled, the log still gets the outcome.
        return await asyncio.shield(self._logged(record, move))

    async def _logged(
        self, record: AbstractContextManager[Any], move: Callable[[], Awaitable[T]]
    ) -> T:
        async with contextmanager_in_threadpool(record) as entry:
            made = await self._answer(move)
            entry.says(_outcome(made) + ("; it was done before" if made.replayed else ""))
        return made

    async def _answer(self, move: Callable[[], Awaitable[T]]) -> T:
        made = await move()
        if made.replayed:
            self.response.status_code = 200
        return made


def add_routes(
    router: APIRouter,
    call: Callable[..., LedgerCall | Awaitable[LedgerCall]],
    described: Describe,
) -> None:
    """Add the API to `router`. `call` is a dependency, `described` tells what may go wrong."""
    _add_movements(router, Depends(call), described)
    _add_views(router, Depends(call), described)


def _add_movements(router: APIRouter, asked: Any, described: Describe) -> None:
    def post(path: str, answer: Any, found: Problems) -> Callable[[F], F]:
        again = {"model": answer, "description": "It was made before; this is the same answer."}
        responses = {200: again, **described(found)}
        return router.post(path, status_code=201, response_model=answer, responses=responses)

    @post("/restocks", api.RECEIPT, RESTOCKED)
    async def restock(body: MovementBody, call: LedgerCall = asked) -> Receipt:
        """Goods came in, under an id that the caller chooses."""
        move = partial(call.ledger.arestock, body.id, pairs(body.lines))
        return await call.make(Action.LEDGER_RESTOCK, body.id, move, **_lines(body))

    @post("/adjustments", api.RECEIPT, DEDUCTED)
    async def adjust(body: AdjustmentBody, call: LedgerCall = asked) -> Receipt:
        """A count found more, or less: quantities have a sign."""
        move = partial(call.ledger.aadjust, body.id, pairs(body.lines), reason=body.reason)
        detail = {"reason": body.reason, **_lines(body)}
        return await call.make(Action.LEDGER_ADJUST, body.id, move, **detail)

    @post("/deductions", api.DEDUCTION, DEDUCTED)
    async def deduct(body: DeductionBody, call: LedgerCall = asked) -> Deduction:
        """Goods go out, all lines or none; with a hold, until it lapses."""
        move = partial(call.ledger.adeduct, body.id, pairs(body.lines), hold=body.hold)
        detail = {"hold": body.hold, **_lines(body)}
        return await call.make(Action.LEDGER_DEDUCT, body.id, move, **detail)

    @post("/deductions/{id}/returns", api.RETURN, RETURNED)
    async def give_back(of: OfDeduction, body: MovementBody, call: LedgerCall = asked) -> Return:
        """A part of a deduction comes back, under an id of its own."""
        move = partial(call.ledger.agive_back, of, body.id, pairs(body.lines))
        detail = {"return_id": body.id, **_lines(body)}
        return await call.make(Action.LEDGER_GIVE_BACK, of, move, **detail)

    @post("/deductions/{id}/exchanges", api.RETURN, EXCHANGED)
    async def exchange(of: OfDeduction, body: ExchangeBody, call: LedgerCall = asked) -> Return:
        """A part of a deduction comes back and other goods go out for it, all lines or none."""
        lines = {"back": pairs(body.back), "out": pairs(body.out)}
        move = partial(call.ledger.aexchange, of, body.id, **lines)
        detail = {"exchange_id": body.id, **_told("back", body.back), **_told("out", body.out)}
        return await call.make(Action.LEDGER_EXCHANGE, of, move, **detail)

    @post("/deductions/{id}/void", api.RETURN, {})
    async def void(of: OfDeduction, call: LedgerCall = asked) -> Return:
        """All that is left of a deduction comes back; an unknown one can never be made."""
        return await call.make(Action.LEDGER_VOID, of, partial(call.ledger.avoid, of))

    @post("/deductions/{id}/confirm", api.CONFIRMATION, CONFIRMED)
    async def confirm(of: OfDeduction, call: LedgerCall = asked) -> Confirmation:
        """What is held by a deduction stays deducted."""
        return await call.make(Action.LEDGER_CONFIRM, of, partial(call.ledger.aconfirm, of))


def _add_views(router: APIRouter, asked: Any, described: Describe) -> None:
    def get(path: str, answer: Any, found: Problems) -> Callable[[F], F]:
        return router.get(path, response_model=answer, responses=described(found))

    @get("/deductions/{id}", api.DEDUCTION, NO_DEDUCTION)
    async def deduction(of: OfDeduction, call: LedgerCall = asked) -> Deduction:
        """A deduction as it is now: its lines, and how much of each has come back."""
        return await call.ledger.adeduction(of)

    @get("/deductions/{id}/returns", api.RETURNS, NO_DEDUCTION)
    async def returns(of: OfDeduction, call: LedgerCall = asked) -> list[Return]:
        """What was given back of a deduction, in order."""
        found = await call.ledger.areturns(of)
        if not found:
            # Raises an error if the deduction is unknown.
            await call.ledger.adeduction(of)
        return found

    @get("/stocks", api.STOCKS, {})
    async def stocks(
        after: AfterSku = "", limit: Limit = 1_000, call: LedgerCall = asked
    ) -> list[Stock]:
        """How much there is, by SKU, of those after `after`."""
        return await call.ledger.astocks(after=after, limit=limit)

    @get("/stocks/{sku}", api.STOCK, NO_SKU)
    async def stock(sku: OfSku, call: LedgerCall = asked) -> Stock:
        """How much there is of a SKU."""
        return await call.ledger.astock(sku)

    @get("/stocks/{sku}/entries", api.ENTRIES, NO_SKU)
    async def entries(
        sku: OfSku, after: AfterEntry = 0, limit: Limit = 1_000, call: LedgerCall = asked
    ) -> list[Entry]:
        """Every change of a SKU, oldest first, those after the entry `after`."""
        found = await call.ledger.aentries(sku, after=after, limit=limit)
        if not found:
            await call.ledger.astock(sku)
        return found


def _logged(
    response: Response, console: ReadyConsole, log: RequestLog, shard: Shard = None
) -> LedgerCall:
    return LedgerCall(console.ledgers.of(shard), response, log, shard)


router = APIRouter(prefix="/ledger", tags=["ledger"])
add_routes(router, _logged, lambda found: problems(*found))


@router.get("/audit", response_model=api.AUDIT, responses=problems(409))
def audit(console: ReadyConsole, shard: Shard = None) -> Audit:
    """Check that every rule of the ledger holds for every row. It reads all of them."""
    found = console.ledgers.audit(shard)
    if found is None:
        raise NotPossible("an audit is already running; wait until it ends")
    return found


def _lines(body: MovementBody | AdjustmentBody) -> dict[str, Any]:
    """What the audit log has of the lines."""
    return _told("lines", body.lines)


def _told(name: str, lines: Sequence[LineBody] | Sequence[AdjustLineBody]) -> dict[str, Any]:
    more = len(lines) - LINES_LOGGED
    told = {name: pairs(lines)[:LINES_LOGGED]}
    return told | ({f"more_{name}": more} if more > 0 else {})


def _outcome(made: Receipt | Deduction | Return | Confirmation) -> str:
    """What a movement did, for the audit log."""
    if isinstance(made, Confirmation):
        return f"{made.deduction} is confirmed"
    quantity = f"{sum(line.quantity for line in made.lines):,}"
    match made:
        case Receipt(movement=Movement.ADJUST):
            return f"the stock of {len(made.lines):,} SKUs is adjusted"
        case Receipt():
            return f"{quantity} came in"
        case Deduction():
            return f"{quantity} went out"
    if movement_of(made.id) is Movement.VOID:
        return f"{made.deduction} is voided, {quantity} came back"
    if made.out:
        out = f"{sum(line.quantity for line in made.out):,}"
        return f"{quantity} of {made.deduction} came back, {out} went out for it"
    return f"{quantity} of {made.deduction} came back"
