"""Watching from outside: it notices when no worker is left, and when the database is gone.

`windlass watch` and the console run it. It takes turns with the watchers in workers. While no
worker can deliver, it delivers by itself; while the database is away, it tells the channels
directly.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from uuid import uuid4

from windlass import telemetry
from windlass.clock import SECOND
from windlass.core.alert.model import Severity, Trouble
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
from windlass.value.twin import in_background, in_thread
from windlass.watch.channel.base import Message
from windlass.watch.declare import Channel, Watching
from windlass.watch.engine.watcher import Watcher, watcher_at
from windlass.watch.store import watch as store

PAUSE_SECONDS = 5.0
AWAY_AFTER_SECONDS = 30.0
# Together: a channel that hangs does not hold up the others.
DELIVERED_AT_ONCE = 5
# While one watcher delivers, the others do not: they would try the same rows again at once.
DELIVERY_TURN = "deliver"
LONGEST_DELIVERY = 30 * SECOND
# How long a channel is tried that must be told that the database answers again.
TELL_RETURN_SECONDS = 600.0

WorkerFor = Callable[[Shard, Kind, Only], Runnable]


@dataclass
class Outage:
    """A database that does not answer, and how often and when each channel was told."""

    error: str
    since: float = field(default_factory=time.monotonic)
    began: int = field(default_factory=lambda: int(time.time() * SECOND))
    name: str = field(default_factory=lambda: f"windlass-outage-{uuid4().hex}")
    told: dict[str, tuple[int, float]] = field(default_factory=dict)
    # When the database answered again; the channels are being told.
    over_at: float | None = None

    def is_news(self, channel: Channel) -> bool:
        """Whether the channel must be told, for the first time or again."""
        if channel.name not in self.told:
            return True
        if channel.every is None:
            return False
        _, at = self.told[channel.name]
        return time.monotonic() - at >= channel.every / SECOND


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
            self._deliver(shard)

    def _deliver(self, shard: Shard) -> None:
        """Run deliveries that are due while no worker is there to run them."""
        numbers = shard.database.write(lambda found: self._undelivered(found, shard), tries=1)
        workers = [self._worker_for(shard, self._kind, Only(number, True)) for number in numbers]
        for run in [in_thread(worker.run) for worker in workers]:
            run.result()
        if numbers:
            shard.database.write(lambda found: store.end_turn(found, DELIVERY_TURN), tries=1)

    def _undelivered(self, connection: Connection, shard: Shard) -> list[int]:
        """Deliveries for this watcher to run."""
        now = shard.clock.now()
        for worker in ring_store.workers(connection):
            if self._kind.name in worker.kinds and worker.lease_until >= now:
                return []
        due = store.due_tasks(connection, self._kind.name, now=now, limit=DELIVERED_AT_ONCE)
        until, dialect = now + LONGEST_DELIVERY, shard.database.dialect
        if not due or not store.take_turn(connection, dialect, DELIVERY_TURN, now=now, until=until):
            return []
        return due

    def _away(self, shard: Shard, error: str) -> None:
        outage = self._outages.get(shard.index)
        if outage is None or outage.over_at is not None:
            outage = self._outages[shard.index] = Outage(error)
        seconds = time.monotonic() - outage.since
        if seconds >= AWAY_AFTER_SECONDS:
            text = f"{shard.name} has not answered for {seconds:.0f} s: {outage.error}"
            self._tell(outage, text)

    def _back(self, shard: Shard) -> None:
        outage = self._outages.get(shard.index)
        if outage is None:
            return
        outage.over_at = outage.over_at or time.monotonic()
        self._tell(outage, f"{shard.name} answers again")
        if not outage.told or time.monotonic() - outage.over_at > TELL_RETURN_SECONDS:
            del self._outages[shard.index]

    def _tell(self, outage: Outage, text: str) -> None:
        """Tell the channels, all at once; one that fails is tried again at the next tick."""
        severity = self._watching.judged(Trouble("database", "", text))
        if severity is None:
            return
        sending = []
        for channel in self._chosen(outage, severity):
            times, _ = outage.told.get(channel.name, (0, 0.0))
            send = partial(self._send, channel, _message(outage, text, severity, times=times))
            sending.append((channel.name, times, in_background(send, "tell")))
        for name, times, sent in sending:
            if sent.result() and outage.over_at is None:
                outage.told[name] = times + 1, time.monotonic()
            elif sent.result():
                del outage.told[name]

    def _chosen(self, outage: Outage, severity: Severity) -> list[Channel]:
        """The channels that must be told something now."""
        channels = self._watching.channels.values()
        if outage.over_at is not None:
            return [each for each in channels if each.name in outage.told]
        now = int(time.time() * SECOND)
        wanted = (each for each in channels if each.wants(severity, None))
        return [
            each for each in wanted if outage.is_news(each) and not each.is_quiet(severity, now)
        ]

    def _send(self, channel: Channel, message: Message) -> bool:
        """Send it there, or else to the fallback; whether one of them took it."""
        try:
            channel.sender.send(message)
        except Undelivered as problem:
            telemetry.emit("alert.undelivered", channel=channel.name, error=str(problem))
            other = self._watching.channels.get(channel.fallback or "")
            # One that wants it anyway is told by itself.
            is_needed = other is not None and not other.wants(message.severity, None)
            return other is not None and is_needed and self._send(other, message)
        return True

    @property
    def _watching(self) -> Watching:
        watching: Watching = self._kind.face_terms
        return watching


def _message(outage: Outage, text: str, severity: Severity, *, times: int) -> Message:
    is_over = outage.over_at is not None
    stage = "resolved" if is_over else "repeated" if times else "raised"
    says = "answers" if is_over else "does not answer"
    facts = {
        "id": None,
        "what": "database",
        "kind": None,
        "severity": str(severity),
        "text": text,
        "times": 1,
        "raised_at": outage.began,
        "last_at": outage.began,
        "resolved_at": int(time.time() * SECOND) if is_over else None,
        "task_id": None,
    }
    return Message(
        f"{outage.name}-{stage}-{times}",
        f"[{'resolved' if is_over else severity}] the database {says}",
        text,
        severity,
        is_over,
        {"stage": stage, "alerts": [facts]},
    )
