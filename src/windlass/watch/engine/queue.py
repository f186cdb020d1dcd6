"""What the rows of queues say about problems: brokers, messages that wait, messages that failed."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from windlass.clock import SECOND
from windlass.core.alert.model import Trouble, cause_of
from windlass.core.task.kind import Kind
from windlass.database.connection import Connection
from windlass.database.database import has_tables
from windlass.queue.model.consume import is_consumer
from windlass.queue.store import inbox, outbox
from windlass.queue.store.outbox import QueueRow
from windlass.value.duration import format_duration

# A message that waits for so long is not just waiting for its turn.
LATE_AFTER = 5 * 60 * SECOND
# A broker may just be restarted. Workers note its errors at least every half minute.
AWAY_AFTER = 15 * SECOND
ERROR_LASTS = 120 * SECOND
MOST_COUNTED = 1_000


def troubled_queues(
    connection: Connection,
    kinds: Iterable[Kind],
    *,
    is_open: Collection[str],
    now: int,
) -> Iterator[Trouble]:
    """Brokers that do not answer, messages that are late, and messages that failed."""
    if not has_tables(connection, inbox.TABLES):
        return
    for row in outbox.queues(connection):
        yield from _broker(row, is_open, now)
        yield from _outbox(connection, row, now)
    for kind in kinds:
        if is_consumer(kind):
            _, failed = inbox.counts(connection, kind.name, most=MOST_COUNTED)
            if failed:
                yield _failed(kind.name, failed, "failed and wait for a person")


def _broker(row: QueueRow, is_open: Collection[str], now: int) -> Iterator[Trouble]:
    if row.error is None or row.failed_at is None or row.failed_at < now - ERROR_LASTS:
        return
    silent = row.failed_at - (row.answered_at or row.created_at)
    if silent >= AWAY_AFTER or cause_of("broker", row.name, "") in is_open:
        yield Trouble("broker", row.name, f"queue {row.name!r}: {row.error}")


def _outbox(connection: Connection, row: QueueRow, now: int) -> Iterator[Trouble]:
    backlog = outbox.backlog(connection, row.id, most=MOST_COUNTED)
    if backlog.oldest_at is not None and now - backlog.oldest_at > LATE_AFTER:
        waits = format_duration(now - backlog.oldest_at)
        more = "at least " if backlog.waiting == MOST_COUNTED else ""
        text = f"{more}{backlog.waiting:,} messages wait for queue {row.name!r}, the oldest {waits}"
        why = "" if row.error is None else f"; {row.error}"
        see = f"windlass queue show {row.name}"
        yield Trouble("outbox late", row.name, f"{text}{why}; see: {see}")
    if backlog.failed:
        yield _failed(row.name, backlog.failed, "cannot be sent")


def _failed(name: str, count: int, how: str) -> Trouble:
    text = f"{count:,} messages of {name!r} {how}; see: windlass queue failed {name}"
    return Trouble("message failed", name, text, times=count)
