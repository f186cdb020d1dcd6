"""Traces of deleted rows: a repeated insert learns that the first one counted."""

from __future__ import annotations

from alembic import op
from sqlalchemy import BigInteger, Column

from windlass.database.column import OPTIONS, Long, Number, flat, optional, required

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "windlass_gone",
        *flat(
            [
                [Column("id", Number, primary_key=True, autoincrement=True)],
                required(first_id=BigInteger, last_id=BigInteger, gone_at=BigInteger),
                optional(ids=Long),
            ]
        ),
        **OPTIONS,
    )
    op.create_index("windlass_gone_last", "windlass_gone", ["last_id", "first_id"])
