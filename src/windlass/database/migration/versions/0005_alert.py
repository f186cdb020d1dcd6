"""Alerts have a state: how often, how bad, resolved when. Watchers share what they know."""

from __future__ import annotations

from alembic import op
from sqlalchemy import BigInteger, Index, SmallInteger

from windlass.database.column import (
    OPTIONS,
    Exact,
    Json,
    Long,
    Number,
    flat,
    key,
    optional,
    required,
    zero,
)

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "windlass_trouble",
        *flat(
            (
                key(alert_id=Number),
                optional(cause=Exact(255)),
                zero(severity=SmallInteger),
                required(times=BigInteger, last_at=BigInteger, text=Long),
                optional(resolved_at=BigInteger, resolution=Long),
                optional(told=Json),
                Index("windlass_trouble_cause", "cause", unique=True),
            )
        ),
        **OPTIONS,
    )
    op.create_table(
        "windlass_watch",
        *flat((key(name=Exact(100)), required(due_at=BigInteger), optional(state=Json))),
        **OPTIONS,
    )
