"""Lanes: rows that run in order."""

from __future__ import annotations

from alembic import op
from sqlalchemy import BigInteger, Column, text

from windlass.database.column import Exact

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

ACTIVE = text("lane_place is not null and due_at is not null")


def upgrade() -> None:
    op.add_column("windlass_task", Column("lane", Exact(255)))
    op.add_column("windlass_task", Column("lane_place", BigInteger))
    op.create_index(
        "windlass_task_lane",
        "windlass_task",
        ["kind", "status", "lane_place", "due_at", "id"],
        postgresql_where=ACTIVE,
        sqlite_where=ACTIVE,
    )
