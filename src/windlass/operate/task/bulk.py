"""Many tasks at once: retry or cancel all that match a filter, some thousands in a call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from operator import attrgetter

from windlass.core.shard.fleet import Fleet
from windlass.core.task.kind import Registry
from windlass.core.task.store import task
from windlass.database.connection import Connection
from windlass.operate.task.operate import ask_tasks
from windlass.value.outcome import KEEP_FAILED, LONGEST_REMARK, storable
from windlass.value.shard import COMING
from windlass.value.task import TaskFilter, TaskView

AT_ONCE = 500
MOST = 5_000
MOST_PAGES = 20

# Acts on tasks at a moment; how many of them it changed.
Act = Callable[[Connection, list[TaskView], int], int]


@dataclass(frozen=True)
class Bulk:
    """What a call did. `skipped` tasks matched, but did not change; `next` continues."""

    message: str
    changed: int
    skipped: int
    next: str | None


def retry(fleet: Fleet, wanted: TaskFilter, *, after: str | None) -> Bulk:
    """Let failed or cancelled tasks run again, with all their tries before them."""

    def act(connection: Connection, found: list[TaskView], now: int) -> int:
        retried = task.retry_many(connection, [each.id for each in found], now=now)
        fleet.faces.restarted(connection, retried)
        return len(retried)

    done = _each(fleet, wanted, act, after=after, what="will run again")
    for shard in fleet.shards:
        shard.bell.ring_here()
    return done


def cancel(
    fleet: Fleet, registry: Registry, wanted: TaskFilter, *, after: str | None, reason: str
) -> Bulk:
    """End tasks that have not ended; items of rolling kinds are left alone."""
    text = storable(reason)[:LONGEST_REMARK] or "cancelled"
    by_kind = attrgetter("kind")

    def act(connection: Connection, found: list[TaskView], now: int) -> int:
        changed = 0
        for name, same in groupby(sorted(found, key=by_kind), key=by_kind):
            kind = registry.kinds.get(name)
            if kind is not None and kind.period is not None:
                continue
            keep = KEEP_FAILED if kind is None else kind.terms.keep_failed
            ids = sorted(each.id for each in same)
            ended = task.cancel_many(connection, ids, reason=text, now=now, keep=keep)
            fleet.faces.stopped(connection, ended, now=now)
            changed += len(ended)
        return changed

    return _each(fleet, wanted, act, after=after, what="are cancelled")


def _act(connection: Connection, *, act: Act, found: list[TaskView], now: int) -> int:
    return act(connection, found, now)


def _each(fleet: Fleet, wanted: TaskFilter, act: Act, *, after: str | None, what: str) -> Bulk:
    changed = skipped = 0
    for _ in range(MOST_PAGES):
        page = ask_tasks(fleet, wanted, after=after, limit=AT_ONCE)
        for shard, part in page.found:
            found = [each for each in part.tasks if each.batch != COMING]
            done = shard.database.write(partial(_act, act=act, found=found, now=shard.clock.now()))
            changed += done
            skipped += len(found) - done
        after = page.next
        if after is None or changed + skipped >= MOST:
            break
    left = f"; {skipped:,} had changed, or cannot be" if skipped else ""
    more = "; there may be more" if after else ""
    return Bulk(f"{changed:,} tasks {what}{left}{more}", changed, skipped, after)
