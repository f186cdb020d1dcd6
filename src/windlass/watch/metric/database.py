"""What the database says, as samples, by a bounded number of bounded reads.

No read grows with a table: due rows are counted up to 10,000 of a kind, and what rolling kinds and
sweeps show is bounded as it is in the console. What was read is kept for a few seconds, so a hasty
scraper costs the database nothing.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Protocol

from windlass import telemetry
from windlass.clock import SECOND, Clock
from windlass.core.alert.model import Severity
from windlass.core.fetch import store as fetch_store
from windlass.core.limit import store as limit_store
from windlass.core.limit.switch import setting_of
from windlass.core.ring import store as ring_store
from windlass.core.shard.fleet import Fleet
from windlass.core.shard.shard import OUTAGES, Shard
from windlass.core.task.kind import Registry
from windlass.core.task.store import task
from windlass.database.connection import Connection
from windlass.database.database import first_line
from windlass.errors import BadDatabase, DatabaseUnavailable, WindlassError
from windlass.operate.downstream import operate as downstream
from windlass.queue.operate import operate as queue
from windlass.rolling.operate import freshness
from windlass.sweep.model import is_sweep
from windlass.sweep.operate.state import Sweeps
from windlass.sweep.operate.sweep import Sweep
from windlass.value.metric import MetricValue
from windlass.watch.metric.process import names_of
from windlass.watch.metric.table import MOST_KINDS, OTHER
from windlass.watch.promise.operate import promise
from windlass.watch.store import alert

KEPT_SECONDS = 5.0
PATIENCE_SECONDS = 2.0
FEW_TRIES = 2
# This many of the newest alerts are read to count the open ones.
ALERTS_READ = 500
# The states of a promise, as numbers; one that cannot be judged yet has no sample.
STATES = ("kept", "at risk", "broken")


class Watched(Protocol):
    """An app, as metrics need it."""

    fleet: Fleet
    registry: Registry
    clock: Clock
    sweeps: Sweeps


class DatabaseMetrics:
    """Reads the metrics of an app's databases, at most once in a few seconds."""

    def __init__(self, app: Watched) -> None:
        self._app = app
        self._lock = threading.Lock()
        self._kept: list[MetricValue] = []
        self._read_at = float("-inf")

    def samples(self) -> list[MetricValue]:
        """What the databases say now, or said a few seconds ago."""
        if not self._lock.acquire(timeout=PATIENCE_SECONDS):
            # Another scrape waits for the database; this one must not take one more thread.
            raise DatabaseUnavailable("the database does not answer; its metrics are not known")
        try:
            if time.monotonic() - self._read_at > KEPT_SECONDS:
                self._kept = list(self._read())
                self._read_at = time.monotonic()
            return self._kept
        finally:
            self._lock.release()

    def samples_if_known(self) -> list[MetricValue]:
        """The same; none if the databases cannot be read."""
        try:
            return self.samples()
        except (WindlassError, *OUTAGES) as problem:
            telemetry.log.warning("metrics of the database are not known: %s", first_line(problem))
            return []

    def _read(self) -> Iterator[MetricValue]:
        up = self._shards()
        for samples in up.values():
            yield from samples
        for shard in self._app.fleet.shards:
            yield MetricValue("windlass_shard_up", (str(shard.index),), int(shard in up))
        if not up:
            return
        yield from self._rolling()
        yield from self._sweeps()
        yield from self._queues()
        yield from self._downstreams()
        yield from self._promises()

    def _shards(self) -> dict[Shard, list[MetricValue]]:
        """The samples of each shard that answers."""
        fleet = self._app.fleet
        single = fleet.single
        try:
            # Several shards are asked hastily anyway.
            with nullcontext() if single is None else single.database.hasty(FEW_TRIES):
                fleet.prepare()
                return dict(fleet.fan_out(self._shard).found)
        except (BadDatabase, *OUTAGES):
            return {}

    def _shard(self, shard: Shard) -> list[MetricValue]:
        began = time.monotonic()
        now = shard.clock.fresh()
        samples = shard.database.read(
            lambda connection: [
                *self._due(connection, shard, now),
                *self._held_back(connection, shard, now),
                *_ring(connection, str(shard.index), now),
                *_alerts(connection, str(shard.index), now),
            ]
        )
        seconds = time.monotonic() - began
        return [*samples, MetricValue("windlass_shard_read_seconds", (str(shard.index),), seconds)]

    def _due(self, connection: Connection, shard: Shard, now: int) -> Iterator[MetricValue]:
        kinds, names = self._app.registry.kinds, names_of(self._app.registry)
        until = {name: kind.due_until(now) for name, kind in kinds.items() if kind.has_rows}
        # Our own kinds, and kinds that other apps or nobody declares.
        unknown = set(fetch_store.kinds_waiting(connection)) - kinds.keys()
        until |= dict.fromkeys(sorted(unknown)[:MOST_KINDS], now)
        found = task.backlogs(connection, shard.database.dialect, until)
        due: Counter[str] = Counter()
        oldest: dict[str, int] = {}
        for name in until:
            label, backlog = names.of(name), found.get(name)
            due[label] += 0 if backlog is None else backlog.due
            waited = 0 if backlog is None else max(0, now - backlog.oldest_at)
            oldest[label] = max(oldest.get(label, 0), waited)
        for label, count in due.items():
            place = (label, str(shard.index))
            yield MetricValue("windlass_task_due", place, count)
            yield MetricValue("windlass_task_oldest_due_age_seconds", place, oldest[label] / SECOND)

    def _held_back(self, connection: Connection, shard: Shard, now: int) -> Iterator[MetricValue]:
        names = names_of(self._app.registry)
        switches = limit_store.switches(connection)
        states: dict[str, list[int]] = {}
        for name, kind in self._app.registry.kinds.items():
            switch = switches.of(name, kind.group)
            setting = setting_of(kind, switch, now=now)
            window = setting.window
            is_closed = window is not None and not window.is_open(now)
            breaker = 0 if kind.breaker is None else int(switch.breaker.state)
            state = [breaker, int(setting.off), int(is_closed)]
            # Of the kinds without a name of their own, the worst counts.
            worst = states.setdefault(names.of(name), [0, 0, 0])
            states[names.of(name)] = list(map(max, worst, state))
        for label, (breaker, off, closed) in states.items():
            place = (label, str(shard.index))
            yield MetricValue("windlass_breaker_state", place, breaker)
            yield MetricValue("windlass_switch_off", place, off)
            yield MetricValue("windlass_window_closed", place, closed)

    def _rolling(self) -> Iterator[MetricValue]:
        app, names = self._app, names_of(self._app.registry)
        for name, kind in app.registry.kinds.items():
            if kind.period is None or names.of(name) == OTHER:
                continue
            found = freshness.freshness(app.fleet, app.clock, kind)
            values = {
                "items": found.total,
                "never_visited": found.never_visited,
                "overdue": found.overdue,
                "oldest_age_seconds": found.oldest_age.total_seconds(),
                "period_seconds": kind.period.every / SECOND,
                "needed_rate": found.needed_rate,
                "actual_rate": found.actual_rate,
            }
            for what, value in values.items():
                yield MetricValue(f"windlass_rolling_{what}", (name,), value)

    def _sweeps(self) -> Iterator[MetricValue]:
        names = names_of(self._app.registry)
        for name, kind in self._app.registry.kinds.items():
            if not is_sweep(kind) or names.of(name) == OTHER:
                continue
            found = Sweep(self._app.sweeps, kind).progress()
            yield MetricValue("windlass_sweep_round", (name,), found.round)
            yield MetricValue("windlass_sweep_running", (name,), int(found.is_running))
            yield MetricValue("windlass_sweep_done", (name,), found.done)
            yield MetricValue("windlass_sweep_failed", (name,), found.failed)
            if found.percent is not None:
                yield MetricValue("windlass_sweep_progress_ratio", (name,), found.percent / 100)

    def _queues(self) -> Iterator[MetricValue]:
        now = self._app.clock.now()
        # Queues of the same name at several brokers are one series.
        found: dict[str, list[float]] = {}
        up: dict[str, int] = {}
        for view in queue.listing(self._app.fleet, self._app.registry)[:MOST_KINDS]:
            waited = 0 if view.oldest_at is None else max(0, now - view.oldest_at) / SECOND
            values = [view.waiting, view.retrying, view.failed + view.unsent]
            known = found.get(view.name, [0.0] * 4)
            sums = [one + other for one, other in zip(known[:3], values, strict=True)]
            found[view.name] = [*sums, max(known[3], waited)]
            if view.error is not None or view.answered_at is not None:
                up[view.name] = min(up.get(view.name, 1), int(view.error is None))
        for name, (waiting, retrying, failed, waited) in found.items():
            yield MetricValue("windlass_outbox_waiting", (name,), waiting)
            yield MetricValue("windlass_outbox_oldest_age_seconds", (name,), waited)
            yield MetricValue("windlass_message_retrying", (name,), retrying)
            yield MetricValue("windlass_message_failed", (name,), failed)
        for name, is_up in up.items():
            yield MetricValue("windlass_broker_up", (name,), is_up)

    def _downstreams(self) -> Iterator[MetricValue]:
        app = self._app
        if not app.registry.downstreams:
            return
        for found in downstream.gauges(app.fleet, app.registry, app.clock)[:MOST_KINDS]:
            values = {
                "rate": found.rate,
                "concurrency": found.concurrency,
                "in_use": found.in_use,
                "held_back": int(found.is_held_back),
            }
            for what, value in values.items():
                if value is not None:
                    yield MetricValue(f"windlass_downstream_{what}", (found.name,), value)

    def _promises(self) -> Iterator[MetricValue]:
        app, names = self._app, names_of(self._app.registry)
        for found in promise.listing(app.fleet, app.clock, app.registry):
            if found.state in STATES and names.of(found.kind) != OTHER:
                state = STATES.index(found.state)
                yield MetricValue("windlass_promise_state", (found.kind,), state)


def _ring(connection: Connection, shard: str, now: int) -> Iterator[MetricValue]:
    workers = ring_store.workers(connection)
    alive = sum(bool(each.kinds) and each.lease_until >= now for each in workers)
    yield MetricValue("windlass_worker_alive", (shard,), alive)
    buckets = ring_store.buckets(connection)
    unowned = sum(each.owner is None for each in buckets.values())
    yield MetricValue("windlass_bucket_unowned", (shard,), unowned)


def _alerts(connection: Connection, shard: str, now: int) -> Iterator[MetricValue]:
    newest = alert.listing(connection, limit=ALERTS_READ, now=now)
    found: Counter[str] = Counter(each.severity for each in newest if each.is_open)
    for severity in map(str, Severity):
        yield MetricValue("windlass_alert_open", (severity, shard), found[severity])
