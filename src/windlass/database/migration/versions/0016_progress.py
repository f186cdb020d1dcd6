"""How far running tasks are."""

from __future__ import annotations

from alembic import op
from sqlalchemy import BigInteger, Integer, String

from windlass.database.column import OPTIONS, Number, flat, key, optional, required

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None

COLUMNS = (
    key(task_id=Number),
    required(attempt=Integer, done=BigInteger),
    optional(total=BigInteger, note=String(200)),
    required(saved_at=BigInteger),
)


def upgrade() -> None:
    op.create_table("windlass_progress", *flat(COLUMNS), **OPTIONS)
