"""What is known of a sweep, or of one run of it, and what both let users do with their ranges."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Protocol

from windlass.clock import to_datetime
from windlass.core.face import Runnable
from windlass.core.limit import store as limit_store
from windlass.core.limit.switch import held_back
from windlass.core.ring.store import workers as workers_of
from windlass.core.shard.fleet import Fleet
from windlass.core.shard.shard import Shard
from windlass.core.task.hook import Hooks
from windlass.core.task.kind import Kind
from windlass.database.connection import Connection
from windlass.source.contract import decode_key, name_of
from windlass.sweep import model
from windlass.sweep.declare import check_limit, check_ranges
from windlass.sweep.engine.reader import known_as
from windlass.sweep.engine.round import declare, sweep_home
from windlass.sweep.engine.served import kind_of_run
from windlass.sweep.engine.split import split_into
from windlass.sweep.model import (
    Progress,
    Range,
    RangeView,
    RoundView,
    SetAside,
    SweepRow,
    has_source,
    is_sweep,
    name_of_rows,
    terms_of,
)
from windlass.sweep.operate.soon import AskedVisits
from windlass.sweep.store import failed_item
from windlass.sweep.store import range as range_store
from windlass.sweep.store import run as run_store
from windlass.sweep.store import sweep as store
from windlass.sweep.store.run import SweepRunRow
from windlass.value.calendar.until import Until
from windlass.value.twin import awaited, in_thread
from windlass.view.audit import Audit

FAILURES_SHOWN = 1_000
ROUNDS_SHOWN = 20
HISTORY_SHOWN = 10
RUNS_SHOWN = 100


class Switches(Protocol):
    """What a handle needs of the switches of its app."""

    def pause(
        self,
        kind: str,
        *,
        until: Until | None = None,
        reason: str = "",
        who: str | None = None,
    ) -> None: ...
    def resume(self, kind: str, *, who: str | None = None) -> None: ...


@dataclass(frozen=True)
class Sweeps:
    """The sweeps of an app, each in its shard, and what their handles work with."""

    fleet: Fleet
    switches: Switches
    # A worker that only retries failed items.
    worker_for: Callable[[Shard, Kind], Runnable]
    hooks: Hooks
    dead_after: int
    asked: AskedVisits = field(default_factory=AskedVisits)

    def listing(self, kinds: Iterable[Kind]) -> list[Progress]:
        """How far the sweeps among these kinds are, by name, and their open runs."""
        swept = sorted((kind for kind in kinds if is_sweep(kind)), key=lambda kind: kind.name)
        return [
            each.progress()
            for kind in swept
            for each in (SweepState(self, kind), *self._opened(kind))
        ]

    def begun(self, kinds: Iterable[Kind]) -> dict[str, Kind]:
        """The sweeps that were started; where only runs were, no round begins by itself."""
        found: dict[str, Kind] = {}
        for kind in kinds:
            if not is_sweep(kind):
                continue
            if SweepState(self, kind).progress().is_running:
                found[kind.name] = kind
            elif self._opened(kind):
                found[kind.name] = model.without_rounds(kind)
        return found

    def run_kind(self, kind: Kind, row: SweepRunRow) -> Kind:
        """The kind as a run has it."""
        urls = [shard.database.url for shard in self.fleet.shards]
        return kind_of_run(urls, kind, row)

    def _opened(self, kind: Kind) -> list[SweepState]:
        shard = self.at(kind)
        rows = shard.database.read(lambda connection: run_store.opened(connection, [kind.name]))
        return [GivenState(self, self.run_kind(kind, row), row) for row in rows[:RUNS_SHOWN]]

    def at(self, kind: Kind) -> Shard:
        """The shard of a sweep."""
        self.fleet.prepare()
        return self.fleet.single or sweep_home(self.fleet, kind)

    def declared(self, kind: Kind) -> Shard:
        """The shard of a sweep, with the row of the sweep in it."""
        shard = self.at(kind)
        if terms_of(kind).run is None:
            declare(shard, kind)
        return shard

    def ask_retry(self, kind: Kind, *, keys: Sequence[str] | None = None) -> int:
        """Have workers retry failed items: all, or those with these encoded keys."""
        shard = self.declared(kind)
        now = shard.clock.now()
        name = name_of_rows(kind)

        def work(connection: Connection) -> int:
            if terms_of(kind).run is not None:
                run_store.reopen(connection, name)
            return failed_item.ask_retry(connection, name, now=now, keys=keys)

        count = shard.database.write(work)
        shard.bell.ring_here()
        return count


class SweepState:
    """The ranges, rounds and failed items of a sweep, or of one run of it."""

    def __init__(self, sweeps: Sweeps, kind: Kind) -> None:
        self._sweeps = sweeps
        self._kind = kind

    @property
    def name(self) -> str:
        """Its name; that of a run has the number of the run: `import_file@12`."""
        return name_of_rows(self._kind)

    @property
    def kind(self) -> str:
        """The name of the sweep."""
        return self._kind.name

    def ranges(self) -> list[RangeView]:
        """The ranges of the current or the last round, in the order of their keys."""
        shard = self._sweeps.at(self._kind)
        return _views(self._ranges(shard), shard.clock.now())

    def split(self, ranges: int) -> int:
        """Change the number of ranges, in this round and in future ones; how many there are then.

        It may run or be paused. To get more, open ranges are cut, the largest first. To get fewer,
        neighbours that were never begun are merged. A range with one key left cannot be cut and a
        begun one is not merged, so the result may be another number.
        """
        count = check_ranges(self.name, ranges)
        shard = self._sweeps.declared(self._kind)
        shard.database.write(lambda connection: store.want_ranges(connection, self.name, count))
        return split_into(shard, self._kind, count) if self._row(shard).is_running else count

    def progress(self) -> Progress:
        """How far the round is, how fast, and when it will end; totals are estimates."""
        shard = self._sweeps.at(self._kind)
        row, found, rounds, held = shard.database.read(
            lambda connection: (
                store.get(connection, self.name),
                range_store.listing(connection, self.name),
                store.rounds(connection, self.name, limit=HISTORY_SHOWN),
                limit_store.switches(connection),
            )
        )
        now = shard.clock.now()
        mine = held.of(self.kind, self._kind.group)
        why = held_back(self._kind, mine, now=now, others=held)
        why = why or self._why(row, found, now)
        known = _progress(row or SweepRow(self.name), found, rounds, why=why, now=now)
        return replace(known, kind=self.kind, **self._of_run())

    def rounds(self, limit: int = ROUNDS_SHOWN) -> list[RoundView]:
        """The rounds that ended, newest first."""
        most = check_limit(limit)
        return self._sweeps.at(self._kind).database.read(
            lambda connection: store.rounds(connection, self.name, limit=most)
        )

    def failures(self, limit: int = FAILURES_SHOWN) -> list[SetAside]:
        """Failed items, newest first."""
        most = check_limit(limit)
        found = self._sweeps.at(self._kind).database.read(
            lambda connection: failed_item.listing(connection, self.name, limit=most)
        )
        return [
            SetAside(
                key=(key := decode_key(each.item_key)),
                error=each.error,
                round=each.round,
                failed_at=to_datetime(each.failed_at),
                tries=each.tries,
                known_as=known_as(terms_of(self._kind).source, key),
            )
            for each in found
        ]

    def retry_failures(self) -> int:
        """Retry all failed items; how many there are.

        Live workers run them. If there are none, this process does, and the call waits for it.
        """
        count = self._sweeps.ask_retry(self._kind)
        shard = self._sweeps.at(self._kind)
        if count and not self._has_worker(shard):
            in_thread(self._sweeps.worker_for(shard, self._kind).run).result()
        return count

    def audit(self) -> Audit:
        """Whether the ranges cover all keys: no gap and no overlap, across all splits."""
        return model.audit(self._ranges(self._sweeps.at(self._kind)))

    def _why(self, row: SweepRow | None, found: list[Range], now: int) -> str:
        return model.sweep_why(row, found, now, has_source=has_source(self._kind))

    def _of_run(self) -> dict[str, Any]:
        """What its progress says of a run."""
        return {}

    def ask_retry(self, keys: Sequence[str] | None = None) -> int:
        """Have workers retry failed items: all, or those with these encoded keys; how many."""
        return self._sweeps.ask_retry(self._kind, keys=keys)

    aranges = awaited(ranges)
    asplit = awaited(split)
    aprogress = awaited(progress)
    arounds = awaited(rounds)
    afailures = awaited(failures)
    aretry_failures = awaited(retry_failures)
    aaudit = awaited(audit)

    def _ranges(self, shard: Shard) -> list[Range]:
        return shard.database.read(lambda connection: range_store.listing(connection, self.name))

    def _row(self, shard: Shard) -> SweepRow:
        row = shard.database.read(lambda connection: store.get(connection, self.name))
        assert row is not None
        return row

    def _has_worker(self, shard: Shard) -> bool:
        now = shard.clock.fresh()
        workers = shard.database.read(workers_of)
        return any(each.lease_until >= now and self._kind.name in each.kinds for each in workers)


class GivenState(SweepState):
    """What is known of one run over a source that was given at its start."""

    def __init__(self, sweeps: Sweeps, kind: Kind, row: SweepRunRow) -> None:
        super().__init__(sweeps, kind)
        self._run_row = row

    def _why(self, row: SweepRow | None, found: list[Range], now: int) -> str:
        if row is not None and row.is_running:
            return super()._why(store.as_run(row), found, now)
        shard, run = self._sweeps.at(self._kind), self._run_row
        last = shard.database.read(
            lambda connection: run_store.get(connection, run.sweep, run.number)
        )
        if last is None:
            return "ended, and deleted since"
        return "ended" if last.cancelled_at is None else "cancelled"

    def _of_run(self) -> dict[str, Any]:
        run = self._run_row
        source = name_of(terms_of(self._kind).source)
        return {"run": run.number, "key": run.run_key, "source": source}


def _views(found: list[Range], now: int) -> list[RangeView]:
    """Ranges for people, in the order of their keys."""
    straggling = model.stragglers(found, now)
    return [model.range_view(each, now, straggling) for each in model.in_order(found)]


def _progress(
    row: SweepRow, found: list[Range], rounds: list[RoundView], *, why: str, now: int
) -> Progress:
    """How far a sweep is, from its rows."""
    rate = sum(each.speed(now) for each in found)
    estimate = model.estimate(found, total=row.rows, rate=rate)
    eta = estimate.eta_seconds if row.is_running else None
    return Progress(
        sweep=row.name,
        round=row.round,
        is_running=row.is_running,
        percent=None if estimate.percent is None else round(estimate.percent, 1),
        done=sum(each.done for each in found),
        failed=sum(each.failed for each in found),
        repeated=sum(each.repeated for each in found),
        total=row.rows,
        rate=rate,
        eta=None if eta is None else timedelta(seconds=eta),
        started_at=_moment(row.started_at),
        ended_at=_moment(row.ended_at),
        next_at=_moment(row.due_at),
        error=row.error,
        why=why,
        ranges=tuple(_views(found, now)),
        history=tuple(rounds),
    )


def _moment(microseconds: int | None) -> datetime | None:
    return None if microseconds is None else to_datetime(microseconds)
