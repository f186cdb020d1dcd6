"""The tables of queues: messages that were received, failed, or wait to be sent."""

from __future__ import annotations

from sqlalchemy import BigInteger, Index, Integer, SmallInteger

from windlass.database.column import (
    Exact,
    Json,
    Long,
    Number,
    StatusCode,
    key,
    optional,
    required,
    zero,
)
from windlass.database.schema.base import table

# Queues of brokers that are consumed, or that messages are sent to.
queue = table(
    "queue",
    key(id=Number),
    # Where its broker is, without a user and a password.
    required(name=Exact(200), address=Exact(255)),
    required(created_at=BigInteger),
    # When the broker last took or gave a message, and what it last refused.
    optional(answered_at=BigInteger, failed_at=BigInteger, error=Long),
    # The worker that receives for a kind with lanes.
    optional(holder=BigInteger),
    Index("windlass_queue_name", "name", "address", unique=True),
)

# Messages that were received, by the hash of their ids: one that is redelivered changes nothing.
inbox = table(
    "inbox",
    key(kind=Exact(100), message_hash=Exact(32)),
    required(forget_at=BigInteger),
    Index("windlass_inbox_forget", "forget_at"),
)

# Received messages that are tried again, or that failed.
message = table(
    "message",
    key(id=Number),
    required(kind=Exact(100), message_id=Exact(255), bucket=SmallInteger, status=StatusCode),
    optional(due_at=BigInteger, lane=Exact(255)),
    zero(tries=Integer),
    # How many times in a row a worker died while it handled the message, or was about to.
    zero(lost=SmallInteger),
    required(received_at=BigInteger),
    optional(failed_at=BigInteger),
    # The body as text, or in base64 if it is not text.
    required(coding=Exact(10), content_type=Exact(100), headers=Json, body=Long),
    optional(error=Long),
    Index("windlass_message_due", "kind", "status", "due_at", "bucket"),
    Index("windlass_message_lane", "kind", "lane", "id"),
)

# Messages that wait to be sent. A sent one is deleted.
outbox = table(
    "outbox",
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
