"""An operator may change the schedule of a cron."""

from __future__ import annotations

from alembic import op
from sqlalchemy import Column

from windlass.database.column import Json

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("windlass_switch", Column("schedule", Json, nullable=True))
