"""Task rows: write new ones, read them, cancel, retry and prune them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from msgspec.structs import asdict
from sqlalchemy import (
    ColumnElement,
    Connection,
    FromClause,
    and_,
    delete,
    func,
    literal_column,
    or_,
    select,
    union_all,
    update,
)
from sqlalchemy.sql.expression import text

from windlass.core.task.store import lane
from windlass.database.dialect.base import Dialect, Executor, force_index
from windlass.database.schema import task
from windlass.value.payload import without_trace
from windlass.value.shard import COMING
from windlass.value.status import FINAL, Status
from windlass.value.task import (
    COUNTED_EXACTLY,
    NewLaneTask,
    NewNode,
    NewTask,
    TaskFilter,
    TaskView,
)

N = TypeVar("N", bound=NewTask | NewNode)

CHUNK_ROWS = 2_000
COPY_FROM = 200
CHUNK_BYTES = 4 * 1024 * 1024
KINDS_AT_ONCE = 50
STATUSES_AT_ONCE = 500
DUE = (task.c.priority, task.c.due_at)
UNENDED = tuple(status for status in Status if status not in FINAL)
RETRIED = (Status.FAILED, Status.CANCELLED)

PAYLOAD = TaskView.__struct_fields__.index("payload")
VIEW = tuple(
    task.c["task_key" if name == "key" else name]
    for name in TaskView.__struct_fields__
    if name != "progress"
)


def insert(
    executor: Executor, dialect: Dialect, rows: Sequence[NewTask], *, again: bool = False
) -> set[int]:
    """Write `rows` in as few statements as their size allows; the ids that are new.

    `again`: a transaction whose answer was lost may have written them before.
    """
    if any(isinstance(row, NewLaneTask) for row in rows):
        return _insert_apart(executor, dialect, rows, again=again)
    may_copy = len(rows) >= COPY_FROM and rows[0].task_key is None and not again
    if may_copy and dialect.copy(executor, rows):
        return {row.id for row in rows}
    inserted: set[int] = set()
    for chunk in chunks(rows):
        inserted |= dialect.insert(executor, chunk)
    return inserted


def _insert_apart(
    executor: Executor, dialect: Dialect, rows: Sequence[NewTask], *, again: bool
) -> set[int]:
    """`insert` of rows of which some, or all, have a lane."""
    laned = [row for row in rows if isinstance(row, NewLaneTask)]
    inserted: set[int] = set()
    if len(laned) < len(rows):
        rest = [row for row in rows if not isinstance(row, NewLaneTask)]
        inserted |= insert(executor, dialect, rest, again=again)
    may_copy = len(laned) >= COPY_FROM and laned[0].task_key is None and not again
    if may_copy and dialect.copy_laned(executor, laned):
        return inserted | {row.id for row in laned}
    for chunk in chunks(laned):
        inserted |= dialect.insert_laned(executor, chunk)
    return inserted


def is_any_there(executor: Executor, dialect: Dialect, ids: Sequence[int]) -> bool:
    """Whether a row with one of these ids exists."""
    for start in range(0, len(ids), CHUNK_ROWS):
        listed, parameters = dialect.ids(ids[start : start + CHUNK_ROWS])
        there = text(f"select id from windlass_task where id {listed} limit 1")
        if executor.execute(there, parameters).fetchall():
            return True
    return False


def find_keys(
    executor: Executor,
    dialect: Dialect,
    kind: str,
    keys: Collection[str],
    *,
    is_locked: bool = False,
) -> dict[str, tuple[int, Status]]:
    """The id and status of the rows of `kind` with these keys; `is_locked` locks them."""
    rows = _holding(executor, dialect, kind, keys, is_locked=is_locked)
    return {key: (number, Status(status)) for key, number, status, _ in rows}


def find_batches(
    executor: Executor, dialect: Dialect, kind: str, keys: Collection[str]
) -> dict[str, int | None]:
    """The batch of the rows of `kind` with these keys."""
    return {key: batch for key, _, _, batch in _holding(executor, dialect, kind, keys)}


def _holding(
    executor: Executor,
    dialect: Dialect,
    kind: str,
    keys: Collection[str],
    *,
    is_locked: bool = False,
) -> Iterator[Sequence[Any]]:
    wanted, lock = list(keys), dialect.hold_alone if is_locked else dialect.read_now
    for start in range(0, len(wanted), 500):
        part = wanted[start : start + 500]
        named = {f"key_{index}": key for index, key in enumerate(part)}
        listed = ", ".join(f":{name}" for name in named)
        statement = text(
            "select task_key, id, status, batch from windlass_task "
            f"where kind = :kind and task_key in ({listed}) {lock}"
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
        asdict(row),
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
    return _one(connection, task.c.id == number)


def statuses(connection: Connection, *, numbers: Sequence[int]) -> dict[int, Status]:
    """The statuses of the rows that are there; a copy that is still being moved is not."""
    is_here = or_(task.c.batch.is_(None), task.c.batch != COMING)
    found: dict[int, Status] = {}
    for begin in range(0, len(numbers), STATUSES_AT_ONCE):
        some = task.c.id.in_(numbers[begin : begin + STATUSES_AT_ONCE])
        rows = connection.execute(select(task.c.id, task.c.status).where(some, is_here))
        found.update({number: Status(status) for number, status in rows})
    return found


def node_of(connection: Connection, number: int) -> tuple[int, str] | None:
    """The flow run that a row belongs to, and the name of its node; empty for the run itself."""
    row = connection.execute(select(task.c.flow_id, task.c.node).where(task.c.id == number)).first()
    return None if row is None or row.flow_id is None else (row.flow_id, row.node or "")


def find(connection: Connection, kind: str, key: str) -> TaskView | None:
    """The row of `kind` with this key."""
    return _one(connection, task.c.kind == kind, task.c.task_key == key)


def _one(connection: Connection, *where: ColumnElement[bool]) -> TaskView | None:
    row = connection.execute(select(*lane.shown(connection, VIEW)).where(*where)).first()
    return None if row is None else view_of(row)


def waiting_payloads(connection: Connection, kind: str, *, limit: int) -> list[tuple[int, str]]:
    """The id and payload of waiting rows of `kind`, at most `limit`; no nodes of flows."""
    query = (
        select(task.c.id, task.c.payload)
        .where(task.c.kind == kind, task.c.status == Status.WAITING, task.c.due_at.is_not(None))
        .where(task.c.flow_id.is_(None))
        .limit(limit)
    )
    return [(number, payload) for number, payload in connection.execute(query)]


def listing(connection: Connection, wanted: TaskFilter, *, limit: int) -> list[TaskView]:
    """Rows that match, newest first; pass the last id as `before` for the next page."""
    shown = lane.shown(connection, VIEW)
    rows = connection.execute(
        select(*shown).where(matching(wanted)).order_by(task.c.id.desc()).limit(limit)
    )
    return [view_of(row) for row in rows]


def cancel(
    connection: Connection, numbers: Sequence[int], *, reason: str, now: int, keep: int
) -> list[int]:
    """Cancel the rows that have not ended and belong to no flow; their ids.

    If a row is running, its outcome is refused.
    """
    few = _locked(connection, numbers, UNENDED)
    connection.execute(
        update(task)
        .where(task.c.id.in_(few))
        .values(
            status=Status.CANCELLED,
            due_at=None,
            batch=None,
            finished_at=now,
            prune_at=now + keep,
            remark=reason,
        )
    )
    return few


def retry(connection: Connection, numbers: Sequence[int], *, now: int) -> list[int]:
    """Let the rows that failed or were cancelled, and belong to no flow, run again; their ids."""
    few = _locked(connection, numbers, RETRIED)
    connection.execute(
        update(task)
        .where(task.c.id.in_(few))
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
            **lane.in_order(connection),
        )
    )
    return few


def _locked(
    connection: Connection, numbers: Sequence[int], statuses: Collection[Status]
) -> list[int]:
    few = task.c.id.in_(numbers), task.c.flow_id.is_(None), task.c.status.in_(statuses)
    query = select(task.c.id).where(*few).order_by(task.c.id).with_for_update()
    return list(connection.scalars(force_index(query, task, "primary")))


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


def counts(
    connection: Connection, dialect: Dialect, until: Mapping[str, int]
) -> dict[str, dict[str, int]]:
    """The number of rows of each kind in each status, and of those that are due by `until`.

    Exact up to COUNTED_EXACTLY.
    """
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
    for kind, backlog in _backlogs(connection, dialect, until).items():
        found[kind]["due"] = backlog.due
    return found


class Backlog(NamedTuple):
    """The due rows of a kind, exact up to COUNTED_EXACTLY, and when the oldest became due."""

    due: int
    oldest_at: int


def backlogs(
    connection: Connection, dialect: Dialect, until: Mapping[str, int]
) -> dict[str, Backlog]:
    """What is due by `until` of each kind, without kinds of which nothing is."""
    found: dict[str, Backlog] = {}
    given = list(until.items())
    for begin in range(0, len(given), KINDS_AT_ONCE):
        found |= _backlogs(connection, dialect, dict(given[begin : begin + KINDS_AT_ONCE]))
    return found


def _backlogs(
    connection: Connection, dialect: Dialect, until: Mapping[str, int]
) -> dict[str, Backlog]:
    # One count for each priority; otherwise the index in due order cannot be used.
    kinds = list(until)
    tiers = [each for each in dialect.tiers(connection, kinds) if each.due_at <= until[each.kind]]
    waiting = and_(task.c.status == Status.WAITING, task.c.due_at.is_not(None))
    due = [
        select(
            literal_column(str(place)),
            _count(
                tier.kind,
                and_(waiting, task.c.priority == tier.priority, task.c.due_at <= until[tier.kind]),
            ),
        )
        for place, tier in enumerate(tiers)
    ]
    found: dict[str, Backlog] = {}
    for place, count in connection.execute(union_all(*due)) if due else ():
        kind, _, oldest = tiers[place]
        before = found.get(kind, Backlog(0, oldest))
        total = min(before.due + count, COUNTED_EXACTLY + 1)
        found[kind] = Backlog(total, min(before.oldest_at, oldest))
    return found


def _count(
    kind: str, where: ColumnElement[bool], *, order: Sequence[ColumnElement[Any]] = DUE
) -> Any:
    # In the order of the index; otherwise a planner may scan the table.
    few = select(task.c.status).where(task.c.kind == kind, where)
    few = few.order_by(*order).limit(COUNTED_EXACTLY + 1)
    return select(func.count()).select_from(few.subquery()).scalar_subquery()


def matching(wanted: TaskFilter, rows: FromClause = task) -> ColumnElement[bool]:
    """The condition for rows that match."""
    clauses: list[ColumnElement[bool]] = []
    if wanted.kind is not None:
        clauses.append(rows.c.kind == wanted.kind)
    if wanted.status is not None:
        clauses.append(rows.c.status == wanted.status)
    if wanted.key is not None:
        clauses.append(rows.c.task_key == wanted.key)
    if wanted.lane is not None:
        clauses.append(rows.c.lane == wanted.lane)
    if wanted.before is not None:
        clauses.append(rows.c.id < wanted.before)
    if wanted.created_after is not None:
        clauses.append(rows.c.created_at >= wanted.created_after)
    if wanted.created_before is not None:
        clauses.append(rows.c.created_at < wanted.created_before)
    return and_(True, *clauses)


def view_of(row: Sequence[Any]) -> TaskView:
    """The view of a row with the columns of VIEW."""
    values = list(row)
    values[3] = Status(values[3])
    values[14] = None if values[14] is None else Status(values[14])
    values[PAYLOAD] = without_trace(values[PAYLOAD])
    return TaskView(*values)


def chunks(rows: Sequence[N]) -> Iterator[Sequence[N]]:
    """Parts of new rows that fit into one statement on every database."""
    begin = size = 0
    for index, row in enumerate(rows):
        # Quotes and backslashes are escaped twice: in the document, and by the driver.
        escaped = row.payload.count("\\") + row.payload.count('"')
        size += len(row.payload) * (1 if row.payload.isascii() else 4) + 3 * escaped + 200
        if index + 1 - begin >= CHUNK_ROWS or size >= CHUNK_BYTES:
            yield rows[begin : index + 1]
            begin, size = index + 1, 0
    if begin < len(rows):
        yield rows[begin:]
