"""What external systems execute: their handles, which of them are to be asked, how they ended.

A task has a row for each of its submissions, of which at most one counts. Those that are past stay
until the task is pruned: what is said of them later is known, and changes nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, Update, bindparam, delete, or_, select, text, update

from windlass.core.face import Copied, Read, Values
from windlass.core.fetch.store.claim import PICKED
from windlass.database.dialect.base import Dialect, Executor, Stamp, stamped
from windlass.database.schema import external, task
from windlass.external.model import Submission
from windlass.value.outcome import Change
from windlass.value.status import Status
from windlass.value.task import PRIORITIES, Claimed

COUNTS = 0
FAILED_THERE = 1
SET_ASIDE = 2
OPEN = (Status.WAITING, Status.RUNNING, Status.BLOCKED, Status.EXTERNAL)
# What was told is written down before anything else of the kind: it needs no asking.
TOLD_DUE = 0
CANCEL_TRIES = 6
MOST_FOUND = 20


@dataclass(frozen=True)
class ExternalRow:
    """A task that another system executes, with the submission that counts."""

    task: Claimed
    status: Status
    submission: Submission
    polls: int
    told: str | None


@dataclass(frozen=True)
class Found:
    """A submission that a notification may be about."""

    task_id: int
    number: int
    kind: str
    secret: str = field(repr=False)
    is_past: bool


# Submitting


def prepare(
    connection: Connection, dialect: Dialect, number: int, *, kind: str, secret: str, now: int
) -> Submission:
    """The submission of a task that counts. If there is none yet, it is one with that secret."""
    row = _newest(connection, number)
    if row is None or row.past != COUNTS:
        dialect.ensure(
            connection,
            external,
            task_id=number,
            submission=1 if row is None else row.submission + 1,
            kind=kind,
            secret=secret,
            tries=row.tries + 1 if row is not None and row.past == FAILED_THERE else 1,
            began_at=now,
        )
        row = _newest(connection, number)
    return Submission(number, row.submission, row.secret, row.tries, row.began_at)


def record(connection: Connection, given: Sequence[Submission]) -> None:
    """Write down the handles of tasks that now wait for their systems.

    Those whose end was told before are due at once.
    """
    if not given:
        return
    connection.execute(
        _one().values(handle=bindparam("given"), polls=0),
        [{"number": each.task_id, "nth": each.number, "given": each.handle} for each in given],
    )
    ids = [each.task_id for each in given]
    told = select(external.c.task_id).where(
        external.c.task_id.in_(ids), external.c.past == COUNTS, external.c.told.is_not(None)
    )
    known = connection.scalars(told).all()
    if known:
        connection.execute(update(task).where(task.c.id.in_(known)).values(due_at=TOLD_DUE))


def refuse(connection: Connection, given: Submission, *, now: int) -> None:
    """Have the system stop what was submitted for a task that was ended meanwhile.

    One that is still to be executed is submitted again under the same id: it goes on over there.
    """
    is_open = select(task.c.id).where(task.c.id == given.task_id, task.c.status.in_(OPEN)).exists()
    connection.execute(
        update(external)
        .where(external.c.task_id == given.task_id, external.c.submission == given.number)
        .where(or_(external.c.past != COUNTS, ~is_open))
        .values(handle=given.handle, cancel_at=now, polls=0)
    )


def fail(connection: Connection, ids: Collection[int]) -> None:
    """These have failed over there: the next submission of each is another one."""
    if not ids:
        return
    connection.execute(
        update(external)
        .where(external.c.task_id.in_(ids), external.c.past == COUNTS)
        .values(past=FAILED_THERE)
    )


def begin_again(connection: Connection, ids: Collection[int]) -> None:
    """These run again by hand: the next submission of each is another one, and its first try."""
    for part in _parts(list(ids)):
        connection.execute(
            update(external).where(external.c.task_id.in_(part)).values(past=SET_ASIDE)
        )


def replace(executor: Executor, kind: str, key: str) -> None:
    """The task that holds `key` has become another one, and so will be its submission."""
    executor.execute(
        text(
            "update windlass_external set past = 2 where task_id = "
            "(select id from windlass_task where kind = :kind and task_key = :key)"
        ),
        {"kind": kind, "key": key},
    )


# Asking


def due(
    connection: Connection,
    kind: str,
    *,
    now: int,
    buckets: Sequence[range],
    worker: int,
    limit: int,
) -> list[ExternalRow]:
    """The tasks of a kind that are to be asked for by now, in these buckets."""
    ours = [task.c.bucket.between(run.start, run.stop - 1) for run in buckets]
    found: list[Sequence[Any]] = []
    # Priority by priority, or the index that has them in due order is of no use.
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
    """These tasks as they are now; nobody else ends them until the transaction does.

    Lock the runs whose nodes they are first.
    """
    query = select(*PICKED, task.c.status).where(task.c.id.in_(list(ids))).order_by(task.c.id)
    return _with_submissions(connection, connection.execute(query.with_for_update()).fetchall(), 0)


def put_off(connection: Connection, ids: Collection[int], *, due_at: int, asked: bool) -> None:
    """Ask for these, which are locked, later."""
    if not ids:
        return
    connection.execute(update(task).where(task.c.id.in_(ids)).values(due_at=due_at))
    if asked:
        counts = external.c.task_id.in_(ids), external.c.past == COUNTS
        connection.execute(update(external).where(*counts).values(polls=external.c.polls + 1))


def end(connection: Connection, changes: Sequence[Change]) -> None:
    """Write how tasks have ended that are locked, and at the other system."""
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


# Being told


def find(connection: Connection, what: str | int, *, kind: str | None = None) -> list[Found]:
    """The submissions that have a handle, or those of a task; first the ones that count."""
    column = external.c.task_id if isinstance(what, int) else external.c.handle
    query = select(
        external.c.task_id,
        external.c.submission,
        external.c.kind,
        external.c.secret,
        external.c.past,
    ).where(column == what)
    if kind is not None:
        query = query.where(external.c.kind == kind)
    rows = connection.execute(query.order_by(external.c.past, external.c.submission.desc()))
    return [
        Found(number, submission, name, secret, past != COUNTS)
        for number, submission, name, secret, past in rows.fetchmany(MOST_FOUND)
    ]


def state_of(connection: Connection, number: int) -> tuple[Status, int | None] | None:
    """The status of a task, and the run whose node it is."""
    row = connection.execute(
        select(task.c.status, task.c.flow_id).where(task.c.id == number)
    ).first()
    return None if row is None else (Status(row.status), row.flow_id)


def tell(connection: Connection, number: int, told: str) -> None:
    """Note how a task ended whose handle is not written down yet."""
    counts = external.c.task_id == number, external.c.past == COUNTS
    connection.execute(update(external).where(*counts).values(told=told))


# Cancelling


def stop(connection: Connection, ids: Collection[int], *, now: int) -> None:
    """Have the systems stop these tasks, which have ended here; a worker asks them to."""
    for part in _parts(list(ids)):
        connection.execute(
            update(external)
            .where(external.c.task_id.in_(part), external.c.past == COUNTS)
            .where(external.c.handle.is_not(None), external.c.cancel_at.is_(None))
            .values(cancel_at=now, polls=0)
        )


def has_stops(connection: Connection, kind: str, *, now: int) -> bool:
    """Whether something of a kind is to be stopped now."""
    waiting = external.c.kind == kind, external.c.cancel_at <= now
    return connection.scalar(select(external.c.task_id).where(*waiting).limit(1)) is not None


def take_stops(
    connection: Connection, kind: str, *, now: int, until: int, limit: int
) -> list[Submission]:
    """What is to be stopped now; nobody else takes it before `until`."""
    rows = connection.execute(
        select(external)
        .where(external.c.kind == kind, external.c.cancel_at <= now)
        .order_by(external.c.cancel_at)
        .limit(limit)
        .with_for_update(skip_locked=True)
    ).all()
    taken = [_submission(row) for row in rows]
    if taken:
        _each(connection, taken, cancel_at=until, polls=external.c.polls + 1)
    return taken


def stopped(connection: Connection, given: Sequence[Submission]) -> None:
    """These were stopped, as far as their system can do that."""
    _each(connection, given, cancel_at=None)


def put_off_stops(connection: Connection, given: Sequence[Submission], *, until: int) -> None:
    """Try later to stop these; not for ever."""
    _each(connection, given, cancel_at=until)
    ids = [each.task_id for each in given]
    given_up = external.c.task_id.in_(ids), external.c.polls >= CANCEL_TRIES
    connection.execute(update(external).where(*given_up).values(cancel_at=None))


def _each(connection: Connection, given: Sequence[Submission], **values: Any) -> None:
    connection.execute(
        _one().values(**values),
        [{"number": each.task_id, "nth": each.number} for each in given],
    )


def _one() -> Update:
    """Changes one submission: `number`, the id of its task, and `nth`."""
    return update(external).where(
        external.c.task_id == bindparam("number"), external.c.submission == bindparam("nth")
    )


def _newest(connection: Connection, number: int) -> Any:
    return connection.execute(
        select(external)
        .where(external.c.task_id == number)
        .order_by(external.c.submission.desc())
        .limit(1)
    ).first()


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
    found: dict[int, Any] = {}
    for ids in _parts([row[0] for row in rows]):
        counts = external.c.task_id.in_(ids), external.c.past == COUNTS
        for each in connection.execute(select(external).where(*counts)):
            found[each.task_id] = each
    return [
        ExternalRow(
            _claimed(row[:-1], worker),
            Status(row[-1]),
            _submission(found[row[0]]),
            found[row[0]].polls,
            found[row[0]].told,
        )
        for row in rows
        if row[0] in found
    ]


def _claimed(row: Sequence[Any], worker: int) -> Claimed:
    due_at = row[4] or 0
    stamp = Stamp(None, worker, due_at, due_at)
    return stamped((*row[:4], due_at, *row[5:]), stamp, attempt=0)


def _submission(row: Any) -> Submission:
    return Submission(
        row.task_id, row.submission, row.secret, row.tries, row.began_at, handle=row.handle
    )


def _parts(ids: Sequence[int]) -> Iterable[Sequence[int]]:
    return (ids[start : start + 1_000] for start in range(0, len(ids), 1_000))


# Moving and deleting


def along(read: Read, ids: Sequence[int], new: Mapping[int, int]) -> Iterator[Copied]:
    """The submissions of tasks that move to another shard, where they have `new` ids."""

    def work(connection: Connection) -> list[Values]:
        query = select(external).where(external.c.task_id.in_(ids))
        return [dict(row) for row in connection.execute(query).mappings()]

    rows = read(work)
    yield Copied(
        external, [{**row, "task_id": new.get(row["task_id"], row["task_id"])} for row in rows]
    )


def forget(connection: Connection, ids: Collection[int]) -> None:
    """Delete the submissions of tasks that are deleted."""
    connection.execute(delete(external).where(external.c.task_id.in_(ids)))
