"""`Sweep`: the handle of a declared sweep, how far it is, and what can be done with it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Generic, ParamSpec, Protocol, TypeVar, cast

from windlass.clock import to_datetime
from windlass.core.face import Runnable
from windlass.core.limit import store as limit_store
from windlass.core.limit.switch import held_back
from windlass.core.ring.store import workers as workers_of
from windlass.core.shard.fleet import Fleet
from windlass.core.shard.shard import Shard
from windlass.core.task.hook import Hooks
from windlass.core.task.kind import Kind, optional_duration
from windlass.source.contract import Key, decode_key
from windlass.sweep import model
from windlass.sweep.declare import check_limit, check_ranges
from windlass.sweep.engine.reader import known_as
from windlass.sweep.engine.round import declare, open_round, sweep_home
from windlass.sweep.engine.split import split_into
from windlass.sweep.model import (
    Progress,
    Range,
    RangeView,
    RoundView,
    SetAside,
    SweepRow,
    SweepVisit,
    is_sweep,
    terms_of,
)
from windlass.sweep.operate.soon import AskedVisits
from windlass.sweep.operate.visit import SweepVisitor
from windlass.sweep.store import failed_item
from windlass.sweep.store import range as range_store
from windlass.sweep.store import sweep as store
from windlass.value.calendar.until import Until
from windlass.value.duration import Duration, parse_duration
from windlass.value.period import VisitSoon
from windlass.value.twin import awaited, in_thread, twin
from windlass.view.audit import Audit

P = ParamSpec("P")
R = TypeVar("R")

VISIT_TIMEOUT = "30s"
FAILURES_SHOWN = 1_000
ROUNDS_SHOWN = 20
HISTORY_SHOWN = 10


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
        """How far the sweeps among these kinds are, by name."""
        swept = sorted((kind for kind in kinds if is_sweep(kind)), key=lambda kind: kind.name)
        return [Sweep(self, kind).progress() for kind in swept]

    def at(self, kind: Kind) -> Shard:
        """The shard of a sweep."""
        self.fleet.prepare()
        return sweep_home(self.fleet, kind)

    def declared(self, kind: Kind) -> Shard:
        """The shard of a sweep, with the row of the sweep in it."""
        shard = self.at(kind)
        declare(shard, kind)
        return shard

    def ask_retry(self, kind: Kind, *, keys: Sequence[str] | None = None) -> int:
        """Have workers retry failed items: all, or those with these encoded keys."""
        shard = self.declared(kind)
        now = shard.clock.now()
        count = shard.database.write(
            lambda connection: failed_item.ask_retry(connection, kind.name, now=now, keys=keys)
        )
        shard.bell.ring_here()
        return count


class Sweep(Generic[P, R]):
    """A declared sweep. Calling it just calls the function."""

    def __init__(self, sweeps: Sweeps, kind: Kind) -> None:
        self._sweeps = sweeps
        self._kind = kind
        functools.update_wrapper(cast(Any, self), kind.function)

    @property
    def kind(self) -> str:
        """Its name."""
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
        count = check_ranges(self.kind, ranges)
        shard = self._sweeps.declared(self._kind)
        shard.database.write(lambda connection: store.want_ranges(connection, self.kind, count))
        return split_into(shard, self._kind, count) if self._row(shard).is_running else count

    def start(self) -> int:
        """Begin a round now, unless one runs; its number."""
        shard = self._sweeps.declared(self._kind)
        row = self._row(shard)
        if row.is_running:
            return row.round
        number = open_round(shard, self._kind, row, source=terms_of(self._kind).source)
        shard.bell.ring_here()
        assert number is not None
        return number

    def pause(
        self, reason: str = "", *, until: Until | None = None, who: str | None = None
    ) -> None:
        """Start no more items until it is resumed, or `until`; ranges keep their breakpoints."""
        self._sweeps.switches.pause(self.kind, until=until, reason=reason, who=who)

    def resume(self, *, who: str | None = None) -> None:
        """Continue from the breakpoints, and close the breaker if it is open."""
        self._sweeps.switches.resume(self.kind, who=who)

    def progress(self) -> Progress:
        """How far the round is, how fast, and when it will end; totals are estimates."""
        shard = self._sweeps.at(self._kind)
        row, found, rounds, held = shard.database.read(
            lambda connection: (
                store.get(connection, self.kind),
                range_store.listing(connection, self.kind),
                store.rounds(connection, self.kind, limit=HISTORY_SHOWN),
                limit_store.switches(connection),
            )
        )
        now = shard.clock.now()
        mine = held.of(self.kind, self._kind.group)
        why = held_back(self._kind, mine, now=now, others=held)
        why = why or model.sweep_why(row, found, now)
        return _progress(row or SweepRow(self.kind), found, rounds, why=why, now=now)

    def rounds(self, limit: int = ROUNDS_SHOWN) -> list[RoundView]:
        """The rounds that ended, newest first."""
        most = check_limit(limit)
        return self._sweeps.at(self._kind).database.read(
            lambda connection: store.rounds(connection, self.kind, limit=most)
        )

    def failures(self, limit: int = FAILURES_SHOWN) -> list[SetAside]:
        """Failed items, newest first."""
        most = check_limit(limit)
        found = self._sweeps.at(self._kind).database.read(
            lambda connection: failed_item.listing(connection, self.kind, limit=most)
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

    def visit(
        self, key: Key, *, fresh: Duration | None = None, timeout: Duration = VISIT_TIMEOUT
    ) -> SweepVisit:
        """Run the item with this key now, in this process, and return its result.

        If it was visited, or a round did it, at most `fresh` ago, it returns that result. Of many
        callers at once one runs it, and the others get its result. A visit counts against the rate.
        Raises ResultTimeout, ItemNotFound, or HeldBack if the sweep is paused, its breaker is open
        or the handler raised Overloaded.
        """
        return self._visitor(fresh, timeout).visit(key)

    def visit_soon(self, key: Key, *, fresh: Duration | None = None) -> VisitSoon:
        """Have a worker run the item with this key soon, and return at once.

        Does nothing if that is asked for already, or if it was done at most `fresh` ago, or if very
        many visits of the sweep wait. What holds the sweep back holds the visit back, too.
        """
        fresh_for = optional_duration(fresh, f"sweep {self.kind!r}: fresh", zero=True)
        shard = self._sweeps.at(self._kind)
        self._sweeps.asked.want_fresh(shard, self._kind, fresh_for)
        return self._sweeps.asked.ask(shard, self._kind, key, fresh=fresh_for)

    aranges = awaited(ranges)
    asplit = awaited(split)
    astart = awaited(start)
    apause = awaited(pause)
    aresume = awaited(resume)
    aprogress = awaited(progress)
    arounds = awaited(rounds)
    afailures = awaited(failures)
    aretry_failures = awaited(retry_failures)
    aaudit = awaited(audit)
    avisit_soon = awaited(visit_soon)

    async def avisit(
        self, key: Key, *, fresh: Duration | None = None, timeout: Duration = VISIT_TIMEOUT
    ) -> SweepVisit:
        """`visit`, awaited; an async handler runs on this event loop."""
        visitor = await twin(self._visitor, fresh, timeout)
        return await visitor.avisit(key)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        function = cast(Callable[P, R], self._kind.function)
        return function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<sweep {self.kind!r}>"

    def _visitor(self, fresh: Duration | None, timeout: Duration) -> SweepVisitor:
        what = f"sweep {self.kind!r}"
        fresh_for = optional_duration(fresh, f"{what}: fresh", zero=True)
        shard = self._sweeps.at(self._kind)
        self._sweeps.asked.want_fresh(shard, self._kind, fresh_for)
        return SweepVisitor(
            shard,
            self._kind,
            self._sweeps.fleet,
            fresh=fresh_for,
            timeout=parse_duration(timeout, what=f"{what}: timeout"),
            hooks=self._sweeps.hooks,
            dead_after=self._sweeps.dead_after,
        )

    def _ranges(self, shard: Shard) -> list[Range]:
        return shard.database.read(lambda connection: range_store.listing(connection, self.kind))

    def _row(self, shard: Shard) -> SweepRow:
        row = shard.database.read(lambda connection: store.get(connection, self.kind))
        assert row is not None
        return row

    def _has_worker(self, shard: Shard) -> bool:
        now = shard.clock.fresh()
        workers = shard.database.read(workers_of)
        return any(each.lease_until >= now and self.kind in each.kinds for each in workers)


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
