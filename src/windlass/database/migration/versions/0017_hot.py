"""The hot lane of the ledger: lanes, allotments, and records that are not in the book yet."""

from __future__ import annotations

from alembic import op
from sqlalchemy import BigInteger, CheckConstraint, Index, SmallInteger

from windlass.database.column import (
    OPTIONS,
    Exact,
    Json,
    Long,
    flat,
    key,
    optional,
    required,
    zero,
)

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None


def upgrade() -> None:
    lane = (
        key(name=Exact(100)),
        required(epoch=BigInteger, token=Exact(32), address=Exact(255), opened_at=BigInteger),
    )
    allotment = (
        key(lane=Exact(100), sku=Exact(255)),
        required(epoch=BigInteger),
        zero(quantity=BigInteger, recorded=BigInteger, is_open=SmallInteger),
        CheckConstraint(
            "recorded >= 0 and recorded <= quantity", name="windlass_hot_allotment_recorded"
        ),
        Index("windlass_hot_allotment_sku", "sku"),
    )
    synced = (
        key(lane=Exact(100), sku=Exact(255)),
        zero(quantity=BigInteger),
    )
    batch = (
        key(id=Exact(32)),
        required(lane=Exact(100), sums=Json, created_at=BigInteger),
    )
    record = (
        key(id=Exact(255)),
        required(batch=Exact(32), decision=Exact(32)),
        optional(body=Json, refusal=Json),
        required(created_at=BigInteger),
        optional(problem=Long),
        Index("windlass_hot_record_batch", "batch"),
    )
    op.create_table("windlass_hot_lane", *flat(lane), **OPTIONS)
    op.create_table("windlass_hot_allotment", *flat(allotment), **OPTIONS)
    op.create_table("windlass_hot_synced", *flat(synced), **OPTIONS)
    op.create_table("windlass_hot_batch", *flat(batch), **OPTIONS)
    op.create_table("windlass_hot_record", *flat(record), **OPTIONS)
