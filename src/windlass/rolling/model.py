"""Rolling items as people see them: an item, a mirror, how fresh all of them are."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

import msgspec

from windlass.value.status import Status


class Item(msgspec.Struct, frozen=True):
    """What is known of one item. `status` is how its last visit ended, or that it runs now."""

    code: str
    status: Status
    started_at: datetime | None
    finished_at: datetime | None
    due_at: datetime | None
    remark: str | None

    @property
    def key(self) -> str:
        """The code, by the name that rows have for it."""
        return self.code


@dataclass(frozen=True)
class Mirror:
    """What a mirror changed, or would change."""

    added: int
    removed: int
    dry_run: bool = False


@dataclass(frozen=True)
class Freshness:
    """How fresh the items of a rolling kind are. Counts are exact below 10,000, rates per second.

    `overdue` items were last visited, or added, more than a period ago. `oldest_age` is the time
    since the oldest of those moments. `forecast` says in words whether the promise will hold;
    `breaks_at` is when it will not, and `head_room` how many times the needed speed there is.
    `missing` names the shards that could not be asked: their items are not counted.
    """

    total: int
    never_visited: int
    due: int
    overdue: int
    oldest_age: timedelta
    needed_rate: float
    actual_rate: float
    forecast: str
    breaks_at: datetime | None = None
    head_room: float | None = None
    missing: tuple[str, ...] = ()
