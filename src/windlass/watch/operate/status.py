"""Status: what runs, what waits and why, and who works."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import cast

from windlass.clock import SECOND
from windlass.core.alert import store as alert_store
from windlass.core.alert.model import cause_of
from windlass.core.fetch import store as fetch_store
from windlass.core.finish import store as finish_store
from windlass.core.finish.store import MINUTE, Work
from windlass.core.limit import store as limit_store
from windlass.core.limit.schedule import schedule_now
from windlass.core.limit.store import Switch, SwitchRows
from windlass.core.limit.switch import Setting, held_back, setting_of
from windlass.core.ring import store as ring_store
from windlass.core.ring.store import WorkerView
from windlass.core.shard.fleet import Fleet
from windlass.core.shard.shard import Shard
from windlass.core.task.kind import CRON_KEY, Kind, Registry
from windlass.core.task.store import task
from windlass.database import migrate
from windlass.database.connection import Connection
from windlass.database.database import has_tables
from windlass.errors import UnknownKind
from windlass.queue.model.consume import is_consumer, terms_of
from windlass.queue.store import inbox, outbox
from windlass.sweep import model
from windlass.sweep.model import has_source, is_sweep, sweep_why
from windlass.sweep.store import failed_item as sweep_failure
from windlass.sweep.store import range as ranges
from windlass.sweep.store import run as sweep_run
from windlass.sweep.store import sweep
from windlass.value.duration import format_duration
from windlass.value.outcome import MISFIT_DELAY, Misfit
from windlass.value.payload import argument_views
from windlass.value.rate import rate_text
from windlass.value.task import COUNTED_EXACTLY
from windlass.view.said import joined, say
from windlass.watch.model import (
    NOTHING_DUE,
    AppStatus,
    DeclaredView,
    Family,
    KindDetail,
    KindStatus,
    KindView,
    Minute,
    kind_together,
)

HOUR = 60
# How many open runs of a sweep over given sources are counted.
RUNS_COUNTED = 50
FAILURES_SHOWN = 5
NEAR_ITS_RATE = 0.7
NONE_COUNTED = {"waiting": 0, "due": 0, "running": 0, "failed": 0}


def look(fleet: Fleet, registry: Registry) -> AppStatus:
    """How everything is doing now."""
    found = fleet.ask(lambda shard: _look_at_shard(shard, registry))
    if fleet.single is not None:
        return found.values[0]
    kinds: dict[str, list[KindStatus]] = {}
    for each in found.values:
        for kind in each.kinds:
            kinds.setdefault(kind.kind, []).append(kind)
    failures = [failure for each in found.values for failure in each.failures]
    failures.sort(key=lambda failure: failure.failed_at, reverse=True)
    shards = tuple(shard.name for shard in fleet.shards)
    schema = min(each.schema for each in found.values)
    return AppStatus(
        database=", ".join(shards),
        schema=schema,
        pending=tuple(migrate.pending(schema)),
        now=max(each.now for each in found.values),
        kinds=[kind_together(same) for _, same in sorted(kinds.items())],
        workers=[worker for each in found.values for worker in each.workers],
        failures=failures[:FAILURES_SHOWN],
        shards=shards,
        missing=found.missing,
    )


def due_count(fleet: Fleet, registry: Registry) -> int:
    """How many rows are due in the shards that are up; exact up to 10,000 in each."""
    return sum(_due(shard, registry) for shard in fleet.shards if shard.is_up)


def listing(fleet: Fleet, registry: Registry) -> list[KindView]:
    """All kinds that are declared, or have rows."""
    return kind_views(look(fleet, registry).kinds, registry)


def show(fleet: Fleet, registry: Registry, name: str) -> KindDetail:
    """One kind."""

    def read(shard: Shard) -> KindStatus | None:
        return shard.database.read(
            lambda connection: _Reader(connection, shard, registry).known_kind(name)
        )

    found = [each for each in fleet.ask(read).values if each is not None]
    if not found:
        raise UnknownKind(name, list(registry.kinds))
    (kind,) = kind_views([kind_together(found)], registry)
    return KindDetail(kind, pace(fleet, kind=name))


def kind_views(found: Iterable[KindStatus], registry: Registry) -> list[KindView]:
    """How kinds are doing, with what the code declares of them."""
    return [_view(each, registry.kinds.get(each.kind)) for each in found]


def pace(fleet: Fleet, *, kind: str | None = None) -> list[Minute]:
    """Each minute of the last hour, oldest first; the last one is not over."""

    def read(shard: Shard) -> dict[int, Work]:
        since = shard.clock.now() // MINUTE - HOUR + 1

        def work(connection: Connection) -> dict[int, Work]:
            if kind is None:
                return finish_store.minutes(connection, since=since)
            return finish_store.minutes_of(connection, kind, since=since)

        return shard.database.read(work)

    found = fleet.fan_out(read).values
    last = fleet.shards[0].clock.now() // MINUTE
    return [
        _minute(minute, [each[minute] for each in found if minute in each])
        for minute in range(last - HOUR + 1, last + 1)
    ]


def _due(shard: Shard, registry: Registry) -> int:
    now, database = shard.clock.now(), shard.database

    def read(connection: Connection) -> int:
        until = {name: kind.due_until(now) for name, kind in registry.kinds.items()}
        counted = task.counts(connection, database.dialect, until)
        return sum(counts["due"] for counts in counted.values())

    return database.read(read, tries=1)


def _look_at_shard(shard: Shard, registry: Registry) -> AppStatus:
    schema = shard.database.schema.look().version or ""

    def read(connection: Connection) -> AppStatus:
        reader = _Reader(connection, shard, registry)
        return AppStatus(
            database=shard.database.name,
            shards=(shard.database.name,),
            schema=schema,
            pending=tuple(migrate.pending(schema)),
            now=reader.now,
            kinds=reader.all_kinds(),
            workers=reader.workers,
            failures=finish_store.recent_failures(connection, limit=FAILURES_SHOWN),
        )

    return shard.database.read(read)


class _Reader:
    """Reads how kinds are doing in one shard, in one transaction."""

    def __init__(self, connection: Connection, shard: Shard, registry: Registry) -> None:
        self._connection = connection
        self._dialect = shard.database.dialect
        self._registry = registry
        self.now = shard.clock.fresh()
        self.workers: list[WorkerView] = ring_store.workers(connection)
        self._misfits = finish_store.kinds_failing_as(
            connection, Misfit.__name__, since=self.now - 2 * MISFIT_DELAY
        )

    def all_kinds(self) -> list[KindStatus]:
        since = self.now // MINUTE - HOUR
        done = {work.kind: work for work in finish_store.work_since(self._connection, minute=since)}
        switches = self._switches
        waiting = fetch_store.kinds_waiting(self._connection)
        unended = fetch_store.kinds_unended(self._connection) - self._registry.own.keys()
        names = sorted({*self._registry.kinds, *waiting, *unended, *done})
        counts = self._counts(names)
        return [
            self._kind(self._switch(switches, name), done.get(name), counts.get(name))
            for name in names
        ]

    def known_kind(self, name: str) -> KindStatus | None:
        since = self.now // MINUTE - HOUR
        work = finish_store.work_of(self._connection, name, minute=since)
        is_declared = name in self._registry.kinds
        if (
            not is_declared
            and work is None
            and name not in fetch_store.kinds_unended(self._connection)
        ):
            return None
        found = self._switch(self._switches, name)
        return self._kind(found, work, self._counts([name]).get(name))

    @cached_property
    def _switches(self) -> SwitchRows:
        return limit_store.switches(self._connection)

    def _switch(self, switches: SwitchRows, name: str) -> Switch:
        kind = self._registry.kinds.get(name)
        return switches.of(name, None if kind is None else kind.group)

    def _counts(self, names: Iterable[str]) -> dict[str, dict[str, int]]:
        """The rows of each kind in each state; sweeps have ranges, and consumers messages."""
        until = {}
        for name in names:
            kind = self._registry.kinds.get(name)
            if not is_sweep(kind) and not (kind is not None and is_consumer(kind)):
                until[name] = self.now if kind is None else kind.due_until(self.now)
        return task.counts(self._connection, self._dialect, until)

    def _kind(self, found: Switch, work: Work | None, counts: dict[str, int] | None) -> KindStatus:
        name, now = found.kind, self.now
        kind = self._registry.kinds.get(name)
        schedule = None if kind is None else schedule_now(kind, found)
        standing = None if schedule is None else task.find(self._connection, name, CRON_KEY)
        swept = self._sweep(kind) if kind is not None and is_sweep(kind) else None
        consumed = self._consumer(kind) if kind is not None and is_consumer(kind) else None
        own = swept or consumed
        counts = (counts or NONE_COUNTED) if own is None else own.counts
        ended = 0 if work is None else work.done + work.failed + work.retried
        is_served = any(name in each.kinds and each.lease_until >= now for each in self.workers)
        setting = None if kind is None else setting_of(kind, found, now=now)
        window = None if setting is None else setting.window
        carried = None if kind is None or not is_served else self._why_carried(kind)
        held = held_back(kind, found, now=now, others=self._switches)
        pause = next(iter(found.pauses(now)), None)
        why_own = own.why if own is not None and is_served else None
        period = None if kind is None else kind.period
        return KindStatus(
            kind=name,
            is_declared=kind is not None,
            cron=None if schedule is None else f"{schedule.expression} {schedule.zone}",
            every=None if period is None else format_duration(period.every),
            sweep=None if swept is None else swept.told,
            via=None if kind is None or kind.via is None else kind.via.name,
            next_due_at=None if standing is None else standing.due_at,
            **counts,
            done_last_hour=0 if work is None else work.done,
            failed_last_hour=0 if work is None else work.failed,
            average_milliseconds=None if work is None or not ended else work.milliseconds / ended,
            paused=pause is not None,
            reason=None if pause is None else pause.reason,
            who=None if pause is None else pause.who,
            since=None if pause is None else pause.since,
            until=None if pause is None else pause.until,
            group=None if kind is None else kind.group,
            opens_at=None if window is None or window.is_open(now) else window.opens_at(now),
            probe_at=found.breaker.probe_at,
            rate=None if setting is None or setting.rate is None else rate_text(setting.rate),
            window=None if window is None else str(window),
            concurrency=None if setting is None else setting.concurrency,
            breaker=str(found.breaker.state),
            is_held_back=held is not None,
            why=self._with_misfits(
                name,
                held or carried or why_own or self._why(name, counts, setting, is_served=is_served),
            ),
        )

    def _why_carried(self, kind: Kind) -> str | None:
        """Why tasks of a carried kind do not reach consumers; None if they do."""
        if kind.via is None or not has_tables(self._connection, inbox.TABLES):
            return None
        if cause_of("no consumer", kind.name) in self._causes:
            return say("why.no_consumer", queue=kind.via.name)
        error = self._broken.get((kind.via.name, kind.via.address))
        return None if error is None else say("why.queue", queue=kind.via.name, error=error)

    @cached_property
    def _causes(self) -> dict[str, int]:
        return alert_store.open_causes(self._connection)

    @cached_property
    def _broken(self) -> dict[tuple[str, str], str]:
        """The queues whose broker does not answer, and its error."""
        rows = outbox.queues(self._connection)
        return {(row.name, row.address): row.error for row in rows if row.error is not None}

    def _with_misfits(self, name: str, why: str) -> str:
        return joined([why, say("why.misfits")]) if name in self._misfits else why

    def _why(
        self, name: str, counts: dict[str, int], setting: Setting | None, *, is_served: bool
    ) -> str:
        """Why it does or does not run, in a few words."""
        rate = None if setting is None else setting.rate
        if counts["due"] and rate is not None and is_served:
            since = self.now // MINUTE - 1
            recent = finish_store.minutes_of(self._connection, name, since=since).values()
            done = sum(work.done + work.failed + work.retried for work in recent)
            if done >= rate * (SECOND * 60 + self.now % MINUTE) / SECOND * NEAR_ITS_RATE:
                return say("why.at_rate", rate=rate_text(rate))
        if setting is None and not is_served:
            return say("why.no_worker_declares")
        if counts["running"]:
            kind = self._registry.kinds.get(name)
            via = None if kind is None else kind.via
            return say("why.running") if via is None else say("why.by_queue", queue=via.name)
        if not is_served:
            return say("why.no_worker")
        if counts["due"]:
            if rate is not None and rate < 1:
                return say("why.waits_for_rate", rate=rate_text(rate))
            return say("why.starting")
        return NOTHING_DUE

    def _consumer(self, kind: Kind) -> _OwnStatus:
        """Kept messages are counted as tasks are."""
        queue = terms_of(kind).queue
        retrying = failed = 0
        why = f"consuming queue {queue.name!r}"
        if has_tables(self._connection, inbox.TABLES):
            retrying, failed = inbox.counts(self._connection, kind.name, most=COUNTED_EXACTLY)
            for row in outbox.queues(self._connection):
                is_this = (row.name, row.address) == (queue.name, queue.address)
                if is_this and row.error is not None:
                    why = f"queue {queue.name!r}: {row.error}"
        counts = {"waiting": retrying, "due": 0, "running": 0, "failed": failed}
        return _OwnStatus(counts, "", why)

    def _sweep(self, kind: Kind) -> _OwnStatus:
        row = sweep.get(self._connection, kind.name)
        found = ranges.listing(self._connection, kind.name)
        runs = sweep_run.opened(self._connection, [kind.name])
        given = [ranges.listing(self._connection, run.name) for run in runs[:RUNS_COUNTED]]
        every = [*found, *(each for part in given for each in part)]
        waiting = sum(each.is_free for each in every)
        total = None if row is None else row.rows
        percent = model.estimate(found, total=total, rate=0.0).percent
        counts = {
            "waiting": waiting,
            "due": waiting,
            "running": sum(each.is_open and not each.is_free for each in every),
            "failed": sweep_failure.count(self._connection, kind.name)
            + sum(sweep_failure.count(self._connection, run.name) for run in runs[:RUNS_COUNTED]),
        }
        far = "unknown" if percent is None else f"{percent:.0f} %"
        told = f"round {0 if row is None else row.round:,}, {far}"
        if runs:
            told = f"{told}, {len(runs):,} {'run' if len(runs) == 1 else 'runs'} over given sources"
            is_owned = any(each.batch is not None for each in every)
            return _OwnStatus(counts, told, "running" if is_owned else "waiting for a worker")
        why = sweep_why(row, found, self.now, has_source=has_source(kind))
        return _OwnStatus(counts, told, why)


@dataclass(frozen=True)
class _OwnStatus:
    """How a kind without rows of tasks is doing: what it has instead, counted as tasks are."""

    counts: dict[str, int]
    told: str
    why: str


def _view(found: KindStatus, kind: Kind | None) -> KindView:
    declared = None if kind is None else _declared(kind)
    return KindView(**vars(found), family=_family(kind), declared=declared)


def _family(kind: Kind | None) -> Family:
    if kind is None:
        return "unknown"
    if kind.face == "task":
        return "task" if kind.schedule is None else "cron"
    return cast(Family, kind.face)


def _declared(kind: Kind) -> DeclaredView:
    terms = kind.breaker
    breaker = None
    if terms is not None:
        breaker = f"{terms.errors} in a row, {format_duration(terms.pause)}"
    return DeclaredView(
        summary=(inspect.getdoc(kind.function) or "").partition("\n")[0],
        arguments=argument_views(kind.arguments.signature),
        retries=max(kind.terms.retry.retries.values(), default=0),
        timeout=None if kind.timeout is None else format_duration(kind.timeout),
        rate=None if kind.rate is None else rate_text(kind.rate),
        window=None if kind.window is None else str(kind.window),
        group=kind.group,
        concurrency=kind.concurrency,
        total_concurrency=kind.total_concurrency,
        priority=kind.priority,
        breaker=breaker,
        downstreams=[each.name for each in kind.downstreams],
        via=None if kind.via is None else f"{kind.via.name}@{kind.via.address}",
        isolate=None if kind.isolate is None else str(kind.isolate),
    )


def _minute(minute: int, works: list[Work]) -> Minute:
    done, failed, retried, spent = (
        sum(getattr(work, name) for work in works)
        for name in ("done", "failed", "retried", "milliseconds")
    )
    ended = done + failed + retried
    return Minute(minute * MINUTE, done, failed, retried, spent / ended if ended else None)
