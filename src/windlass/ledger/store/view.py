"""Reads stock, deductions, returns and entries as callers see them, without locks."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import text

from windlass.clock import to_datetime
from windlass.database import schema
from windlass.database.dialect.base import Dialect, Executor, document
from windlass.ledger.model.ledger import (
    Deduction,
    DeductionLine,
    DeductionStatus,
    Entry,
    Line,
    Movement,
    Return,
    Stock,
    decode_refusal,
    lines_of,
)
from windlass.ledger.store.dialect import kinds, row_lists

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
            tuple(Line(sku, quantity) for sku, quantity in lines_of(body).items()),
            to_datetime(created_at),
        )
        for return_id, body, created_at in executor.execute(query, {"id": deduction_id}).fetchall()
    ]


def entries(
    executor: Executor, sku: str, *, after: int = 0, limit: int | None = None
) -> list[Entry]:
    """The changes of a SKU in the order in which they were made, those after the entry `after`."""
    asked = {"sku": sku, "after": after, "limit": ENDLESS if limit is None else limit}
    return [Entry(**entry_fields(row)) for row in executor.execute(ENTRIES, asked).fetchall()]


def entry_fields(row: Sequence[Any]) -> dict[str, Any]:
    """What an entry has, from the columns of its table."""
    fields = dict(zip(kinds(schema.stock_entry), row, strict=False))
    movement, created_at = Movement(fields["movement"]), to_datetime(fields["created_at"])
    return fields | {"movement": movement, "created_at": created_at}
