"""The tables of sweeps: sweep, range, round, sweep_failure, visit."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

from windlass.database.schema import Exact, Long, Number, StatusCode

revision = "0005"
down_revision = "0004"
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
    sweep()
    range_()
    round_()
    sweep_failure()
    visit()


def sweep() -> None:
    op.create_table(
        "windlass_sweep",
        sa.Column("name", Exact(100), primary_key=True),
        sa.Column("status", StatusCode, nullable=False, server_default=ZERO),
        sa.Column("round", sa.BigInteger, nullable=False, server_default=ZERO),
        sa.Column("ranges", sa.Integer, nullable=False),
        sa.Column("declared_ranges", sa.Integer, nullable=False),
        sa.Column("redo", sa.BigInteger),
        sa.Column("rows_estimate", sa.BigInteger),
        sa.Column("started_at", sa.BigInteger),
        sa.Column("ended_at", sa.BigInteger),
        sa.Column("due_at", sa.BigInteger),
        sa.Column("starter", sa.BigInteger),
        sa.Column("stopped_at", sa.BigInteger),
        sa.Column("source", Long),
        sa.Column("error", Long),
        **OPTIONS,
    )


def range_() -> None:
    op.create_table(
        "windlass_range",
        sa.Column("id", Number, primary_key=True, autoincrement=False),
        sa.Column("sweep", Exact(100), nullable=False),
        sa.Column("round", sa.BigInteger, nullable=False),
        sa.Column("range_begin", Exact(1000)),
        sa.Column("range_end", Exact(1000)),
        sa.Column("breakpoint", Exact(1000)),
        sa.Column("read_to", Exact(1000)),
        sa.Column("status", StatusCode, nullable=False, server_default=ZERO),
        sa.Column("batch", sa.BigInteger),
        sa.Column("worker", sa.BigInteger),
        sa.Column("done", sa.BigInteger, nullable=False, server_default=ZERO),
        sa.Column("failed", sa.BigInteger, nullable=False, server_default=ZERO),
        sa.Column("repeated", sa.BigInteger, nullable=False, server_default=ZERO),
        sa.Column("rows_estimate", sa.BigInteger, nullable=False, server_default=ZERO),
        sa.Column("per_second", sa.Double, nullable=False, server_default=ZERO),
        sa.Column("lost", sa.SmallInteger, nullable=False, server_default=ZERO),
        sa.Column("lost_at", Exact(1000)),
        sa.Column("again_to", Exact(1000)),
        sa.Column("careful", sa.SmallInteger, nullable=False, server_default=ZERO),
        sa.Column("saved_at", sa.BigInteger),
        **OPTIONS,
    )
    op.create_index("windlass_range_round", "windlass_range", ["sweep", "round", "status"])
    op.create_index("windlass_range_worker", "windlass_range", ["worker"])
    op.create_index("windlass_range_free", "windlass_range", ["status", "careful", "batch"])


def round_() -> None:
    op.create_table(
        "windlass_round",
        sa.Column("sweep", Exact(100), primary_key=True),
        sa.Column("round", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("started_at", sa.BigInteger, nullable=False),
        sa.Column("ended_at", sa.BigInteger, nullable=False),
        sa.Column("done", sa.BigInteger, nullable=False),
        sa.Column("failed", sa.BigInteger, nullable=False),
        sa.Column("repeated", sa.BigInteger, nullable=False),
        sa.Column("ranges", sa.Integer, nullable=False),
        **OPTIONS,
    )


def sweep_failure() -> None:
    op.create_table(
        "windlass_sweep_failure",
        sa.Column("id", Number, primary_key=True, autoincrement=False),
        sa.Column("sweep", Exact(100), nullable=False),
        sa.Column("key_hash", Exact(32), nullable=False),
        sa.Column("item_key", Exact(1000), nullable=False),
        sa.Column("round", sa.BigInteger, nullable=False),
        sa.Column("failed_at", sa.BigInteger, nullable=False),
        sa.Column("tries", sa.Integer, nullable=False),
        sa.Column("retry_at", sa.BigInteger),
        sa.Column("batch", sa.BigInteger),
        sa.Column("worker", sa.BigInteger),
        sa.Column("error", Long, nullable=False),
        **OPTIONS,
    )
    op.create_index(
        "windlass_sweep_failure_key", "windlass_sweep_failure", ["sweep", "key_hash"], unique=True
    )
    op.create_index("windlass_sweep_failure_retry", "windlass_sweep_failure", ["sweep", "retry_at"])
    taken = sa.text("worker is not null")
    op.create_index(
        "windlass_sweep_failure_worker",
        "windlass_sweep_failure",
        ["worker"],
        postgresql_where=taken,
        sqlite_where=taken,
    )


def visit() -> None:
    op.create_table(
        "windlass_visit",
        sa.Column("sweep", Exact(100), primary_key=True),
        sa.Column("key_hash", Exact(32), primary_key=True),
        sa.Column("item_key", Exact(1000), nullable=False),
        sa.Column("visited_at", sa.BigInteger, nullable=False),
        sa.Column("status", StatusCode, nullable=False),
        sa.Column("error", Long),
        **OPTIONS,
    )
    op.create_index("windlass_visit_visited", "windlass_visit", ["visited_at"])
