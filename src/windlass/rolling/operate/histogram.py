"""Histogram: how long ago the items of a rolling kind were visited, against the promise.

Few items are counted. For many, the index of due times shows how close together they are in each
part, because an item is due a period after its last visit. Only a few places of it are read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from windlass.clock import SECOND
from windlass.core.shard.fleet import Fleet
from windlass.core.shard.shard import Shard
from windlass.core.task.kind import Kind
from windlass.database.connection import Connection
from windlass.database.dialect.base import Dialect
from windlass.rolling.model import Bar, Histogram
from windlass.rolling.store import freshness as store

# Bars up to the promise, and after it; the last one has no end.
BARS = 20
LATE_BARS = 5
# More items than these are estimated.
MANY = 2 * store.SAMPLED


@dataclass(frozen=True)
class Ages:
    """How many items of one shard are in each bar."""

    counts: list[int]
    never_visited: int
    is_estimate: bool


def histogram(fleet: Fleet, kind: Kind) -> Histogram:
    """The ages of the items of a rolling kind, in all shards that answer."""
    assert kind.period is not None
    every = kind.period.every
    found = fleet.fan_out(lambda shard: _ages(shard, kind, every)).values
    counts = [sum(column) for column in zip(*(ages.counts for ages in found), strict=True)]
    width = every / BARS / SECOND
    last = BARS + LATE_BARS - 1
    return Histogram(
        bars=[
            Bar(index * width, None if index == last else (index + 1) * width, count, index >= BARS)
            for index, count in enumerate(counts or [0] * (last + 1))
        ],
        never_visited=sum(ages.never_visited for ages in found),
        promise_seconds=every / SECOND,
        is_estimate=any(ages.is_estimate for ages in found),
    )


def _ages(shard: Shard, kind: Kind, every: int) -> Ages:
    now = shard.clock.now()

    def read(connection: Connection) -> Ages:
        total = store.tallied(connection, kind.name)
        # The tally may be a little off: reading the items shows whether they are few.
        moments = None if total > MANY else store.last_visits(connection, kind.name, most=MANY)
        if moments is not None:
            return _counted(moments, every, now)
        return _estimated(connection, shard.database.dialect, kind, total, now)

    return shard.database.read(read)


def _counted(moments: Sequence[int | None], every: int, now: int) -> Ages:
    counts = [0] * (BARS + LATE_BARS)
    for moment in moments:
        if moment is not None:
            index = max(0, now - moment) * BARS // every
            counts[min(index, len(counts) - 1)] += 1
    return Ages(counts, sum(moment is None for moment in moments), is_estimate=False)


def _estimated(connection: Connection, dialect: Dialect, kind: Kind, total: int, now: int) -> Ages:
    """By due times: an item due in a tenth of the period was visited nine tenths of it ago."""
    assert kind.period is not None
    every, bars = kind.period.every, BARS + LATE_BARS
    borders = [now + every - index * every // BARS for index in range(bars)]
    items = [0.0] * bars
    for lane in dialect.lanes(connection, [kind.name]):
        # Items older than all borders are in the last bar.
        moments = [min(lane.due_at, borders[-1]) - 1, *reversed(borders)]
        found = store.crowds(connection, lane, moments)
        items = [known + more for known, more in zip(items, reversed(found), strict=True)]
    # Scaled, so that the bars together have all items.
    times = total / max(1.0, sum(items))
    return Ages([round(each * times) for each in items], 0, is_estimate=True)
