"""Tasks: look at them, wait for them, cancel them, let them run again."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from sqlalchemy import Connection

from windlass.clock import SECOND
from windlass.core.finish.store import history
from windlass.core.finish.store.history import FailureView
from windlass.core.shard.shard import Shard
from windlass.core.task.kind import Kind, Registry
from windlass.core.task.store import page as task_page
from windlass.core.task.store import task
from windlass.core.task.store.page import TaskPage, TaskQuery
from windlass.core.task.store.task import TaskFilter
from windlass.database.database import Database
from windlass.errors import BadInput, ResultTimeout, TaskCancelled, TaskFailed, TaskNotFound
from windlass.value.duration import Duration, parse_duration
from windlass.value.outcome import KEEP_FAILED, LONGEST_REMARK, storable
from windlass.value.status import Status
from windlass.value.task import TaskView

FIRST_LOOK = 0.005
LAST_LOOK = 0.25
MOST_LISTED = 1_000


@dataclass(frozen=True)
class TaskDetail:
    """A task with its last errors, the shard that has it, and shards that could not be asked."""

    task: TaskView
    failures: list[FailureView]
    shard: str
    missing: tuple[str, ...] = ()
    # Its run and its name there, if it is a node of a flow.
    node: tuple[int, str] | None = None


# Finds a task wherever it is.
Look = Callable[[int], TaskView | None]


def status_of(look: Look, number: int, *, enqueued: bool) -> Status:
    """The state of a task. `enqueued` says that it surely existed: if gone, it succeeded."""
    found = look(number)
    if found is not None:
        return found.status
    if enqueued:
        return Status.SUCCEEDED
    raise TaskNotFound(number)


def result_of(
    look: Look,
    number: int,
    decode: Callable[[str], object],
    *,
    timeout: Duration | float | None,
    enqueued: bool,
) -> object:
    """Wait for the end of a task and return its result, or raise what became of it."""
    deadline = None if timeout is None else time.monotonic() + seconds_of(timeout)
    pause = FIRST_LOOK
    while True:
        found = look(number)
        if found is None:
            if enqueued:
                return None
            raise TaskNotFound(number)
        match found.status:
            case Status.SUCCEEDED:
                return None if found.result is None else decode(found.result)
            case Status.FAILED:
                raise TaskFailed(number, found.remark or "no reason recorded")
            case Status.CANCELLED:
                raise TaskCancelled(number, found.remark or "")
        left = None if deadline is None else deadline - time.monotonic()
        if left is not None and left <= 0:
            raise ResultTimeout(
                f"task {number} is still {found.status} after {seconds_of(timeout or 0):g} s; "
                "is a worker running?"
            )
        time.sleep(pause if left is None else min(pause, left))
        pause = min(pause * 1.5, LAST_LOOK)


def cancel(shard: Shard, registry: Registry, number: int, *, reason: str) -> bool:
    """End a task that has not ended; whether that made the difference."""
    text = storable(str(reason))[:LONGEST_REMARK] or "cancelled"

    def work(connection: Connection) -> bool:
        found = task.get(connection, number)
        if found is None:
            return False
        _refuse_nodes(connection, number)
        kind = registry.kinds.get(found.kind)
        if kind is not None and kind.period is not None:
            raise BadInput(
                f"task {number} is the item {found.key!r} of rolling {found.kind!r}, which never "
                f"ends; remove it instead"
            )
        keep = KEEP_FAILED if kind is None else kind.terms.keep_failed
        now = shard.clock.now()
        is_cancelled = task.cancel(connection, number, reason=text, now=now, keep=keep)
        if is_cancelled:
            shard.faces.stopped(connection, [number], now=now)
        return is_cancelled

    return shard.database.write(work)


def retry(shard: Shard, number: int) -> bool:
    """Let a failed or cancelled task run again, with all its tries before it."""

    def work(connection: Connection) -> bool:
        _refuse_nodes(connection, number)
        is_retried = task.retry(connection, number, now=shard.clock.now())
        if is_retried:
            shard.faces.restarted(connection, [number])
        return is_retried

    return shard.database.write(work)


def get(database: Database, number: int) -> TaskView | None:
    """One task, or None."""
    return database.read(lambda connection: task.get(connection, number))


def node_of(database: Database, number: int) -> tuple[int, str] | None:
    """The run that a task is a node of, and its name there."""
    return database.read(lambda connection: task.node_of(connection, number))


def failures_of(database: Database, number: int) -> list[FailureView]:
    """The last errors of a task, newest first."""
    return database.read(lambda connection: history.failures_of(connection, number))


def listing(database: Database, wanted: TaskFilter, *, limit: int) -> list[TaskView]:
    """Tasks that match, newest first."""
    if not 1 <= limit <= MOST_LISTED:
        raise BadInput(f"limit={limit} is not a number from 1 to {MOST_LISTED}")
    return database.read(lambda connection: task.listing(connection, wanted, limit=limit))


def page(database: Database, query: TaskQuery, *, below: int | None, limit: int) -> TaskPage:
    """Tasks that match, newest first, without their payloads; so many rows are looked at."""
    return database.read(
        lambda connection: task_page.page(
            connection, database.dialect, query, below=below, limit=limit
        )
    )


def decoder(kind: Kind | None) -> Callable[[str], object]:
    """Reads a result as its kind declares it."""
    import msgspec

    return msgspec.json.decode if kind is None else kind.decode_result


def _refuse_nodes(connection: Connection, number: int) -> None:
    """A node that were changed by itself would leave its run waiting for ever."""
    run = task.run_of(connection, number)
    if run is not None:
        raise BadInput(
            f"task {number} belongs to run {run} of a flow; cancel or retry the run, or skip the "
            "node there"
        )


def seconds_of(timeout: Duration | float) -> float:
    """A time-out that was given as a number of seconds, or as a duration."""
    if isinstance(timeout, int | float):
        if timeout < 0:
            raise BadInput(f"timeout={timeout!r} is negative")
        return float(timeout)
    return parse_duration(timeout, what="timeout", zero=True) / SECOND
