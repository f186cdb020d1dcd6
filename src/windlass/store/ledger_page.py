"""Lists of the ledger: a page at a time, and never more than so many rows looked at.

Pages begin after the row that the last one ended with. Where an index has just what is wanted, it
is used. What else is wanted is picked out of rows that come in the order of an index; a page that
has looked at enough of them ends early, and says where to go on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

from sqlalchemy import ColumnElement, Connection, Select, Table, and_, or_, select, union_all

from windlass.model.ledger import (
    OWN_RETURNS,
    DeductionLine,
    DeductionStatus,
    Line,
    Movement,
    Refusal,
    Stock,
    decode_refusal,
)
from windlass.store.schema import (
    deduction,
    deduction_line,
    return_line,
    stock,
    stock_entry,
    stock_return,
)

Query = Select[*tuple[Any, ...]]
P = TypeVar("P")
T = TypeVar("T")

LOOKED_AT = 10_000
FETCHED_AT_ONCE = 1_000
# So many lines of a deduction or a return are in a list; it may have thousands.
LINES_SHOWN = 3
LAST = chr(0x10FFFF)
OWN_MOVEMENTS = {id_: movement for movement, id_ in OWN_RETURNS.items()}


class Moment(NamedTuple):
    """Where a deduction is among all of them: when it was made, and its id."""

    at: int
    id: str


class ReturnPlace(NamedTuple):
    """Where a return is among all of them."""

    at: int
    deduction: str
    id: str


class EntryPlace(NamedTuple):
    """Where an entry is, and, in a list of one SKU, how much there was before it."""

    id: int
    balance: int | None = None


@dataclass(frozen=True)
class Found(Generic[T, P]):
    """A part of a list, and where it goes on; None at the end."""

    items: list[T]
    next: P | None
    looked_at: int


@dataclass(frozen=True)
class DeductionRow:
    """A deduction as a list shows it: with its first lines. Times are microseconds."""

    id: str
    status: DeductionStatus
    refusal: Refusal | None
    hold_until: int | None
    confirmed_at: int | None
    created_at: int
    lines: tuple[DeductionLine, ...] = ()
    has_more_lines: bool = False


@dataclass(frozen=True)
class ReturnRow:
    """A return as a list shows it: with its first lines; with a refusal it never came to be."""

    deduction: str
    id: str
    movement: Movement
    refusal: Refusal | None
    created_at: int
    lines: tuple[Line, ...] = ()
    has_more_lines: bool = False


@dataclass(frozen=True)
class EntryRow:
    """An entry, and, in a list of one SKU, how much there was after it."""

    id: int
    sku: str
    quantity: int
    movement: Movement
    reference: str
    return_id: str | None
    created_at: int
    balance: int | None = None


def stocks(
    connection: Connection, *, prefix: str, after: str, limit: int, sold_out: bool = False
) -> Found[Stock, str]:
    """Stock by SKU, of those that begin with `prefix` and come after `after`."""
    of = stock.c

    def read(place: str | None, count: int) -> list[Stock]:
        query = select(of.sku, of.available, of.received, of.deducted, of.returned)
        query = query.where(of.sku > (place or ""), *_begins(of.sku, prefix))
        query = query.order_by(of.sku).limit(count)
        return [Stock(*row) for row in connection.execute(query)]

    def is_wanted(row: Stock) -> bool:
        return row.available == 0

    return _walk(read, lambda row: row.sku, after, limit, is_wanted if sold_out else None)


def deductions(
    connection: Connection,
    *,
    status: DeductionStatus | None,
    prefix: str,
    after: Moment | None,
    limit: int,
) -> Found[DeductionRow, Moment]:
    """Deductions, the newest first; those whose ids begin with a `prefix`, by their ids."""
    of = deduction.c
    columns = of.id, of.status, of.refusal, of.hold_until, of.confirmed_at, of.created_at

    def read(place: Moment | None, count: int) -> list[DeductionRow]:
        query = select(*columns).limit(count)
        if prefix:
            query = query.where(*_begins(of.id, prefix)).order_by(of.id)
            query = query if place is None else query.where(of.id > place.id)
        else:
            query = _newest_first(_hinted(query, deduction), (of.created_at, of.id), place)
        return [_deduction(row) for row in connection.execute(query)]

    def is_wanted(row: DeductionRow) -> bool:
        return row.status is status

    wanted = None if status is None else is_wanted
    found = _walk(read, lambda row: Moment(row.created_at, row.id), after, limit, wanted)
    lines = _lines(connection, deduction_line, ("returned",), [(row.id,) for row in found.items])
    shown = [
        DeductionRow(
            **vars(row) | _shown(DeductionLine(*each) for each in lines.get((row.id,), ()))
        )
        for row in found.items
    ]
    return Found(shown, found.next, found.looked_at)


def returns(
    connection: Connection, *, of: str | None, after: ReturnPlace | None, limit: int
) -> Found[ReturnRow, ReturnPlace]:
    """Returns, the newest first: of all deductions, or of one."""
    at = stock_return.c
    columns = at.deduction_id, at.return_id, at.refusal, at.created_at

    def read(place: ReturnPlace | None, count: int) -> list[ReturnRow]:
        query: Query = select(*columns).limit(count)
        same = at.deduction_id == of
        query = _hinted(query, stock_return) if of is None else query.where(same)
        query = _newest_first(query, (at.created_at, at.deduction_id, at.return_id), place)
        return [_return(row) for row in connection.execute(query)]

    def place_of(row: ReturnRow) -> ReturnPlace:
        return ReturnPlace(row.created_at, row.deduction, row.id)

    found = _walk(read, place_of, after, limit)
    keys = [(row.deduction, row.id) for row in found.items]
    lines = _lines(connection, return_line, (), keys)
    shown = [
        ReturnRow(**vars(row) | _shown(Line(*each) for each in lines.get(key, ())))
        for key, row in zip(keys, found.items, strict=True)
    ]
    return Found(shown, found.next, found.looked_at)


def entries(
    connection: Connection,
    *,
    sku: str | None,
    movement: Movement | None,
    after: EntryPlace | None,
    limit: int,
) -> Found[EntryRow, EntryPlace]:
    """Entries, the newest first: of all SKUs, or of one, with how much there was after each."""
    of = stock_entry.c
    columns = of.id, of.sku, of.quantity, of.movement, of.reference, of.return_id, of.created_at
    # In the same statement, and so of the same moment.
    there = select(stock.c.available).where(stock.c.sku == sku).scalar_subquery()

    def read(place: EntryPlace | None, count: int) -> list[EntryRow]:
        query = select(*columns) if sku is None else select(*columns, there).where(of.sku == sku)
        query = query if place is None else query.where(of.id < place.id)
        rows = connection.execute(query.order_by(of.id.desc()).limit(count)).fetchall()
        if sku is None:
            return [_entry(row, None) for row in rows]
        return _balanced(rows, None if place is None else place.balance)

    def place_of(row: EntryRow) -> EntryPlace:
        return EntryPlace(row.id, None if row.balance is None else row.balance - row.quantity)

    def is_wanted(row: EntryRow) -> bool:
        return row.movement is movement

    return _walk(read, place_of, after, limit, None if movement is None else is_wanted)


def _walk(
    read: Callable[[P | None, int], Sequence[T]],
    place_of: Callable[[T], P],
    start: P | None,
    limit: int,
    is_wanted: Callable[[T], bool] | None = None,
) -> Found[T, P]:
    """Up to `limit` of the rows that are wanted, from `start` on."""
    kept: list[T] = []
    place, looked_at = start, 0
    count = limit if is_wanted is None else FETCHED_AT_ONCE
    while looked_at < LOOKED_AT:
        rows = read(place, count)
        for row in rows:
            looked_at += 1
            place = place_of(row)
            if is_wanted is None or is_wanted(row):
                kept.append(row)
            if len(kept) == limit:
                return Found(kept, place, looked_at)
        if len(rows) < count:
            return Found(kept, None, looked_at)
    return Found(kept, place, looked_at)


def _begins(column: ColumnElement[str], prefix: str) -> list[ColumnElement[bool]]:
    return [column.between(prefix, prefix + LAST)] if prefix else []


def _hinted(query: Query, table: Table) -> Query:
    """A query that goes by when rows were made; MySQL and MariaDB would rather sort them all."""
    hint = f"force index ({table.name}_created)"
    return query.with_hint(table, hint, "mysql").with_hint(table, hint, "mariadb")


def _newest_first(
    query: Query, columns: Sequence[ColumnElement[Any]], place: Sequence[Any] | None
) -> Query:
    """Rows in descending order of `columns`, those that come after `place`."""
    query = query.order_by(*(column.desc() for column in columns))
    if place is None:
        return query
    beyond: ColumnElement[bool] = columns[-1] < place[-1]
    for column, value in reversed([*zip(columns[:-1], place[:-1], strict=True)]):
        beyond = or_(column < value, and_(column == value, beyond))
    # Said once more, for planners that do not see through the rest.
    return query.where(columns[0] <= place[0], beyond)


def _lines(
    connection: Connection, table: Table, more: Sequence[str], keys: Sequence[tuple[str, ...]]
) -> dict[tuple[str, ...], list[tuple[Any, ...]]]:
    """The first lines of each of the rows with these keys, one more than are shown."""
    names = ["deduction_id", "return_id"][: len(keys[0])] if keys else []
    columns = [table.c[name] for name in (*names, "sku", "quantity", *more)]
    parts = []
    for key in keys:
        same = [table.c[name] == value for name, value in zip(names, key, strict=True)]
        part = select(*columns).where(*same).order_by(table.c.sku).limit(LINES_SHOWN + 1)
        parts.append(select(part.subquery()))
    found: dict[tuple[str, ...], list[tuple[Any, ...]]] = {}
    for row in connection.execute(union_all(*parts)) if parts else ():
        found.setdefault(tuple(row[: len(names)]), []).append(tuple(row[len(names) :]))
    return found


def _shown(lines: Iterable[Any]) -> dict[str, Any]:
    read = sorted(lines, key=lambda line: str(line.sku).encode())
    return {"lines": tuple(read[:LINES_SHOWN]), "has_more_lines": len(read) > LINES_SHOWN}


def _deduction(row: Any) -> DeductionRow:
    status, refusal = DeductionStatus(row.status), _refusal(row.refusal)
    return DeductionRow(row.id, status, refusal, row.hold_until, row.confirmed_at, row.created_at)


def _return(row: Any) -> ReturnRow:
    movement = OWN_MOVEMENTS.get(row.return_id, Movement.RETURN)
    refusal = _refusal(row.refusal)
    return ReturnRow(row.deduction_id, row.return_id, movement, refusal, row.created_at)


def _refusal(text: str | None) -> Refusal | None:
    return None if text is None else decode_refusal(text)


def _entry(row: Any, balance: int | None) -> EntryRow:
    number, sku, quantity, movement, reference, return_id, created_at = row[:7]
    return EntryRow(
        number, sku, quantity, Movement(movement), reference, return_id, created_at, balance
    )


def _balanced(rows: Sequence[Any], balance: int | None) -> list[EntryRow]:
    """Entries of one SKU, each with how much there was after it: what is there now, taken back."""
    found: list[EntryRow] = []
    for row in rows:
        after: int = row[7] if balance is None else balance
        found.append(_entry(row, after))
        balance = after - row.quantity
    return found
