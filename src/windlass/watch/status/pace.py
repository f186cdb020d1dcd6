"""Pace: what was done, minute by minute."""

from __future__ import annotations

from dataclasses import dataclass

from windlass.core.finish.store import history
from windlass.core.finish.store.history import MINUTE, Work
from windlass.core.shard.fleet import Fleet
from windlass.core.shard.shard import Shard
from windlass.database.connection import Connection
from windlass.view.field import Moment

HOUR = 60


@dataclass(frozen=True)
class Minute:
    """What was done in the minute that began `at`, in microseconds since the epoch."""

    at: Moment
    done: int
    failed: int
    retried: int
    average_milliseconds: float | None


def pace(fleet: Fleet, *, minutes: int, kind: str | None = None) -> list[Minute]:
    """The last minutes, oldest first, each of them; the last one is not over."""

    def read(shard: Shard) -> dict[int, Work]:
        since = shard.clock.now() // MINUTE - minutes + 1

        def work(connection: Connection) -> dict[int, Work]:
            if kind is None:
                return history.minutes(connection, since=since)
            return history.minutes_of(connection, kind, since=since)

        return shard.database.read(work)

    found = fleet.fan_out(read).values
    last = fleet.shards[0].clock.now() // MINUTE
    return [
        _minute(minute, [each[minute] for each in found if minute in each])
        for minute in range(last - minutes + 1, last + 1)
    ]


def _minute(minute: int, works: list[Work]) -> Minute:
    done, failed, retried, spent = (
        sum(getattr(work, name) for work in works)
        for name in ("done", "failed", "retried", "milliseconds")
    )
    ended = done + failed + retried
    return Minute(minute * MINUTE, done, failed, retried, spent / ended if ended else None)
