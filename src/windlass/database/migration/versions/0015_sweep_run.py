"""Runs of sweeps over sources that are given at their start."""

from __future__ import annotations

from alembic import op
from sqlalchemy import BigInteger, Index, SmallInteger

from windlass.database.column import OPTIONS, Exact, Long, flat, key, optional, required

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run = (
        key(name=Exact(100)),
        required(sweep=Exact(100), number=BigInteger),
        required(source=Long),
        optional(run_key=Exact(255)),
        required(is_open=SmallInteger, started_at=BigInteger),
        optional(ended_at=BigInteger, cancelled_at=BigInteger),
        Index("windlass_sweep_run_number", "sweep", "number", unique=True),
        Index("windlass_sweep_run_key", "sweep", "run_key", unique=True),
        Index("windlass_sweep_run_open", "is_open", "sweep", "number"),
    )
    op.create_table("windlass_sweep_run", *flat(run), **OPTIONS)
