"""Visits that were asked for, what rounds did of late, overloads, and limits that adapt."""

from __future__ import annotations

from alembic import op
from sqlalchemy import BigInteger, Index, SmallInteger

from windlass.database.column import (
    OPTIONS,
    Exact,
    Json,
    Number,
    flat,
    key,
    optional,
    partial_index,
    required,
    zero,
)

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    request = (
        key(sweep=Exact(100), key_hash=Exact(32)),
        required(item_key=Exact(1000), asked_at=BigInteger),
        optional(fresh=BigInteger, batch=BigInteger, worker=BigInteger, held_until=BigInteger),
        zero(lost=SmallInteger),
        Index("windlass_visit_request_asked", "sweep", "asked_at"),
        partial_index("windlass_visit_request_worker", "worker", where="worker is not null"),
    )
    done = (
        key(sweep=Exact(100), key_hash=Exact(32)),
        required(done_at=BigInteger),
        Index("windlass_sweep_done_at", "sweep", "done_at"),
    )
    fresh = (key(sweep=Exact(100)), required(fresh=BigInteger, asked_at=BigInteger))
    overload = (
        key(task_id=Number),
        required(kind=Exact(100), since=BigInteger, last_at=BigInteger, times=BigInteger),
        Index("windlass_overload_kind", "kind", "since"),
    )
    adapt = (key(name=Exact(100)), required(since=BigInteger, state=Json, seen=Json, history=Json))
    op.create_table("windlass_adapt", *flat(adapt), **OPTIONS)
    op.create_table("windlass_visit_request", *flat(request), **OPTIONS)
    op.create_table("windlass_sweep_done", *flat(done), **OPTIONS)
    op.create_table("windlass_sweep_fresh", *flat(fresh), **OPTIONS)
    op.create_table("windlass_overload", *flat(overload), **OPTIONS)
