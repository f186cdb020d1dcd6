"""The settings of a worker, and what it shares with other workers of its process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from windlass.clock import SECOND
from windlass.core.cron.discover import Belongs
from windlass.core.run.budget import Budget
from windlass.core.task.kind import Kind
from windlass.value.payload import LARGEST_PAYLOAD


@dataclass(frozen=True)
class WorkerSettings:
    """The settings of a worker. Times are microseconds."""

    concurrency: int = 100
    lease: int = 30 * SECOND
    dead_after: int = 5 * SECOND
    grace: int = 30 * SECOND
    until_idle: bool = False
    # Whether its faces only do what an operator asked for, such as a retry of failed items.
    only_asked: bool = False
    # A URL of etcd or ZooKeeper for membership; by default the database.
    members: str | None = None
    max_payload: int = LARGEST_PAYLOAD


@dataclass(frozen=True)
class Among:
    """What a worker of one shard shares with the workers of other shards in its process."""

    budget: Budget
    # The part of a rate for this shard.
    share: float
    # Whether the standing row of a cron belongs here.
    where: Callable[[Kind], Belongs]
    # Whether a kind that lives in one shard, such as a sweep, lives here.
    is_home: Callable[[Kind], bool]
