"""The ledger's own HTTP API behind the console's login; the audit log has every movement.

Paths, bodies and answers are those of `windlass.ledger.http`, below /api/ledger.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Depends, Query, Response

from windlass.errors import NotPossible
from windlass.ledger.ledger import Ledger
from windlass.ledger.model.ledger import Confirmation, Deduction, Entry, Receipt, Return, Stock
from windlass.ledger.route import answer
from windlass.ledger.route.answer import made, with_status
from windlass.ledger.route.body import AdjustmentBody, DeductionBody, MovementBody, pairs
from windlass.ledger.route.ledger import Prefix, Shard
from windlass.view.action import Action
from windlass.view.audit import Audit
from windlass.web.problem import problems
from windlass.web.request import DeductionId, ReadyConsole, RequestLog, Sku

router = APIRouter(prefix="/ledger", tags=["ledger"])

T = TypeVar("T", Receipt, Deduction, Return, Confirmation)

# The audit log has the first lines of a movement; the ledger has all of them.
LINES_LOGGED = 50

Limit = Annotated[int, Query(ge=1, le=10_000)]


def _ledger(console: ReadyConsole, shard: Shard = None) -> Ledger:
    return console.ledgers.of(shard)


AskedLedger = Annotated[Ledger, Depends(_ledger)]


class LoggedMovement:
    """Makes a movement in the ledger that is asked for, and records it in the audit log."""

    def __init__(
        self, response: Response, console: ReadyConsole, log: RequestLog, shard: Shard = None
    ) -> None:
        self._response = response
        self._console = console
        self._log = log
        self._shard = shard

    def make(
        self,
        action: Action,
        about: str,
        move: Callable[[Ledger], T],
        *,
        outcome: Callable[[T], str],
        **detail: Any,
    ) -> T:
        """What the ledger answers to `move`."""
        with self._log.record(action, about, shard=self._shard, **detail) as entry:
            ledger = self._console.ledgers.of(self._shard)
            made = with_status(self._response, move(ledger))
            entry.says(outcome(made) + ("; it was done before" if made.replayed else ""))
        return made


Logged = Annotated[LoggedMovement, Depends()]


@router.post("/restocks", **made(answer.RECEIPT, problems(409)))
def restock(body: MovementBody, logged: Logged) -> Receipt:
    """Goods came in, under an id that the caller chooses."""
    return logged.make(
        Action.LEDGER_RESTOCK,
        body.id,
        lambda ledger: ledger.restock(body.id, pairs(body)),
        outcome=lambda _: f"{_sum(body)} came in",
        **_lines(body),
    )


@router.post("/adjustments", **made(answer.RECEIPT, problems(404, 409)))
def adjust(body: AdjustmentBody, logged: Logged) -> Receipt:
    """A count found more, or less: quantities have a sign."""
    return logged.make(
        Action.LEDGER_ADJUST,
        body.id,
        lambda ledger: ledger.adjust(body.id, pairs(body), reason=body.reason),
        outcome=lambda made: f"the stock of {len(made.lines):,} SKUs is adjusted",
        reason=body.reason,
        **_lines(body),
    )


@router.post("/deductions", **made(answer.DEDUCTION, problems(404, 409)))
def deduct(body: DeductionBody, logged: Logged) -> Deduction:
    """Goods go out, all lines or none; with a hold, until it lapses."""
    return logged.make(
        Action.LEDGER_DEDUCT,
        body.id,
        lambda ledger: ledger.deduct(body.id, pairs(body), hold=body.hold),
        outcome=lambda _: f"{_sum(body)} went out",
        hold=body.hold,
        **_lines(body),
    )


@router.post("/deductions/{id}/returns", **made(answer.RETURN, problems(404, 409)))
def give_back(of: DeductionId, body: MovementBody, logged: Logged) -> Return:
    """A part of a deduction comes back, under an id of its own."""
    return logged.make(
        Action.LEDGER_GIVE_BACK,
        of,
        lambda ledger: ledger.give_back(of, body.id, pairs(body)),
        outcome=lambda _: f"{_sum(body)} of {of} came back",
        return_id=body.id,
        **_lines(body),
    )


@router.post("/deductions/{id}/void", **made(answer.RETURN, {}))
def void(of: DeductionId, logged: Logged) -> Return:
    """All that is left of a deduction comes back; an unknown one can never be made."""
    return logged.make(
        Action.LEDGER_VOID,
        of,
        lambda ledger: ledger.void(of),
        outcome=lambda made: f"{of} is voided, {_sum(made)} came back",
    )


@router.post("/deductions/{id}/confirm", **made(answer.CONFIRMATION, problems(404)))
def confirm(of: DeductionId, logged: Logged) -> Confirmation:
    """What is held by a deduction stays deducted."""
    return logged.make(
        Action.LEDGER_CONFIRM,
        of,
        lambda ledger: ledger.confirm(of),
        outcome=lambda _: f"{of} is confirmed",
    )


@router.get("/deductions/{id}", response_model=answer.DEDUCTION, responses=problems(404))
def deduction(of: DeductionId, ledger: AskedLedger) -> Deduction:
    """A deduction as it is now: its lines, and how much of each has come back."""
    return ledger.deduction(of)


@router.get("/deductions/{id}/returns", response_model=answer.RETURNS, responses=problems(404))
def returns(of: DeductionId, ledger: AskedLedger) -> list[Return]:
    """What was given back of a deduction, in order."""
    found = ledger.returns(of)
    if not found:
        # Raises an error if the deduction is unknown.
        ledger.deduction(of)
    return found


@router.get("/stocks", response_model=answer.STOCKS)
def stocks(ledger: AskedLedger, after: Prefix = "", limit: Limit = 1_000) -> list[Stock]:
    """How much there is, by SKU, of those after `after`."""
    return ledger.stocks(after=after, limit=limit)


@router.get("/stocks/{sku}", response_model=answer.STOCK, responses=problems(404))
def stock(sku: Sku, ledger: AskedLedger) -> Stock:
    """How much there is of a SKU."""
    return ledger.stock(sku)


@router.get("/stocks/{sku}/entries", response_model=answer.ENTRIES, responses=problems(404))
def entries(
    sku: Sku,
    ledger: AskedLedger,
    after: Annotated[int, Query(ge=0, le=2**62)] = 0,
    limit: Limit = 1_000,
) -> list[Entry]:
    """Every change of a SKU, oldest first, those after the entry `after`."""
    found = ledger.entries(sku, after=after, limit=limit)
    if not found:
        ledger.stock(sku)
    return found


@router.get("/audit", response_model=answer.AUDIT, responses=problems(409))
def audit(console: ReadyConsole, shard: Shard = None) -> Audit:
    """Check that every rule of the ledger holds for every row. It reads all of them."""
    found = console.ledgers.audit(shard)
    if found is None:
        raise NotPossible("an audit is already running; wait until it ends")
    return found


def _lines(body: MovementBody | AdjustmentBody) -> dict[str, Any]:
    """What the audit log has of the lines."""
    more = len(body.lines) - LINES_LOGGED
    return {"lines": pairs(body)[:LINES_LOGGED]} | ({"more_lines": more} if more > 0 else {})


def _sum(moved: MovementBody | Return) -> str:
    return f"{sum(line.quantity for line in moved.lines):,}"
