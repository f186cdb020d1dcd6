"""What is asked of all shards together, and what is done wherever a row is.

A shard that does not answer is named as missing; what it has is then not in the answer. With one
database all of this is that database.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace

from sqlalchemy import Connection

from windlass.clock import Clock
from windlass.control import operate as control
from windlass.control.model.control import Place, RunStatus, RunView
from windlass.core.limit.store.switch import Switch
from windlass.core.shard.fleet import Fleet
from windlass.core.shard.shard import OUTAGES, Shard
from windlass.core.task.kind import Kind, Registry
from windlass.core.task.store.page import TaskPage, TaskQuery
from windlass.core.task.store.task import TaskFilter
from windlass.database.database import TRIES
from windlass.errors import BadInput, DatabaseUnavailable, TaskNotFound
from windlass.operate.ring import operate as ring
from windlass.operate.ring.operate import RingView
from windlass.operate.switch import operate as switch
from windlass.operate.task import operate as task
from windlass.operate.task.operate import TaskDetail
from windlass.rolling.model import Freshness, Item
from windlass.rolling.operate import freshness
from windlass.rolling.operate import item as rolling
from windlass.rolling.store import item as rolling_store
from windlass.value.listing import Listing
from windlass.value.shard import COMING
from windlass.value.task import TaskView
from windlass.watch.status import operate as status
from windlass.watch.status.operate import AppStatus, KindStatus

ACT_TRIES = 3
FAILURES_SHOWN = 20
# In a cursor, of a shard: not asked yet, nothing left, or the id below which to go on.
BEGIN = "begin"
ENDED = "end"
PLACE = re.compile(rf"{BEGIN}|{ENDED}|-?[0-9]{{1,18}}")


def look(fleet: Fleet, registry: Registry) -> AppStatus:
    """How everything is doing now."""
    found = fleet.fan_out(lambda shard: status.look(shard.database, shard.clock, registry))
    if fleet.single is not None:
        return found.values[0]
    _some_must_answer(found.missing, fleet)
    names = tuple(shard.name for shard in fleet.shards)
    return status.together(found.values, shards=names, missing=found.missing)


def look_at(fleet: Fleet, registry: Registry, kind: str) -> KindStatus | None:
    """How one kind is doing; None if it is neither declared nor known in any shard."""
    found = fleet.fan_out(lambda shard: status.look_at(shard.database, shard.clock, registry, kind))
    _some_must_answer(found.missing, fleet)
    same = [each for each in found.values if each is not None]
    return status.kind_together(same) if same else None


def fresh(fleet: Fleet, clock: Clock, kind: Kind) -> Freshness:
    """How fresh the items of a rolling kind are now."""
    found = fleet.fan_out(lambda shard: freshness.facts_of(shard.database, shard.clock, kind))
    _some_must_answer(found.missing, fleet)
    return freshness.judge(found.values, kind, now=clock.now(), missing=found.missing)


def rings(fleet: Fleet, *, tries: int = TRIES) -> Listing[RingView]:
    """The ring of each shard."""
    found = fleet.fan_out(lambda shard: ring.look(shard.database, shard.clock, tries=tries))
    _some_must_answer(found.missing, fleet)
    return Listing(found.values, found.missing)


# Tasks


def tasks(fleet: Fleet, wanted: TaskFilter, *, limit: int) -> Listing[TaskView]:
    """Tasks that match, newest first."""
    if fleet.single is not None:
        return Listing(task.listing(fleet.single.database, wanted, limit=limit))
    if wanted.before is not None:
        last = find(fleet, wanted.before)
        if last is None:
            raise TaskNotFound(wanted.before)
        wanted = replace(wanted, before=None, created_before=last.created_at)
    found = fleet.fan_out(lambda shard: task.listing(shard.database, wanted, limit=limit))
    # One that is on its way is in two shards for a moment.
    once = {each.id: each for part in found.values for each in part if each.batch != COMING}
    newest = sorted(once.values(), key=lambda each: (each.created_at, each.id), reverse=True)
    return Listing(newest[:limit], found.missing)


@dataclass(frozen=True)
class Tasks:
    """A page of tasks, and the cursor of what follows; None at the end."""

    by_shard: dict[Shard, list[TaskView]]
    next: str | None
    looked_at: int
    missing: tuple[str, ...]

    @property
    def tasks(self) -> list[TaskView]:
        """All of them, newest first."""
        merged = [each for part in self.by_shard.values() for each in part]
        return sorted(merged, key=lambda each: (each.created_at, each.id), reverse=True)


def task_page(fleet: Fleet, query: TaskQuery, *, after: str | None, limit: int) -> Tasks:
    """Tasks that match, newest first; of several shards a part of the page each.

    The cursor has, for each shard, the id below which to go on there.
    """
    places = places_of(fleet, after)
    share = max(1, limit // len(fleet.shards))

    def ask(shard: Shard) -> TaskPage:
        place = places[shard.index]
        if place == ENDED:
            return TaskPage([], None, 0)
        below = None if place == BEGIN else int(place)
        return task.page(shard.database, query, below=below, limit=share)

    found = fleet.fan_out(ask)
    for shard, page in found.found:
        places[shard.index] = ENDED if page.below is None else str(page.below)
    is_over = all(places[shard.index] == ENDED for shard, _ in found.found)
    return Tasks(
        # One that is on its way is in two shards for a moment.
        by_shard={
            shard: [each for each in page.tasks if each.batch != COMING]
            for shard, page in found.found
        },
        next=None if is_over else ".".join(places[shard.index] for shard in fleet.shards),
        looked_at=sum(page.looked_at for page in found.values),
        missing=found.missing,
    )


def places_of(fleet: Fleet, cursor: str | None) -> dict[int, str]:
    """Where to go on in each shard, by its index."""
    if cursor is None:
        return {shard.index: BEGIN for shard in fleet.shards}
    parts = cursor.split(".")
    if len(parts) != len(fleet.shards) or not all(PLACE.fullmatch(part) for part in parts):
        raise BadInput(f"{cursor!r} is not the cursor of a page of these shards; begin again")
    return {shard.index: part for shard, part in zip(fleet.shards, parts, strict=True)}


def find(fleet: Fleet, number: int) -> TaskView | None:
    """A task, wherever it is."""
    if fleet.single is not None:
        return task.get(fleet.single.database, number)
    found = _where(fleet, number)
    return None if found is None else found[1]


def show(fleet: Fleet, number: int) -> TaskDetail:
    """One task with its last errors, which may be in shards where it once was."""
    found = _where(fleet, number)
    if found is None:
        raise TaskNotFound(number)
    shard, view = found
    failures = fleet.fan_out(lambda each: task.failures_of(each.database, number))
    merged = [each for part in failures.values for each in part]
    merged.sort(key=lambda each: (each.failed_at, each.id), reverse=True)
    return TaskDetail(
        view,
        merged[:FAILURES_SHOWN],
        shard.name,
        failures.missing,
        task.node_of(shard.database, number),
    )


def cancel(fleet: Fleet, registry: Registry, number: int, *, reason: str) -> bool:
    """End a task that has not ended, wherever it is; whether that made the difference."""
    return _act(
        fleet,
        number,
        lambda shard: task.cancel(shard, registry, number, reason=reason),
    )


def retry(fleet: Fleet, number: int) -> bool:
    """Let a failed or cancelled task run again, wherever it is."""
    return _act(fleet, number, lambda shard: task.retry(shard, number))


def _act(fleet: Fleet, number: int, act: Callable[[Shard], bool]) -> bool:
    if fleet.single is not None:
        return act(fleet.single)
    for _ in range(ACT_TRIES):
        found = _where(fleet, number)
        if found is None:
            return False
        shard = found[0]
        if act(shard):
            return True
        if task.get(shard.database, number) is not None:
            return False
    return False


def _where(fleet: Fleet, number: int) -> tuple[Shard, TaskView] | None:
    """The shard that has a task, and the task."""
    away: list[str] = []
    coming: tuple[Shard, TaskView] | None = None
    # Twice: between two looks it may have moved from the second place to the first.
    for _ in range(1 if fleet.single is not None else 2):
        away = [shard.name for shard in fleet.shards if shard.row is None and fleet.single is None]
        for shard in fleet.seeking(number):
            try:
                found = task.get(shard.database, number) if shard.is_up else None
            except OUTAGES as problem:
                if fleet.single is not None:
                    raise
                shard.failed(problem)
                found = None
            if not shard.is_up:
                away.append(shard.name)
            elif found is not None and found.batch != COMING:
                return shard, found
            elif found is not None:
                coming = shard, found
    if coming is None and away:
        raise DatabaseUnavailable(
            f"task {number} is in none of the shards that answer; {', '.join(away)} does not",
            missing=tuple(away),
        )
    return coming


# Items


def item(fleet: Fleet, kind: Kind, code: str) -> Item | None:
    """One item; None if there is none of that code."""
    for shard in fleet.route(kind.name, code).shards:
        found = rolling.item(shard.database, kind, code)
        if found is not None:
            return found
    return None


def items(fleet: Fleet, kind: Kind, *, prefix: str, after: str, limit: int) -> Listing[Item]:
    """Items whose codes begin with `prefix`, in the order of their codes, after one of them."""
    found = fleet.fan_out(
        lambda shard: rolling.items(shard.database, kind, prefix=prefix, after=after, limit=limit)
    )
    once = {each.code: each for part in found.values for each in part}
    return Listing([once[code] for code in sorted(once)][:limit], found.missing)


def shard_of_item(fleet: Fleet, kind: Kind, code: str) -> Shard | None:
    """The shard that has an item."""

    def look(connection: Connection) -> int | None:
        return rolling_store.find(connection, kind.name, code)

    for shard in fleet.route(kind.name, code).shards:
        if shard.database.read(look) is not None:
            return shard
    return None


# Named runs


def controls(
    fleet: Fleet,
    *,
    name: str | None = None,
    statuses: Collection[RunStatus] = tuple(RunStatus),
    after: Place | None = None,
    limit: int | None = None,
) -> Listing[RunView]:
    """All runs, or those of a name, by name and partition; a page of them after one of them."""
    found = fleet.fan_out(
        lambda shard: control.listing(
            shard.database, shard.clock, name=name, statuses=statuses, after=after, limit=limit
        )
    )
    # One that is on its way is in two shards for a moment.
    once = {(run.name, run.partition): run for part in found.values for run in part}
    return Listing([once[place] for place in sorted(once)][:limit], found.missing)


def control_at(fleet: Fleet, place: Place) -> RunView | None:
    """One run; None if it was never started."""
    found = fleet.fan_out(lambda shard: control.get(shard.database, shard.clock, place))
    _some_must_answer(found.missing, fleet)
    return next((run for run in found.values if run is not None), None)


def control_history(fleet: Fleet, place: Place, *, limit: int) -> list[RunView]:
    """The tries of a run that ended, newest first."""
    found = fleet.fan_out(
        lambda shard: control.history(shard.database, shard.clock, place, limit=limit)
    )
    tries = [run for part in found.values for run in part]
    if fleet.single is None:
        tries.sort(key=lambda run: (run.end_time is not None, run.end_time), reverse=True)
    return tries[:limit]


# Switches


def switches(fleet: Fleet) -> dict[str, Switch]:
    """All switches, by kind, as the first shard that answers has them."""
    found = fleet.fan_out(lambda shard: switch.listing(shard.database))
    _some_must_answer(found.missing, fleet)
    return found.values[0]


def _some_must_answer(missing: tuple[str, ...], fleet: Fleet) -> None:
    if len(missing) == len(fleet.shards):
        raise DatabaseUnavailable(
            f"none of the shards answers: {', '.join(missing)}", missing=missing
        )
