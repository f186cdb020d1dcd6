"""Who has seen which alerts, and until when they are quiet."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from windlass.database.schema import Exact

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "windlass_acknowledgement",
        sa.Column("what", Exact(100), primary_key=True),
        sa.Column("kind", Exact(100), primary_key=True),
        sa.Column("who", sa.String(255), nullable=False),
        sa.Column("seen_at", sa.BigInteger, nullable=False),
        sa.Column("quiet_until", sa.BigInteger),
        mysql_engine="InnoDB",
        mysql_charset="utf8mb4",
        mariadb_engine="InnoDB",
        mariadb_charset="utf8mb4",
    )
