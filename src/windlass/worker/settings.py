"""How a worker works, and what it shares with others in its process."""

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
    """How a worker works. Times are microseconds."""

    concurrency: int = 100
    lease: int = 30 * SECOND
    dead_after: int = 5 * SECOND
    grace: int = 30 * SECOND
    until_idle: bool = False
    # Whether its faces only do what an operator asked for, such as retrying failed items.
    only_asked: bool = False
    # A URL of etcd or ZooKeeper for membership; by default the database.
    members: str | None = None
    max_payload: int = LARGEST_PAYLOAD


@dataclass(frozen=True)
class Among:
    """What a worker of one shard shares with the workers of other shards in its process."""

    budget: Budget
    # The part of a rate that this shard may use.
    share: float
    # Whether the standing row of a cron belongs here.
    where: Callable[[Kind], Belongs]
    # Whether what has one place for all shards, such as a sweep, has it here.
    is_home: Callable[[Kind], bool]
