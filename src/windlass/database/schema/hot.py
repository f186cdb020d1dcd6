"""The hot lane of the ledger: stock that a cache sells, and what it has sold."""

from __future__ import annotations

from sqlalchemy import BigInteger, CheckConstraint, Index, SmallInteger

from windlass.database.column import Exact, Json, Long, key, optional, required, zero
from windlass.database.schema.base import table

# Hot lanes by name. The token names what the cache has of the present epoch.
hot_lane = table(
    "hot_lane",
    key(name=Exact(100)),
    required(epoch=BigInteger, token=Exact(32), address=Exact(255), opened_at=BigInteger),
)

# How much of a SKU left the book for the cache, and how much of that is sold for certain.
hot_allotment = table(
    "hot_allotment",
    key(lane=Exact(100), sku=Exact(255)),
    required(epoch=BigInteger),
    zero(quantity=BigInteger, recorded=BigInteger, is_open=SmallInteger),
    CheckConstraint(
        "recorded >= 0 and recorded <= quantity", name="windlass_hot_allotment_recorded"
    ),
    Index("windlass_hot_allotment_sku", "sku"),
)

# How much of what is recorded is in the book. A row of its own: what records never waits for it.
hot_synced = table(
    "hot_synced",
    key(lane=Exact(100), sku=Exact(255)),
    zero(quantity=BigInteger),
)

# Records that were written together and are not in the book yet, and how much of each SKU they are.
hot_batch = table(
    "hot_batch",
    key(id=Exact(32)),
    required(lane=Exact(100), sums=Json, created_at=BigInteger),
)

# Decisions of the cache that are not in the book yet; without a body the id was voided.
hot_record = table(
    "hot_record",
    key(id=Exact(255)),
    required(batch=Exact(32), decision=Exact(32)),
    optional(body=Json, refusal=Json),
    required(created_at=BigInteger),
    optional(problem=Long),
    Index("windlass_hot_record_batch", "batch"),
)
