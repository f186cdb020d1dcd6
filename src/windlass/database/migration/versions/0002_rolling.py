"""The tables of rolling tasks and switches: switch, rate, tally."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

from windlass.database.schema import Exact, Long, Number

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

OPTIONS: dict[str, Any] = {
    "mysql_engine": "InnoDB",
    "mysql_charset": "utf8mb4",
    "mariadb_engine": "InnoDB",
    "mariadb_charset": "utf8mb4",
}


def upgrade() -> None:
    switch()
    rate()
    tally()


def switch() -> None:
    op.create_table(
        "windlass_switch",
        sa.Column("kind", Exact(100), primary_key=True),
        sa.Column("off", sa.SmallInteger, nullable=False, server_default=sa.text("0")),
        sa.Column("reason", Long),
        sa.Column("who", sa.String(255)),
        sa.Column("since", sa.BigInteger),
        sa.Column("time_window", sa.String(255)),
        sa.Column("rate", sa.String(50)),
        sa.Column("concurrency", sa.Integer),
        sa.Column("breaker", sa.SmallInteger, nullable=False, server_default=sa.text("0")),
        sa.Column("errors_in_a_row", sa.Integer, nullable=False, server_default=sa.text("0")),
        sa.Column("opened_at", sa.BigInteger),
        sa.Column("probe_at", sa.BigInteger),
        sa.Column("pause", sa.BigInteger),
        sa.Column("probe_worker", sa.BigInteger),
        **OPTIONS,
    )


def rate() -> None:
    op.create_table(
        "windlass_rate",
        sa.Column("kind", Exact(100), primary_key=True),
        sa.Column("next_at", sa.BigInteger, nullable=False),
        sa.Column("per_second", sa.Double, nullable=False),
        **OPTIONS,
    )


def tally() -> None:
    op.create_table(
        "windlass_tally",
        sa.Column("id", Number, primary_key=True, autoincrement=True),
        sa.Column("kind", Exact(100), nullable=False),
        sa.Column("delta", sa.BigInteger, nullable=False),
        **OPTIONS,
    )
    op.create_index("windlass_tally_kind", "windlass_tally", ["kind"])
