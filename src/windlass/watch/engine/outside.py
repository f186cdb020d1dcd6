"""Watching from outside: it notices when no worker is left, and when the database is gone.

`windlass watch` and the console run it. It takes turns with the watchers in workers. While no
worker can deliver, it delivers by itself, one task after the other; while the database is away, it
tells the channels directly.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from windlass import telemetry
from windlass.core.alert.model import Severity
from windlass.core.face import Runnable, Site
from windlass.core.fetch.claim import Only
from windlass.core.loop import Loop
from windlass.core.ring import store as ring_store
from windlass.core.shard.fleet import Fleet
from windlass.core.shard.shard import OUTAGES, Shard
from windlass.core.task.kind import Kind, Registry
from windlass.database.connection import Connection
from windlass.database.database import first_line
from windlass.errors import Undelivered
from windlass.value.twin import in_thread
from windlass.watch.channel.base import Message
from windlass.watch.declare import Channel, Watching
from windlass.watch.engine.watcher import Watcher, watcher_at
from windlass.watch.store import watch as store

PAUSE_SECONDS = 5.0
AWAY_AFTER_SECONDS = 30.0
DELIVERED_AT_ONCE = 20

WorkerFor = Callable[[Shard, Kind, Only], Runnable]


@dataclass
class Outage:
    """A database that does not answer, and which channels know."""

    since: float
    error: str
    told: set[str] = field(default_factory=set)


class OutsideWatcher(Loop):
    """Watches all databases of an app."""

    name = "watch"
    longest_pause = PAUSE_SECONDS

    def __init__(
        self, fleet: Fleet, registry: Registry, kind: Kind, *, worker_for: WorkerFor
    ) -> None:
        super().__init__()
        self._fleet = fleet
        self._registry = registry
        self._kind = kind
        self._worker_for = worker_for
        self._watchers: dict[int, Watcher] = {}
        self._outages: dict[int, Outage] = {}

    def tick(self) -> float:
        for shard in self._fleet.shards:
            try:
                self._look(shard)
            except OUTAGES as problem:
                self._away(shard, first_line(problem))
            else:
                self._back(shard)
        return PAUSE_SECONDS

    def _look(self, shard: Shard) -> None:
        watcher = self._watchers.get(shard.index)
        if watcher is None:
            self._fleet.prepare()
            watcher = watcher_at(Site.at(shard, self._registry), self._kind)
            self._watchers[shard.index] = watcher
        shard.database.write(watcher.look, tries=1)
        if self._watching.channels:
            for number in shard.database.read(lambda found: self._undelivered(found, shard)):
                in_thread(self._worker_for(shard, self._kind, Only(number, True)).run).result()

    def _undelivered(self, connection: Connection, shard: Shard) -> list[int]:
        """Deliveries that are due while no worker is there to run them."""
        now = shard.clock.now()
        for worker in ring_store.workers(connection):
            if self._kind.name in worker.kinds and worker.lease_until >= now:
                return []
        return store.due_tasks(connection, self._kind.name, now=now, limit=DELIVERED_AT_ONCE)

    def _away(self, shard: Shard, error: str) -> None:
        outage = self._outages.setdefault(shard.index, Outage(time.monotonic(), error))
        if time.monotonic() - outage.since < AWAY_AFTER_SECONDS:
            return
        seconds = int(time.monotonic() - outage.since)
        text = f"{shard.name} has not answered for {seconds} s: {outage.error}"
        title = "[critical] the database does not answer"
        self._tell(outage, Message(self._id(outage), title, text, Severity.CRITICAL, False, {}))

    def _back(self, shard: Shard) -> None:
        outage = self._outages.pop(shard.index, None)
        if outage is None or not outage.told:
            return
        text = f"{shard.name} answers again"
        informed, outage.told = outage.told, set()
        title = "[resolved] the database answers"
        message = Message(f"{self._id(outage)}-end", title, text, Severity.CRITICAL, True, {})
        self._tell(outage, message, only=informed)

    def _tell(self, outage: Outage, message: Message, *, only: set[str] | None = None) -> None:
        """Tell every channel that does not know; one that fails is tried again at the next tick."""
        for channel in self._watching.channels.values():
            is_meant = channel.wants(Severity.CRITICAL, None) and (
                only is None or channel.name in only
            )
            if is_meant and channel.name not in outage.told and _send(channel, message):
                outage.told.add(channel.name)

    def _id(self, outage: Outage) -> str:
        return f"windlass-outage-{int(time.time() - (time.monotonic() - outage.since))}"

    @property
    def _watching(self) -> Watching:
        watching: Watching = self._kind.face_terms
        return watching


def _send(channel: Channel, message: Message) -> bool:
    try:
        channel.sender.send(message)
    except Undelivered as problem:
        telemetry.emit("alert.undelivered", channel=channel.name, error=str(problem))
        return False
    return True
