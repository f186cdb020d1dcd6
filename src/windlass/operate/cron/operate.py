"""Crons: their turns and results; run one now, and change its schedule while workers run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import NamedTuple

from windlass.core.cron.discover import reschedule
from windlass.core.finish import store as finish_store
from windlass.core.finish.store import MINUTE, Work
from windlass.core.limit import store as limit_store
from windlass.core.limit.schedule import change_of, change_text, schedule_now
from windlass.core.limit.store import SCHEDULES, Switch, SwitchRows
from windlass.core.limit.switch import held_back
from windlass.core.shard.fleet import Fleet
from windlass.core.shard.shard import Answers, Shard
from windlass.core.task.declare import How
from windlass.core.task.kind import CRON_KEY, Kind, Registry
from windlass.core.task.store import task
from windlass.database.connection import Connection
from windlass.errors import Unknown
from windlass.value.calendar.cron_words import words_of
from windlass.value.cron import Schedule, read_turn, schedule_of
from windlass.value.status import Status
from windlass.value.task import TaskView
from windlass.view.action import whoami
from windlass.view.field import Moment, exposed
from windlass.view.listing import Listing
from windlass.view.said import Said, Spoken, as_said

NOW = How()
TURNS_SHOWN = 5
RESULTS_SHOWN = 20
# How far back results are looked for: as long as statistics are kept.
RESULT_MINUTES = finish_store.KEEP_STATISTICS


@dataclass(frozen=True)
class ScheduleView:
    """A schedule: an expression such as "0 3 * * *" or "@every 30s", its zone, and in words."""

    cron: str
    zone: str
    words: Said


@dataclass(frozen=True)
class ScheduleChangeView:
    """Who set the schedule that holds, and when."""

    who: str
    since: Moment


@dataclass(frozen=True)
class TurnView:
    """The last turn: when it began and ended, and how; `error` is why it failed."""

    started_at: Moment | None
    ended_at: Moment
    status: Status
    seconds: float | None
    error: str | None


@dataclass(frozen=True)
class ResultView:
    """What ended in one minute: turns and runs by hand, and how long they ran together."""

    at: Moment
    succeeded: int
    failed: int
    retried: int
    milliseconds: int


@dataclass(frozen=True)
class CronView:
    """A cron: what holds, what it declares, its next turns and its last one."""

    kind: str
    summary: str
    schedule: ScheduleView
    declared: ScheduleView
    # Who set a schedule while workers run; None: it runs as declared.
    changed: ScheduleChangeView | None
    catchup: bool
    # Of its standing row; None before a worker has made it.
    task: int | None
    status: Status | None
    next: list[Moment]
    last: TurnView | None
    off: bool
    held_back: str | None

    @property
    @exposed
    def held(self) -> Spoken | None:
        """`held_back`, with its code and values for other languages."""
        return as_said(self.held_back)


@dataclass(frozen=True)
class CronDetail:
    """A cron, and its results of the last week, newest first."""

    cron: CronView
    results: list[ResultView]
    missing: tuple[str, ...]


class _Found(NamedTuple):
    """What one shard knows."""

    switches: SwitchRows
    standing: dict[str, TaskView]


def listing(fleet: Fleet, registry: Registry) -> Listing[CronView]:
    """All declared crons, by name."""
    crons = [kind for _, kind in sorted(registry.kinds.items()) if kind.schedule is not None]
    answers = _read(fleet, crons)
    return Listing([_view(fleet, kind, answers) for kind in crons], answers.missing)


def show(fleet: Fleet, registry: Registry, name: str) -> CronDetail:
    """One cron with its last results."""
    kind, _ = _cron(registry, name)
    answers = _read(fleet, [kind])
    return CronDetail(_view(fleet, kind, answers), _results(fleet, name), answers.missing)


def wanted(
    registry: Registry, name: str, *, cron: str | None, every: str | None, tz: str | None
) -> Schedule:
    """The schedule to set, checked; without `tz` in the declared time zone."""
    _, before = _cron(registry, name)
    zone = tz if tz is not None else "UTC" if every is not None else before.zone
    return schedule_of(cron, every, zone, catchup=before.catchup)


def set_(
    fleet: Fleet, registry: Registry, name: str, schedule: Schedule, *, who: str | None = None
) -> None:
    """Let a cron follow `schedule` in all workers, until it is reset or declared differently."""
    kind, before = _cron(registry, name)
    text = None
    if (schedule.expression, schedule.zone) != (before.expression, before.zone):
        now = fleet.shards[0].clock.now()
        text = change_text(before, schedule, who=(who or whoami())[:255], now=now)
    _write(fleet, kind, schedule, text, done="set")


def reset(fleet: Fleet, registry: Registry, name: str) -> None:
    """Let a cron follow what it declares."""
    kind, schedule = _cron(registry, name)
    _write(fleet, kind, schedule, None, done="reset")


def current(fleet: Fleet, registry: Registry, name: str) -> str:
    """The schedule that holds now, for the audit log."""
    kind, _ = _cron(registry, name)
    return told(_schedule(kind, _read(fleet, [kind])))


def declared(registry: Registry, name: str) -> str:
    """The schedule that it declares, for the audit log."""
    return told(_cron(registry, name)[1])


def told(schedule: Schedule) -> str:
    """A schedule for the audit log: its expression, and its zone if it has one."""
    return schedule.expression if schedule.interval else f"{schedule.expression} {schedule.zone}"


def kind_of(registry: Registry, name: str) -> Kind:
    """The kind of a cron."""
    return _cron(registry, name)[0]


def _cron(registry: Registry, name: str) -> tuple[Kind, Schedule]:
    found = registry.kinds.get(name)
    if found is None or found.schedule is None:
        names = sorted(each.name for each in registry.kinds.values() if each.schedule)
        known = ", ".join(names) or "none"
        raise Unknown(f"{name!r} is not a cron of this app; declared: {known}")
    return found, found.schedule


def _write(fleet: Fleet, kind: Kind, schedule: Schedule, text: str | None, *, done: str) -> None:
    fleet.prepare()

    def write(shard: Shard) -> None:
        shard.database.schema.need(SCHEDULES, "a schedule that is set while workers run")

        def decide(found: Switch) -> Switch:
            return replace(found, schedule=text)

        def work(connection: Connection) -> None:
            dialect = shard.database.dialect
            limit_store.change_switch(connection, dialect, kind.name, decide)
            reschedule(connection, kind, schedule, now=shard.clock.now())

        shard.database.write(work)
        shard.bell.ring_here()

    fleet.everywhere(write, what=f"the schedule of {kind.name!r} is {done}")


def _read(fleet: Fleet, crons: list[Kind]) -> Answers[_Found]:
    def look(shard: Shard) -> _Found:
        def read(connection: Connection) -> _Found:
            rows = ((kind.name, task.find(connection, kind.name, CRON_KEY)) for kind in crons)
            standing = {name: row for name, row in rows if row is not None and not row.is_coming}
            return _Found(limit_store.switches(connection), standing)

        return shard.database.read(read)

    fleet.prepare()
    return fleet.ask(look)


def _schedule(kind: Kind, answers: Answers[_Found]) -> Schedule:
    schedule = schedule_now(kind, answers.values[0].switches.alone(kind.name))
    assert schedule is not None
    return schedule


def _view(fleet: Fleet, kind: Kind, answers: Answers[_Found]) -> CronView:
    assert kind.schedule is not None
    switches, now = answers.values[0].switches, fleet.shards[0].clock.now()
    switch = switches.of(kind.name, kind.group)
    change, schedule = change_of(kind, switch), _schedule(kind, answers)
    row = next(
        (each.standing[kind.name] for each in answers.values if kind.name in each.standing), None
    )
    return CronView(
        kind=kind.name,
        summary=(kind.function.__doc__ or "").strip().partition("\n")[0],
        schedule=_shown(schedule),
        declared=_shown(kind.schedule),
        changed=None if change is None else ScheduleChangeView(change.who, change.since),
        catchup=schedule.catchup,
        task=None if row is None else row.id,
        status=None if row is None else row.status,
        next=list(islice(_turns(schedule, row, now), TURNS_SHOWN)),
        last=None if row is None else _last(row),
        off=bool(switch.pauses(now)),
        held_back=held_back(kind, switch, now=now, others=switches),
    )


def _shown(schedule: Schedule) -> ScheduleView:
    return ScheduleView(schedule.expression, schedule.zone, words_of(schedule))


def _turns(schedule: Schedule, row: TaskView | None, now: int) -> Iterator[int]:
    """The turns from now on; first one that is due and has not run."""
    if row is not None and row.status.is_final:
        return
    waits_for = None if row is None or row.status is not Status.WAITING else row.due_at
    after = now
    if waits_for is not None:
        turn = read_turn(row.payload) if row is not None else None
        yield turn or waits_for
        after = max(now, turn or waits_for)
    while True:
        after = schedule.next_after(after)
        yield after


def _last(row: TaskView) -> TurnView | None:
    if row.finished_at is None or row.last_status is None:
        return None
    is_whole = row.started_at is not None and row.started_at <= row.finished_at
    return TurnView(
        started_at=row.started_at if is_whole else None,
        ended_at=row.finished_at,
        status=row.last_status,
        seconds=(row.finished_at - (row.started_at or 0)) / 1e6 if is_whole else None,
        error=row.remark if row.last_status is not Status.SUCCEEDED else None,
    )


def _results(fleet: Fleet, name: str) -> list[ResultView]:
    def read(shard: Shard) -> dict[int, Work]:
        since = shard.clock.now() // MINUTE - RESULT_MINUTES
        return shard.database.read(
            lambda connection: finish_store.minutes_of(connection, name, since=since)
        )

    found: list[ResultView] = []
    for part in fleet.ask(read).values:
        for minute, work in part.items():
            counts = work.done, work.failed, work.retried, work.milliseconds
            found.append(ResultView(minute * MINUTE, *counts))
    return sorted(found, key=lambda each: each.at, reverse=True)[:RESULTS_SHOWN]
