"""How far sweeps are, and what can be done with them: split, start, retry, audit, visit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta

from windlass.clock import to_datetime
from windlass.core.face import Runnable
from windlass.core.limit.held_back import held_back
from windlass.core.limit.store import switch
from windlass.core.limit.store.switch import Switch
from windlass.core.ring.store.worker import listing as workers_of
from windlass.core.shard.fleet import Fleet
from windlass.core.shard.shard import Shard
from windlass.core.task.kind import Kind
from windlass.database.connection import Connection
from windlass.source.contract import SweepSource, name_of
from windlass.source.key_text import Key, decode_key
from windlass.sweep import model
from windlass.sweep.engine.home import sweep_home
from windlass.sweep.engine.round import declare, open_round
from windlass.sweep.engine.split import cut
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
from windlass.sweep.operate.visit import SweepVisitor
from windlass.sweep.store import failed_item
from windlass.sweep.store import range as ranges
from windlass.sweep.store import sweep as store
from windlass.value.twin import in_thread
from windlass.view.audit import Audit

HISTORY_SHOWN = 10


class Sweeps:
    """The sweeps of an app, each in its shard."""

    def __init__(self, fleet: Fleet, *, worker_for: Callable[[Shard, Kind], Runnable]) -> None:
        self._fleet = fleet
        self._worker_for = worker_for

    def listing(self, kinds: Iterable[Kind]) -> list[Progress]:
        """How far the sweeps among these kinds are, by name."""
        swept = sorted((kind for kind in kinds if is_sweep(kind)), key=lambda kind: kind.name)
        return [self.progress(kind) for kind in swept]

    def ranges(self, kind: Kind) -> list[RangeView]:
        """The ranges of the current or the last round."""
        shard = self._at(kind)
        return views(_ranges(shard, kind), shard.clock.now())

    def split(self, kind: Kind, count: int) -> int:
        """Cut the current round, and future ones, into `count` ranges; how many there are then."""
        shard = self._declared(kind)
        shard.database.write(lambda connection: store.want_ranges(connection, kind.name, count))
        row = self._row(shard, kind)
        if not row.is_running:
            return count
        return Splitter(shard, kind, _source(kind)).split(count)

    def start(self, kind: Kind) -> int:
        """Begin a round, unless one is running."""
        shard = self._declared(kind)
        row = self._row(shard, kind)
        if row.is_running:
            return row.round
        source = _source(kind)
        number = open_round(
            shard.database,
            row,
            source,
            numbers=shard.numbers,
            clock=shard.clock,
            source_text=model.described(source, name_of(source)),
        )
        shard.bell.ring_here()
        assert number is not None
        return number

    def progress(self, kind: Kind) -> Progress:
        """How far the round is."""
        shard = self._at(kind)

        def read(
            connection: Connection,
        ) -> tuple[SweepRow | None, list[Range], list[RoundView], Switch]:
            return (
                store.get(connection, kind.name),
                ranges.listing(connection, kind.name),
                store.rounds(connection, kind.name, limit=HISTORY_SHOWN),
                switch.get(connection, kind.name),
            )

        row, found, rounds, held = shard.database.read(read)
        now = shard.clock.now()
        why = held_back(kind, held, now=now) or model.sweep_why(row, found, now)
        return progress(row or SweepRow(kind.name), found, rounds, why=why, now=now)

    def rounds(self, kind: Kind, *, limit: int) -> list[RoundView]:
        """The rounds that ended, newest first."""
        return self._at(kind).database.read(
            lambda connection: store.rounds(connection, kind.name, limit=limit)
        )

    def failures(self, kind: Kind, *, limit: int) -> list[SetAside]:
        """Failed items, newest first."""
        found = self._at(kind).database.read(
            lambda connection: failed_item.listing(connection, kind.name, limit=limit)
        )
        return [
            SetAside(
                key=decode_key(each.key),
                error=each.error,
                round=each.round,
                failed_at=to_datetime(each.failed_at),
                tries=each.tries,
            )
            for each in found
        ]

    def retry_failures(self, kind: Kind) -> int:
        """Have all failed items retried: by live workers, or here if there are none."""
        count = self.ask_retry(kind)
        shard = self._at(kind)
        if count and not self._has_worker(shard, kind):
            in_thread(self._worker_for(shard, kind).run).result()
        return count

    def ask_retry(self, kind: Kind, *, keys: Sequence[str] | None = None) -> int:
        """Have workers retry failed items: all, or those with these encoded keys."""
        shard = self._declared(kind)
        now = shard.clock.now()
        count = shard.database.write(
            lambda connection: failed_item.ask_retry(connection, kind.name, now=now, keys=keys)
        )
        shard.bell.ring_here()
        return count

    def audit(self, kind: Kind) -> Audit:
        """Whether the ranges of the round tile the key space."""
        return model.audit(_ranges(self._at(kind), kind))

    def visit(self, kind: Kind, key: Key, *, fresh: int | None, timeout: int) -> SweepVisit:
        """Run one item now, in this process."""
        return self._visitor(kind).visit(key, fresh=fresh, timeout=timeout)

    async def avisit(self, kind: Kind, key: Key, *, fresh: int | None, timeout: int) -> SweepVisit:
        """`visit`, awaited."""
        return await self._visitor(kind).avisit(key, fresh=fresh, timeout=timeout)

    def _visitor(self, kind: Kind) -> SweepVisitor:
        return SweepVisitor(self._at(kind), kind, _source(kind), share=self._fleet.share)

    def _at(self, kind: Kind) -> Shard:
        self._fleet.prepare()
        return sweep_home(self._fleet, kind)

    def _declared(self, kind: Kind) -> Shard:
        """The shard of a sweep, with the row of the sweep in it."""
        shard = self._at(kind)
        declare(shard.database, kind, shard.clock)
        return shard

    @staticmethod
    def _row(shard: Shard, kind: Kind) -> SweepRow:
        row = shard.database.read(lambda connection: store.get(connection, kind.name))
        assert row is not None
        return row

    @staticmethod
    def _has_worker(shard: Shard, kind: Kind) -> bool:
        now = shard.clock.now()
        workers = shard.database.read(workers_of)
        return any(each.lease_until >= now and kind.name in each.kinds for each in workers)


class Splitter:
    """Changes how many ranges a round has while it runs."""

    def __init__(self, shard: Shard, kind: Kind, source: SweepSource) -> None:
        self._shard = shard
        self._kind = kind
        self._source = source
        self._refused: set[int] = set()

    def split(self, count: int) -> int:
        """Cut or merge until there are `count` ranges, or until nothing more can be done."""
        while True:
            found = _ranges(self._shard, self._kind)
            if len(found) == count:
                return count
            is_done = self._merge(found) if len(found) > count else self._cut(found)
            if is_done:
                return len(_ranges(self._shard, self._kind))

    def _cut(self, found: list[Range]) -> bool:
        """Cut the largest range; True if none is left to cut."""
        largest = model.next_to_split(found, refused=self._refused)
        if largest is None:
            return True
        shard = self._shard
        if not cut(shard.database, self._source, largest, numbers=shard.numbers):
            self._refused.add(largest.id)
        return False

    def _merge(self, found: list[Range]) -> bool:
        """Merge the smallest neighbours; True if there are none."""
        pair = model.next_to_merge(found, refused=self._refused)
        if pair is None:
            return True
        if not self._shard.database.write(lambda connection: ranges.merge(connection, *pair)):
            self._refused.add(pair[0].id)
        return False


def views(found: list[Range], now: int) -> list[RangeView]:
    """Ranges for people, in the order of their keys."""
    straggling = model.stragglers(found, now)
    return [model.range_view(each, now, straggling) for each in model.in_order(found)]


def progress(
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
        ranges=tuple(views(found, now)),
        history=tuple(rounds),
    )


def _moment(microseconds: int | None) -> datetime | None:
    return None if microseconds is None else to_datetime(microseconds)


def _ranges(shard: Shard, kind: Kind) -> list[Range]:
    return shard.database.read(lambda connection: ranges.listing(connection, kind.name))


def _source(kind: Kind) -> SweepSource:
    return terms_of(kind).source
