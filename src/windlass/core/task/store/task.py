"""Task rows: write new ones, read them, cancel, retry and prune them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Update,
    and_,
    delete,
    func,
    literal_column,
    select,
    union_all,
    update,
)
from sqlalchemy.sql.expression import text

from windlass.database.dialect.base import Dialect, Executor
from windlass.database.schema import task
from windlass.value.status import FINAL, Status
from windlass.value.task import COUNTED_EXACTLY, NewTask, TaskFilter, TaskView

CHUNK_ROWS = 2_000
COPY_FROM = 200
CHUNK_BYTES = 4 * 1024 * 1024
KINDS_AT_ONCE = 50
DUE = (task.c.priority, task.c.due_at)
UNENDED = tuple(status for status in Status if status not in FINAL)
RETRIED = (Status.FAILED, Status.CANCELLED)

VIEW = (
    task.c.id,
    task.c.kind,
    task.c.task_key,
    task.c.status,
    task.c.priority,
    task.c.bucket,
    task.c.due_at,
    task.c.attempt,
    task.c.lost,
    task.c.worker,
    task.c.batch,
    task.c.created_at,
    task.c.started_at,
    task.c.finished_at,
    task.c.last_status,
    task.c.remark,
    task.c.payload,
    task.c.result,
)


def insert(
    executor: Executor, dialect: Dialect, rows: Sequence[NewTask], *, again: bool = False
) -> set[int]:
    """Write `rows` in as few statements as their size allows; the ids that are new.

    `again`: a transaction whose answer was lost may have written them before.
    """
    may_copy = len(rows) >= COPY_FROM and rows[0].task_key is None and not again
    if may_copy and dialect.copy(executor, rows):
        return {row.id for row in rows}
    inserted: set[int] = set()
    for chunk in _chunks(rows):
        inserted |= dialect.insert(executor, chunk)
    return inserted


def find_keys(
    executor: Executor, dialect: Dialect, kind: str, keys: Collection[str]
) -> dict[str, tuple[int, Status]]:
    """The id and status of the rows of `kind` with these keys."""
    rows = _holding(executor, dialect, kind, keys)
    return {key: (number, Status(status)) for key, number, status, _ in rows}


def find_batches(
    executor: Executor, dialect: Dialect, kind: str, keys: Collection[str]
) -> dict[str, int | None]:
    """The batch of the rows of `kind` with these keys."""
    return {key: batch for key, _, _, batch in _holding(executor, dialect, kind, keys)}


def _holding(
    executor: Executor, dialect: Dialect, kind: str, keys: Collection[str]
) -> Iterator[Sequence[Any]]:
    wanted = list(keys)
    for start in range(0, len(wanted), 500):
        part = wanted[start : start + 500]
        named = {f"key_{index}": key for index, key in enumerate(part)}
        listed = ", ".join(f":{name}" for name in named)
        statement = text(
            "select task_key, id, status, batch from windlass_task "
            f"where kind = :kind and task_key in ({listed}) {dialect.read_now}"
        )
        yield from executor.execute(statement, {"kind": kind, **named}).fetchall()


REPLACE = """
update windlass_task
set status = 0, priority = :priority, batch = null, worker = null, attempt = 0,
    due_at = case when due_at = :due_at then :due_at + 1 else :due_at end,
    lost = 0, lost_in_a_row = 0, created_at = :created_at, started_at = null,
    finished_at = null, prune_at = null, last_status = null, payload = {payload},
    result = null, remark = null
where kind = :kind and task_key = :task_key and status in (0, 2, 3, 6)
"""


def replace(executor: Executor, dialect: Dialect, row: NewTask) -> bool:
    """Replace the row that has the key of `row`, unless it runs or waits for other rows.

    Its due time always changes: a run of the old row, whose claim was not written, must not count.
    """
    result = executor.execute(
        text(REPLACE.format(payload=dialect.to_json.format(":payload"))),
        {
            "kind": row.kind,
            "task_key": row.task_key,
            "priority": row.priority,
            "due_at": row.due_at,
            "created_at": row.created_at,
            "payload": row.payload,
        },
    )
    return bool(result.rowcount)


def take_back(connection: Connection, ids: Sequence[int]) -> int:
    """Delete waiting rows that were never claimed; how many."""
    result = connection.execute(
        delete(task).where(
            task.c.id.in_(ids),
            task.c.status == Status.WAITING,
            task.c.batch.is_(None),
            task.c.started_at.is_(None),
        )
    )
    return result.rowcount


def get(connection: Connection, number: int) -> TaskView | None:
    """One row."""
    row = connection.execute(select(*VIEW).where(task.c.id == number)).first()
    return None if row is None else view_of(row)


def run_of(connection: Connection, number: int) -> int | None:
    """The flow run that a row belongs to."""
    return connection.scalar(select(task.c.flow_id).where(task.c.id == number))


def node_of(connection: Connection, number: int) -> tuple[int, str] | None:
    """The flow run that a row belongs to, and the name of its node; empty for the run itself."""
    row = connection.execute(select(task.c.flow_id, task.c.node).where(task.c.id == number)).first()
    return None if row is None or row.flow_id is None else (row.flow_id, row.node or "")


def find(connection: Connection, kind: str, key: str) -> TaskView | None:
    """The row of `kind` with this key."""
    row = connection.execute(
        select(*VIEW).where(task.c.kind == kind, task.c.task_key == key)
    ).first()
    return None if row is None else view_of(row)


def listing(connection: Connection, wanted: TaskFilter, *, limit: int) -> list[TaskView]:
    """Rows that match, newest first; pass the last id as `before` for the next page."""
    rows = connection.execute(
        select(*VIEW).where(_where(wanted)).order_by(task.c.id.desc()).limit(limit)
    )
    return [view_of(row) for row in rows]


def cancel(connection: Connection, number: int, *, reason: str, now: int, keep: int) -> bool:
    """Cancel a row that has not ended. If it is running, its outcome is refused."""
    result = connection.execute(_cancel(reason, now, keep).where(task.c.id == number))
    return bool(result.rowcount)


def cancel_many(
    connection: Connection, numbers: Sequence[int], *, reason: str, now: int, keep: int
) -> list[int]:
    """Cancel the rows that have not ended and belong to no flow; their ids."""
    few = _locked(connection, numbers, UNENDED)
    connection.execute(_cancel(reason, now, keep).where(task.c.id.in_(few)))
    return few


def _cancel(reason: str, now: int, keep: int) -> Update:
    return (
        update(task)
        .where(task.c.status.in_(UNENDED))
        .values(
            status=Status.CANCELLED,
            due_at=None,
            batch=None,
            finished_at=now,
            prune_at=now + keep,
            remark=reason,
        )
    )


def retry(connection: Connection, number: int, *, now: int) -> bool:
    """Let a failed or cancelled row run again, with all its retries."""
    return bool(connection.execute(_retry(now).where(task.c.id == number)).rowcount)


def retry_many(connection: Connection, numbers: Sequence[int], *, now: int) -> list[int]:
    """Let the rows that failed or were cancelled, and belong to no flow, run again; their ids."""
    few = _locked(connection, numbers, RETRIED)
    connection.execute(_retry(now).where(task.c.id.in_(few)))
    return few


def _retry(now: int) -> Update:
    return (
        update(task)
        .where(task.c.status.in_(RETRIED))
        .values(
            status=Status.WAITING,
            due_at=now,
            batch=None,
            attempt=0,
            lost=0,
            lost_in_a_row=0,
            finished_at=None,
            prune_at=None,
            remark=None,
        )
    )


def _locked(
    connection: Connection, numbers: Sequence[int], statuses: Collection[Status]
) -> list[int]:
    few = task.c.id.in_(numbers), task.c.flow_id.is_(None), task.c.status.in_(statuses)
    return list(
        connection.scalars(select(task.c.id).where(*few).order_by(task.c.id).with_for_update())
    )


def prune(connection: Connection, *, now: int, limit: int) -> list[int]:
    """Delete up to `limit` ended rows that have been kept long enough; their ids."""
    ids = connection.scalars(
        select(task.c.id)
        .where(task.c.prune_at <= now, task.c.flow_id.is_(None))
        .order_by(task.c.prune_at)
        .limit(limit)
        .with_for_update(skip_locked=True)
    ).all()
    if not ids:
        return []
    # A row may have been retried since it was selected: check again.
    connection.execute(delete(task).where(task.c.id.in_(ids), task.c.prune_at <= now))
    left = set(connection.scalars(select(task.c.id).where(task.c.id.in_(ids))))
    return [number for number in ids if number not in left]


def counts(connection: Connection, dialect: Dialect, kind: str, *, until: int) -> dict[str, int]:
    """The number of rows of `kind` in each status, and of those that are due by `until`.

    Exact up to COUNTED_EXACTLY.
    """
    return counts_of_all(connection, dialect, {kind: until})[kind]


def counts_of_all(
    connection: Connection, dialect: Dialect, until: Mapping[str, int]
) -> dict[str, dict[str, int]]:
    """`counts` of many kinds."""
    found: dict[str, dict[str, int]] = {}
    given = list(until.items())
    for begin in range(0, len(given), KINDS_AT_ONCE):
        found |= _counts(connection, dialect, dict(given[begin : begin + KINDS_AT_ONCE]))
    return found


def _counts(
    connection: Connection, dialect: Dialect, until: Mapping[str, int]
) -> dict[str, dict[str, int]]:
    kinds = list(until)
    waiting = and_(task.c.status == Status.WAITING, task.c.due_at.is_not(None))
    running = and_(task.c.status == Status.RUNNING, task.c.due_at.is_not(None))
    failed = and_(task.c.status == Status.FAILED, task.c.due_at.is_(None))
    states = [
        select(
            literal_column(str(place)),
            _count(kind, waiting),
            _count(kind, running),
            _count(kind, failed, order=()),
        )
        for place, kind in enumerate(kinds)
    ]
    found = {
        kinds[row[0]]: {"waiting": row[1], "running": row[2], "failed": row[3], "due": 0}
        for row in connection.execute(union_all(*states))
    }
    # One count for each priority; otherwise the index in due order cannot be used.
    lanes = [each for each in dialect.lanes(connection, kinds) if each.due_at <= until[each.kind]]
    due = [
        select(
            literal_column(str(place)),
            _count(
                lane.kind,
                and_(waiting, task.c.priority == lane.priority, task.c.due_at <= until[lane.kind]),
            ),
        )
        for place, lane in enumerate(lanes)
    ]
    for place, count in connection.execute(union_all(*due)) if due else ():
        states_of = found[lanes[place].kind]
        states_of["due"] = min(states_of["due"] + count, COUNTED_EXACTLY + 1)
    return found


def _count(
    kind: str, where: ColumnElement[bool], *, order: Sequence[ColumnElement[Any]] = DUE
) -> Any:
    # In the order of the index; otherwise a planner may scan the table.
    few = select(task.c.status).where(task.c.kind == kind, where)
    few = few.order_by(*order).limit(COUNTED_EXACTLY + 1)
    return select(func.count()).select_from(few.subquery()).scalar_subquery()


def _where(wanted: TaskFilter) -> ColumnElement[bool]:
    clauses: list[ColumnElement[bool]] = []
    if wanted.kind is not None:
        clauses.append(task.c.kind == wanted.kind)
    if wanted.status is not None:
        clauses.append(task.c.status == wanted.status)
    if wanted.key is not None:
        clauses.append(task.c.task_key == wanted.key)
    if wanted.before is not None:
        clauses.append(task.c.id < wanted.before)
    if wanted.created_before is not None:
        clauses.append(task.c.created_at < wanted.created_before)
    return and_(True, *clauses)


def view_of(row: Sequence[Any]) -> TaskView:
    """The view of a row with the columns of VIEW."""
    values = list(row)
    values[3] = Status(values[3])
    values[14] = None if values[14] is None else Status(values[14])
    return TaskView(*values)


def _chunks(rows: Sequence[NewTask]) -> list[Sequence[NewTask]]:
    chunks: list[Sequence[NewTask]] = []
    begin = size = 0
    for index, row in enumerate(rows):
        # Quotes and backslashes are escaped twice: in the document, and by the driver.
        escaped = row.payload.count("\\") + row.payload.count('"')
        size += len(row.payload) * (1 if row.payload.isascii() else 4) + 3 * escaped + 200
        if index + 1 - begin >= CHUNK_ROWS or size >= CHUNK_BYTES:
            chunks.append(rows[begin : index + 1])
            begin, size = index + 1, 0
    if begin < len(rows):
        chunks.append(rows[begin:])
    return chunks
