"""Steps of the database's clock."""

from __future__ import annotations

from alembic import op
from sqlalchemy import BigInteger, Column

from windlass.database.column import OPTIONS, Number, required

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "windlass_clock_step",
        Column("id", Number, primary_key=True, autoincrement=True),
        *required(noticed_at=BigInteger, microseconds=BigInteger),
        **OPTIONS,
    )
