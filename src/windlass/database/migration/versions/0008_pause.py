"""A pause may end by itself."""

from __future__ import annotations

from alembic import op
from sqlalchemy import BigInteger, Column

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("windlass_switch", Column("paused_until", BigInteger, nullable=True))
