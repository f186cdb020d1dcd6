"""Idempotency keys of requests, and their answers."""

from __future__ import annotations

from alembic import op
from sqlalchemy import BigInteger, Index

from windlass.database.column import OPTIONS, Exact, Long, flat, key, optional, required

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    idempotency = (
        key(id=Exact(64)),
        required(content=Exact(64)),
        optional(answer=Long),
        required(forget_at=BigInteger),
        Index("windlass_idempotency_forget", "forget_at"),
    )
    op.create_table("windlass_idempotency", *flat(idempotency), **OPTIONS)
