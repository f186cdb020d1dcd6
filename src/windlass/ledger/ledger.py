"""The front door of the ledger: each call is one request, and its answer never changes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Coroutine, Iterable, Sequence
from functools import partial, wraps
from typing import Any, Concatenate, ParamSpec, Self, TypeVar, Unpack

from windlass import lent
from windlass.clock import Clock, DatabaseClock
from windlass.database import migrate
from windlass.database.access import Password
from windlass.database.bound import BoundOptions, make_bounds
from windlass.database.connection import (
    URL,
    Engine,
    Executor,
    has_begun,
    join,
    joined,
    on_its_thread,
)
from windlass.database.database import Database
from windlass.database.url import place_of
from windlass.errors import (
    BadConnection,
    BadDatabase,
    BadInput,
    UnknownDeduction,
    UnknownSku,
)
from windlass.fork import watch_forks
from windlass.ledger.engine.alert import tell_audit
from windlass.ledger.engine.execute import RequestExecutor, answer_of
from windlass.ledger.engine.group import GroupCommit
from windlass.ledger.hot import HotLane
from windlass.ledger.model.hot import Refill, Skus
from windlass.ledger.model.ledger import (
    Adjust,
    Confirm,
    Confirmation,
    Deduct,
    Deduction,
    Entry,
    Exchange,
    GiveBack,
    Lines,
    Receipt,
    Request,
    Restock,
    Return,
    Stock,
    Undo,
    check_id,
)
from windlass.ledger.store import audit as ledger_audit
from windlass.ledger.store import hot as hot_store
from windlass.ledger.store import hot_view
from windlass.ledger.store import protect as ledger_protect
from windlass.ledger.store import view as ledger_view
from windlass.value.duration import Duration
from windlass.value.twin import awaited, twin
from windlass.view.audit import Audit, found

P = ParamSpec("P")
T = TypeVar("T")

LARGEST = 2**62


def _awaited(
    method: Callable[Concatenate[Ledger, P], T],
) -> Callable[Concatenate[Ledger, P], Coroutine[Any, Any, T]]:
    """The `a` twin of a method that reads, in the caller's transaction if there is one."""
    in_thread = awaited(method)

    @wraps(in_thread)
    async def call(self: Ledger, /, *args: P.args, **options: P.kwargs) -> T:
        def read(conn: object) -> T:
            options["conn"] = conn
            return method(self, *args, **options)

        conn: Any = options.get("conn")
        if conn is None:
            return await in_thread(self, *args, **options)
        return await on_its_thread(conn, read)

    return call


class Ledger:
    """Stock in one database: deducted, given back, and accounted for.

    The caller gives an id to each call that changes something. A call with the same id and the
    same body takes effect once and always gets the same answer, also if it is refused; with
    another body it raises IdConflict. With `conn` a call joins the caller's transaction and takes
    effect when that commits; without, calls made at the same time share one transaction.
    """

    def __init__(
        self,
        database: str | URL | Engine | Database,
        *,
        password: Password | None = None,
        schema: str | None = None,
        clock: Clock | None = None,
        **bounds: Unpack[BoundOptions],
    ) -> None:
        if not isinstance(database, str | URL | Engine | Database):
            raise BadDatabase(f"{type(database).__name__} is neither a URL nor a SQLAlchemy Engine")
        access = {"password": password, "schema": schema}
        given = [*bounds, *(name for name, value in access.items() if value is not None)]
        if given and isinstance(database, Engine | Database):
            raise BadInput(f"{', '.join(given)}: an Engine has its own; give the URL instead")
        if not isinstance(database, Database):
            made = make_bounds(**bounds)
            database = Database(database, bounds=made, password=password, schema=schema)
        self._preparing = threading.Lock()
        self._use(database, clock)
        watch_forks(self)
        lent.register(self)

    def _use(self, database: Database, clock: Clock | None) -> None:
        self.database = database
        self.clock = clock or DatabaseClock(database.measure, name=database.name)
        self._executor = RequestExecutor(database, self.clock)
        self._group = GroupCommit(self._executor.execute)
        self._is_ready = False

    def borrow(self, loan: lent.Loan) -> lent.GiveBack | None:
        """Move to a database that is lent to a test; returns how to move back."""
        own, own_clock, name = self.database, self.clock, place_of(self.database.url)
        place = None if name in loan.allowed else loan.place(name)
        if place is None:
            return None
        self._use(Database(place.url), place.clock)
        loan.allowed.add(place_of(self.database.url))

        def give_back() -> None:
            self.close()
            self._use(own, own_clock)

        return give_back

    # Movements

    def restock(self, id: str, lines: Lines, *, conn: object = None) -> Receipt:
        """Goods came in. A new SKU is known from then on."""
        return self._ask(Receipt, Restock.of(id, lines), conn)

    def adjust(self, id: str, lines: Lines, *, reason: str = "", conn: object = None) -> Receipt:
        """A count found more of a SKU, or less: quantities have a sign. All lines or none."""
        return self._ask(Receipt, Adjust.of(id, lines, reason), conn)

    def deduct(
        self, id: str, lines: Lines, *, hold: Duration | None = None, conn: object = None
    ) -> Deduction:
        """Goods go out, all lines or none.

        With a `hold` they come back by themselves when it lapses, unless `confirm` comes first.
        """
        return self._ask(Deduction, Deduct.of(id, lines, hold), conn)

    def give_back(self, id: str, return_id: str, lines: Lines, *, conn: object = None) -> Return:
        """A part of deduction `id` comes back under an id of its own; all lines or none."""
        return self._ask(Return, GiveBack.of(id, return_id, lines), conn)

    def exchange(
        self, id: str, exchange_id: str, *, back: Lines, out: Lines, conn: object = None
    ) -> Return:
        """A part of deduction `id` comes back and other goods go out for it; all lines or none.

        What goes out is added to the deduction: it can be given back, exchanged and voided later.
        Returns and exchanges of a deduction share their ids.
        """
        return self._ask(Return, Exchange.of(id, exchange_id, back=back, out=out), conn)

    def void(self, id: str, *, conn: object = None) -> Return:
        """All that is left of deduction `id` comes back.

        If it was not made yet, it can never be made: a later `deduct` is refused.
        """
        return self._ask(Return, Undo.void(id), conn)

    def confirm(self, id: str, *, conn: object = None) -> Confirmation:
        """What deduction `id` holds stays deducted; possible until the hold lapses."""
        return self._ask(Confirmation, Confirm.of(id), conn)

    async def arestock(self, id: str, lines: Lines, *, conn: object = None) -> Receipt:
        """`restock`, awaited."""
        return await self._aask(Receipt, Restock.of(id, lines), conn)

    async def aadjust(
        self, id: str, lines: Lines, *, reason: str = "", conn: object = None
    ) -> Receipt:
        """`adjust`, awaited."""
        return await self._aask(Receipt, Adjust.of(id, lines, reason), conn)

    async def adeduct(
        self, id: str, lines: Lines, *, hold: Duration | None = None, conn: object = None
    ) -> Deduction:
        """`deduct`, awaited."""
        return await self._aask(Deduction, Deduct.of(id, lines, hold), conn)

    async def agive_back(
        self, id: str, return_id: str, lines: Lines, *, conn: object = None
    ) -> Return:
        """`give_back`, awaited."""
        return await self._aask(Return, GiveBack.of(id, return_id, lines), conn)

    async def aexchange(
        self, id: str, exchange_id: str, *, back: Lines, out: Lines, conn: object = None
    ) -> Return:
        """`exchange`, awaited."""
        return await self._aask(Return, Exchange.of(id, exchange_id, back=back, out=out), conn)

    async def avoid(self, id: str, *, conn: object = None) -> Return:
        """`void`, awaited."""
        return await self._aask(Return, Undo.void(id), conn)

    async def aconfirm(self, id: str, *, conn: object = None) -> Confirmation:
        """`confirm`, awaited."""
        return await self._aask(Confirmation, Confirm.of(id), conn)

    # Queries

    def stock(self, sku: str, *, conn: object = None) -> Stock:
        """How much there is of a SKU."""
        asked = check_id(sku, what="sku")
        found = self._read(lambda of: self._stocks(of, [ledger_view.stock(of, asked)]), conn)
        if not found:
            raise UnknownSku(sku)
        return found[0]

    def stocks(
        self,
        skus: Iterable[str] | None = None,
        *,
        after: str = "",
        limit: int | None = None,
        conn: object = None,
    ) -> list[Stock]:
        """How much there is, by SKU: of all, or of those given and known.

        With a `limit`, at most that many of the SKUs after `after`.
        """
        if skus is None:
            start, most = after and check_id(after, what="after"), _check_limit(limit)
            return self._read(
                lambda of: self._stocks(of, ledger_view.stocks(of, after=start, limit=most)), conn
            )
        if isinstance(skus, str):
            raise BadInput(f"skus={skus!r} is one sku; give a list of them, or call stock")
        asked, dialect = {check_id(sku, what="sku") for sku in skus}, self.database.dialect
        return self._read(
            lambda of: self._stocks(of, ledger_view.stocks_of(of, dialect, asked)), conn
        )

    def deduction(self, id: str, *, conn: object = None) -> Deduction:
        """A deduction as it is now: its lines, and how much of each has come back."""
        asked, dialect = check_id(id, what="id"), self.database.dialect
        row = self._read(lambda of: ledger_view.deduction(of, dialect, asked), conn)
        if row is None:
            raise UnknownDeduction(id)
        return row

    def returns(self, id: str, *, conn: object = None) -> list[Return]:
        """What was given back of deduction `id`, in order."""
        asked, dialect = check_id(id, what="id"), self.database.dialect
        return self._read(lambda of: ledger_view.returns(of, dialect, asked), conn)

    def entries(
        self, sku: str, *, after: int = 0, limit: int | None = None, conn: object = None
    ) -> list[Entry]:
        """Every change of a SKU, oldest first; their quantities add up to what is available.

        With a `limit`, at most that many of the entries after number `after`.
        """
        asked, most = check_id(sku, what="sku"), _check_limit(limit)
        start = _check_number(after, what="after")
        return self._read(lambda of: ledger_view.entries(of, asked, after=start, limit=most), conn)

    def audit(self, *, conn: object = None) -> Audit:
        """Whether every rule of the ledger holds for every row at one moment; repairs nothing.

        Problems raise an alert in the database of the ledger, and the next audit without any
        resolves it. With `conn` nothing is written.
        """

        self._prepare_for(conn)
        has_hot = self.database.schema.has(hot_store.TABLES)

        def work(executor: Executor) -> list[str]:
            dialect = self.database.dialect
            hot = hot_view.hot_problems(executor, dialect) if has_hot else []
            return [*ledger_audit.problems(executor, dialect), *hot]

        if conn is not None:
            return found(self._read(work, conn))
        problems = self.database.snapshot(work)
        tell_audit(self.database, self.clock, problems)
        return found(problems)

    astock = _awaited(stock)
    astocks = _awaited(stocks)
    adeduction = _awaited(deduction)
    areturns = _awaited(returns)
    aentries = _awaited(entries)
    aaudit = _awaited(audit)

    # The hot lane

    def hot(
        self,
        url: str,
        *,
        skus: Skus | None = None,
        refill: Refill | None = None,
        name: str = "hot",
        timeout: float = 2.0,
    ) -> HotLane:
        """A lane in which a cache, Redis or Valkey at `url`, sells what is allotted to it.

        `skus` says what may be allotted: a list, or a function of a SKU. With `refill` so much is
        allotted whenever little is left, as far as the book has it.
        """
        return HotLane(self, url, skus=skus, refill=refill, name=name, timeout=timeout)

    @property
    def is_prepared(self) -> bool:
        """Whether the tables are known to exist."""
        return self._is_ready

    # The database

    def migrate(self) -> str:
        """Create or upgrade the tables, all of Windlass's; returns their version."""
        return migrate.migrate(self.database)

    amigrate = awaited(migrate)

    def protect(self) -> None:
        """Have the database refuse, by triggers, to change or delete an entry, for every user."""
        self.prepare()
        self.database.write(lambda it: ledger_protect.protect(it, self.database.dialect))

    def unprotect(self) -> None:
        """Remove the triggers of `protect`."""
        self.prepare()
        self.database.write(lambda it: ledger_protect.unprotect(it, self.database.dialect))

    def is_protected(self) -> bool:
        """Whether the triggers of `protect` are there."""
        self.prepare()
        return self.database.read(lambda it: ledger_protect.is_protected(it, self.database.dialect))

    aprotect = awaited(protect)
    aunprotect = awaited(unprotect)
    ais_protected = awaited(is_protected)

    def prepare(self) -> None:
        """Make sure that the tables exist; SQLite creates them on first use."""
        if self._is_ready:
            return
        with self._preparing:
            migrate.prepare(self.database)
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
        """Start with a free lock: a thread of the parent may have held it."""
        self._preparing = threading.Lock()

    def _ask(self, answer: type[T], request: Request, conn: object) -> T:
        if conn is None:
            self.prepare()
            return answer_of(answer, self._group.submit(request))
        self._prepare_beside(conn)
        with joined(conn, self.database.engine, self.database.dialect) as executor:
            return answer_of(answer, self._executor.join(executor, request))

    def _prepare_beside(self, conn: object) -> None:
        """Prepare, unless the caller's transaction keeps SQLite from creating the tables."""
        database = self.database
        if not self._is_ready and database.dialect.migrates_itself:
            executor = join(conn, database.engine, database.dialect)
            if not migrate.seen(executor) and has_begun(executor):
                raise BadConnection(
                    "the ledger's tables do not exist yet, and your transaction keeps them from "
                    "being created; call ledger.migrate() before you begin it"
                )
        self.prepare()

    async def _aask(self, answer: type[T], request: Request, conn: Any) -> T:
        if not self._is_ready:
            await twin(self.prepare)
        if conn is None:
            return answer_of(answer, await self._group.asubmit(request))
        return await on_its_thread(conn, partial(self._ask, answer, request))

    def _prepare_for(self, conn: object) -> None:
        if conn is None:
            self.prepare()
        else:
            self._prepare_beside(conn)

    def _stocks(self, executor: Executor, stocks: Sequence[Stock | None]) -> list[Stock]:
        """Those that exist, with what hot lanes have of them."""
        found = [each for each in stocks if each is not None]
        if not self.database.schema.has(hot_store.TABLES):
            return found
        return hot_view.with_hot(executor, found)

    def _read(self, work: Callable[[Executor], T], conn: object) -> T:
        if conn is None:
            self.prepare()
            return self.database.read(work)
        self._prepare_beside(conn)
        with joined(conn, self.database.engine, self.database.dialect) as executor:
            return work(executor)


def _check_number(given: object, *, what: str, least: int = 0) -> int:
    if isinstance(given, bool) or not isinstance(given, int) or not least <= given <= LARGEST:
        raise BadInput(f"{what}={given!r} is not a whole number from {least} on")
    return given


def _check_limit(limit: int | None) -> int | None:
    return None if limit is None else _check_number(limit, what="limit", least=1)
