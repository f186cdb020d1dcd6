"""Crons: a starting worker inserts, updates or stops the standing row of each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from enum import Enum

from windlass import telemetry
from windlass.clock import Clock
from windlass.core.cron import store
from windlass.core.fetch import store as fetch_store
from windlass.core.limit import store as limit_store
from windlass.core.limit.schedule import change_of, schedule_now
from windlass.core.limit.store import Switch, SwitchRows
from windlass.core.ring import store as ring_store
from windlass.core.task.kind import CRON_KEY, Kind
from windlass.core.task.store import task
from windlass.database.connection import Connection
from windlass.database.database import Database, Numbers
from windlass.value.bucket import bucket_of
from windlass.value.cron import Schedule
from windlass.value.status import Status
from windlass.value.task import KEEP_FAILED, NewTask

NO_SWITCHES = SwitchRows({})


class Belongs(Enum):
    """Whether the standing row of a cron belongs in a database, has yet to leave it, or neither."""

    HERE = "here"
    STILL = "still"
    ELSEWHERE = "elsewhere"


def everywhere(_kind: Kind) -> Belongs:
    """All standing rows belong in an app's only database."""
    return Belongs.HERE


def discover(
    database: Database,
    kinds: Mapping[str, Kind],
    clock: Clock,
    numbers: Numbers,
    *,
    where: Callable[[Kind], Belongs] = everywhere,
) -> None:
    """Update the standing rows to match the declarations; any number of workers may do it at once.

    After a step back of the clock it also finds the next turn of each anew. A schedule that an
    operator set holds, unless the declared one has changed since: then it is forgotten.
    `where` says whether the row of a kind belongs in this database.
    """
    now = clock.now()
    crons = [kind for kind in kinds.values() if kind.schedule is not None]
    switches = database.read(limit_store.switches) if crons else NO_SWITCHES
    for kind in crons:
        found = switches.alone(kind.name)
        if found.schedule is not None and change_of(kind, found) is None:
            found = _forget_change(database, kind)
        schedule, belongs = schedule_now(kind, found), where(kind)
        if schedule is not None and belongs is not Belongs.ELSEWHERE:
            is_home = belongs is Belongs.HERE
            _declare(database, kind, schedule, now=now, numbers=numbers, is_home=is_home)
    for name in _undeclared(database, kinds):
        if _stop(database, name, now=now):
            telemetry.emit("cron.stopped", kind=name)


def reschedule(connection: Connection, kind: Kind, schedule: Schedule, *, now: int) -> None:
    """Let a waiting cron follow another schedule; one that runs follows it from its end on."""
    found = task.find(connection, kind.name, CRON_KEY)
    if found is not None and not schedule.is_in(found.payload):
        due_at = schedule.next_after(now)
        payload = schedule.as_payload(turn=due_at)
        store.reschedule(connection, found.id, payload, due_at=due_at)


def _forget_change(database: Database, kind: Kind) -> Switch:
    """The declared schedule is another one than what was changed: it holds."""

    def decide(found: Switch) -> Switch:
        return found if change_of(kind, found) else replace(found, schedule=None)

    def work(connection: Connection) -> Switch:
        return limit_store.change_switch(connection, database.dialect, kind.name, decide)

    return database.write(work)


def _stop(database: Database, name: str, *, now: int) -> bool:
    prune_at = now + KEEP_FAILED
    return database.write(
        lambda connection: store.stop(connection, name, CRON_KEY, now=now, prune_at=prune_at)
    )


def _declare(
    database: Database,
    kind: Kind,
    schedule: Schedule,
    *,
    now: int,
    numbers: Numbers,
    is_home: bool,
) -> None:
    next_turn = schedule.next_after(now)

    def work(connection: Connection) -> bool:
        found = task.find(connection, kind.name, CRON_KEY)
        if found is None and not is_home:
            return False
        if found is None:
            number = numbers.take(inside=connection)[0]
            row = NewTask(
                number,
                kind.name,
                CRON_KEY,
                bucket_of(CRON_KEY),
                kind.priority,
                next_turn,
                schedule.as_payload(turn=next_turn),
                now,
            )
            return bool(task.insert(connection, database.dialect, [row]))
        if found.status.is_final and found.remark != store.STOPPED:
            # An operator ended it, and may retry it.
            return False
        if found.status.is_final:
            # It was stopped while it was not declared: a turn missed in that time is due at once.
            last = found.finished_at or found.created_at
            due_at = schedule.next_after(max(last, found.started_at or last))
            payload = schedule.as_payload(turn=due_at)
            return store.restart(connection, found.id, payload, due_at=due_at)
        if not schedule.is_in(found.payload):
            payload = schedule.as_payload(turn=next_turn)
            return store.reschedule(connection, found.id, payload, due_at=next_turn)
        sooner = schedule.sooner(found.payload, due_at=found.due_at or 0, now=now)
        if found.status is Status.WAITING and sooner is not None:
            due_at, payload = sooner
            return store.reschedule(connection, found.id, payload, due_at=due_at)
        return False

    if database.write(work):
        telemetry.emit("cron.declared", kind=kind.name, cron=schedule.expression, tz=schedule.zone)


def _undeclared(database: Database, kinds: Mapping[str, Kind]) -> Iterable[str]:
    """Kinds with waiting rows that are not a cron here, and that no other worker declares."""

    def look(connection: Connection) -> tuple[list[str], list[ring_store.WorkerView]]:
        return fetch_store.kinds_waiting(connection), ring_store.workers(connection)

    waiting, workers = database.read(look)
    elsewhere = {name for view in workers for name in view.declared} - kinds.keys()
    for name in waiting:
        is_cron_here = name in kinds and kinds[name].schedule is not None
        if not is_cron_here and name not in elsewhere:
            yield name
