"""The table of access tokens."""

from __future__ import annotations

from alembic import op
from sqlalchemy import BigInteger, String

from windlass.database.column import OPTIONS, Exact, flat, key, optional, required

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    columns = (
        key(name=Exact(100)),
        required(prefix=Exact(20), role=Exact(20), salt=Exact(64), hash=Exact(64)),
        required(created_at=BigInteger, created_by=String(255)),
        optional(expires_at=BigInteger, last_used_at=BigInteger),
        optional(revoked_at=BigInteger, revoked_by=String(255)),
    )
    op.create_table("windlass_token", *flat(columns), **OPTIONS)
