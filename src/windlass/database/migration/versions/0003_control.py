"""The tables of named runs: control, control_run."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

from windlass.database.schema import Exact, Json, Long, Number, StatusCode

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

OPTIONS: dict[str, Any] = {
    "mysql_engine": "InnoDB",
    "mysql_charset": "utf8mb4",
    "mariadb_engine": "InnoDB",
    "mariadb_charset": "utf8mb4",
}


def upgrade() -> None:
    control()
    control_run()


def control() -> None:
    op.create_table(
        "windlass_control",
        sa.Column("name", Exact(255), primary_key=True),
        sa.Column("partition_id", Exact(255), primary_key=True),
        sa.Column("status", StatusCode, nullable=False, server_default=sa.text("9")),
        sa.Column("stat_date", sa.String(10)),
        sa.Column("step", Exact(255)),
        sa.Column("steps", Json),
        sa.Column("first_time", sa.BigInteger),
        sa.Column("start_time", sa.BigInteger),
        sa.Column("expire_time", sa.BigInteger),
        sa.Column("end_time", sa.BigInteger),
        sa.Column("run_seconds", sa.Double),
        sa.Column("error", Long),
        sa.Column("data", Json),
        sa.Column("batch", sa.BigInteger),
        sa.Column("tries", sa.Integer, nullable=False, server_default=sa.text("0")),
        sa.Column("who", sa.String(255)),
        sa.Column("progress_done", sa.BigInteger),
        sa.Column("progress_total", sa.BigInteger),
        **OPTIONS,
    )


def control_run() -> None:
    op.create_table(
        "windlass_control_run",
        sa.Column("id", Number, primary_key=True, autoincrement=True),
        sa.Column("name", Exact(255), nullable=False),
        sa.Column("partition_id", Exact(255), nullable=False),
        sa.Column("status", StatusCode, nullable=False),
        sa.Column("batch", sa.BigInteger),
        sa.Column("stat_date", sa.String(10)),
        sa.Column("step", Exact(255)),
        sa.Column("steps", Json),
        sa.Column("first_time", sa.BigInteger),
        sa.Column("start_time", sa.BigInteger),
        sa.Column("end_time", sa.BigInteger),
        sa.Column("run_seconds", sa.Double),
        sa.Column("error", Long),
        sa.Column("data", Json),
        sa.Column("tries", sa.Integer, nullable=False),
        sa.Column("who", sa.String(255)),
        **OPTIONS,
    )
    op.create_index(
        "windlass_control_run_name", "windlass_control_run", ["name", "partition_id", "id"]
    )
