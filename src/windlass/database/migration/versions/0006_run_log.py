"""The logs of runs."""

from __future__ import annotations

from alembic import op
from sqlalchemy import BigInteger, Integer

from windlass.database.column import OPTIONS, Exact, Json, Number, flat, key, optional, required

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

NAME = "windlass_run_log"
COLUMNS = (
    key(id=Number),
    required(task_id=BigInteger, kind=Exact(100), attempt=Integer),
    optional(worker=BigInteger),
    required(ended_at=BigInteger, dropped=Integer, lines=Json),
)


def upgrade() -> None:
    op.create_table(NAME, *flat(COLUMNS), **OPTIONS)
    op.create_index("windlass_run_log_kind", NAME, ["kind", "id"])
    op.create_index("windlass_run_log_task", NAME, ["task_id"])
