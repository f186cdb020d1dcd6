"""Status: what runs, what waits, who works."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from sqlalchemy import Connection

from windlass.clock import SECOND, Clock, to_datetime
from windlass.core.cron import store as cron
from windlass.core.finish.store import history
from windlass.core.finish.store.history import MINUTE, FailureView, Work
from windlass.core.limit.store import switch
from windlass.core.limit.store.switch import Switch
from windlass.core.limit.switch import Setting, setting_of
from windlass.core.ring.store import worker
from windlass.core.ring.store.worker import WorkerView
from windlass.core.task.kind import CRON_KEY, Kind, Registry
from windlass.core.task.store import task
from windlass.core.task.store.task import COUNTED_EXACTLY
from windlass.database import migrate
from windlass.database.database import Database
from windlass.database.dialect.base import Dialect
from windlass.sweep import model
from windlass.sweep.model import sweep_why
from windlass.sweep.store import failed_item as sweep_failure
from windlass.sweep.store import range as ranges
from windlass.sweep.store import sweep
from windlass.value.breaker import State
from windlass.value.duration import format_duration
from windlass.value.rate import PER

RECENT_MINUTES = 60
FAILURES_SHOWN = 5
NOTHING_DUE = "nothing due"
NEAR_ITS_RATE = 0.7
NONE_COUNTED = {"waiting": 0, "due": 0, "running": 0, "failed": 0}


@dataclass(frozen=True)
class KindStatus:
    """How one kind is doing, and what holds for it. Counts are exact up to 10,000."""

    kind: str
    is_declared: bool
    cron: str | None
    every: str | None
    # Of a sweep: its round, and how much of it is done.
    sweep: str | None
    next_due_at: int | None
    waiting: int
    due: int
    running: int
    failed: int
    done_last_hour: int
    failed_last_hour: int
    average_milliseconds: float | None
    paused: bool
    reason: str | None
    who: str | None
    since: int | None
    opens_at: int | None
    probe_at: int | None
    rate: str | None
    window: str | None
    concurrency: int | None
    breaker: str
    why: str
    # Whether a switch, a window or a breaker keeps it from running.
    is_held_back: bool


@dataclass(frozen=True)
class AppStatus:
    """How everything is doing. Times are microseconds since the epoch.

    `missing` names the shards that could not be asked: what they have is not counted.
    """

    database: str
    schema: str
    now: int
    kinds: list[KindStatus]
    workers: list[WorkerView]
    failures: list[FailureView]
    shards: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()


def look(database: Database, clock: Clock, registry: Registry) -> AppStatus:
    """How everything is doing now."""
    now = clock.now()

    def read(connection: Connection) -> AppStatus:
        workers = worker.listing(connection)
        done = {
            work.kind: work
            for work in history.work_since(connection, minute=now // MINUTE - RECENT_MINUTES)
        }
        switches = switch.listing(connection)
        names = set(registry.kinds) | set(cron.kinds_waiting(connection)) | set(done)
        counts = _counted(connection, database.dialect, registry, names, now)
        return AppStatus(
            database=database.name,
            shards=(database.name,),
            schema=migrate.VERSION,
            now=now,
            kinds=[
                _kind(
                    connection,
                    counts.get(name, NONE_COUNTED),
                    name,
                    registry.kinds.get(name),
                    switches.get(name, Switch(name)),
                    done.get(name),
                    workers,
                    now,
                )
                for name in sorted(names)
            ],
            workers=workers,
            failures=history.recent_failures(connection, limit=FAILURES_SHOWN),
        )

    return database.read(read)


def look_at(database: Database, clock: Clock, registry: Registry, name: str) -> KindStatus | None:
    """How one kind is doing now; None if nothing is known of it."""
    now = clock.now()

    def read(connection: Connection) -> KindStatus | None:
        since = now // MINUTE - RECENT_MINUTES
        work = history.work_of(connection, name, minute=since)
        kind = registry.kinds.get(name)
        if kind is None and work is None and name not in cron.kinds_waiting(connection):
            return None
        return _kind(
            connection,
            _counted(connection, database.dialect, registry, {name}, now).get(name, NONE_COUNTED),
            name,
            kind,
            switch.get(connection, name),
            work,
            worker.listing(connection),
            now,
        )

    return database.read(read)


def together(
    found: Sequence[AppStatus], *, shards: tuple[str, ...], missing: tuple[str, ...]
) -> AppStatus:
    """How everything is doing in several shards."""
    kinds: dict[str, list[KindStatus]] = {}
    for each in found:
        for kind in each.kinds:
            kinds.setdefault(kind.kind, []).append(kind)
    failures = sorted(
        (failure for each in found for failure in each.failures),
        key=lambda failure: failure.failed_at,
        reverse=True,
    )
    return AppStatus(
        database=", ".join(shards),
        schema=migrate.VERSION,
        now=max(each.now for each in found),
        kinds=[kind_together(same) for _, same in sorted(kinds.items())],
        workers=[worker for each in found for worker in each.workers],
        failures=failures[:FAILURES_SHOWN],
        shards=shards,
        missing=missing,
    )


def kind_together(same: Sequence[KindStatus]) -> KindStatus:
    """How a kind is doing in several shards."""
    ended = [kind.done_last_hour + kind.failed_last_hour for kind in same]
    spent = [
        (kind.average_milliseconds or 0.0) * count for kind, count in zip(same, ended, strict=True)
    ]
    moments = [kind.next_due_at for kind in same if kind.next_due_at is not None]
    reasons = list(dict.fromkeys(kind.why for kind in same))
    telling = [why for why in reasons if why != NOTHING_DUE]
    return replace(
        same[0],
        next_due_at=min(moments, default=None),
        **{
            name: sum(getattr(kind, name) for kind in same)
            for name in (
                *("waiting", "due", "running", "failed"),
                *("done_last_hour", "failed_last_hour"),
            )
        },
        average_milliseconds=sum(spent) / sum(ended) if sum(ended) else None,
        why="; ".join(telling or reasons),
        is_held_back=any(kind.is_held_back for kind in same),
    )


def due_text(databases: Sequence[tuple[Database, Clock]], registry: Registry) -> str:
    """How many rows are due, for people: exact up to a bound, then with a plus."""
    due = sum(_due(database, clock, registry) for database, clock in databases)
    return f"{COUNTED_EXACTLY:,}+" if due > COUNTED_EXACTLY else f"{due:,}"


def _due(database: Database, clock: Clock, registry: Registry) -> int:
    now = clock.now()

    def read(connection: Connection) -> int:
        return sum(
            task.counts(connection, database.dialect, name, until=kind.due_until(now))["due"]
            for name, kind in registry.kinds.items()
        )

    return database.read(read, tries=1)


def _kind(
    connection: Connection,
    counts: dict[str, int],
    name: str,
    kind: Kind | None,
    found: Switch,
    work: Work | None,
    workers: list[WorkerView],
    now: int,
) -> KindStatus:
    schedule = None if kind is None else kind.schedule
    standing = None if schedule is None else task.find(connection, name, CRON_KEY)
    swept = None
    if kind is not None and kind.sweep is not None:
        swept = _swept(connection, name, now)
        counts = swept.counts
    ended = 0 if work is None else work.done + work.failed + work.retried
    is_served = any(name in view.kinds and view.lease_until >= now for view in workers)
    setting = None if kind is None else setting_of(kind, found)
    held = held_back(kind, found, now=now)
    return KindStatus(
        kind=name,
        is_declared=kind is not None,
        cron=None if schedule is None else f"{schedule.expression} {schedule.zone}",
        every=None if kind is None or kind.period is None else format_duration(kind.period.every),
        sweep=None if swept is None else swept.told,
        next_due_at=None if standing is None else standing.due_at,
        **counts,
        done_last_hour=0 if work is None else work.done,
        failed_last_hour=0 if work is None else work.failed,
        average_milliseconds=None if work is None or not ended else work.milliseconds / ended,
        paused=found.off,
        reason=found.reason,
        who=found.who,
        since=found.since,
        opens_at=_opens_at(setting, now),
        probe_at=found.breaker.probe_at,
        rate=None if setting is None or setting.rate is None else rate_text(setting.rate),
        window=None if setting is None or setting.window is None else setting.window.text,
        concurrency=None if setting is None else setting.concurrency,
        breaker=str(found.breaker.state),
        is_held_back=held is not None,
        why=held
        or (swept.why if swept is not None and is_served else None)
        or _why(connection, name, counts, setting, now, is_served=is_served),
    )


def _counted(
    connection: Connection, dialect: Dialect, registry: Registry, names: Iterable[str], now: int
) -> dict[str, dict[str, int]]:
    """The rows of each kind in each state; sweeps have ranges instead."""
    until = {}
    for name in sorted(names):
        kind = registry.kinds.get(name)
        if kind is None or kind.sweep is None:
            until[name] = now if kind is None else kind.due_until(now)
    return task.counts_of_all(connection, dialect, until)


@dataclass(frozen=True)
class _Swept:
    """How a sweep is doing: its ranges are counted as tasks are, and its failed items."""

    counts: dict[str, int]
    told: str
    why: str


def _swept(connection: Connection, name: str, now: int) -> _Swept:
    row = sweep.get(connection, name)
    found = ranges.listing(connection, name)
    waiting = sum(each.is_free for each in found)
    total = None if row is None else row.rows
    percent = model.estimate(found, total=total, rate=0.0).percent
    counts = {
        "waiting": waiting,
        "due": waiting,
        "running": sum(each.is_open and not each.is_free for each in found),
        "failed": sweep_failure.count(connection, name),
    }
    far = "unknown" if percent is None else f"{percent:.0f} %"
    told = f"round {0 if row is None else row.round:,}, {far}"
    return _Swept(counts, told, sweep_why(row, found, now))


def _opens_at(setting: Setting | None, now: int) -> int | None:
    window = None if setting is None else setting.window
    return None if window is None or window.is_open(now) else window.opens_at(now)


def held_back(kind: Kind | None, found: Switch, *, now: int) -> str | None:
    """Why a kind may not run, in a few words; None if it may."""
    if found.off:
        who = f" by {found.who}" if found.who else ""
        since = f" {_away(now - found.since)} ago" if found.since else ""
        return f"paused{who}{since}" + (f": {found.reason}" if found.reason else "")
    breaker = found.breaker
    if kind is not None and kind.breaker is not None and breaker.is_open:
        probe_at = breaker.probe_at or now
        when = f"probed in {_away(probe_at - now)}" if probe_at > now else "about to be probed"
        if breaker.state is State.PROBING:
            when = "being probed"
        return f"breaker open after {breaker.errors_in_a_row} errors in a row, {when}"
    window = None if kind is None else setting_of(kind, found).window
    if window is not None and not window.is_open(now):
        opens_at = window.opens_at(now)
        shown = to_datetime(opens_at).strftime("%a %H:%M UTC")
        return f"window closed, opens {shown} (in {_away(opens_at - now)})"
    return None


def _why(
    connection: Connection,
    name: str,
    counts: dict[str, int],
    setting: Setting | None,
    now: int,
    *,
    is_served: bool,
) -> str:
    """Why it does or does not run, in a few words."""
    rate = None if setting is None else setting.rate
    if counts["due"] and rate is not None and is_served:
        recent = history.minutes_of(connection, name, since=now // MINUTE - 1).values()
        done = sum(work.done + work.failed + work.retried for work in recent)
        if done >= rate * (SECOND * 60 + now % MINUTE) / SECOND * NEAR_ITS_RATE:
            return f"running at its rate of {rate_text(rate)}"
    if counts["running"]:
        return "running"
    if not is_served:
        return "no worker" if setting is not None else "no worker declares it"
    if counts["due"]:
        if rate is not None and rate < 1:
            return f"waiting for its rate of {rate_text(rate)}"
        return "starting"
    return NOTHING_DUE


def rate_text(per_second: float) -> str:
    """A rate for people."""
    for unit, seconds in PER.items():
        number = per_second * seconds
        if number >= 1 or unit == "d":
            return f"{number:,.0f}/{unit}" if number >= 100 else f"{number:.3g}/{unit}"
    raise AssertionError(per_second)


def _away(microseconds: int) -> str:
    return format_duration(max(SECOND, microseconds // SECOND * SECOND))
