"""Runs and their nodes: write them, read them, and change those that have not begun."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

from sqlalchemy import Connection, delete, func, or_, select, update

from windlass.model.flow import How, Rule, how_ended
from windlass.model.shard import COMING
from windlass.model.status import FINAL, Status
from windlass.model.task import NewNode
from windlass.store.dialect.base import Dialect, Executor, encode
from windlass.store.dialect.flow import STATEMENTS
from windlass.store.schema import external, slot, task

CHUNK_ROWS = 2_000
CHUNK_BYTES = 2 * 1024 * 1024
OPEN = tuple(status for status in Status if status not in FINAL)


class NewSlot(NamedTuple):
    """An edge that is about to be written."""

    dep_id: int
    task_id: int
    rule: int


@dataclass(frozen=True)
class NodeRow:
    """A node, or the run itself, as the database has it."""

    id: int
    node: str
    kind: str
    status: Status
    remark: str | None
    bucket: int
    open_slots: int
    result: str | None
    attempt: int
    due_at: int | None
    started_at: int | None
    finished_at: int | None
    payload: str

    @property
    def how(self) -> How | None:
        """How it ended; None if it has not."""
        return how_ended(self.status, self.remark)


@dataclass(frozen=True)
class RunRow:
    """A run as lists show it."""

    id: int
    kind: str
    key: str | None
    status: Status
    left: int
    payload: str
    created_at: int
    finished_at: int | None
    remark: str | None
    batch: int | None

    @property
    def is_coming(self) -> bool:
        """Whether it is a copy that is on its way from another shard."""
        return self.batch == COMING


ROW = (
    task.c.id,
    task.c.node,
    task.c.kind,
    task.c.status,
    task.c.remark,
    task.c.bucket,
    task.c.open_slots,
    task.c.result,
    task.c.attempt,
    task.c.due_at,
    task.c.started_at,
    task.c.finished_at,
    task.c.payload,
)
RUN = (
    task.c.id,
    task.c.kind,
    task.c.task_key,
    task.c.status,
    task.c.open_slots,
    task.c.payload,
    task.c.created_at,
    task.c.finished_at,
    task.c.remark,
    task.c.batch,
)
IS_RUN = task.c.id == task.c.flow_id


LARGEST = 1 << 62


def insert(
    executor: Executor, dialect: Dialect, rows: Sequence[NewNode], slots: Sequence[NewSlot]
) -> None:
    """Write nodes and their slots in as few statements as their size allows; safe to repeat."""
    statements = STATEMENTS[dialect.name]
    for chunk in _chunks(rows):
        executor.execute(statements.insert_nodes, {"rows": encode(chunk).decode()})
    for begin in range(0, len(slots), 4 * CHUNK_ROWS):
        part = slots[begin : begin + 4 * CHUNK_ROWS]
        if statements.is_array:
            columns = zip(*part, strict=True)
            names = ("deps", "tasks", "rules")
            listed = {
                name: statements.listed(column) for name, column in zip(names, columns, strict=True)
            }
            executor.execute(statements.insert_slots, listed)
        else:
            executor.execute(statements.insert_slots, {"slots": encode(part).decode()})


def run(connection: Connection, number: int) -> RunRow | None:
    """One run."""
    row = connection.execute(select(*RUN).where(task.c.id == number, IS_RUN)).first()
    return None if row is None else _run(row)


def runs(
    connection: Connection,
    *,
    kind: str | None = None,
    status: Status | None = None,
    limit: int,
) -> list[RunRow]:
    """Runs, newest first."""
    if kind is None and status is None:
        return list(islice(_newest(connection), limit))
    query = select(*RUN).where(task.c.flow_id.is_not(None), IS_RUN)
    if kind is not None:
        query = query.where(task.c.kind == kind)
    if status is not None:
        query = query.where(task.c.status == status)
    rows = connection.execute(query.order_by(task.c.id.desc()).limit(limit))
    return [_run(row) for row in rows]


def _newest(connection: Connection) -> Iterator[RunRow]:
    """All runs, each by one look, however many rows lie between them."""
    last = LARGEST
    while True:
        before = select(func.max(task.c.flow_id)).where(task.c.flow_id < last).scalar_subquery()
        row = connection.execute(select(*RUN).where(task.c.id == before)).first()
        if row is None:
            return
        yield _run(row)
        last = row.id


def status_of(connection: Connection, number: int) -> Status | None:
    """The state of a run; None if there is none of that id."""
    found = connection.scalar(select(task.c.status).where(task.c.id == number, IS_RUN))
    return None if found is None else Status(found)


def lock(connection: Connection, number: int) -> RunRow | None:
    """One run, which nobody else changes until the transaction ends."""
    query = select(*RUN).where(task.c.id == number, IS_RUN).with_for_update()
    row = connection.execute(query).first()
    return None if row is None else _run(row)


def is_free(connection: Connection, number: int) -> bool:
    """Whether nobody is just ending a node; then nobody will until the transaction ends."""
    row = select(task.c.id).where(task.c.id == number).with_for_update(skip_locked=True)
    return connection.scalar(row) is not None


def nodes(connection: Connection, number: int) -> list[NodeRow]:
    """The nodes of a run, in the order in which they were drawn."""
    rows = connection.execute(
        select(*ROW).where(task.c.flow_id == number, task.c.id != number).order_by(task.c.id)
    )
    return [_row(row) for row in rows]


def node(connection: Connection, number: int) -> NodeRow:
    """One node by its id."""
    return _row(connection.execute(select(*ROW).where(task.c.id == number)).one())


def named(connection: Connection, number: int, names: Collection[str]) -> dict[str, NodeRow]:
    """Those of the nodes that a run has."""
    if not names:
        return {}
    rows = connection.execute(
        select(*ROW).where(
            task.c.flow_id == number, task.c.id != number, task.c.node.in_(list(names))
        )
    )
    return {row.node: _row(row) for row in rows}


def counts(connection: Connection, number: int) -> dict[Status, int]:
    """How many nodes of a run are in which state."""
    rows = connection.execute(
        select(task.c.status, func.count())
        .where(task.c.flow_id == number, task.c.id != number)
        .group_by(task.c.status)
    )
    return {Status(status): int(count) for status, count in rows}


def slots(connection: Connection, number: int) -> list[NewSlot]:
    """The edges of a run."""
    inside = select(task.c.id).where(task.c.flow_id == number, task.c.id != number)
    rows = connection.execute(
        select(slot.c.dep_id, slot.c.task_id, slot.c.rule).where(slot.c.dep_id.in_(inside))
    )
    return [NewSlot(*row) for row in rows]


def set_state(
    connection: Connection,
    ids: Collection[int],
    status: Status,
    *,
    due_at: int | None = None,
    now: int | None = None,
    remark: str | None = None,
) -> None:
    """Have nodes be in another state, as if nobody had taken them yet or as if they had ended."""
    values: dict[str, Any] = {
        "status": status,
        "due_at": due_at,
        "batch": None,
        "finished_at": now,
        "remark": remark,
    }
    if status not in FINAL:
        values |= {"attempt": 0, "lost": 0, "started_at": None, "worker": None, "result": None}
    for part in _parts(sorted(ids)):
        connection.execute(update(task).where(task.c.id.in_(part)).values(**values))


def set_open(connection: Connection, left: Iterable[tuple[int, int]]) -> None:
    """Have nodes wait for so many others."""
    for number, count in left:
        connection.execute(update(task).where(task.c.id == number).values(open_slots=count))


def restart(connection: Connection, number: int, *, more: int) -> None:
    """Have a run go on, with so many more nodes that have not ended."""
    connection.execute(
        update(task)
        .where(task.c.id == number)
        .values(
            status=Status.RUNNING,
            open_slots=func.coalesce(task.c.open_slots, 0) + more,
            finished_at=None,
            prune_at=None,
            remark=None,
            due_at=None,
            batch=None,
            worker=None,
        )
    )


def expand(connection: Connection, number: int, *, left: int) -> None:
    """Have the node of a nested flow wait for so many nodes inside it; no worker has it."""
    connection.execute(
        update(task)
        .where(task.c.id == number)
        .values(open_slots=left, worker=None, due_at=None, batch=None)
    )


def cancel(connection: Connection, number: int, *, reason: str, now: int, keep: int) -> list[int]:
    """End a run and all of its nodes that have not ended; which of those were external."""
    inside = task.c.flow_id == number, task.c.status.in_(OPEN)
    away = select(task.c.id).where(*inside, task.c.status == Status.EXTERNAL)
    external_ids = list(connection.scalars(away))
    ended = {"status": Status.CANCELLED, "due_at": None, "batch": None, "finished_at": now}
    # Who is just ending a node waits for the run, so that is not waited for here.
    free = select(task.c.id).where(*inside, task.c.id != number).order_by(task.c.id)
    for part in _parts(list(connection.scalars(free.with_for_update(skip_locked=True)))):
        connection.execute(update(task).where(task.c.id.in_(part)).values(**ended, remark=reason))
    connection.execute(
        update(task)
        .where(task.c.id == number)
        .values(**ended, remark=reason, open_slots=0, prune_at=now + keep)
    )
    return external_ids


def left_of(connection: Connection, number: int) -> list[int]:
    """The nodes of a run that have not ended."""
    is_left = task.c.flow_id == number, task.c.id != number, task.c.status.in_(OPEN)
    return list(connection.scalars(select(task.c.id).where(*is_left).order_by(task.c.id)))


def cancel_node(connection: Connection, number: int, *, reason: str, now: int) -> None:
    """End what somebody had locked while its run was cancelled, if it has not ended since."""
    connection.execute(
        update(task)
        .where(task.c.id == number, task.c.status.in_(OPEN))
        .values(status=Status.CANCELLED, due_at=None, batch=None, finished_at=now, remark=reason)
    )


def unlink(connection: Connection, dep: int, number: int) -> bool:
    """Remove an edge; whether it was there."""
    gone = delete(slot).where(slot.c.dep_id == dep, slot.c.task_id == number)
    return bool(connection.execute(gone).rowcount)


def prune(connection: Connection, *, now: int, limit: int) -> int:
    """Delete up to about `limit` rows of runs whose time is over, each run last; how many."""
    over = connection.scalars(
        select(task.c.id)
        .where(task.c.prune_at <= now, task.c.flow_id.is_not(None), IS_RUN)
        .where(or_(task.c.batch.is_(None), task.c.batch != COMING))
        .order_by(task.c.prune_at)
        .limit(10)
        .with_for_update(skip_locked=True)
    ).all()
    pruned = 0
    for number in over:
        inside = select(task.c.id).where(task.c.flow_id == number, task.c.id != number)
        ids = list(connection.scalars(inside.limit(limit)))
        whole = [*ids, number] if len(ids) < limit else ids
        connection.execute(delete(slot).where(slot.c.dep_id.in_(ids)))
        connection.execute(delete(external).where(external.c.task_id.in_(ids)))
        pruned += connection.execute(delete(task).where(task.c.id.in_(whole))).rowcount
        if pruned >= limit:
            break
    return pruned


def nested_in(slots_: Iterable[NewSlot]) -> dict[int, int]:
    """The nested flow that each node is in, by id."""
    return {each.dep_id: each.task_id for each in slots_ if each.rule == Rule.END}


def _row(row: Sequence[Any]) -> NodeRow:
    number, name, kind, status, remark, bucket, left, *rest = row
    return NodeRow(number, name or "", kind, Status(status), remark, bucket, left or 0, *rest)


def _run(row: Sequence[Any]) -> RunRow:
    number, kind, key, status, left, *rest = row
    return RunRow(number, kind, key, Status(status), left or 0, *rest)


def _parts(ids: Sequence[int]) -> Iterable[Sequence[int]]:
    for begin in range(0, len(ids), 1_000):
        yield ids[begin : begin + 1_000]


def _chunks(rows: Sequence[NewNode]) -> Iterable[Sequence[NewNode]]:
    begin = size = 0
    for index, row in enumerate(rows):
        size += 2 * len(row.payload) + 300
        if index + 1 - begin >= CHUNK_ROWS or size >= CHUNK_BYTES:
            yield rows[begin : index + 1]
            begin, size = index + 1, 0
    if begin < len(rows):
        yield rows[begin:]
