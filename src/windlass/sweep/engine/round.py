"""What is declared becomes rows of sweeps, and rounds begin: the source is cut into ranges."""

from __future__ import annotations

import time
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import Any

from windlass import telemetry
from windlass.core.alert.model import Trouble
from windlass.core.face import Site, Workplace
from windlass.core.ring import store as ring_store
from windlass.core.shard.fleet import Fleet
from windlass.core.shard.shard import Shard
from windlass.core.task.kind import Kind
from windlass.database.connection import Connection
from windlass.database.database import Database
from windlass.errors import DatabaseUnavailable
from windlass.source.contract import SweepSource, encode_key, name_of
from windlass.sweep.engine.reader import SourceCalls
from windlass.sweep.model import (
    RoundView,
    SweepRow,
    Tile,
    described,
    has_same_keys,
    is_sweep,
    may_begin_at,
    name_of_rows,
    terms_of,
    tiles,
)
from windlass.sweep.store import range as ranges
from windlass.sweep.store import sweep as store

# The key by which a new sweep finds its shard.
SWEEP_KEY = "windlass:sweep"
# How often to look whether anybody works on a sweep over a source with other keys. It is taken
# over after two looks that find nobody.
OTHERS_SECONDS = 30.0


def sweep_home(fleet: Fleet, kind: Kind) -> Shard:
    """The shard that has a sweep, or else the one where it begins.

    A sweep stays where it is when shards come and go: its ranges are all in one place.
    """
    if fleet.single is not None:
        return fleet.single
    found = fleet.fan_out(
        lambda shard: shard.database.read(lambda connection: store.get(connection, kind.name))
    )
    there = [shard for shard, row in found.found if row is not None]
    if there:
        return min(there, key=lambda shard: shard.index)
    if found.missing:
        raise DatabaseUnavailable(
            f"sweep {kind.name!r} is in none of the shards that answer; "
            f"{', '.join(found.missing)} does not",
            missing=found.missing,
        )
    return fleet.home(kind.name, SWEEP_KEY)


def discover(site: Site) -> None:
    """Make the rows of sweeps say what is declared; any number of workers may do it at once."""
    kinds = site.registry.kinds
    here = [kind for kind in kinds.values() if is_sweep(kind) and site.is_home(kind)]
    for kind in here:
        declare(site, kind)
    for name in _undeclared(site.database, kinds):
        if site.database.write(partial(store.stop, name=name, now=site.clock.now())):
            telemetry.emit("sweep.stopped", sweep=name)
    for kind in here:
        take_over(site, kind)


def declare(site: Site | Shard, kind: Kind) -> None:
    """Make the row of one sweep say what is declared."""
    terms = terms_of(kind)
    work = partial(
        store.declare,
        dialect=site.database.dialect,
        name=kind.name,
        ranges=terms.ranges,
        redo=terms.redo,
        auto=terms.auto,
        source=described(terms.source),
        now=site.clock.now(),
    )
    if site.database.write(work):
        telemetry.emit("sweep.declared", sweep=kind.name, source=name_of(terms.source))


def take_over(site: Site, kind: Kind) -> None:
    """Let a sweep read the source that is declared here, if that has other keys than before.

    A running round was cut by the old keys: it is given up, and the next one is due at once.
    """
    terms, now = terms_of(kind), site.clock.now()
    source = terms.source

    def work(connection: Connection) -> RoundView | None:
        over = store.take_over(
            connection, kind.name, source=described(source), auto=terms.auto, now=now
        )
        if over is not None:
            then = "the next round is due" if terms.auto else "start() begins the next round"
            text = (
                f"round {over.round} of sweep {kind.name!r} was given up after {over.done} items, "
                f"because its source has changed to {name_of(source)}; {then}"
            )
            store.note(connection, site, Trouble("source", kind.name, text))
        return over

    over = site.database.write(work)
    if over is not None:
        telemetry.emit("sweep.abandoned", sweep=kind.name, round=over.round, done=over.done)


def _undeclared(database: Database, kinds: Mapping[str, Kind]) -> list[str]:
    """Sweeps that neither this app nor any other live worker declares."""
    rows, live = database.read(
        lambda connection: (store.listing(connection), ring_store.workers(connection))
    )
    elsewhere = {name for view in live for name in view.declared}
    declared = {name for name, kind in kinds.items() if is_sweep(kind)}
    return [
        row.name
        for row in rows
        if row.stopped_at is None and row.name not in declared | (elsewhere - kinds.keys())
    ]


def open_round(
    site: Site | Shard,
    kind: Kind,
    before: SweepRow,
    *,
    source: SweepSource,
    worker: int | None = None,
) -> int | None:
    """Begin the round after `before`; the number of the round that runs then.

    With a `worker` it acts on its behalf: None if that was marked left.
    """
    cut, rows = plan_ranges(source, before.ranges)
    ids, text = site.numbers.take(len(cut)), described(terms_of(kind).source)

    def work(connection: Connection) -> int | None:
        return store.open_round(
            connection,
            before,
            cut,
            numbers=ids,
            rows=rows,
            now=site.clock.now(),
            source=text,
        )

    database = site.database
    write = database.write if worker is None else partial(database.write_as, worker, lost=None)
    number = write(work)
    if number == before.round + 1:
        telemetry.emit("sweep.started", sweep=before.name, round=number, ranges=len(cut), rows=rows)
    return number


def plan_ranges(source: SweepSource, count: int) -> tuple[list[Tile], int | None]:
    """The ranges of a new round, and about how many rows: the source is checked and counted."""
    check: Any = getattr(source, "check_sweep", None) or getattr(source, "check", None)
    if check is not None:
        check()
    counted: Any = getattr(source, "count", None)
    found = counted() if counted is not None else None
    rows = None if found is None else max(0, int(found))
    bounds = source.bounds(count) if count > 1 else []
    texts = [encode_key(key, what=name_of(source)) for key in bounds]
    return tiles(texts[: count - 1], rows), rows


@dataclass(eq=False)
class RoundStarter:
    """Knows the row of one sweep, and starts its rounds from this worker."""

    kind: Kind
    workplace: Workplace
    calls: SourceCalls
    row: SweepRow | None = None
    # Whether this worker has taken part in a round.
    has_begun: bool = False
    others_since: float | None = None
    was_idle: bool = False
    starting: Future[int | None] | None = None

    def __post_init__(self) -> None:
        self.described = described(terms_of(self.kind).source)

    @property
    def is_declared_here(self) -> bool:
        """Whether the sweep reads the source that this app declares, not one with other keys."""
        is_run = terms_of(self.kind).run is not None
        return is_run or self.row is None or has_same_keys(self.row.source, self.described)

    @property
    def is_due(self) -> bool:
        """Whether this worker should start a round now."""
        row, is_drain = self.row, self.workplace.until_idle
        if not terms_of(self.kind).auto:
            return False
        if row is None or row.is_running or row.due_at is None or row.stopped_at is not None:
            return False
        if (is_drain and self.has_begun) or not self.is_declared_here:
            return False
        now = self.workplace.site.clock.now()
        if row.due_at > now:
            return False
        return is_drain or may_begin_at(started_at=row.started_at, rows=row.rows or 0) <= now

    def see(self, row: SweepRow | None) -> bool:
        """Learn the row as it is now; whether another round runs."""
        is_new = self.row is not None and row is not None and row.round != self.row.round
        self.row = row
        if row is not None and row.is_running:
            self.has_begun = True
        return is_new

    def read_row(self) -> None:
        """Read the row again, after this worker has changed it."""
        name = name_of_rows(self.kind)
        self.row = self.workplace.site.database.read(lambda connection: store.get(connection, name))

    def start(self, worker: int) -> None:
        """Start the round, on another thread."""
        if self.starting is None and time.monotonic() >= self.calls.retry_at:
            self.starting = self.calls.submit(self._open_round, worker)

    def collect(self) -> bool:
        """Whether a round has just been started."""
        if self.starting is None or not self.starting.done():
            return False
        started, self.starting = self.starting, None
        if self.calls.result(started) is None:
            return False
        self.has_begun = True
        self.read_row()
        return True

    def _open_round(self, worker: int) -> int | None:
        site, name = self.workplace.site, self.kind.name
        now = site.clock.now()
        before = site.database.write_as(
            worker,
            lambda connection: store.take_start(connection, name, worker=worker, now=now),
            lost=None,
        )
        if before is None:
            return None
        try:
            return open_round(site, self.kind, before, source=self.calls.source, worker=worker)
        except BaseException:
            site.database.write(
                lambda connection: store.give_up_start(connection, worker=worker, name=name)
            )
            raise

    def take_over_abandoned(self) -> None:
        """Take over a sweep that reads a source with other keys, once no worker runs it.

        While workers with both declarations live, they must not take it from each other.
        """
        now = time.monotonic()
        if self.is_declared_here or terms_of(self.kind).run is not None:
            self.others_since, self.was_idle = None, False
        elif self.others_since is None:
            self.others_since = now
        elif now - self.others_since >= OTHERS_SECONDS:
            is_idle = self._is_idle()
            if is_idle and self.was_idle:
                take_over(self.workplace.site, self.kind)
            self.others_since, self.was_idle = now, is_idle

    def _is_idle(self) -> bool:
        """Whether no worker has a range of the sweep, or cuts its source into ranges."""
        name = self.kind.name
        row, found = self.workplace.site.database.read(
            lambda connection: (store.get(connection, name), ranges.listing(connection, name))
        )
        is_started = row is not None and row.starter is not None
        return not is_started and all(each.batch is None for each in found)
