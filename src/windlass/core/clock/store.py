"""The rows of steps, in the order in which they happened."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, delete, insert, select, update

from windlass.clock import SECOND, ClockStep
from windlass.core.alert.model import Trouble
from windlass.core.alert.store import raise_alert
from windlass.database.schema import clock_step, shard, task
from windlass.value.duration import format_duration
from windlass.value.status import Status

ALERT = "clock stepped"
KEEP = 90 * 24 * 60 * 60 * SECOND
MOST_READ = 1_000
# Two workers measure the same step a little differently, and notice it at different moments.
SIMILAR = SECOND
SAME_TIME = 5 * SECOND


def steps(connection: Connection, *, since: int | None = None) -> list[int]:
    """The steps that are remembered, in microseconds, oldest first; those noticed after `since`."""
    query = select(clock_step.c.microseconds).order_by(clock_step.c.id.desc()).limit(MOST_READ)
    if since is not None:
        query = query.where(clock_step.c.noticed_at > since)
    return list(connection.scalars(query))[::-1]


def record(connection: Connection, step: ClockStep, *, alert: int) -> bool:
    """Remember a step and raise its alert, under the number `alert`; False if another worker did.

    After a step back, rows that a dead worker left are due at once, and external tasks are polled
    as soon as they would have been.
    """
    # A second worker waits here, and finds what the first one has written.
    connection.execute(select(shard.c.id).with_for_update()).all()
    newest = select(clock_step).order_by(clock_step.c.id.desc()).limit(1)
    last = connection.execute(newest).first()
    if last is not None and _is_same(step, by=last.microseconds, noticed_at=last.noticed_at):
        return False
    connection.execute(insert(clock_step).values(noticed_at=step.at, microseconds=step.by))
    trouble = Trouble(ALERT, "", _told(step), subject=str(step.at))
    raise_alert(connection, alert, trouble, now=step.at)
    if step.by < 0:
        _bring_forward(connection, step)
    return True


def _bring_forward(connection: Connection, step: ClockStep) -> None:
    abandoned = task.c.status == Status.RUNNING, task.c.due_at > step.at, task.c.batch.is_(None)
    connection.execute(update(task).where(*abandoned).values(due_at=step.at))
    polled = task.c.status == Status.EXTERNAL, task.c.due_at >= step.at - step.by
    connection.execute(update(task).where(*polled).values(due_at=task.c.due_at + step.by))


def prune(connection: Connection, *, now: int) -> int:
    """Forget steps of long ago; how many."""
    return connection.execute(
        delete(clock_step).where(clock_step.c.noticed_at < now - KEEP)
    ).rowcount


def gained(steps: Sequence[int]) -> int:
    """By how much the clock may have gone forward, by steps alone, since something was written.

    It may have been written before any of the steps, so the worst case counts.
    """
    most = total = 0
    for by in reversed(steps):
        total += by
        most = max(most, total)
    return most


def _is_same(step: ClockStep, *, by: int, noticed_at: int) -> bool:
    first = step.at - step.since - SAME_TIME
    return abs(by - step.by) <= SIMILAR and first <= noticed_at <= step.at + SAME_TIME


def _told(step: ClockStep) -> str:
    where = "forward" if step.by > 0 else "back"
    length = format_duration(round(abs(step.by), -3))
    cost = "may run that much early" if step.by > 0 else "may run that much late"
    return (
        f"the clock of the database stepped {where} by {length}; no worker was marked dead and "
        f"nothing was pruned because of it, but rows with a due time {cost}. Check how the "
        "database's server keeps its time"
    )
