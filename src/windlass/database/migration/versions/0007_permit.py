"""Limits that hold for the whole fleet, and the permits that workers have of them."""

from __future__ import annotations

from alembic import op
from sqlalchemy import BigInteger, Double, Integer

from windlass.database.column import OPTIONS, Exact, flat, key, optional, required, zero

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

LIMIT = (key(name=Exact(100)), optional(rate_now=Double, concurrency_now=Integer))
PERMIT = (
    key(name=Exact(100), worker=BigInteger),
    zero(held=Integer, wanted=Integer),
    optional(waits_since=BigInteger),
    required(seen_at=BigInteger),
)


def upgrade() -> None:
    op.create_table("windlass_limit", *flat(LIMIT), **OPTIONS)
    op.create_table("windlass_permit", *flat(PERMIT), **OPTIONS)
