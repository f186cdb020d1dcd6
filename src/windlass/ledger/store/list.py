"""Lists of the ledger: a page at a time, and never more than so many rows looked at.

Pages begin after the row that the last one ended with. Where an index has just what is wanted, it
is used. What else is wanted is picked out of rows that come in the order of an index; a page that
has looked at enough of them ends early, and says where to go on.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    Table,
    and_,
    func,
    literal,
    or_,
    select,
    union_all,
)

from windlass.database.scan import Rows, Scanned, Wanted, scan
from windlass.database.schema import (
    deduction,
    deduction_line,
    return_line,
    stock,
    stock_entry,
    stock_return,
)
from windlass.ledger.model.ledger import (
    OWN_RETURNS,
    DeductionLine,
    DeductionStatus,
    Line,
    Movement,
    Refusal,
    Stock,
    decode_refusal,
)

Query = Select[*tuple[Any, ...]]
P = TypeVar("P")
T = TypeVar("T")

LOOKED_AT = 10_000
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
    rows = select(of.sku, of.available, of.received, of.deducted, of.returned)
    rows = rows.where(of.sku > after, *_begins(of.sku, prefix)).order_by(of.sku)
    wanted = (lambda window: window.c.available == 0) if sold_out else None
    looked = _look(connection, rows.limit, ("sku",), wanted, limit, ascending=True)
    last = looked.last
    next_ = None if last is None else last.sku
    return Found([Stock(*tuple(row)) for row in looked.rows], next_, looked.looked_at)


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

    # Without refusals, which may be long.
    rows = select(of.id, of.created_at, of.status)
    if prefix:
        rows = rows.where(*_begins(of.id, prefix)).order_by(of.id)
        rows = rows if after is None else rows.where(of.id > after.id)
    else:
        rows = _newest_first(_hinted(rows, deduction), (of.created_at, of.id), after)
    wanted = None if status is None else (lambda window: window.c.status == status)
    keys = ("id",) if prefix else ("created_at", "id")
    looked = _look(connection, rows.limit, keys, wanted, limit, ascending=bool(prefix))
    last = looked.last
    next_ = None if last is None else Moment(last.created_at, last.id)
    found = _deductions(connection, [row.id for row in looked.rows])
    lines = _lines(connection, deduction_line, ("returned",), [(row.id,) for row in found])
    shown = [
        DeductionRow(
            **vars(row) | _shown(DeductionLine(*each) for each in lines.get((row.id,), ()))
        )
        for row in found
    ]
    return Found(shown, next_, looked.looked_at)


def returns(
    connection: Connection, *, of: str | None, after: ReturnPlace | None, limit: int
) -> Found[ReturnRow, ReturnPlace]:
    """Returns, the newest first: of all deductions, or of one."""
    at = stock_return.c
    columns = at.deduction_id, at.return_id, at.refusal, at.created_at

    rows: Query = select(*columns)
    rows = _hinted(rows, stock_return) if of is None else rows.where(at.deduction_id == of)
    rows = _newest_first(rows, (at.created_at, at.deduction_id, at.return_id), after)
    looked = _look(connection, rows.limit, (), None, limit)
    last = looked.last
    place = last and ReturnPlace(last.created_at, last.deduction_id, last.return_id)
    found = Found([_return(row) for row in looked.rows], place, looked.looked_at)
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
    query = select(*columns).order_by(of.id.desc())
    query = query if sku is None else query.where(of.sku == sku)
    query = query if after is None else query.where(of.id < after.id)

    def rows(most: int) -> Query:
        return query.limit(most) if sku is None else _balanced(query.limit(most), sku, after)

    wanted = None if movement is None else (lambda window: window.c.movement == movement)
    looked = _look(connection, rows, ("id",), wanted, limit)
    found = [_entry(row) for row in looked.rows]
    if looked.last is None:
        return Found(found, None, looked.looked_at)
    last = _entry(looked.last)
    before = None if last.balance is None else last.balance - last.quantity
    return Found(found, EntryPlace(last.id, before), looked.looked_at)


def _look(
    connection: Connection,
    rows: Rows,
    keys: Sequence[str],
    wanted: Wanted | None,
    limit: int,
    *,
    ascending: bool = False,
) -> Scanned:
    """The next rows, or those of the next 10,000 that are wanted."""
    if wanted is not None:
        return scan(
            connection, rows, keys, wanted, limit=limit, most=LOOKED_AT, ascending=ascending
        )
    found = connection.execute(rows(limit)).all()
    return Scanned(found, len(found), found[-1] if len(found) == limit else None)


def _balanced(entries: Query, sku: str, after: EntryPlace | None) -> Query:
    """Entries with how much of the SKU there was after each: what is there now, taken back."""
    newest = entries.subquery("newest")
    # In the same statement, and so of the same moment.
    there: ColumnElement[Any] = (
        select(stock.c.available).where(stock.c.sku == sku).scalar_subquery()
    )
    if after is not None and after.balance is not None:
        there = literal(after.balance)
    newer = func.sum(newest.c.quantity).over(order_by=newest.c.id.desc(), rows=(None, -1))
    balance = (there - func.coalesce(newer, 0)).label("balance")
    return select(newest, balance).order_by(newest.c.id.desc())


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


def _deductions(connection: Connection, ids: Sequence[str]) -> list[DeductionRow]:
    of = deduction.c
    columns = of.id, of.status, of.refusal, of.hold_until, of.confirmed_at, of.created_at
    rows = connection.execute(select(*columns).where(of.id.in_(ids))) if ids else ()
    found = {row.id: _deduction(row) for row in rows}
    return [found[each] for each in ids if each in found]


def _deduction(row: Any) -> DeductionRow:
    status, refusal = DeductionStatus(row.status), _refusal(row.refusal)
    return DeductionRow(row.id, status, refusal, row.hold_until, row.confirmed_at, row.created_at)


def _return(row: Any) -> ReturnRow:
    movement = OWN_MOVEMENTS.get(row.return_id, Movement.RETURN)
    refusal = _refusal(row.refusal)
    return ReturnRow(row.deduction_id, row.return_id, movement, refusal, row.created_at)


def _refusal(text: str | None) -> Refusal | None:
    return None if text is None else decode_refusal(text)


def _entry(row: Any) -> EntryRow:
    number, sku, quantity, movement, reference, return_id, created_at, *balance = row
    return EntryRow(
        number,
        sku,
        quantity,
        Movement(movement),
        reference,
        return_id,
        created_at,
        *map(int, balance),
    )
