"""The ledger's rows: read and locked for some requests, and written as the book has them then.

Locks are taken in one order by everybody: deductions by id, their lines, then stock by SKU. An id
that two use for the first time at the same moment is a duplicate for the second of them, who does
all of it again and finds it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from windlass.database.dialect.base import Dialect, Executor, encode
from windlass.errors import WindlassError
from windlass.ledger.model.book import (
    Book,
    DeductionRow,
    EntryRow,
    LineRow,
    ReceiptRow,
    ReturnRow,
    StockRow,
)
from windlass.ledger.model.ledger import (
    Adjust,
    Confirm,
    Deduct,
    DeductionStatus,
    GiveBack,
    Movement,
    Refusal,
    Request,
    Restock,
    Undo,
)
from windlass.ledger.store.dialect import AT_ONCE, Condition, Part, lists_of

Row = Mapping[str, Any]


class Unmet(WindlassError):
    """A guard did not hold; the transaction is to be taken back."""


class Read(NamedTuple):
    """A query for rows by their keys, which locks them in the order of some columns.

    Without one it sees what the transaction sees: a row that it missed is a duplicate when it is
    written.
    """

    table: str
    columns: str
    keys: tuple[str, ...]
    locked_by: tuple[str, ...] = ()


class Update(NamedTuple):
    """A change of the rows of a table, t, by a list that has their keys and more columns."""

    table: str
    keys: tuple[str, ...]
    changes: str
    columns: dict[str, type]


LINE = "t.deduction_id, t.sku, t.quantity, t.returned"
READS = {
    "receipts": Read(
        "stock_receipt", "t.movement, t.id, {answer}, t.created_at", ("movement", "id")
    ),
    "deductions": Read(
        "deduction",
        "t.id, t.status, {answer}, t.hold_until, t.confirmed_at, t.created_at",
        ("id",),
        locked_by=("id",),
    ),
    "known": Read("deduction", "t.id", ("id",)),
    "known_line": Read("deduction_line", "t.deduction_id, t.sku", ("deduction_id", "sku")),
    "known_lines": Read("deduction_line", "t.deduction_id, t.sku", ("deduction_id",)),
    "known_stock": Read("stock", "t.sku", ("sku",)),
    "lines": Read("deduction_line", LINE, ("deduction_id", "sku"), ("deduction_id", "sku")),
    "all_lines": Read("deduction_line", LINE, ("deduction_id",), ("deduction_id", "sku")),
    "returns": Read(
        "stock_return",
        "t.deduction_id, t.return_id, {answer}, t.created_at",
        ("deduction_id", "return_id"),
    ),
    "stock": Read("stock", "t.sku, t.available", ("sku",), ("sku",)),
}

# What new rows are made of; bytes stand for long texts in JSON.
ANSWER: dict[str, type] = {"body": bytes, "refusal": bytes, "created_at": int}
INSERTS: dict[str, tuple[str, dict[str, type]]] = {
    "new_stock": (
        "stock",
        {"sku": str, "available": int, "received": int, "deducted": int, "returned": int},
    ),
    "new_deductions": (
        "deduction",
        {"id": str, "status": int, "hold_until": int, "confirmed_at": int, **ANSWER},
    ),
    "new_lines": (
        "deduction_line",
        {"deduction_id": str, "sku": str, "quantity": int, "returned": int},
    ),
    "new_returns": ("stock_return", {"deduction_id": str, "return_id": str, **ANSWER}),
    "new_return_lines": (
        "return_line",
        {"deduction_id": str, "return_id": str, "sku": str, "quantity": int},
    ),
    "new_receipts": ("stock_receipt", {"movement": str, "id": str, **ANSWER}),
    "new_entries": (
        "stock_entry",
        {
            "sku": str,
            "quantity": int,
            "movement": str,
            "reference": str,
            "return_id": str,
            "created_at": int,
        },
    ),
}


GUARDS = {
    "line_changes": "t.returned + line_changes.plus <= t.quantity",
    "changes": "t.available + changes.plus >= 0",
}
UPDATES = {
    "ends": Update(
        "deduction",
        ("id",),
        "status = ends.new_status, confirmed_at = ends.confirmed",
        {"new_status": int, "confirmed": int},
    ),
    "line_changes": Update(
        "deduction_line",
        ("deduction_id", "sku"),
        "returned = t.returned + line_changes.plus",
        {"plus": int},
    ),
    "changes": Update(
        "stock",
        ("sku",),
        "available = t.available + changes.plus, received = t.received + changes.more, "
        "deducted = t.deducted + changes.out_, returned = t.returned + changes.back",
        {"plus": int, "more": int, "out_": int, "back": int},
    ),
}
# What a hopeful book takes for granted, in the order in which everybody locks.
CONDITIONS = {
    "new_deductions": Condition("windlass_deduction", ["id"]),
    "new_returns": Condition("windlass_stock_return", ["deduction_id", "return_id"]),
    "line_changes": Condition(
        "windlass_deduction_line", ["deduction_id", "sku"], GUARDS["line_changes"], {"plus": int}
    ),
    "changes": Condition("windlass_stock", ["sku"], GUARDS["changes"], {"plus": int}),
}


@dataclass(slots=True)
class Wanted:
    """The keys of the rows that requests are about."""

    deductions: set[str] = field(default_factory=set)
    undone: set[str] = field(default_factory=set)
    lines: set[tuple[str, str]] = field(default_factory=set)
    returns: set[tuple[str, str]] = field(default_factory=set)
    receipts: set[tuple[str, str]] = field(default_factory=set)
    skus: set[str] = field(default_factory=set)

    def add(self, request: Request) -> None:
        """Want what this request is about, too."""
        match request:
            case Restock() | Adjust():
                self.receipts.add((request.movement.value, request.id))
                self.skus.update(request.lines)
            case Deduct():
                self.deductions.add(request.id)
                self.skus.update(request.lines)
            case GiveBack():
                self.deductions.add(request.deduction)
                self.returns.add((request.deduction, request.id))
                self.lines.update((request.deduction, sku) for sku in request.lines)
                self.skus.update(request.lines)
            case Undo():
                self.deductions.add(request.deduction)
                self.returns.add((request.deduction, request.id))
                self.undone.add(request.deduction)
            case Confirm():
                self.deductions.add(request.deduction)


class LedgerRows:
    """Reads and writes the rows of one database."""

    def __init__(self, dialect: Dialect) -> None:
        self._lists = lists_of(dialect)
        bounded = self._lists.bounded
        self._bounded = None if bounded is None else self._lists.said(bounded)
        self._build_reads()
        self._build_writes()

    @property
    def hopes(self) -> bool:
        """Whether a hopeful book may be written without a look."""
        return self._lists.hopes

    @property
    def stands_alone(self) -> bool:
        """Whether `save_alone` is there."""
        return self._lists.executes_alone

    def begin(self, executor: Executor) -> None:
        """Bound how long this transaction waits for rows, and how long it holds them in silence."""
        if self._bounded is not None:
            executor.execute(self._bounded, {})

    def knows(self, executor: Executor, refusal: Refusal) -> bool:
        """Whether what is unknown to a refusal is there."""
        match refusal.error:
            case "UnknownDeduction":
                return bool(self._read(executor, "known", [{"id": refusal.facts["id"]}]))
            case "UnknownSku":
                return bool(self._read(executor, "known_stock", [{"sku": refusal.facts["sku"]}]))
        return False

    def load(self, executor: Executor, requests: Iterable[Request]) -> Book:
        """The rows that the requests are about, locked until the end of the transaction."""
        wanted = Wanted()
        for request in requests:
            wanted.add(request)
        return self._load(executor, wanted)

    def load_joined(self, executor: Executor, request: Request) -> Book:
        """The same for one request in a transaction of the caller's.

        Where its isolation is the default of MySQL, to look for a row that is not there, and to
        lock it, would keep everybody from writing beside it: there it is looked first.
        """
        wanted = Wanted()
        wanted.add(request)
        if self._lists.locks_gaps:
            self._leave_only_what_is_there(executor, wanted)
        return self._load(executor, wanted)

    def _leave_only_what_is_there(self, executor: Executor, wanted: Wanted) -> None:
        def found(name: str, asked: Iterable[Row]) -> Iterable[Sequence[Any]]:
            listed = list(asked)
            return self._read(executor, name, listed) if listed else ()

        known = found("known", ({"id": of} for of in wanted.deductions))
        wanted.deductions = {of for (of,) in known}
        undone = [{"deduction_id": of} for of in wanted.undone & wanted.deductions]
        pairs = [{"deduction_id": of, "sku": sku} for of, sku in wanted.lines]
        lines = (*found("known_lines", undone), *found("known_line", pairs))
        wanted.undone, wanted.lines = set(), {(of, sku) for of, sku in lines}
        skus = wanted.skus | {sku for _, sku in wanted.lines}
        wanted.skus = {sku for (sku,) in found("known_stock", ({"sku": sku} for sku in skus))}

    def _load(self, executor: Executor, wanted: Wanted) -> Book:
        book = Book()
        if wanted.receipts:
            self._load_receipts(executor, wanted, book)
        if wanted.deductions:
            self._load_deductions(executor, wanted, book)
        if book.deductions and (wanted.lines or wanted.undone):
            self._load_lines(executor, wanted, book)
        if wanted.returns:
            self._load_returns(executor, wanted, book)
        self._load_stock(executor, wanted, book)
        return book

    def save(self, executor: Executor, book: Book) -> None:
        """Write what the requests have made of the rows."""
        parts = self._parts(book)
        if not parts:
            return
        counts = self._lists.execute_all(executor, parts)
        for name, part in parts.items():
            if counts[name] != len(part.rows):
                raise Unmet(
                    f"the ledger wrote {counts[name]} of {len(part.rows)} rows ({name}) and took "
                    "all back: its rows are not as they should be; run: windlass ledger audit"
                )

    def save_alone(self, executor: Executor, book: Book) -> bool:
        """Write what a hopeful book says, by one statement; whether its hopes came true."""
        parts = self._parts(book)
        needed = {name: CONDITIONS[name] for name in CONDITIONS if name in parts}
        return self._lists.execute_alone(executor, parts, needed)

    def _parts(self, book: Book) -> dict[str, Part]:
        return {name: Part(*self._writes[name], rows) for name, rows in _changes(book) if rows}

    def _load_receipts(self, executor: Executor, wanted: Wanted, book: Book) -> None:
        asked = [{"movement": movement, "id": of} for movement, of in sorted(wanted.receipts)]
        for movement, *rest in self._read(executor, "receipts", asked):
            row = ReceiptRow(Movement(movement), *rest)
            book.receipts[row.movement, row.id] = row

    def _load_deductions(self, executor: Executor, wanted: Wanted, book: Book) -> None:
        asked = [{"id": of} for of in _ordered(wanted.deductions)]
        for of, status, *rest in self._read(executor, "deductions", asked):
            book.deductions[of] = DeductionRow(of, DeductionStatus(status), *rest)

    def _load_lines(self, executor: Executor, wanted: Wanted, book: Book) -> None:
        found: list[Sequence[Any]] = []
        if wanted.undone:
            found += self._read(
                executor, "all_lines", [{"deduction_id": of} for of in _ordered(wanted.undone)]
            )
        if asked := [pair for pair in sorted(wanted.lines) if pair[0] not in wanted.undone]:
            pairs = [{"deduction_id": of, "sku": sku} for of, sku in asked]
            found += self._read(executor, "lines", pairs)
        for row in found:
            line = LineRow(*row)
            book.lines.setdefault(line.deduction, {})[line.sku] = line
            wanted.skus.add(line.sku)

    def _load_returns(self, executor: Executor, wanted: Wanted, book: Book) -> None:
        asked = [{"deduction_id": of, "return_id": id_} for of, id_ in sorted(wanted.returns)]
        for row in self._read(executor, "returns", asked):
            found = ReturnRow(*row)
            book.returns[found.deduction, found.id] = found

    def _load_stock(self, executor: Executor, wanted: Wanted, book: Book) -> None:
        if not wanted.skus:
            return
        asked = [{"sku": sku} for sku in _ordered(wanted.skus)]
        for sku, available in self._read(executor, "stock", asked):
            book.stock[sku] = StockRow(sku, available)

    def _read(self, executor: Executor, name: str, asked: Sequence[Row]) -> Sequence[Sequence[Any]]:
        rows: list[Sequence[Any]] = []
        for begin in range(0, len(asked), AT_ONCE):
            wanted = {"wanted": encode(asked[begin : begin + AT_ONCE]).decode()}
            rows += executor.execute(self._reads[name], wanted).fetchall()
        return rows

    def _build_reads(self) -> None:
        lists = self._lists
        answer = ", ".join(lists.from_json.format(f"t.{part}") for part in ("body", "refusal"))
        self._reads = {
            name: lists.said(
                lists.find(
                    f"windlass_{read.table}",
                    read.columns.format(answer=answer),
                    "wanted",
                    read.keys,
                )
                + (lists.lock.format(order=_order(read)) if read.locked_by else "")
            )
            for name, read in READS.items()
        }

    def _build_writes(self) -> None:
        inserts = {name: self._insert(name, *of) for name, of in INSERTS.items()}
        self._writes = inserts | {name: self._update(name, of) for name, of in UPDATES.items()}

    def _insert(self, name: str, table: str, columns: Mapping[str, type]) -> tuple[str, str]:
        values = ", ".join(
            self._lists.to_json.format(column) if kind is bytes else column
            for column, kind in columns.items()
        )
        into = f"windlass_{table} ({', '.join(columns)})"
        listed = self._lists.rows(name, **columns)
        return (
            f"insert into {into} select {values} from {listed} where true",
            f"insert into {into} values ({', '.join(f':{column}' for column in columns)})",
        )

    def _update(self, name: str, of: Update) -> tuple[str, str]:
        where = GUARDS.get(name, "true")
        found = " and ".join(f"t.{key} = {name}.{key}" for key in of.keys)
        plain = f"update windlass_{of.table} as t set {of.changes} where {found} and {where}"
        listed = self._lists.update(
            f"windlass_{of.table}", name, of.keys, changes=of.changes, where=where, **of.columns
        )
        return listed, plain.replace(f"{name}.", ":")


def _changes(book: Book) -> Iterable[tuple[str, list[Row]]]:
    """What is to be written, by the name of the statement."""
    # One order for everybody: whoever writes without a look locks in it, too.
    deductions = [book.deductions[of] for of in _ordered(book.deductions)]
    returns = [book.returns[of] for of in sorted(book.returns)]
    receipts = [book.receipts[of] for of in sorted(book.receipts)]
    lines = [book.lines[of][sku] for of in _ordered(book.lines) for sku in _ordered(book.lines[of])]
    touched = [book.stock[sku] for sku in _ordered(book.stock) if book.stock[sku].is_touched]
    # What has a guard comes first: if it does not hold, nothing was inserted in vain.
    returned = (line for line in lines if line.change and not line.is_new)
    yield "line_changes", [_line_change(line) for line in returned]
    yield "changes", [_stock_change(row) for row in touched if not row.is_new]
    ended = (row for row in deductions if row.is_changed and not row.is_new)
    yield "ends", [_end(row) for row in ended]
    yield "new_deductions", [_deduction(row) for row in deductions if row.is_new]
    yield "new_lines", [_line(line) for line in lines if line.is_new]
    yield "new_returns", [_return(row) for row in returns if row.is_new]
    yield "new_return_lines", [_return_line(*part) for part in book.return_lines]
    yield "new_receipts", [_receipt(row) for row in receipts if row.is_new]
    yield "new_stock", [_stock(row) for row in touched if row.is_new]
    yield "new_entries", [_entry(entry) for entry in book.entries]


def _end(row: DeductionRow) -> Row:
    return {"id": row.id, "new_status": int(row.status), "confirmed": row.confirmed_at}


def _line_change(line: LineRow) -> Row:
    return {"deduction_id": line.deduction, "sku": line.sku, "plus": line.change}


def _return_line(deduction: str, return_id: str, sku: str, quantity: int) -> Row:
    return {
        "deduction_id": deduction,
        "return_id": return_id,
        "sku": sku,
        "quantity": quantity,
    }


def _stock_change(row: StockRow) -> Row:
    return {
        "sku": row.sku,
        "plus": row.change,
        "more": row.received,
        "out_": row.deducted,
        "back": row.returned,
    }


def _entry(entry: EntryRow) -> Row:
    return {
        "sku": entry.sku,
        "quantity": entry.quantity,
        "movement": entry.movement.value,
        "reference": entry.reference,
        "return_id": entry.return_id,
        "created_at": entry.created_at,
    }


def _deduction(row: DeductionRow) -> Row:
    return {
        "id": row.id,
        "status": int(row.status),
        "body": row.body,
        "refusal": row.refusal,
        "hold_until": row.hold_until,
        "confirmed_at": row.confirmed_at,
        "created_at": row.created_at,
    }


def _stock(row: StockRow) -> Row:
    return {
        "sku": row.sku,
        "available": row.available,
        "received": row.received,
        "deducted": row.deducted,
        "returned": row.returned,
    }


def _line(line: LineRow) -> Row:
    return {
        "deduction_id": line.deduction,
        "sku": line.sku,
        "quantity": line.quantity,
        "returned": line.returned,
    }


def _return(row: ReturnRow) -> Row:
    return {
        "deduction_id": row.deduction,
        "return_id": row.id,
        "body": row.body,
        "refusal": row.refusal,
        "created_at": row.created_at,
    }


def _receipt(row: ReceiptRow) -> Row:
    return {
        "movement": row.movement.value,
        "id": row.id,
        "body": row.body,
        "refusal": row.refusal,
        "created_at": row.created_at,
    }


def _order(read: Read) -> str:
    return ", ".join(f"t.{column}" for column in read.locked_by)


def _ordered(keys: Iterable[str]) -> list[str]:
    """As the databases order them: byte by byte."""
    return sorted(keys, key=str.encode)
