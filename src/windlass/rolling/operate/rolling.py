"""What the handle of a rolling kind asks of its app."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from windlass.clock import Clock
from windlass.core.shard.fleet import Fleet, only_database
from windlass.core.shard.shard import Shard
from windlass.core.task.kind import Kind
from windlass.rolling.engine import ItemRouter
from windlass.rolling.model import Freshness, Item, Mirror
from windlass.rolling.operate import follow, freshness, item, mirror
from windlass.rolling.operate.visit import ItemVisit
from windlass.source.contract import MirrorSource
from windlass.value.twin import twin
from windlass.worker import Only, Worker


class RollingKinds:
    """The items of all rolling kinds of an app."""

    def __init__(
        self,
        fleet: Fleet,
        clock: Clock,
        *,
        worker_for: Callable[[Shard, Kind, Only], Worker],
        dead_after: int,
    ) -> None:
        self._fleet = fleet
        self._clock = clock
        self._items = ItemRouter(fleet)
        self._visit = partial(ItemVisit, fleet, worker_for=worker_for, dead_after=dead_after)

    def add(self, kind: Kind, codes: Iterable[str], *, now: bool) -> int:
        self._fleet.prepare()
        return self._items.add(kind, codes, now=now)

    def remove(self, kind: Kind, codes: Iterable[str]) -> int:
        self._fleet.prepare()
        return self._items.remove(kind, codes)

    def item(self, kind: Kind, code: str) -> Item | None:
        self._fleet.prepare()
        return item.item(self._fleet, kind, code)

    def visit(self, kind: Kind, code: str, *, fresh: int | None, timeout: int) -> Item:
        self._fleet.prepare()
        return self._visit(kind, code).visit(fresh=fresh, timeout=timeout)

    async def avisit(self, kind: Kind, code: str, *, fresh: int | None, timeout: int) -> Item:
        await twin(self._fleet.prepare)
        asked = await twin(self._visit, kind, code)
        return await asked.avisit(fresh=fresh, timeout=timeout)

    def mirror(self, kind: Kind, source: MirrorSource, *, dry_run: bool) -> Mirror:
        self._fleet.prepare()
        return mirror.mirror(self._fleet, kind, source, dry_run=dry_run)

    def follow(self, kind: Kind, source: MirrorSource) -> None:
        self._fleet.prepare()
        database = only_database(self._fleet, source)
        follow.install(database, source, kind=kind.name, priority=kind.priority)

    def unfollow(self, kind: Kind, source: MirrorSource) -> bool:
        self._fleet.prepare()
        databases = [shard.database for shard in self._fleet.shards]
        return any(follow.uninstall(each, source, kind=kind.name) for each in databases)

    def freshness(self, kind: Kind) -> Freshness:
        self._fleet.prepare()
        return freshness.freshness(self._fleet, self._clock, kind)
