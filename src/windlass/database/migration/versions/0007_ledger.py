"""The tables of the ledger: stock, stock_receipt, deduction, deduction_line, stock_return,
return_line, stock_entry.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

from windlass.database.schema import Exact, Json, Number, StatusCode

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

OPTIONS: dict[str, Any] = {
    "mysql_engine": "InnoDB",
    "mysql_charset": "utf8mb4",
    "mariadb_engine": "InnoDB",
    "mariadb_charset": "utf8mb4",
}
ZERO = sa.text("0")


def upgrade() -> None:
    stock()
    stock_receipt()
    deduction()
    deduction_line()
    stock_return()
    return_line()
    stock_entry()


def stock() -> None:
    op.create_table(
        "windlass_stock",
        sa.Column("sku", Exact(255), primary_key=True),
        sa.Column("available", sa.BigInteger, nullable=False, server_default=ZERO),
        sa.Column("received", sa.BigInteger, nullable=False, server_default=ZERO),
        sa.Column("deducted", sa.BigInteger, nullable=False, server_default=ZERO),
        sa.Column("returned", sa.BigInteger, nullable=False, server_default=ZERO),
        sa.CheckConstraint("available >= 0", name="windlass_stock_available"),
        sa.CheckConstraint(
            "returned >= 0 and returned <= deducted", name="windlass_stock_returned"
        ),
        sa.CheckConstraint(
            "received = available + deducted - returned", name="windlass_stock_balance"
        ),
        **OPTIONS,
    )


def stock_receipt() -> None:
    op.create_table(
        "windlass_stock_receipt",
        sa.Column("movement", Exact(10), primary_key=True),
        sa.Column("id", Exact(255), primary_key=True),
        sa.Column("body", Json, nullable=False),
        sa.Column("refusal", Json),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        **OPTIONS,
    )


def deduction() -> None:
    op.create_table(
        "windlass_deduction",
        sa.Column("id", Exact(255), primary_key=True),
        sa.Column("status", StatusCode, nullable=False),
        sa.Column("body", Json),
        sa.Column("refusal", Json),
        sa.Column("hold_until", sa.BigInteger),
        sa.Column("confirmed_at", sa.BigInteger),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        **OPTIONS,
    )


def deduction_line() -> None:
    op.create_table(
        "windlass_deduction_line",
        sa.Column("deduction_id", Exact(255), primary_key=True),
        sa.Column("sku", Exact(255), primary_key=True),
        sa.Column("quantity", sa.BigInteger, nullable=False),
        sa.Column("returned", sa.BigInteger, nullable=False, server_default=ZERO),
        sa.CheckConstraint("quantity > 0", name="windlass_deduction_line_quantity"),
        sa.CheckConstraint(
            "returned >= 0 and returned <= quantity", name="windlass_deduction_line_returned"
        ),
        **OPTIONS,
    )


def stock_return() -> None:
    op.create_table(
        "windlass_stock_return",
        sa.Column("deduction_id", Exact(255), primary_key=True),
        sa.Column("return_id", Exact(255), primary_key=True),
        sa.Column("body", Json, nullable=False),
        sa.Column("refusal", Json),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        **OPTIONS,
    )


def return_line() -> None:
    op.create_table(
        "windlass_return_line",
        sa.Column("deduction_id", Exact(255), primary_key=True),
        sa.Column("return_id", Exact(255), primary_key=True),
        sa.Column("sku", Exact(255), primary_key=True),
        sa.Column("quantity", sa.BigInteger, nullable=False),
        sa.CheckConstraint("quantity > 0", name="windlass_return_line_quantity"),
        **OPTIONS,
    )


def stock_entry() -> None:
    op.create_table(
        "windlass_stock_entry",
        sa.Column("id", Number, primary_key=True, autoincrement=True),
        sa.Column("sku", Exact(255), nullable=False),
        sa.Column("quantity", sa.BigInteger, nullable=False),
        sa.Column("movement", Exact(10), nullable=False),
        sa.Column("reference", Exact(255), nullable=False),
        sa.Column("return_id", Exact(255)),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.CheckConstraint("quantity <> 0", name="windlass_stock_entry_quantity"),
        **OPTIONS,
    )
    op.create_index("windlass_stock_entry_sku", "windlass_stock_entry", ["sku", "id"])
