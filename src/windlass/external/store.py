"""The rows of submissions to external systems.

A task has a row for each submission, and at most one is current. The others stay until the task is
pruned: a late notification about one of them is recognised, and changes nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from sqlalchemy import Connection, Row, Update, bindparam, delete, or_, select, text, update

from windlass.core.face import Copied, Read
from windlass.core.fetch.store import PICKED
from windlass.database.dialect.base import Dialect, Executor, Stamp, stamped
from windlass.database.schema import external, task
from windlass.external.model import CURRENT, DROPPED, FAILED_THERE, Submission
from windlass.value.outcome import Change
from windlass.value.status import Status
from windlass.value.task import PRIORITIES, Claimed

OPEN = (Status.WAITING, Status.RUNNING, Status.BLOCKED, Status.EXTERNAL)
# A result that is already known comes before all other rows of the kind: it needs no poll.
TOLD_DUE = 0
CANCEL_TRIES = 6
MOST_FOUND = 20
# The columns of a submission, under the names of its fields.
READ = [
    external.c["submission" if part.name == "number" else part.name].label(part.name)
    for part in fields(Submission)
    if part.name != "is_over"
]


@dataclass(frozen=True)
class ExternalRow:
    """A task that another system executes, with its current submission."""

    task: Claimed
    status: Status
    submission: Submission


def prepare(
    connection: Connection, dialect: Dialect, number: int, *, kind: str, secret: str, now: int
) -> Submission:
    """The current submission of a task; a new one with `secret` if there is none."""
    newest = _newest(connection, number)
    if newest is None or newest.is_past:
        dialect.ensure(
            connection,
            external,
            task_id=number,
            submission=1 if newest is None else newest.number + 1,
            kind=kind,
            secret=secret,
            tries=newest.tries + 1 if newest is not None and newest.past == FAILED_THERE else 1,
            began_at=now,
        )
        newest = _newest(connection, number)
    assert newest is not None
    return newest


def record(connection: Connection, given: Sequence[Submission]) -> None:
    """Write the handles of tasks that now wait for their systems.

    A task whose result is already known is due at once.
    """
    if not given:
        return
    connection.execute(
        _one().values(handle=bindparam("given"), polls=0),
        [{"number": each.task_id, "nth": each.number, "given": each.handle} for each in given],
    )
    ids = [each.task_id for each in given]
    told = select(external.c.task_id).where(
        external.c.task_id.in_(ids), external.c.past == CURRENT, external.c.told.is_not(None)
    )
    known = connection.scalars(told).all()
    if known:
        connection.execute(update(task).where(task.c.id.in_(known)).values(due_at=TOLD_DUE))


def refuse(connection: Connection, given: Submission, *, now: int) -> None:
    """Let the system stop a submission whose task was ended meanwhile.

    A task that is still open is submitted again under the same id, so the system continues with it.
    """
    is_open = select(task.c.id).where(task.c.id == given.task_id, task.c.status.in_(OPEN)).exists()
    connection.execute(
        update(external)
        .where(external.c.task_id == given.task_id, external.c.submission == given.number)
        .where(or_(external.c.past != CURRENT, ~is_open))
        .values(handle=given.handle, cancel_at=now, polls=0)
    )


def fail(connection: Connection, ids: Collection[int]) -> None:
    """The current submissions of these tasks have failed: the next submission is a new one."""
    if ids:
        connection.execute(_current(ids).values(past=FAILED_THERE))


def begin_again(connection: Connection, ids: Collection[int]) -> None:
    """An operator lets these run again: the next submission is a new one, and the first try."""
    for part in _parts(list(ids)):
        connection.execute(
            update(external).where(external.c.task_id.in_(part)).values(past=DROPPED)
        )


def replace(executor: Executor, kind: str, key: str) -> None:
    """The task with this key was replaced: its next submission is a new one."""
    executor.execute(
        text(
            "update windlass_external set past = 2 where task_id = "
            "(select id from windlass_task where kind = :kind and task_key = :key)"
        ),
        {"kind": kind, "key": key},
    )


def due(
    connection: Connection,
    kind: str,
    *,
    now: int,
    buckets: Sequence[range],
    worker: int,
    limit: int,
) -> list[ExternalRow]:
    """The tasks of a kind that are due for a poll, in these buckets."""
    ours = [task.c.bucket.between(run.start, run.stop - 1) for run in buckets]
    found: list[Sequence[Any]] = []
    # One query for each priority: only then does the index give the due order.
    for priority in _priorities(connection, kind) if ours else ():
        query = (
            select(*PICKED, task.c.status)
            .where(task.c.status == Status.EXTERNAL, task.c.kind == kind)
            .where(task.c.priority == priority, task.c.due_at <= now)
            .where(or_(*ours))
            .order_by(task.c.due_at)
            .limit(limit - len(found))
        )
        found += connection.execute(query).fetchall()
        if len(found) >= limit:
            break
    return _with_submissions(connection, found, worker)


def lock(connection: Connection, ids: Collection[int]) -> list[ExternalRow]:
    """Lock these tasks until the transaction ends. Lock their flow runs first."""
    query = select(*PICKED, task.c.status).where(task.c.id.in_(list(ids))).order_by(task.c.id)
    return _with_submissions(connection, connection.execute(query.with_for_update()).fetchall(), 0)


def put_off(connection: Connection, ids: Collection[int], *, due_at: int, asked: bool) -> None:
    """Poll these locked tasks later; `asked` counts this poll."""
    if not ids:
        return
    connection.execute(update(task).where(task.c.id.in_(ids)).values(due_at=due_at))
    if asked:
        connection.execute(_current(ids).values(polls=external.c.polls + 1))


def end(connection: Connection, changes: Sequence[Change]) -> None:
    """Write how locked tasks have ended."""
    names = ("status", "due_at", "attempt", "finished_at", "prune_at", "result", "remark")
    connection.execute(
        update(task)
        .where(task.c.id == bindparam("number"))
        .values({name: bindparam(f"new_{name}") for name in names}),
        [
            {"number": change.id, **{f"new_{name}": getattr(change, name) for name in names}}
            for change in changes
        ],
    )


def find(connection: Connection, what: str | int, *, kind: str | None = None) -> list[Submission]:
    """The submissions with a handle, or those of a task; the current one first."""
    column = external.c.task_id if isinstance(what, int) else external.c.handle
    query = select(*READ).where(column == what)
    if kind is not None:
        query = query.where(external.c.kind == kind)
    query = query.order_by(external.c.past, external.c.submission.desc())
    return [_submission(row) for row in connection.execute(query).fetchmany(MOST_FOUND)]


def state_of(connection: Connection, number: int) -> tuple[Status, int | None] | None:
    """The status of a task, and the flow run that it is a node of."""
    row = connection.execute(
        select(task.c.status, task.c.flow_id).where(task.c.id == number)
    ).first()
    return None if row is None else (Status(row.status), row.flow_id)


def tell(connection: Connection, number: int, told: str) -> None:
    """Keep the result of a task whose handle is not written yet."""
    connection.execute(_current([number]).values(told=told))


def stop(connection: Connection, ids: Collection[int], now: int) -> None:
    """Let the systems stop these tasks, which have ended here; a worker calls them."""
    for part in _parts(list(ids)):
        connection.execute(
            _current(part)
            .where(external.c.handle.is_not(None), external.c.cancel_at.is_(None))
            .values(cancel_at=now, polls=0)
        )


def has_stops(connection: Connection, kind: str, *, now: int) -> bool:
    """Whether a submission of this kind must be stopped now."""
    waiting = external.c.kind == kind, external.c.cancel_at <= now
    return connection.scalar(select(external.c.task_id).where(*waiting).limit(1)) is not None


def take_stops(
    connection: Connection, kind: str, *, now: int, until: int, limit: int
) -> list[Submission]:
    """Take submissions that must be stopped; other workers can take them after `until`."""
    query = (
        select(*READ)
        .where(external.c.kind == kind, external.c.cancel_at <= now)
        .order_by(external.c.cancel_at)
        .limit(limit)
        .with_for_update(skip_locked=True)
    )
    taken = [_submission(row) for row in connection.execute(query)]
    _each(connection, taken, cancel_at=until, polls=external.c.polls + 1)
    return taken


def stopped(connection: Connection, given: Sequence[Submission]) -> None:
    """These were stopped."""
    _each(connection, given, cancel_at=None)


def put_off_stops(connection: Connection, given: Sequence[Submission], *, until: int) -> None:
    """Try again later to stop these; give up after some tries."""
    if not given:
        return
    _each(connection, given, cancel_at=until)
    ids = [each.task_id for each in given]
    given_up = external.c.task_id.in_(ids), external.c.polls >= CANCEL_TRIES
    connection.execute(update(external).where(*given_up).values(cancel_at=None))


def _each(connection: Connection, given: Sequence[Submission], **values: Any) -> None:
    if given:
        which = [{"number": each.task_id, "nth": each.number} for each in given]
        connection.execute(_one().values(**values), which)


def _one() -> Update:
    return update(external).where(
        external.c.task_id == bindparam("number"), external.c.submission == bindparam("nth")
    )


def _current(ids: Collection[int]) -> Update:
    return update(external).where(external.c.task_id.in_(ids), external.c.past == CURRENT)


def _newest(connection: Connection, number: int) -> Submission | None:
    query = select(*READ).where(external.c.task_id == number)
    row = connection.execute(query.order_by(external.c.submission.desc()).limit(1)).first()
    return None if row is None else _submission(row)


def _priorities(connection: Connection, kind: str) -> Iterator[int]:
    """The priorities of a kind's external tasks, highest first."""
    highest = PRIORITIES.stop - 1
    while highest in PRIORITIES:
        found = connection.scalar(
            select(task.c.priority)
            .where(task.c.status == Status.EXTERNAL, task.c.kind == kind)
            .where(task.c.due_at.is_not(None), task.c.priority <= highest)
            .order_by(task.c.priority.desc())
            .limit(1)
        )
        if found is None:
            return
        yield found
        highest = found - 1


def _with_submissions(
    connection: Connection, rows: Sequence[Sequence[Any]], worker: int
) -> list[ExternalRow]:
    found: dict[int, Submission] = {}
    for ids in _parts([row[0] for row in rows]):
        query = select(*READ).where(external.c.task_id.in_(ids), external.c.past == CURRENT)
        found |= {each.task_id: _submission(each) for each in connection.execute(query)}
    return [
        ExternalRow(_claimed(row[:-1], worker), Status(row[-1]), found[row[0]])
        for row in rows
        if row[0] in found
    ]


def _claimed(row: Sequence[Any], worker: int) -> Claimed:
    due_at = row[4] or 0
    stamp = Stamp(None, worker, due_at, due_at)
    return stamped((*row[:4], due_at, *row[5:]), stamp, attempt=0)


def _submission(row: Row[Any]) -> Submission:
    return Submission(**row._asdict())


def _parts(ids: Sequence[int]) -> Iterable[Sequence[int]]:
    return (ids[start : start + 1_000] for start in range(0, len(ids), 1_000))


def along(read: Read, ids: Sequence[int], new: Mapping[int, int]) -> Iterator[Copied]:
    """The submissions of tasks that move to another shard, where the tasks have `new` ids."""
    query = select(external).where(external.c.task_id.in_(ids))
    rows = read(lambda connection: connection.execute(query).mappings().all())
    moved = [{**row, "task_id": new.get(row["task_id"], row["task_id"])} for row in rows]
    yield Copied(external, moved)


def forget(connection: Connection, ids: Collection[int]) -> None:
    """Delete the submissions of deleted tasks."""
    connection.execute(delete(external).where(external.c.task_id.in_(ids)))
