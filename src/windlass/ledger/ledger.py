"""The ledger's front door: each call is one request, answered once and for ever."""

from __future__ import annotations

import threading
from collections.abc import Callable, Coroutine, Iterable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from sqlalchemy import URL, Engine

from windlass.clock import Clock, DatabaseClock
from windlass.database import migrate
from windlass.database.connection import has_begun, is_async, join, joined
from windlass.database.database import Database
from windlass.database.dialect.base import Executor
from windlass.errors import (
    BadConnection,
    BadDatabase,
    BadInput,
    IdConflict,
    NotHeld,
    OutOfStock,
    OverReturn,
    Refused,
    UnknownDeduction,
    UnknownSku,
)
from windlass.fork import watch_forks
from windlass.ledger.engine.execute import RequestExecutor
from windlass.ledger.engine.group import GroupCommit
from windlass.ledger.model.ledger import (
    Adjust,
    Answer,
    Confirm,
    Confirmation,
    Conflict,
    Deduct,
    Deduction,
    Entry,
    GiveBack,
    Lines,
    Outcome,
    Receipt,
    Refusal,
    Request,
    Restock,
    Return,
    Stock,
    Undo,
    check_id,
)
from windlass.ledger.store import audit as ledger_audit
from windlass.ledger.store import view as ledger_view
from windlass.value.audit import Audit, found
from windlass.value.duration import Duration
from windlass.value.twin import twin

P = ParamSpec("P")
T = TypeVar("T")

LARGEST = 2**62
REFUSALS: dict[str, Callable[..., Refused]] = {
    kind.__name__: kind for kind in (NotHeld, OutOfStock, OverReturn, UnknownDeduction, UnknownSku)
}


def _awaited(
    method: Callable[Concatenate[Ledger, P], T],
) -> Callable[Concatenate[Ledger, P], Coroutine[Any, Any, T]]:
    """The `a` twin of a method that reads, in the caller's transaction if there is one."""

    @wraps(method)
    async def awaited(self: Ledger, /, *args: P.args, **options: P.kwargs) -> T:
        conn: Any = options.get("conn")
        if conn is None:
            return await twin(method, self, *args, **options)
        if not is_async(conn):
            return method(self, *args, **options)

        def joined_by(owner: object) -> T:
            options["conn"] = owner
            return method(self, *args, **options)

        answer: T = await conn.run_sync(joined_by)
        return answer

    awaited.__name__ = f"a{method.__name__}"
    awaited.__doc__ = f"`{method.__name__}`, awaited."
    return awaited


class Ledger:
    """Stock in one database: deducted, given back, and accounted for.

    Each call that changes something has an id of its caller's. The same id with the same body has
    its effect once and the same answer for ever, a refusal too; with another body it raises
    IdConflict. With `conn` a call joins the caller's transaction and becomes true when that
    commits; without, calls made at the same time travel in one transaction.
    """

    def __init__(
        self, database: str | URL | Engine | Database, *, clock: Clock | None = None
    ) -> None:
        if not isinstance(database, str | URL | Engine | Database):
            raise BadDatabase(f"{database!r} is neither a URL nor a SQLAlchemy Engine")
        self.database = database if isinstance(database, Database) else Database(database)
        self.clock = clock or DatabaseClock(self.database.measure)
        self._executor = RequestExecutor(self.database, self.clock)
        self._group = GroupCommit(self._executor.execute)
        self._preparing = threading.Lock()
        self._is_ready = False
        watch_forks(self)

    # Movements

    def restock(self, id: str, lines: Lines, *, conn: object = None) -> Receipt:
        """Goods came in. A SKU that is new is known from then on."""
        return _as(Receipt, self._ask(Restock.of(id, lines), conn))

    def adjust(self, id: str, lines: Lines, *, reason: str = "", conn: object = None) -> Receipt:
        """A count found more of a SKU, or less: quantities have a sign. All lines or none."""
        return _as(Receipt, self._ask(Adjust.of(id, lines, reason), conn))

    def deduct(
        self, id: str, lines: Lines, *, hold: Duration | None = None, conn: object = None
    ) -> Deduction:
        """Goods go out, all lines or none.

        With a `hold` they come back by themselves when it lapses, unless `confirm` comes first.
        """
        return _as(Deduction, self._ask(Deduct.of(id, lines, hold), conn))

    def give_back(self, id: str, return_id: str, lines: Lines, *, conn: object = None) -> Return:
        """A part of deduction `id` comes back under an id of its own; all lines or none."""
        return _as(Return, self._ask(GiveBack.of(id, return_id, lines), conn))

    def void(self, id: str, *, conn: object = None) -> Return:
        """Whatever is left of deduction `id` comes back.

        If there is none yet, it can never come to be: one that arrives later is refused.
        """
        return _as(Return, self._ask(Undo.void(id), conn))

    def confirm(self, id: str, *, conn: object = None) -> Confirmation:
        """What is held by deduction `id` stays deducted; in time until the hold is given back."""
        return _as(Confirmation, self._ask(Confirm.of(id), conn))

    async def arestock(self, id: str, lines: Lines, *, conn: object = None) -> Receipt:
        """`restock`, awaited."""
        return _as(Receipt, await self._aask(Restock.of(id, lines), conn))

    async def aadjust(
        self, id: str, lines: Lines, *, reason: str = "", conn: object = None
    ) -> Receipt:
        """`adjust`, awaited."""
        return _as(Receipt, await self._aask(Adjust.of(id, lines, reason), conn))

    async def adeduct(
        self, id: str, lines: Lines, *, hold: Duration | None = None, conn: object = None
    ) -> Deduction:
        """`deduct`, awaited."""
        return _as(Deduction, await self._aask(Deduct.of(id, lines, hold), conn))

    async def agive_back(
        self, id: str, return_id: str, lines: Lines, *, conn: object = None
    ) -> Return:
        """`give_back`, awaited."""
        return _as(Return, await self._aask(GiveBack.of(id, return_id, lines), conn))

    async def avoid(self, id: str, *, conn: object = None) -> Return:
        """`void`, awaited."""
        return _as(Return, await self._aask(Undo.void(id), conn))

    async def aconfirm(self, id: str, *, conn: object = None) -> Confirmation:
        """`confirm`, awaited."""
        return _as(Confirmation, await self._aask(Confirm.of(id), conn))

    # Looking

    def stock(self, sku: str, *, conn: object = None) -> Stock:
        """How much there is of a SKU."""
        asked = check_id(sku, what="sku")
        row = self._look(lambda of: ledger_view.stock(of, asked), conn)
        if row is None:
            raise UnknownSku(sku)
        return row

    def stocks(
        self,
        skus: Iterable[str] | None = None,
        *,
        after: str = "",
        limit: int | None = None,
        conn: object = None,
    ) -> list[Stock]:
        """How much there is, by SKU: of all, or of those given and known.

        With a `limit`, so many of all that come after the SKU `after`.
        """
        if skus is None:
            start, most = after and check_id(after, what="after"), _check_limit(limit)
            return self._look(lambda of: ledger_view.stocks(of, after=start, limit=most), conn)
        if isinstance(skus, str):
            raise BadInput(f"skus={skus!r} is one sku; give a list of them, or call stock")
        asked, dialect = {check_id(sku, what="sku") for sku in skus}, self.database.dialect
        return self._look(lambda of: ledger_view.stocks_of(of, dialect, asked), conn)

    def deduction(self, id: str, *, conn: object = None) -> Deduction:
        """A deduction as it is now: its lines, and how much of each has come back."""
        asked, dialect = check_id(id, what="id"), self.database.dialect
        row = self._look(lambda of: ledger_view.deduction(of, dialect, asked), conn)
        if row is None:
            raise UnknownDeduction(id)
        return row

    def returns(self, id: str, *, conn: object = None) -> list[Return]:
        """What was given back of deduction `id`, in order."""
        asked, dialect = check_id(id, what="id"), self.database.dialect
        return self._look(lambda of: ledger_view.returns(of, dialect, asked), conn)

    def entries(
        self, sku: str, *, after: int = 0, limit: int | None = None, conn: object = None
    ) -> list[Entry]:
        """Every change of a SKU, oldest first; their quantities add up to what is available.

        With a `limit`, so many of those that come after the entry numbered `after`.
        """
        asked, most = check_id(sku, what="sku"), _check_limit(limit)
        start = _check_number(after, what="after")
        return self._look(lambda of: ledger_view.entries(of, asked, after=start, limit=most), conn)

    def audit(self, *, conn: object = None) -> Audit:
        """Whether every rule of the ledger holds for every row at one moment; repairs nothing."""

        def work(executor: Executor) -> list[str]:
            return ledger_audit.problems(executor, self.database.dialect)

        if conn is not None:
            return found(self._look(work, conn))
        self.prepare()
        return found(self.database.snapshot(work))

    astock = _awaited(stock)
    astocks = _awaited(stocks)
    adeduction = _awaited(deduction)
    areturns = _awaited(returns)
    aentries = _awaited(entries)
    aaudit = _awaited(audit)

    # The database

    def migrate(self) -> str:
        """Create or upgrade the tables, all of Windlass's; returns their version."""
        return migrate.migrate(self.database)

    async def amigrate(self) -> str:
        """`migrate`, awaited."""
        return await twin(self.migrate)

    def prepare(self) -> None:
        """Make sure that the tables are there. SQLite gets them on first use."""
        if self._is_ready:
            return
        with self._preparing:
            if self.database.dialect.is_embedded:
                migrate.migrate(self.database)
            else:
                migrate.check(self.database)
            self._is_ready = True

    def close(self) -> None:
        """Give back all connections. The ledger can be used again."""
        self._group.close()
        self.database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_problem: object) -> None:
        self.close()

    def after_fork(self) -> None:
        """Somebody else of the parent may have been about to prepare."""
        self._preparing = threading.Lock()

    def _ask(self, request: Request, conn: object) -> Answer:
        if conn is None:
            self.prepare()
            return _answer(self._group.submit(request))
        self._prepare_beside(conn)
        with joined(conn, self.database.engine, self.database.dialect) as executor:
            return _answer(self._executor.join(executor, request))

    def _prepare_beside(self, conn: object) -> None:
        """The same, for a caller whose own transaction may keep SQLite from making the tables."""
        database = self.database
        if not self._is_ready and database.dialect.is_embedded:
            executor = join(conn, database.engine, database.dialect)
            if migrate.seen(executor) != migrate.VERSION and has_begun(executor):
                raise BadConnection(
                    "the ledger's tables are not there yet, and your transaction keeps them from "
                    "being made; call ledger.migrate() before you begin it"
                )
        self.prepare()

    async def _aask(self, request: Request, conn: Any) -> Answer:
        if not self._is_ready:
            await twin(self.prepare)
        if conn is None:
            return _answer(await self._group.asubmit(request))
        if not is_async(conn):
            # A sync connection belongs to the thread that uses it: stay on it.
            return self._ask(request, conn)
        answer: Answer = await conn.run_sync(lambda owner: self._ask(request, owner))
        return answer

    def _look(self, work: Callable[[Executor], T], conn: object) -> T:
        if conn is None:
            self.prepare()
            return self.database.read(work)
        self._prepare_beside(conn)
        with joined(conn, self.database.engine, self.database.dialect) as executor:
            return work(executor)


def _answer(outcome: Outcome) -> Answer:
    """The answer, or the error that says why there is none."""
    match outcome:
        case Refusal():
            raise REFUSALS[outcome.error](**outcome.facts)
        case Conflict():
            raise IdConflict(outcome.id, outcome.difference)
    return outcome


def _as(kind: type[T], answer: object) -> T:
    assert isinstance(answer, kind)
    return answer


def _check_number(given: object, *, what: str, least: int = 0) -> int:
    if isinstance(given, bool) or not isinstance(given, int) or not least <= given <= LARGEST:
        raise BadInput(f"{what}={given!r} is not a whole number from {least} on")
    return given


def _check_limit(limit: int | None) -> int | None:
    return None if limit is None else _check_number(limit, what="limit", least=1)
