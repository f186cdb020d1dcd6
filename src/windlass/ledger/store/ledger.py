"""The ledger's rows: read and locked for some requests, and written as the book has them then.

Every transaction locks in the same order: deductions by id, their lines, then stock by SKU. If two
use an id for the first time at the same moment, the second fails with a duplicate key, starts
again, and finds it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from sqlalchemy import Table, TextClause, text

from windlass.database import schema
from windlass.database.dialect.base import Dialect, Executor
from windlass.errors import WindlassError
from windlass.ledger.model.book import (
    Book,
    DeductionRow,
    LineRow,
    ReceiptRow,
    ReturnRow,
    StockRow,
)
from windlass.ledger.model.ledger import (
    MOST_IN_ALL,
    Adjust,
    Confirm,
    Deduct,
    DeductionStatus,
    Exchange,
    GiveBack,
    Movement,
    Refusal,
    Request,
    Restock,
    Undo,
)
from windlass.ledger.store.dialect import (
    Insert,
    Met,
    Update,
    Write,
    Writes,
    documents,
    keys,
    kinds,
    row_lists,
)

SAVEPOINT = text("savepoint windlass_ledger")
ROLL_BACK = text("rollback to savepoint windlass_ledger")
RELEASE = text("release savepoint windlass_ledger")

# Updates have guards and come first: if one does not hold, nothing was inserted in vain.
STATEMENTS: dict[str, Insert | Update] = {
    "line_changes": Update(
        schema.deduction_line,
        adds=("quantity", "returned"),
        guard="t.returned + {0}.returned <= t.quantity + {0}.quantity",
    ),
    "stock_changes": Update(
        schema.stock,
        adds=("available", "received", "deducted", "returned"),
        guard="t.available + {0}.available >= 0 "
        f"and t.received + {{0}}.received <= {MOST_IN_ALL} "
        f"and t.deducted + {{0}}.deducted <= {MOST_IN_ALL}",
    ),
    "deduction_changes": Update(schema.deduction, sets=("status", "confirmed_at")),
    "new_deductions": Insert(schema.deduction, key_is_chosen=True),
    "new_lines": Insert(schema.deduction_line),
    "new_returns": Insert(schema.stock_return, key_is_chosen=True),
    "new_return_lines": Insert(schema.return_line),
    "new_receipts": Insert(schema.stock_receipt),
    "new_stock": Insert(schema.stock),
    "new_entries": Insert(schema.stock_entry),
}
# The columns to which changes of a row are added, which are its attributes of other names.
CHANGED = {
    "line_changes": {"quantity": "more", "returned": "change"},
    "stock_changes": {"available": "change"},
}
ATTRIBUTES = {
    name: [(column, CHANGED.get(name, {}).get(column, column)) for column in of.columns]
    for name, of in STATEMENTS.items()
}


# Runs a query in another transaction, which sees what is committed.
Elsewhere = Callable[[Callable[[Executor], list[Any]]], list[Any]]


class GuardFailed(WindlassError):
    """A row is not as the book assumes; the transaction must be rolled back."""


class RowQuery(NamedTuple):
    """A query for rows by some columns, of all or some columns; locks in the order of their keys.

    What is not locked is as the transaction sees it: a row that it missed is a duplicate when it
    is written.
    """

    table: Table
    by: tuple[str, ...]
    columns: tuple[str, ...] = ()
    is_locked: bool = False


RECEIPTS = RowQuery(schema.stock_receipt, by=keys(schema.stock_receipt))
DEDUCTIONS = RowQuery(schema.deduction, by=keys(schema.deduction), is_locked=True)
LINES = RowQuery(schema.deduction_line, by=keys(schema.deduction_line), is_locked=True)
LINES_OF = LINES._replace(by=("deduction_id",))
RETURNS = RowQuery(schema.stock_return, by=keys(schema.stock_return))
STOCK = RowQuery(
    schema.stock,
    by=keys(schema.stock),
    columns=("sku", "available", "received", "deducted"),
    is_locked=True,
)


@dataclass(slots=True)
class Wanted:
    """The keys of the rows that requests are about."""

    deductions: set[tuple[str]] = field(default_factory=set)
    # Deductions of which all lines are wanted.
    undone: set[tuple[str]] = field(default_factory=set)
    lines: set[tuple[str, str]] = field(default_factory=set)
    returns: set[tuple[str, str]] = field(default_factory=set)
    receipts: set[tuple[str, str]] = field(default_factory=set)
    skus: set[tuple[str]] = field(default_factory=set)

    def add(self, request: Request) -> None:
        """Want what this request is about, too."""
        match request:
            case Restock() | Adjust():
                self.receipts.add((request.movement.value, request.id))
            case Deduct():
                self.deductions.add((request.id,))
            case GiveBack() | Exchange() | Undo() | Confirm():
                self.deductions.add((request.deduction,))
        match request:
            case GiveBack():
                self.returns.add((request.deduction, request.id))
                self.lines.update((request.deduction, sku) for sku in request.lines)
            case Exchange():
                self.returns.add((request.deduction, request.id))
                moved = {**request.lines, **request.out}
                self.lines.update((request.deduction, sku) for sku in moved)
                self.skus.update((sku,) for sku in request.out)
            case Undo():
                self.returns.add((request.deduction, request.id))
                self.undone.add((request.deduction,))
        if not isinstance(request, Undo | Confirm):
            self.skus.update((sku,) for sku in request.lines)


class LedgerRows:
    """Reads and writes the rows of one database."""

    def __init__(self, dialect: Dialect) -> None:
        self._keep_others_out = dialect.keep_others_out
        self._lists = row_lists(dialect)
        self._queries: dict[RowQuery, TextClause] = {}
        self.writes_first = self._lists.writes_first
        self.saves_if_met = self._lists.executes_if_met

    def limit_time(self, executor: Executor) -> None:
        """Bound how long this transaction waits for rows, and how long it holds them when idle."""
        if self._lists.time_limits is not None:
            executor.execute(self._lists.time_limits, {})

    def load(self, executor: Executor, requests: Iterable[Request]) -> Book:
        """The rows that the requests are about, locked until the end of the transaction."""
        wanted = Wanted()
        for request in requests:
            wanted.add(request)
        return self._load(executor, wanted)

    def load_joined(self, executor: Executor, request: Request, elsewhere: Elsewhere) -> Book:
        """The same for one request in a transaction of the caller's.

        With MySQL's default isolation, locking a row that does not exist would keep everybody
        from inserting beside it. So rows are looked for before they are locked there. The caller's
        transaction may not see lines that an exchange has added meanwhile; once the deduction is
        locked nobody adds more, and another transaction sees them all: `elsewhere` asks one.
        """
        if self._keep_others_out is not None:
            executor.execute(self._keep_others_out, {})
        wanted = Wanted()
        wanted.add(request)
        if self._lists.locks_gaps:
            wanted.deductions = set(self._existing(executor, DEDUCTIONS, wanted.deductions))
            undone = wanted.undone & wanted.deductions
            if undone or wanted.lines:
                self._read(executor, DEDUCTIONS, wanted.deductions)
            lines = set(self._lines(executor, undone, wanted.lines))
            if undone or wanted.lines - lines:
                lines |= set(elsewhere(lambda it: self._lines(it, undone, wanted.lines)))
            wanted.undone, wanted.lines = set(), lines
            skus = wanted.skus | {(sku,) for _, sku in wanted.lines}
            wanted.skus = set(self._existing(executor, STOCK, skus))
        return self._load(executor, wanted)

    def exists(self, executor: Executor, refusal: Refusal) -> bool:
        """Whether there is what a refusal calls unknown."""
        match refusal.error:
            case "UnknownDeduction":
                return bool(self._existing(executor, DEDUCTIONS, [(str(refusal.facts["id"]),)]))
            case "UnknownSku":
                return bool(self._existing(executor, STOCK, [(str(refusal.facts["sku"]),)]))
        return False

    def flush(self, executor: Executor) -> None:
        """Once this is committed, so is what others have committed early."""
        if self._lists.flush is not None:
            executor.execute(self._lists.flush, {}).fetchall()

    def save(self, executor: Executor, book: Book) -> None:
        """Write what the requests have made of the rows."""
        writes = _writes(book)
        if writes:
            self._save(executor, writes)

    def save_first(self, executor: Executor, book: Book, *, hot_last: bool, commits: bool) -> None:
        """Write an optimistic book; the transaction may be over then if it `commits`.

        With `hot_last` the rows that others want, too, are locked last and so the shortest time.
        """
        writes = _writes(book)
        if hot_last:
            writes = dict(sorted(writes.items(), key=lambda each: isinstance(each[1].of, Update)))
        self._save(executor, writes, commits=commits)

    def _save(self, executor: Executor, writes: Writes, *, commits: bool = False) -> None:
        counts = self._lists.execute(executor, writes, commits=commits)
        for name, (_, rows) in writes.items():
            if counts[name] != len(rows):
                raise GuardFailed(
                    f"the ledger wrote {counts[name]} of {len(rows)} rows ({name}) and rolled "
                    "back: its rows are not as they should be; run: windlass ledger audit"
                )

    def save_if_met(self, executor: Executor, book: Book, *, early: bool) -> Met:
        """Write an optimistic book by one statement; whether its assumptions hold.

        If `early`, it counts only after a `flush`.
        """
        return self._lists.execute_if_met(executor, _writes(book), early=early)

    def _load(self, executor: Executor, wanted: Wanted) -> Book:
        book = Book()
        for movement, *rest in self._read(executor, RECEIPTS, wanted.receipts):
            receipt = ReceiptRow(Movement(movement), *rest)
            book.receipts[receipt.movement, receipt.id] = receipt
        for id_, status, *rest in self._read(executor, DEDUCTIONS, wanted.deductions):
            book.deductions[id_] = DeductionRow(id_, DeductionStatus(status), *rest)
        if book.deductions:
            self._load_lines(executor, wanted, book)
        for row in self._read(executor, RETURNS, wanted.returns):
            found = ReturnRow(*row)
            book.returns[found.deduction_id, found.return_id] = found
        self._load_stock(executor, wanted, book)
        return book

    def _load_lines(self, executor: Executor, wanted: Wanted, book: Book) -> None:
        others = {line for line in wanted.lines if line[:1] not in wanted.undone}
        for row in (
            *self._read(executor, LINES_OF, wanted.undone),
            *self._read(executor, LINES, others),
        ):
            line = LineRow(*row)
            book.lines.setdefault(line.deduction_id, {})[line.sku] = line
            wanted.skus.add((line.sku,))

    def _load_stock(self, executor: Executor, wanted: Wanted, book: Book) -> None:
        for row in self._read(executor, STOCK, wanted.skus):
            found = StockRow(*row)
            book.stock[found.sku] = found

    def _lines(
        self, executor: Executor, of: Iterable[tuple[str]], lines: Iterable[tuple[str, str]]
    ) -> list[Any]:
        """The keys of all lines of these deductions, and of these lines, as far as they exist."""
        return [*self._existing(executor, LINES_OF, of), *self._existing(executor, LINES, lines)]

    def _existing(
        self, executor: Executor, read: RowQuery, wanted: Iterable[tuple[str, ...]]
    ) -> list[Any]:
        """The keys of the rows that exist, without a lock."""
        known = read._replace(columns=keys(read.table), is_locked=False)
        return [tuple(row) for row in self._read(executor, known, wanted)]

    def _read(
        self, executor: Executor, read: RowQuery, wanted: Iterable[tuple[str, ...]]
    ) -> list[Sequence[Any]]:
        asked = [dict(zip(read.by, key, strict=True)) for key in sorted(wanted)]
        if asked and read not in self._queries:
            self._queries[read] = self._query(read)
        return [
            row
            for listed in documents(asked)
            for row in executor.execute(self._queries[read], {"wanted": listed}).fetchall()
        ]

    def _query(self, read: RowQuery) -> TextClause:
        columns = self._lists.select(read.table, read.columns or kinds(read.table))
        query = self._lists.find(read.table, columns, read.by)
        lock = self._lists.locking(read.table) if read.is_locked else ""
        return self._lists.text(query + lock)


@contextmanager
def all_or_nothing(executor: Executor) -> Iterator[None]:
    """Take back what the block wrote if it fails: the caller may commit all the same."""
    executor.execute(SAVEPOINT, {})
    try:
        yield
    except BaseException:
        # If the database has ended the whole transaction, there is nothing left to take back.
        with suppress(Exception):
            executor.execute(ROLL_BACK, {})
        raise
    executor.execute(RELEASE, {})


def _writes(book: Book) -> Writes:
    """What is to be written, in an order that is the same for everybody, as it takes locks."""
    deductions = [row for _, row in sorted(book.deductions.items())]
    lines = [line for _, own in sorted(book.lines.items()) for _, line in sorted(own.items())]
    touched = [row for _, row in sorted(book.stock.items()) if row.is_touched]
    rows: dict[str, Iterable[Any]] = {
        "line_changes": [line for line in lines if line.change or line.more],
        "stock_changes": touched,
        "deduction_changes": [row for row in deductions if row.is_changed],
        "new_deductions": deductions,
        "new_lines": lines,
        "new_returns": [row for _, row in sorted(book.returns.items())],
        "new_return_lines": book.return_lines,
        "new_receipts": [row for _, row in sorted(book.receipts.items())],
        "new_stock": touched,
        "new_entries": book.entries,
    }
    writes: dict[str, Write] = {}
    for name, of in STATEMENTS.items():
        attributes, is_insert = ATTRIBUTES[name], isinstance(of, Insert)
        values = [
            {column: getattr(row, attribute) for column, attribute in attributes}
            for row in rows[name]
            if row.is_new is is_insert
        ]
        if values:
            writes[name] = Write(of, values)
    return writes
