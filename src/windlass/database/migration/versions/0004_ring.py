"""The tables of the ring: bucket, offer, shard."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

from windlass.database.schema import Exact, Json, Number
from windlass.value.bucket import BUCKETS

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

OPTIONS: dict[str, Any] = {
    "mysql_engine": "InnoDB",
    "mysql_charset": "utf8mb4",
    "mariadb_engine": "InnoDB",
    "mariadb_charset": "utf8mb4",
}

# A name by chance, made by the database: the script may be run on more than one.
NAMES = {
    "sqlite": "lower(hex(randomblob(8)))",
    "postgresql": "substr(md5(cast(random() as text) || clock_timestamp()), 1, 16)",
    "mysql": "substr(md5(uuid()), 1, 16)",
    "mariadb": "substr(md5(uuid()), 1, 16)",
}


def upgrade() -> None:
    bucket()
    offer()
    shard()


def bucket() -> None:
    table = op.create_table(
        "windlass_bucket",
        sa.Column("bucket", sa.SmallInteger, primary_key=True, autoincrement=False),
        sa.Column("owner", sa.BigInteger),
        sa.Column("careful_to", sa.BigInteger, nullable=False, server_default=sa.text("0")),
        **OPTIONS,
    )
    op.bulk_insert(table, [{"bucket": number} for number in range(BUCKETS)])


def offer() -> None:
    op.create_table(
        "windlass_offer",
        sa.Column("task_id", Number, primary_key=True, autoincrement=False),
        sa.Column("kind", Exact(100), nullable=False),
        sa.Column("due_at", sa.BigInteger, nullable=False),
        **OPTIONS,
    )
    op.create_index("windlass_offer_due", "windlass_offer", ["kind", "due_at"])


def shard() -> None:
    op.create_table(
        "windlass_shard",
        sa.Column("id", sa.SmallInteger, primary_key=True, autoincrement=False),
        sa.Column("place", sa.SmallInteger, nullable=False, server_default=sa.text("0")),
        sa.Column("ring", Exact(32), nullable=False),
        sa.Column("members", sa.String(255), nullable=False),
        sa.Column("draining", sa.SmallInteger, nullable=False, server_default=sa.text("0")),
        sa.Column("number", sa.BigInteger, nullable=False, server_default=sa.text("0")),
        sa.Column("roster", Json),
        sa.Column("moving", Json),
        **OPTIONS,
    )
    name = NAMES[op.get_context().dialect.name]
    op.execute(f"insert into windlass_shard (id, ring, members) select 1, {name}, 'database'")
