"""The tables of flows: slot, flow_template, external; the nodes of a run are found by an index."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

from windlass.database.schema import Exact, Json, Number

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

OPTIONS: dict[str, Any] = {
    "mysql_engine": "InnoDB",
    "mysql_charset": "utf8mb4",
    "mariadb_engine": "InnoDB",
    "mariadb_charset": "utf8mb4",
}
IS_NODE = sa.text("flow_id is not null")
IS_TO_STOP = sa.text("cancel_at is not null")


def upgrade() -> None:
    op.create_index(
        "windlass_task_flow",
        "windlass_task",
        ["flow_id", "node"],
        postgresql_where=IS_NODE,
        sqlite_where=IS_NODE,
    )
    slot()
    flow_template()
    external()


def slot() -> None:
    op.create_table(
        "windlass_slot",
        sa.Column("dep_id", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("task_id", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("rule", sa.SmallInteger, nullable=False),
        **OPTIONS,
    )
    op.create_index("windlass_slot_task", "windlass_slot", ["task_id"])


def flow_template() -> None:
    op.create_table(
        "windlass_flow_template",
        sa.Column("name", Exact(100), primary_key=True),
        sa.Column("version", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("spec", Json, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        **OPTIONS,
    )


def external() -> None:
    op.create_table(
        "windlass_external",
        sa.Column("task_id", Number, primary_key=True, autoincrement=False),
        sa.Column("submission", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("kind", Exact(100), nullable=False),
        sa.Column("handle", Exact(255)),
        sa.Column("secret", Exact(64), nullable=False),
        sa.Column("past", sa.SmallInteger, nullable=False, server_default=sa.text("0")),
        sa.Column("tries", sa.Integer, nullable=False, server_default=sa.text("1")),
        sa.Column("began_at", sa.BigInteger, nullable=False),
        sa.Column("polls", sa.Integer, nullable=False, server_default=sa.text("0")),
        sa.Column("told", Json),
        sa.Column("cancel_at", sa.BigInteger),
        **OPTIONS,
    )
    op.create_index("windlass_external_handle", "windlass_external", ["handle"])
    op.create_index(
        "windlass_external_cancel",
        "windlass_external",
        ["kind", "cancel_at"],
        postgresql_where=IS_TO_STOP,
        sqlite_where=IS_TO_STOP,
    )
