"""Tasks of all shards: find them, show one, cancel and retry one or many."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from operator import attrgetter
from typing import Any, TypeVar

import msgspec

from windlass.core.finish import store as finish_store
from windlass.core.shard.fleet import Fleet, ShardPages, ask_page
from windlass.core.shard.shard import Shard
from windlass.core.task.declare import How
from windlass.core.task.kind import CRON_KEY, Registry
from windlass.core.task.store import page as task_page
from windlass.core.task.store import progress, task
from windlass.core.task.store.page import TasksBelow
from windlass.database.connection import Connection
from windlass.errors import BadInput, NotPossible, TaskNotFound
from windlass.value.outcome import LONGEST_REMARK, storable
from windlass.value.status import Status
from windlass.value.task import (
    KEEP_FAILED,
    RESERVED,
    Call,
    FailureView,
    RunLogView,
    TaskFilter,
    TaskView,
    check_key,
    check_priority,
)
from windlass.view.listing import Listing

T = TypeVar("T")

MOST_LISTED = 1_000
ACT_TRIES = 3
FAILURES_SHOWN = 20
LOGS_SHOWN = 20
BULK_AT_ONCE = 500
MOST_IN_BULK = 5_000
MOST_PAGES = 20
RETRYABLE = frozenset({Status.FAILED, Status.CANCELLED})
CANCELLABLE = frozenset({Status.WAITING, Status.RUNNING, Status.BLOCKED, Status.EXTERNAL})

# Acts on tasks at a moment; how many of them it changed.
Act = Callable[[list[TaskView], int, Connection], int]


class TaskFull(TaskView, frozen=True, kw_only=True):
    """A task with everything; `payload` and `result` are JSON."""

    # The queue by which it is carried to consumers.
    via: str | None
    # What its handler runs in, if not in the worker.
    isolate: str | None
    is_rolling: bool
    can_retry: bool
    can_cancel: bool


class NodeOfRun(msgspec.Struct, frozen=True):
    """Which node of which flow run a task is; the flow run itself has no node."""

    run: int
    node: str | None


@dataclass(frozen=True)
class TaskDetail:
    """A task, its last errors, its flow run if it has one, and the shard that has it."""

    task: TaskFull
    flow: NodeOfRun | None
    failures: list[FailureView]
    shard: str
    missing: tuple[str, ...]


@dataclass(frozen=True)
class TaskLogs:
    """What the last runs of a task logged, newest first, and the shards that do not answer."""

    runs: list[RunLogView]
    missing: tuple[str, ...]


class TaskListing(Listing[T]):
    """Tasks, newest first; `looked_at` is how many rows were read for them.

    A page may be short, or empty, and have a `next`: one call reads a bounded number of rows.
    """

    looked_at: int = 0


@dataclass(frozen=True)
class Bulk:
    """What a call did. `skipped` tasks matched, but did not change; `next` continues."""

    message: str
    changed: int
    skipped: int
    next: str | None


def listing(fleet: Fleet, wanted: TaskFilter, *, limit: int) -> Listing[TaskView]:
    """Tasks that match, newest first, with their payloads."""
    if not 1 <= limit <= MOST_LISTED:
        raise BadInput(f"limit={limit} is not a number from 1 to {MOST_LISTED}")
    if fleet.single is None and wanted.before is not None:
        # Ids of several shards do not tell the order.
        last = find(fleet, wanted.before)
        if last is None:
            raise TaskNotFound(wanted.before)
        wanted = replace(wanted, before=None, created_before=last.created_at)

    def read(shard: Shard) -> list[TaskView]:
        return shard.database.read(
            lambda connection: _progressed(
                connection, shard, task.listing(connection, wanted, limit=limit)
            )
        )

    found = fleet.fan_out(read)
    if fleet.single is not None:
        return Listing(found.values[0])
    return Listing(_newest_first(found.values)[:limit], found.missing)


def page(
    fleet: Fleet, wanted: TaskFilter, *, after: str | None, limit: int
) -> TaskListing[TaskView]:
    """Tasks that match, newest first, without their payloads; `after` is the `next` before."""
    found = ask_tasks(fleet, wanted, after=after, limit=limit)
    newest = _newest_first(part.tasks for part in found.parts)
    listed = TaskListing(newest, found.missing, cursor=found.next)
    listed.looked_at = sum(part.looked_at for part in found.parts)
    return listed


def ask_tasks(
    fleet: Fleet, wanted: TaskFilter, *, after: str | None, limit: int
) -> ShardPages[TasksBelow]:
    """A page of tasks, by shard."""

    def ask(shard: Shard, below: int | None, share: int) -> TasksBelow:
        dialect = shard.database.dialect

        def read(connection: Connection) -> TasksBelow:
            part = task_page.page(connection, dialect, wanted, below=below, limit=share)
            return replace(part, tasks=_progressed(connection, shard, part.tasks))

        return shard.database.read(read)

    return ask_page(fleet, ask, after=after, limit=limit)


def find(fleet: Fleet, number: int) -> TaskView | None:
    """A task, in any shard."""
    if fleet.single is not None:
        return _get(fleet.single, number)
    found = _locate(fleet, number)
    return None if found is None else found[1]


def show(fleet: Fleet, registry: Registry, number: int) -> TaskDetail:
    """One task with its last errors, which may be in shards where it once was."""
    located = _locate(fleet, number)
    if located is None:
        raise TaskNotFound(number)
    shard, found = located

    def more(connection: Connection) -> tuple[TaskView, tuple[int, str] | None]:
        return _progressed(connection, shard, [found])[0], task.node_of(connection, number)

    shown, node = shard.database.read(more)
    failures, missing = failures_of(fleet, number)
    return TaskDetail(
        task=_full(shown, registry, is_node=node is not None),
        flow=None if node is None else NodeOfRun(node[0], node[1] or None),
        failures=failures,
        shard=shard.name,
        missing=missing,
    )


def failures_of(fleet: Fleet, number: int) -> tuple[list[FailureView], tuple[str, ...]]:
    """The last errors of a task, newest first, and the shards that do not answer."""
    read = partial(finish_store.failures_of, task_id=number)
    found = fleet.fan_out(lambda shard: shard.database.read(read))
    merged = [each for part in found.values for each in part]
    merged.sort(key=lambda each: (each.failed_at, each.id), reverse=True)
    return merged[:FAILURES_SHOWN], found.missing


def logs_of(fleet: Fleet, number: int, *, search: str | None = None) -> TaskLogs:
    """What the last runs of a task logged; with `search` only lines that contain it."""
    read = partial(finish_store.logs_of, task_id=number, limit=LOGS_SHOWN)
    found = fleet.fan_out(lambda shard: shard.database.read(read))
    merged = [each for part in found.values for each in part]
    merged.sort(key=lambda each: (each.ended_at, each.id), reverse=True)
    runs = merged[:LOGS_SHOWN]
    if search:
        runs = [run for run in (each.having(search) for each in runs) if run.lines]
    return TaskLogs(runs, found.missing)


def call(
    kind: str,
    arguments: dict[str, Any],
    *,
    key: str | None,
    delay: int | None,
    priority: int | None,
) -> tuple[Call, How]:
    """A call with named arguments, from a terminal, checked; `delay` in microseconds."""
    key = None if key is None else check_key(kind, key)
    priority = None if priority is None else check_priority(kind, priority)
    return Call((), arguments, key), How(key=key, delay=delay, priority=priority)


def cancel(fleet: Fleet, registry: Registry, number: int, *, reason: str) -> bool:
    """End a task that has not ended; whether that made the difference."""
    act = _cancelling(fleet, registry, reason)

    def cancel_here(connection: Connection, now: int) -> bool:
        found = task.get(connection, number)
        if found is None:
            return False
        if _is_rolling(registry, found.kind):
            raise BadInput(
                f"task {number} is the item {found.key!r} of rolling {found.kind!r}, which never "
                f"ends; remove it instead"
            )
        return _changed(connection, number, act([found], now, connection))

    return _act(fleet, number, cancel_here)


def retry(fleet: Fleet, number: int) -> bool:
    """Let a failed or cancelled task run again, with all its tries before it."""

    def retry_here(connection: Connection, now: int) -> bool:
        return _changed(connection, number, _retry(fleet, [number], now, connection))

    return _act(fleet, number, retry_here)


def must_cancel(fleet: Fleet, registry: Registry, number: int, *, reason: str) -> str:
    """End a task, or raise why that cannot be; what was done, in words."""
    if not cancel(fleet, registry, number, reason=reason):
        _refuse(fleet, number, "only a task that has not ended can be cancelled")
    return f"task {number} is cancelled"


def must_retry(fleet: Fleet, number: int) -> str:
    """Let a task run again, or raise why that cannot be; what was done, in words."""
    if not retry(fleet, number):
        _refuse(fleet, number, "only a failed or cancelled task can be retried")
    return f"task {number} will run again"


def retry_many(fleet: Fleet, wanted: TaskFilter, *, after: str | None) -> Bulk:
    """Let failed or cancelled tasks run again, with all their tries before them."""

    def act(found: list[TaskView], now: int, connection: Connection) -> int:
        return _retry(fleet, [each.id for each in found], now, connection)

    done = _each(fleet, wanted, act, after=after, what="will run again")
    for shard in fleet.shards:
        shard.bell.ring_here()
    return done


def cancel_many(
    fleet: Fleet, registry: Registry, wanted: TaskFilter, *, after: str | None, reason: str
) -> Bulk:
    """End tasks that have not ended; items of rolling kinds are left alone.

    Crons, and what Windlass enqueues itself, are among them only if `wanted` names their kind.
    """
    cancelled = _cancelling(fleet, registry, reason)

    def act(found: list[TaskView], now: int, connection: Connection) -> int:
        if wanted.kind is None:
            found = [each for each in found if not _is_own(each)]
        return cancelled(found, now, connection)

    return _each(fleet, wanted, act, after=after, what="are cancelled")


def _retry(fleet: Fleet, numbers: list[int], now: int, connection: Connection) -> int:
    retried = task.retry(connection, numbers, now=now)
    fleet.faces.restarted(connection, retried)
    return len(retried)


def _cancelling(fleet: Fleet, registry: Registry, reason: str) -> Act:
    text = storable(str(reason))[:LONGEST_REMARK] or "cancelled"
    by_kind = attrgetter("kind")

    def act(found: list[TaskView], now: int, connection: Connection) -> int:
        changed = 0
        for name, same in groupby(sorted(found, key=by_kind), key=by_kind):
            if _is_rolling(registry, name):
                continue
            kind = registry.kinds.get(name)
            keep = KEEP_FAILED if kind is None else kind.terms.keep_failed
            ids = sorted(each.id for each in same)
            ended = task.cancel(connection, ids, reason=text, now=now, keep=keep)
            fleet.faces.stopped(connection, ended, now=now)
            changed += len(ended)
        return changed

    return act


def _is_own(task: TaskView) -> bool:
    """Whether Windlass made a row itself: the row of a cron, or of one of its own kinds."""
    return task.key == CRON_KEY or task.kind.startswith(RESERVED)


def _is_rolling(registry: Registry, name: str) -> bool:
    kind = registry.kinds.get(name)
    return kind is not None and kind.period is not None


def _refuse(fleet: Fleet, number: int, rule: str) -> None:
    found = find(fleet, number)
    if found is None:
        raise TaskNotFound(number)
    raise NotPossible(f"task {number} is {found.status}; {rule}")


def _changed(connection: Connection, number: int, count: int) -> bool:
    """Whether a task was changed; an error if it is a node.

    A node that is changed by itself leaves its flow run waiting without end.
    """
    node = None if count else task.node_of(connection, number)
    if node is not None:
        raise BadInput(
            f"task {number} belongs to run {node[0]} of a flow; cancel or retry the run, or skip "
            "the node there"
        )
    return bool(count)


def _full(found: TaskView, registry: Registry, *, is_node: bool) -> TaskFull:
    is_rolling = _is_rolling(registry, found.kind)
    kind = registry.kinds.get(found.kind)
    return TaskFull(
        **msgspec.structs.asdict(found),
        via=None if kind is None or kind.via is None else kind.via.name,
        isolate=None if kind is None or kind.isolate is None else str(kind.isolate),
        is_rolling=is_rolling,
        # A node is retried, skipped or cancelled with its flow run.
        can_retry=found.status in RETRYABLE and not is_node,
        can_cancel=found.status in CANCELLABLE and not is_rolling and not is_node,
    )


def _progressed(connection: Connection, shard: Shard, tasks: Sequence[TaskView]) -> list[TaskView]:
    """The tasks; those that run with how far they are, if their handlers say that."""
    if not shard.database.schema.has(progress.MIGRATION):
        return list(tasks)
    return progress.told(progress.of(connection, tasks), tasks)


def _newest_first(parts: Iterable[Sequence[TaskView]]) -> list[TaskView]:
    # A task that moves between shards is in two of them for a moment.
    once = {each.id: each for part in parts for each in part if not each.is_coming}
    return sorted(once.values(), key=lambda each: (each.created_at, each.id), reverse=True)


def _get(shard: Shard, number: int) -> TaskView | None:
    return shard.database.read(lambda connection: task.get(connection, number))


def _act(fleet: Fleet, number: int, act: Callable[[Connection, int], bool]) -> bool:
    """Do it where the task is; again if the task moves to another shard meanwhile."""

    def act_on(shard: Shard) -> bool:
        return shard.database.write(lambda connection: act(connection, shard.clock.now()))

    if fleet.single is not None:
        return act_on(fleet.single)
    for _ in range(ACT_TRIES):
        located = _locate(fleet, number)
        if located is None:
            return False
        shard = located[0]
        if act_on(shard):
            return True
        if _get(shard, number) is not None:
            return False
    return False


def _each(fleet: Fleet, wanted: TaskFilter, act: Act, *, after: str | None, what: str) -> Bulk:
    changed = skipped = 0
    for _ in range(MOST_PAGES):
        page = ask_tasks(fleet, wanted, after=after, limit=BULK_AT_ONCE)
        for shard, part in page.found:
            found = [each for each in part.tasks if not each.is_coming]
            done = shard.database.write(partial(act, found, shard.clock.now()))
            changed += done
            skipped += len(found) - done
        after = page.next
        if after is None or changed + skipped >= MOST_IN_BULK:
            break
    left = f"; {skipped:,} had changed, or cannot be" if skipped else ""
    more = "; there may be more" if after else ""
    tasks = "task" if changed == 1 else "tasks"
    what = what.replace("are ", "is ") if changed == 1 else what
    return Bulk(f"{changed:,} {tasks} {what}{left}{more}", changed, skipped, after)


def _locate(fleet: Fleet, number: int) -> tuple[Shard, TaskView] | None:
    return fleet.locate("task", number, lambda connection: task.get(connection, number))
