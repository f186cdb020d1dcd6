"""How often the workers of a received message died while they handled it."""

from __future__ import annotations

from alembic import op
from sqlalchemy import Column, SmallInteger

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column(
        "windlass_message", Column("lost", SmallInteger, nullable=False, server_default="0")
    )
