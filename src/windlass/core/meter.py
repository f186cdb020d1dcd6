"""The meter: what this process did, counted for metrics by group, not by task.

A process without a meter counts nothing. With one, a worker counts once for each look for due
rows and once for each group commit, so a task costs a fraction of a microsecond more. What a worker
knows anyway, such as how many runs have started, is read from it when metrics are asked for.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from windlass import telemetry
from windlass.fork import watch_forks
from windlass.value.metric import CALL_BOUNDS, RUN_BOUNDS, Distribution, Pulse
from windlass.value.outcome import Snoozed

if TYPE_CHECKING:
    from windlass.core.run.ready import Run
    from windlass.core.task.kind import Kind
    from windlass.database.dialect.base import Count
    from windlass.value.task import Claimed


@dataclass(frozen=True)
class WorkerState:
    """What a worker has now, by kind where that is said."""

    shard: str
    # Runs of handlers that have begun since the worker was made.
    started: Mapping[str, int]
    running: Mapping[str, int]
    ready: Mapping[str, int]
    in_flight: int
    concurrency: int
    abandoned_threads: int
    # None before it has joined, and for a worker that runs one row only.
    heartbeat_age: float | None
    buckets: int
    is_guarded: bool
    # Of carried kinds: how many messages no consumer has taken, as was last measured.
    waiting_elsewhere: Mapping[str, int]


class Metered(Protocol):
    """A worker, as a meter sees it."""

    def state(self) -> WorkerState:
        """What it has now."""


class Consuming(Protocol):
    """A consumer of carried tasks, as a meter sees it."""

    def pulse(self) -> Pulse:
        """Its counts now."""


@dataclass(eq=False)
class KindMeter:
    """What became of the runs of one kind."""

    done: int = 0
    failed: int = 0
    retried: int = 0
    duration: Distribution = field(default_factory=lambda: Distribution(RUN_BOUNDS))
    wait: Distribution = field(default_factory=lambda: Distribution(RUN_BOUNDS))


class Meter:
    """The counts of one app in this process. Every method may be called from any thread."""

    def __init__(self) -> None:
        self._begin()
        watch_forks(self)
        _count_events()

    def _begin(self) -> None:
        self.lock = threading.Lock()
        self.enqueued: Counter[str] = Counter()
        # Messages that brokers have confirmed, by queue.
        self.published: Counter[str] = Counter()
        # Runs whose downstream was overloaded, by downstream.
        self.overloaded: Counter[str] = Counter()
        self.kinds: dict[str, KindMeter] = {}
        self.claims = Distribution(CALL_BOUNDS)
        self.claimed_rows: Counter[str] = Counter()
        self.commits = Distribution(CALL_BOUNDS)
        self.committed_rows = 0
        # The runs of workers that have left.
        self.started_before: Counter[str] = Counter()
        self.workers: list[Metered] = []
        # Runs in consumers of this process, by kind and how they ended; and the consumers.
        self.consumed_runs: Counter[tuple[str, str]] = Counter()
        self.consumers: list[Consuming] = []

    def after_fork(self) -> None:
        """A forked child begins at 0."""
        self._begin()

    def began(self, worker: Metered) -> None:
        """A worker begins to run."""
        with self.lock:
            self.workers.append(worker)

    def ended(self, worker: Metered) -> None:
        """A worker has ended. What it started still counts."""
        state = worker.state()
        with self.lock:
            if worker in self.workers:
                self.workers.remove(worker)
                self.started_before.update(state.started)

    def enqueue(self, kind: str, count: int) -> None:
        """Tasks were enqueued."""
        with self.lock:
            self.enqueued[kind] += count

    def publish(self, queue: str, count: int) -> None:
        """Messages were sent, and their broker has confirmed them."""
        with self.lock:
            self.published[queue] += count

    def looked(self, found: Sequence[Claimed], seconds: float) -> None:
        """A worker asked the database for due rows."""
        with self.lock:
            self.claims.observe(seconds)
            if found:
                read = sum([task.batch is None for task in found])
                self.claimed_rows["read"] += read
                self.claimed_rows["written"] += len(found) - read

    def took(self, way: str, rows: int) -> None:
        """A worker got rows in another way: `rescued` or `handed_off`."""
        with self.lock:
            self.claimed_rows[way] += rows

    def committed(
        self,
        runs: Sequence[Run],
        accepted: Collection[int],
        counts: Sequence[Count],
        *,
        seconds: float,
        now: int,
    ) -> None:
        """A group commit of `runs` ended at `now`; `counts` has the accepted ones by kind."""
        # The clock of the database at monotonic 0: a run only knows when it began by the latter.
        epoch = now / 1e6 - time.monotonic()
        groups = [_of_kind(runs, accepted, count) for count in counts]
        overloaded = _overloaded(runs, accepted)
        with self.lock:
            self.overloaded.update(overloaded)
            self.commits.observe(seconds)
            self.committed_rows += len(accepted)
            for count, group in zip(counts, groups, strict=True):
                meter = self._count(count)
                meter.duration.observe_all([run.milliseconds / 1e3 for run in group])
                waits = [epoch + run.began - run.task.due_at / 1e6 for run in group]
                if min(waits, default=0.0) < 0.0:
                    # The clocks of a worker and of the database differ by microseconds.
                    waits = [max(0.0, wait) for wait in waits]
                meter.wait.observe_all(waits)

    def overload(self, kind: Kind, count: int) -> None:
        """Runs of a sweep were put off, because a downstream of theirs was overloaded."""
        with self.lock:
            for each in kind.downstreams:
                self.overloaded[each.name] += count

    def swept(self, counts: Sequence[Count], durations: Mapping[str, list[float]]) -> None:
        """Runs of sweeps ended; `durations` has their milliseconds. Items have no due time."""
        with self.lock:
            for count in counts:
                found = durations.get(count.kind, ())
                self._count(count).duration.observe_all([each / 1e3 for each in found])

    def consumed(self, kind: str, *, has_failed: bool) -> None:
        """A consumer has run a carried task. Its worker counts the task."""
        with self.lock:
            self.consumed_runs[kind, "failed" if has_failed else "done"] += 1

    def _count(self, count: Count) -> KindMeter:
        meter = self.kinds.get(count.kind)
        if meter is None:
            meter = self.kinds[count.kind] = KindMeter()
        meter.done += count.done
        meter.failed += count.failed
        meter.retried += count.retried
        return meter


def _overloaded(runs: Sequence[Run], accepted: Collection[int]) -> list[str]:
    """The downstreams of runs that were put off because of an overload; one for each run."""
    return [
        each.name
        for run in runs
        if isinstance(run.outcome, Snoozed) and run.outcome.overload is not None
        if run.task.id in accepted
        for each in run.kind.downstreams
    ]


def _of_kind(runs: Sequence[Run], accepted: Collection[int], count: Count) -> Sequence[Run]:
    """The runs that `count` has counted; mostly that is all of them."""
    if count.done + count.failed + count.retried == len(runs):
        return runs
    alike = [run for run in runs if run.kind.name == count.kind and run.task.id in accepted]
    if count.done + count.failed + count.retried == len(alike):
        return alike
    # The others were snoozed, and their next run counts.
    return [run for run in alike if not isinstance(run.outcome, Snoozed)]


# How often each event happened in this process, whichever app it was about.
events: Counter[str] = Counter()
_event_lock = threading.Lock()
_counting: list[object] = []


def _count_events() -> None:
    """Count events from now on; once for all meters of the process."""
    with _event_lock:
        if not _counting:
            _counting.append(telemetry.subscribe(_note))


def _note(event: telemetry.Event) -> None:
    with _event_lock:
        events[event.name] += 1
