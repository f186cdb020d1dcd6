"""Reads stock, deductions, returns and entries: as callers see them, and as operators list them.

Nothing is locked. A list is read a page at a time; a page begins after the row with which the last
one ended, and reads a limited number of rows. Rows come in the order of an index. Where no index
has exactly what is asked for, a page that has read enough rows ends early, and its cursor says
where to go on.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple, TypeVar

import msgspec
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
    text,
    union_all,
)

from windlass.clock import to_datetime
from windlass.database import schema
from windlass.database.database import has_tables
from windlass.database.dialect.base import Dialect, Executor, document, force_index
from windlass.database.scan import Rows, Scanned, Wanted, scan
from windlass.errors import BadInput
from windlass.ledger.model.ledger import (
    Deduction,
    DeductionLine,
    DeductionStatus,
    Entry,
    LedgerPart,
    Line,
    ListedDeduction,
    ListedEntry,
    ListedReturn,
    Movement,
    Return,
    Stock,
    decode_refusal,
    lines_of,
    movement_of,
)
from windlass.ledger.store.dialect import kinds, row_lists
from windlass.ledger.store.hot import TABLES as HOT_TABLES
from windlass.ledger.store.hot_view import with_hot

Query = Select[*tuple[Any, ...]]
P = TypeVar("P", bound=NamedTuple)

LOOKED_AT = 10_000
# A list shows this many lines of a deduction or a return, which may have thousands.
LINES_SHOWN = 3
LAST = chr(0x10FFFF)
ENDLESS = 1 << 62
STOCK = ", ".join(f"t.{name}" for name in kinds(schema.stock))
ALL_STOCK = text(
    f"select {STOCK} from windlass_stock as t where t.sku > :after order by t.sku limit :limit"
)
ONE_STOCK = text(f"select {STOCK} from windlass_stock as t where t.sku = :sku")
ENTRIES = text(
    f"select {', '.join(kinds(schema.stock_entry))} from windlass_stock_entry "
    "where sku = :sku and id > :after order by id limit :limit"
)


def stock(executor: Executor, sku: str) -> Stock | None:
    """What there is of a SKU, if any was ever received."""
    found = executor.execute(ONE_STOCK, {"sku": sku}).fetchall()
    return Stock(*found[0]) if found else None


def stocks(executor: Executor, *, after: str = "", limit: int | None = None) -> list[Stock]:
    """What there is, by SKU."""
    asked = {"after": after, "limit": ENDLESS if limit is None else limit}
    return [Stock(*row) for row in executor.execute(ALL_STOCK, asked).fetchall()]


def stocks_of(executor: Executor, dialect: Dialect, skus: Collection[str]) -> list[Stock]:
    """What there is of these SKUs, by SKU; those that are unknown are left out."""
    query = text(row_lists(dialect).find(schema.stock, STOCK, ["sku"]))
    rows = executor.execute(query, {"wanted": document([{"sku": sku} for sku in skus])})
    return sorted((Stock(*row) for row in rows.fetchall()), key=lambda row: row.sku.encode())


def deduction(executor: Executor, dialect: Dialect, id_: str) -> Deduction | None:
    """A deduction with its lines, as it is now."""
    names = ("status", "refusal", "hold_until", "confirmed_at", "created_at")
    columns = row_lists(dialect).select(schema.deduction, names, of="d")
    query = text(
        f"select {columns}, l.sku, l.quantity, l.returned from windlass_deduction as d "
        "left join windlass_deduction_line as l on l.deduction_id = d.id "
        "where d.id = :id order by l.sku"
    )
    rows: Sequence[Any] = executor.execute(query, {"id": id_}).fetchall()
    if not rows:
        return None
    status, why, hold_until, confirmed_at, created_at = rows[0][:5]
    return Deduction(
        id_,
        DeductionStatus(status),
        tuple(DeductionLine(*row[5:]) for row in rows if row[5] is not None),
        to_datetime(created_at),
        None if hold_until is None else to_datetime(hold_until),
        None if confirmed_at is None else to_datetime(confirmed_at),
        None if why is None else decode_refusal(why),
    )


def returns(executor: Executor, dialect: Dialect, deduction_id: str) -> list[Return]:
    """What was given back of a deduction, in order; what was refused is left out."""
    names = ("return_id", "body", "created_at")
    query = text(
        f"select {row_lists(dialect).select(schema.stock_return, names)} "
        "from windlass_stock_return as t where deduction_id = :id and refusal is null "
        "order by created_at, return_id"
    )
    return [
        Return(
            deduction_id,
            return_id,
            lines_of(body, Line),
            to_datetime(created_at),
            out=lines_of(body, Line, part="out"),
        )
        for return_id, body, created_at in executor.execute(query, {"id": deduction_id}).fetchall()
    ]


def entries(
    executor: Executor, sku: str, *, after: int = 0, limit: int | None = None
) -> list[Entry]:
    """The changes of a SKU in the order in which they were made, those after the entry `after`."""
    asked = {"sku": sku, "after": after, "limit": ENDLESS if limit is None else limit}
    return [Entry(**_entry_fields(row)) for row in executor.execute(ENTRIES, asked).fetchall()]


class DeductionPlace(NamedTuple):
    """Where a deduction is in the list."""

    at: int
    id: str


class ReturnPlace(NamedTuple):
    """Where a return is in the list."""

    at: int
    deduction: str
    id: str


class EntryPlace(NamedTuple):
    """Where an entry is in the list, and, in a list of one SKU, what was available before it."""

    id: int
    balance: int | None = None


def list_stocks(
    connection: Connection, *, prefix: str, after: str, limit: int, sold_out: bool
) -> LedgerPart[Stock]:
    """Stock by SKU, of those that begin with `prefix` and come after `after`."""
    of = schema.stock.c
    rows = select(schema.stock).where(of.sku > after, *_begins(of.sku, prefix)).order_by(of.sku)
    wanted = (lambda window: window.c.available == 0) if sold_out else None
    scanned = _scan(
        connection, rows.limit, limit=limit, keys=("sku",), wanted=wanted, ascending=True
    )
    next_ = None if scanned.last is None else scanned.last.sku
    found = [Stock(*tuple(row)) for row in scanned.rows]
    if has_tables(connection, HOT_TABLES):
        found = with_hot(connection, found)
    return LedgerPart(found, next_, scanned.looked_at)


def list_deductions(
    connection: Connection,
    *,
    status: DeductionStatus | None,
    prefix: str,
    after: str | None,
    limit: int,
) -> LedgerPart[ListedDeduction]:
    """Deductions, newest first; those whose ids begin with a `prefix`, by their ids."""
    of, place = schema.deduction.c, _place(after, DeductionPlace)
    # Without refusals, which may be long.
    rows: Query = select(of.id, of.created_at, of.status)
    if prefix:
        rows = rows.where(*_begins(of.id, prefix)).order_by(of.id)
        rows = rows if place is None else rows.where(of.id > place.id)
    else:
        rows = _newest_first(_by_creation(rows, schema.deduction), (of.created_at, of.id), place)
    wanted = None if status is None else (lambda window: window.c.status == status)
    keys = ("id",) if prefix else ("created_at", "id")
    scanned = _scan(
        connection, rows.limit, limit=limit, keys=keys, wanted=wanted, ascending=bool(prefix)
    )
    ids = [row.id for row in scanned.rows]
    lines = _lines(connection, schema.deduction_line, [(id_,) for id_ in ids])
    found = connection.execute(select(schema.deduction).where(of.id.in_(ids))) if ids else ()
    shown = {
        row.id: ListedDeduction(
            row.id,
            DeductionStatus(row.status),
            row.created_at,
            row.hold_until,
            row.confirmed_at,
            _refusal(row.refusal),
            *_first(DeductionLine(*each) for each in lines.get((row.id,), ())),
        )
        for row in found
    }
    last = scanned.last and DeductionPlace(scanned.last.created_at, scanned.last.id)
    return LedgerPart([shown[id_] for id_ in ids if id_ in shown], _cursor(last), scanned.looked_at)


def list_returns(
    connection: Connection, *, deduction: str | None, after: str | None, limit: int
) -> LedgerPart[ListedReturn]:
    """Returns, newest first: of all deductions, or of one."""
    of, place = schema.stock_return.c, _place(after, ReturnPlace)
    rows: Query = select(of.deduction_id, of.return_id, of.refusal, of.created_at)
    if deduction is None:
        rows = _by_creation(rows, schema.stock_return)
    else:
        rows = rows.where(of.deduction_id == deduction)
    rows = _newest_first(rows, (of.created_at, of.deduction_id, of.return_id), place)
    scanned = _scan(connection, rows.limit, limit=limit)
    keys = [(row.deduction_id, row.return_id) for row in scanned.rows]
    lines = _lines(connection, schema.return_line, keys)
    outs = _exchanged(connection, keys)
    shown = [
        ListedReturn(
            *key,
            Movement.EXCHANGE if key in outs else movement_of(row.return_id),
            row.created_at,
            _refusal(row.refusal),
            *_first(Line(*each) for each in lines.get(key, ())),
            *_first(outs.get(key, ()) if row.refusal is None else ()),
        )
        for key, row in zip(keys, scanned.rows, strict=True)
    ]
    last = scanned.last and ReturnPlace(scanned.last.created_at, *keys[-1])
    return LedgerPart(shown, _cursor(last), scanned.looked_at)


def list_entries(
    connection: Connection,
    *,
    sku: str | None,
    movement: Movement | None,
    after: str | None,
    limit: int,
) -> LedgerPart[ListedEntry]:
    """Entries, newest first: of all SKUs, or of one, with what was available after each."""
    of, place = schema.stock_entry.c, _place(after, EntryPlace)
    query = select(schema.stock_entry).order_by(of.id.desc())
    query = query if sku is None else query.where(of.sku == sku)
    query = query if place is None else query.where(of.id < place.id)

    def rows(most: int) -> Query:
        return query.limit(most) if sku is None else _balanced(query.limit(most), sku, place)

    wanted = None if movement is None else (lambda window: window.c.movement == movement)
    scanned = _scan(connection, rows, limit=limit, keys=("id",), wanted=wanted)
    found = [_entry(row) for row in scanned.rows]
    if scanned.last is None:
        return LedgerPart(found, None, scanned.looked_at)
    last = _entry(scanned.last)
    before = None if last.balance is None else last.balance - last.quantity
    return LedgerPart(found, _cursor(EntryPlace(last.id, before)), scanned.looked_at)


def _scan(
    connection: Connection,
    rows: Rows,
    *,
    limit: int,
    keys: Sequence[str] = (),
    wanted: Wanted | None = None,
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
    """Entries with what was available after each: what is available now, less what came later."""
    newest = entries.subquery("newest")
    # In the same statement, and so of the same moment.
    there: ColumnElement[Any] = (
        select(schema.stock.c.available).where(schema.stock.c.sku == sku).scalar_subquery()
    )
    if after is not None and after.balance is not None:
        there = literal(after.balance)
    # Not a frame that ends before the row: MySQL 9.7 counts the row if it is the only one.
    down_to = func.sum(newest.c.quantity).over(order_by=newest.c.id.desc(), rows=(None, 0))
    balance = (there - down_to + newest.c.quantity).label("balance")
    return select(newest, balance).order_by(newest.c.id.desc())


def _begins(column: ColumnElement[str], prefix: str) -> list[ColumnElement[bool]]:
    return [column.between(prefix, prefix + LAST)] if prefix else []


def _by_creation(query: Query, table: Table) -> Query:
    # MySQL and MariaDB would rather sort all rows.
    return force_index(query, table, f"{table.name}_created")


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
    # Implied by the rest, but planners use an index only for this.
    return query.where(columns[0] <= place[0], beyond)


def _lines(
    connection: Connection, table: Table, keys: Sequence[tuple[str, ...]]
) -> dict[tuple[str, ...], list[Sequence[Any]]]:
    """The first lines of each of the rows with these keys, one more than are shown."""
    parts = []
    for key in keys:
        same = [column == value for column, value in zip(table.c, key, strict=False)]
        part = select(table).where(*same).order_by(table.c.sku).limit(LINES_SHOWN + 1)
        parts.append(select(part.subquery()))
    found: dict[tuple[str, ...], list[Sequence[Any]]] = {}
    for row in connection.execute(union_all(*parts)) if parts else ():
        width = len(keys[0])
        found.setdefault(tuple(row[:width]), []).append(row[width:])
    return found


def _exchanged(
    connection: Connection, keys: Sequence[tuple[str, str]]
) -> dict[tuple[str, str], tuple[Line, ...]]:
    """What went out with those of these returns that are exchanges."""
    if not keys:
        return {}
    of = schema.stock_return.c
    asked = or_(*(and_(of.deduction_id == one, of.return_id == two) for one, two in keys))
    rows = connection.execute(select(of.deduction_id, of.return_id, of.body).where(asked))
    found = {(one, two): lines_of(body, Line, part="out") for one, two, body in rows}
    return {key: lines for key, lines in found.items() if lines}


def _first(lines: Iterable[Any]) -> tuple[tuple[Any, ...], bool]:
    """The lines that are shown, and whether there are more."""
    read = sorted(lines, key=lambda line: str(line.sku))
    return tuple(read[:LINES_SHOWN]), len(read) > LINES_SHOWN


def _entry(row: Sequence[Any]) -> ListedEntry:
    # MariaDB sums numbers as decimals.
    balance = int(row[-1]) if len(row) > len(schema.stock_entry.c) else None
    return ListedEntry(**_entry_fields(row), balance=balance)


def _refusal(text: str | None) -> dict[str, Any] | None:
    return None if text is None else msgspec.json.decode(text, type=dict[str, Any])


def _cursor(place: tuple[Any, ...] | None) -> str | None:
    return None if place is None else msgspec.json.encode(place).decode()


def _place(cursor: str | None, kind: type[P]) -> P | None:
    """The place that `_cursor` made a text of."""
    if cursor is None:
        return None
    try:
        place = msgspec.json.decode(cursor.encode(), type=kind)
    except (msgspec.MsgspecError, UnicodeEncodeError):
        raise BadInput(f"after={cursor[:100]!r} is not the `next` of a page") from None
    return place


def _entry_fields(row: Sequence[Any]) -> dict[str, Any]:
    """What an entry has, from the columns of its table."""
    fields = dict(zip(kinds(schema.stock_entry), row, strict=False))
    movement, created_at = Movement(fields["movement"]), to_datetime(fields["created_at"])
    return fields | {"movement": movement, "created_at": created_at}
