"""`SweepRun`: one run of a sweep over a source that was given at its start."""

from __future__ import annotations

import time

from windlass import telemetry
from windlass.core.task.kind import LONGEST_NAME, Kind, Registry
from windlass.core.task.sweep_run import run_name, split_name
from windlass.errors import BadInput, ResultTimeout, Unknown
from windlass.source.contract import SweepSource, name_of
from windlass.source.given import describe_source
from windlass.sweep.declare import check_source
from windlass.sweep.engine.round import plan_ranges
from windlass.sweep.model import Progress, described, terms_of
from windlass.sweep.operate.state import GivenState, Sweeps, SweepState
from windlass.sweep.store import run as store
from windlass.sweep.store.run import NewSweepRun, SweepRunRow
from windlass.sweep.store.sweep import RUNS
from windlass.value.duration import Duration, seconds_of
from windlass.value.task import check_key
from windlass.value.twin import awaited

FIRST_PAUSE = 0.01
LONGEST_PAUSE = 0.5
# The largest number of a run is this long.
LONGEST_NUMBER = 12


class SweepRun(GivenState):
    """One run over a source that was given at its start. It has one round."""

    def __init__(
        self, sweeps: Sweeps, kind: Kind, row: SweepRunRow, *, created: bool = False
    ) -> None:
        super().__init__(sweeps, kind, row)
        # Whether this call of `start` began it.
        self.created = created

    @property
    def number(self) -> int:
        """Its number among the runs of the sweep, from 1."""
        return self._run_row.number

    @property
    def key(self) -> str | None:
        """What `start(key=)` named it."""
        return self._run_row.run_key

    @property
    def source(self) -> SweepSource:
        """What it reads."""
        return terms_of(self._kind).source

    def cancel(self) -> bool:
        """End it; what it did stays done. False if it has ended.

        Items that run now end, and their effects stay. Nothing new begins.
        """
        shard = self._sweeps.at(self._kind)
        now = shard.clock.now()
        is_new = shard.database.write(
            lambda connection: store.cancel(connection, self.name, now=now)
        )
        if is_new:
            telemetry.emit("sweep.cancelled", sweep=self.name)
        shard.bell.ring_here()
        return is_new

    def result(self, timeout: Duration | float | None = None) -> Progress:
        """Wait until it has ended, and return how far it came.

        Raises ResultTimeout after `timeout` (seconds or "5s").
        """
        deadline = None if timeout is None else time.monotonic() + seconds_of(timeout)
        pause = FIRST_PAUSE
        while (found := self.progress()).is_running:
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                raise ResultTimeout(
                    f"run {self.name!r} has not ended after {seconds_of(timeout or 0):g} s: "
                    f"{found.why}"
                )
            time.sleep(pause if left is None else min(pause, left))
            pause = min(pause * 1.5, LONGEST_PAUSE)
        return found

    acancel = awaited(cancel)
    aresult = awaited(result)

    def __repr__(self) -> str:
        return f"<run {self.name!r}>"


def start_run(
    sweeps: Sweeps, kind: Kind, source: SweepSource, *, key: str | None = None
) -> SweepRun:
    """Begin a run over `source`, or find the one that has the key."""
    check_source(source)
    _check_name(kind.name)
    named = None if key is None else check_key(kind.name, key)
    terms = terms_of(kind)
    text = describe_source(source, declared=terms.source)
    shard = sweeps.declared(kind)
    shard.database.schema.need(RUNS, "start(source=)")
    found = None
    if named is not None:
        found = shard.database.read(lambda connection: store.by_key(connection, kind.name, named))
    created = False
    if found is None:
        cut, rows = plan_ranges(source, terms.ranges)
        new = NewSweepRun(
            sweep=kind.name,
            source=text,
            described=described(source),
            key=named,
            tiles=cut,
            numbers=shard.numbers.take(len(cut)),
            rows=rows,
        )
        now = shard.clock.now()
        found, created = shard.database.write(
            lambda connection: store.start(connection, new, now=now)
        )
    if created:
        telemetry.emit("sweep.run", sweep=found.name, source=name_of(source))
        shard.bell.ring_here()
    return SweepRun(sweeps, sweeps.run_kind(kind, found), found, created=created)


def runs_of(sweeps: Sweeps, kind: Kind, *, limit: int) -> list[SweepRun]:
    """The runs of a sweep, newest first."""
    rows = sweeps.at(kind).database.read(
        lambda connection: store.listing(connection, kind.name, limit=limit)
    )
    return [SweepRun(sweeps, sweeps.run_kind(kind, row), row) for row in rows]


def find_run(sweeps: Sweeps, kind: Kind, number: int) -> SweepRun:
    """A run of a sweep by its number."""
    row = sweeps.at(kind).database.read(lambda connection: store.get(connection, kind.name, number))
    if row is None:
        raise Unknown(
            f"sweep {kind.name!r} has no run {number}; see: windlass sweep runs {kind.name}"
        )
    return SweepRun(sweeps, sweeps.run_kind(kind, row), row)


def find_sweep(sweeps: Sweeps, registry: Registry, name: str) -> SweepState:
    """The sweep of that name, or the run: `import_file@12`."""
    found = split_name(name)
    if found is None or name in registry.kinds:
        return SweepState(sweeps, registry.of_face(name, "sweep", what="a sweep"))
    kind = registry.of_face(found[0], "sweep", what="a sweep")
    return find_run(sweeps, kind, found[1])


def _check_name(sweep: str) -> None:
    if len(run_name(sweep, 10 ** (LONGEST_NUMBER - 1))) > LONGEST_NAME:
        longest = LONGEST_NAME - LONGEST_NUMBER - 1
        raise BadInput(
            f"sweep {sweep!r}: its runs have names of their own, so its name may have at most "
            f"{longest} characters; give it a shorter name="
        )
