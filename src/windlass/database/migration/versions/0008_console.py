"""What the console needs: the audit log, and indexes for looking at tasks that are not due, and at
deductions and returns from the newest on.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

from windlass.database.schema import Exact, Json, Long, Number

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

OPTIONS: dict[str, Any] = {
    "mysql_engine": "InnoDB",
    "mysql_charset": "utf8mb4",
    "mariadb_engine": "InnoDB",
    "mariadb_charset": "utf8mb4",
}


def upgrade() -> None:
    audit()
    op.create_index(
        "windlass_task_undue",
        "windlass_task",
        ["status", "kind", "id"],
        postgresql_where=sa.text("due_at is null"),
        sqlite_where=sa.text("due_at is null"),
    )
    op.create_index("windlass_deduction_created", "windlass_deduction", ["created_at", "id"])
    op.create_index(
        "windlass_stock_return_created",
        "windlass_stock_return",
        ["created_at", "deduction_id", "return_id"],
    )


def audit() -> None:
    op.create_table(
        "windlass_audit",
        sa.Column("id", Number, primary_key=True, autoincrement=False),
        sa.Column("acted_at", sa.BigInteger, nullable=False),
        sa.Column("who", sa.String(255), nullable=False),
        sa.Column("via", Exact(20), nullable=False),
        sa.Column("address", sa.String(100)),
        sa.Column("action", Exact(100), nullable=False),
        sa.Column("about", Exact(300)),
        sa.Column("detail", Json),
        sa.Column("ok", sa.SmallInteger),
        sa.Column("outcome", Long),
        **OPTIONS,
    )
    op.create_index("windlass_audit_acted", "windlass_audit", ["acted_at", "id"])
