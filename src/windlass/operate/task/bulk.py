"""Many tasks at once: retry or cancel all that match a filter, some thousands in a call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from itertools import groupby

from sqlalchemy import Connection

from windlass.core.shard.fleet import Fleet
from windlass.core.shard.shard import Shard
from windlass.core.task.kind import Registry
from windlass.core.task.store import task
from windlass.core.task.store.page import TaskQuery
from windlass.operate import fan_out as gather
from windlass.value.outcome import KEEP_FAILED, LONGEST_REMARK, storable
from windlass.value.status import Status
from windlass.value.task import TaskView

AT_ONCE = 500
MOST = 5_000
MOST_PAGES = 20


class Act(Enum):
    """What is done to tasks, and in which states they may be."""

    RETRY = "retry"
    CANCEL = "cancel"

    @property
    def statuses(self) -> frozenset[Status]:
        return RETRIED if self is Act.RETRY else CANCELLED


RETRIED = frozenset({Status.FAILED, Status.CANCELLED})
CANCELLED = frozenset({Status.WAITING, Status.RUNNING, Status.BLOCKED, Status.EXTERNAL})


@dataclass(frozen=True)
class Bulk:
    """What a call did; with `next`, another call goes on. `skipped` matched, but stayed."""

    changed: int
    skipped: int
    next: str | None


def retry(fleet: Fleet, _registry: Registry, query: TaskQuery, *, after: str | None) -> Bulk:
    """Let failed or cancelled tasks run again, with all their tries before them."""

    def act(shard: Shard, found: list[TaskView]) -> int:
        now = shard.clock.now()
        ids = [each.id for each in found]

        def work(connection: Connection) -> int:
            retried = task.retry_many(connection, ids, now=now)
            shard.faces.restarted(connection, retried)
            return len(retried)

        return shard.database.write(work)

    return _each(fleet, query, after, act, ring=True)


def cancel(
    fleet: Fleet, registry: Registry, query: TaskQuery, *, after: str | None, reason: str
) -> Bulk:
    """End tasks that have not ended; items of rolling kinds are left alone."""
    text = storable(reason)[:LONGEST_REMARK] or "cancelled"

    def act(shard: Shard, found: list[TaskView]) -> int:
        now = shard.clock.now()

        def work(connection: Connection) -> int:
            changed = 0
            for name, same in groupby(sorted(found, key=_kind), key=_kind):
                kind = registry.kinds.get(name)
                if kind is not None and kind.period is not None:
                    continue
                keep = KEEP_FAILED if kind is None else kind.terms.keep_failed
                ids = sorted(each.id for each in same)
                ended = task.cancel_many(connection, ids, reason=text, now=now, keep=keep)
                shard.faces.stopped(connection, ended, now=now)
                changed += len(ended)
            return changed

        return shard.database.write(work)

    return _each(fleet, query, after, act, ring=False)


def _each(
    fleet: Fleet,
    query: TaskQuery,
    after: str | None,
    act: Callable[[Shard, list[TaskView]], int],
    *,
    ring: bool,
) -> Bulk:
    changed = skipped = 0
    for _ in range(MOST_PAGES):
        page = gather.task_page(fleet, query, after=after, limit=AT_ONCE)
        for shard, found in page.by_shard.items():
            done = act(shard, found)
            changed += done
            skipped += len(found) - done
        after = page.next
        if after is None or changed + skipped >= MOST:
            break
    if ring:
        for shard in fleet.shards:
            shard.bell.ring_here()
    return Bulk(changed, skipped, after)


def _kind(found: TaskView) -> str:
    return found.kind
