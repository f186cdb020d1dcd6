"""Queues of brokers: received messages, those that failed, and messages to send."""

from __future__ import annotations

from alembic import op
from sqlalchemy import BigInteger, Index, Integer, SmallInteger

from windlass.database.column import (
    OPTIONS,
    Exact,
    Json,
    Long,
    Number,
    StatusCode,
    flat,
    key,
    optional,
    required,
    zero,
)

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    queue = (
        key(id=Number),
        required(name=Exact(200), address=Exact(255)),
        required(created_at=BigInteger),
        optional(answered_at=BigInteger, failed_at=BigInteger, error=Long),
        optional(holder=BigInteger),
        Index("windlass_queue_name", "name", "address", unique=True),
    )
    inbox = (
        key(kind=Exact(100), message_hash=Exact(32)),
        required(forget_at=BigInteger),
        Index("windlass_inbox_forget", "forget_at"),
    )
    message = (
        key(id=Number),
        required(kind=Exact(100), message_id=Exact(255), bucket=SmallInteger, status=StatusCode),
        optional(due_at=BigInteger, lane=Exact(255)),
        zero(tries=Integer),
        required(received_at=BigInteger),
        optional(failed_at=BigInteger),
        required(coding=Exact(10), content_type=Exact(100), headers=Json, body=Long),
        optional(error=Long),
        Index("windlass_message_due", "kind", "status", "due_at", "bucket"),
        Index("windlass_message_lane", "kind", "lane", "id"),
    )
    outbox = (
        key(id=Number),
        required(queue_id=BigInteger, bucket=SmallInteger, status=StatusCode),
        required(message_id=Exact(255)),
        optional(message_key=Exact(255)),
        required(created_at=BigInteger),
        required(coding=Exact(10), content_type=Exact(100)),
        optional(headers=Json),
        required(body=Long),
        optional(failed_at=BigInteger, error=Long),
        Index("windlass_outbox_queue", "queue_id", "status", "bucket", "id"),
    )
    op.create_table("windlass_queue", *flat(queue), **OPTIONS)
    op.create_table("windlass_inbox", *flat(inbox), **OPTIONS)
    op.create_table("windlass_message", *flat(message), **OPTIONS)
    op.create_table("windlass_outbox", *flat(outbox), **OPTIONS)
