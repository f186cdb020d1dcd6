"""How outcomes change their rows, and the transaction that writes the changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from windlass.core.face import Ending, Site
from windlass.core.finish.store import finish as store
from windlass.core.finish.store.finish import FailureRow, Group, PoisonAlert
from windlass.core.run.ready import Run
from windlass.core.task.kind import Kind
from windlass.database.connection import Connection
from windlass.database.dialect.base import lock_runs
from windlass.value.outcome import (
    SUCCESS,
    Failed,
    Retried,
    Visits,
    settle,
    settle_visits,
)
from windlass.value.period import HURRIED
from windlass.value.task import Claimed


def make_group(runs: Sequence[Run], site: Site, *, inside: Connection | None = None) -> Group:
    """The changes of `runs`, which are of one worker, and all read or all claimed.

    Takes numbers for failures `inside` the given transaction, if there is one.
    """
    now = site.clock.now()
    group = Group(worker=runs[0].task.worker, is_read=runs[0].task.is_read)
    plain = [run.task for run in runs if run.outcome is SUCCESS and run.leaves_nothing]
    group.removals = {task.id: task.fence for task in plain}
    if len(plain) < len(runs):
        others = [run for run in runs if run.task.id not in group.removals]
        visits = [run for run in others if run.outcome is SUCCESS and run.is_visit]
        if visits:
            others = [run for run in others if not (run.outcome is SUCCESS and run.is_visit)]
            group.visits = _visits(visits, now)
        errors = sum(isinstance(run.outcome, Failed | Retried) for run in others)
        numbers = site.numbers.take(2 * errors, inside=inside) if errors else ()
        _settle(others, group, now=now, numbers=iter(numbers))
    return group


def write_group(
    site: Site,
    group: Group,
    endings: Sequence[Ending],
    *,
    beside: Callable[[Connection, set[int]], None],
    on_accepted: Callable[[Connection], None] | None = None,
    tries: int = 2,
) -> set[int] | None:
    """Write a group in one transaction; returns the accepted ids, None if the worker has left.

    `beside` writes what follows from the accepted ids. `on_accepted` is called if all were
    accepted; if it raises, the transaction rolls back. Writing a group again changes nothing.
    Without `on_accepted`, raises a driver's error if another transaction keeps a row locked.
    """
    locks = _locks(endings)

    def work(connection: Connection, locked: Mapping[int, int]) -> set[int] | None:
        accepted = store.apply(connection, site.database.dialect, group)
        beside(connection, accepted)
        if on_accepted is not None and len(accepted) == group.count:
            on_accepted(connection)
        for ending in endings:
            ending.write(connection, accepted, locked)
        return accepted

    is_patient = on_accepted is not None
    return site.database.write_locked_as(
        group.worker, locks, work, lost=None, tries=tries, patient=is_patient
    )


def write_inside(
    connection: Connection, site: Site, group: Group, endings: Sequence[Ending]
) -> None:
    """Write a group in an open transaction of the worker."""
    locked = lock_for(connection, endings)
    accepted = store.apply(connection, site.database.dialect, group)
    for ending in endings:
        ending.write(connection, accepted, locked)


def lock_for(connection: Connection, endings: Sequence[Ending]) -> Mapping[int, int]:
    """Lock the rows that `endings` need, before all others; their open slots by id."""
    locks = _locks(endings)
    return lock_runs(connection, locks) if locks else {}


def _locks(endings: Sequence[Ending]) -> set[int]:
    return {number for ending in endings for number in ending.locks}


def _settle(runs: Sequence[Run], group: Group, *, now: int, numbers: Iterator[int]) -> None:
    for run in runs:
        task, outcome = run.task, run.outcome
        assert outcome is not None
        change = settle(task, outcome, run.kind.terms, now=now, turns=run.turns)
        if change is None:
            group.removals[task.id] = task.fence
        else:
            group.changes.append(change)
        if isinstance(outcome, Failed | Retried):
            group.failures.append(_failure_row(run, outcome, next(numbers), now))
        if run.is_poison and isinstance(outcome, Failed):
            text = f"task {task.id} of kind {run.kind.name!r} failed as {outcome.error}"
            group.alerts.append(PoisonAlert(next(numbers), task.id, run.kind.name, text, now))
    group.changes.sort(key=lambda change: change.id)


def _visits(runs: Sequence[Run], now: int) -> list[Visits]:
    """Plain successes of recurring rows: one entry for all rows with the same change."""
    alike: dict[tuple[Kind, bool], list[Claimed]] = {}
    for run in runs:
        alike.setdefault((run.kind, run.task.priority == HURRIED), []).append(run.task)
    return [
        settle_visits(rows, kind.terms, now=now, is_hurried=is_hurried)
        for (kind, is_hurried), rows in alike.items()
    ]


def _failure_row(run: Run, outcome: Failed | Retried, number: int, now: int) -> FailureRow:
    return FailureRow(
        id=number,
        task_id=run.task.id,
        kind=run.kind.name,
        attempt=run.task.attempt,
        worker=run.task.worker,
        failed_at=now,
        error=outcome.error,
        trace=outcome.trace,
    )
