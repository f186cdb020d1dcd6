"""How many workers a task has lost in a row, since one of its attempts last ended by itself."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column(
        "windlass_task",
        sa.Column("lost_in_a_row", sa.SmallInteger, nullable=False, server_default=sa.text("0")),
    )
