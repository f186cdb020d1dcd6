"""The rows of flow runs and their nodes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple, TypeVar

from sqlalchemy import ColumnElement, Connection, and_, delete, func, or_, select, text, update

from windlass.database.dialect.base import Dialect, Executor, encode
from windlass.database.schema import slot, task
from windlass.flow.model.graph import (
    BLOCKED_BY,
    SKIPPED,
    SKIPPED_BY_HAND,
    How,
    Rule,
    how_ended,
)
from windlass.flow.store.dialect import STATEMENTS
from windlass.value.shard import COMING
from windlass.value.status import FINAL, Status
from windlass.value.task import NewNode

CHUNK_ROWS = 2_000
CHUNK_BYTES = 2 * 1024 * 1024
OPEN = tuple(status for status in Status if status not in FINAL)
END_EMPTY = text("""
    update windlass_task set finished_at = :now, prune_at = :prune_at where id = :id""")

T = TypeVar("T")


class NewSlot(NamedTuple):
    """An edge that is about to be written."""

    dep_id: int
    task_id: int
    rule: int


@dataclass(frozen=True)
class NodeRow:
    """A node, without its arguments."""

    id: int
    node: str
    kind: str
    status: Status
    last_status: Status | None
    remark: str | None
    bucket: int
    open_slots: int
    attempt: int
    due_at: int | None
    started_at: int | None
    finished_at: int | None
    # None if it was not read.
    result: str | None = None

    @property
    def how(self) -> How | None:
        """How it ended; None if it has not ended."""
        return how_ended(self.status, self.last_status)

    @property
    def is_blocked_end(self) -> bool:
        """Whether it ended only because of how its parents ended."""
        return self.how is not None and self.last_status is Status.BLOCKED

    @property
    def is_skipped(self) -> bool:
        """Whether its condition, the condition of a parent or an operator skipped it."""
        return self.how is How.SKIPPED or self.remark == SKIPPED_BY_HAND

    @property
    def error(self) -> str | None:
        """Why it failed or was cancelled."""
        return self.remark if self.status in (Status.FAILED, Status.CANCELLED) else None

    @property
    def cause(self) -> str:
        """The node that blocks the nodes below, if it did not succeed."""
        if not self.is_blocked_end:
            return self.node
        return (self.remark or "").removeprefix(BLOCKED_BY).removeprefix(SKIPPED)


@dataclass(frozen=True)
class RunRow:
    """A flow run; `left` nodes have not ended."""

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
        """Whether it is a copy that is still being moved from another shard."""
        return self.batch == COMING


ROW = [task.c[each.name] for each in fields(NodeRow) if each.name != "result"]
RENAMED = {"key": "task_key", "left": "open_slots"}
RUN = [task.c[RENAMED.get(each.name, each.name)] for each in fields(RunRow)]
IS_RUN = task.c.id == task.c.flow_id
LARGEST = 1 << 62


def insert(
    executor: Executor, dialect: Dialect, rows: Sequence[NewNode], slots: Sequence[NewSlot]
) -> None:
    """Write nodes and slots in as few statements as their size allows; safe to repeat."""
    statements = STATEMENTS.of(dialect)
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
    """One flow run."""
    row = connection.execute(select(*RUN).where(task.c.id == number, IS_RUN)).first()
    return None if row is None else _run(row)


def newest(connection: Connection, *, below: int) -> Iterator[RunRow]:
    """All flow runs below an id, newest first; one statement each, whatever lies between them."""
    last = below
    while True:
        before = select(func.max(task.c.flow_id)).where(task.c.flow_id < last).scalar_subquery()
        row = connection.execute(select(*RUN).where(task.c.id == before)).first()
        if row is None:
            return
        yield _run(row)
        last = row.id


def runs_of(connection: Connection, ids: Collection[int]) -> list[RunRow]:
    """These flow runs, newest first."""
    query = select(*RUN).where(task.c.id.in_(ids), IS_RUN).order_by(task.c.id.desc())
    return [_run(row) for row in connection.execute(query)]


def status_of(connection: Connection, number: int) -> Status | None:
    """The status of a flow run; None if it does not exist."""
    found = connection.scalar(select(task.c.status).where(task.c.id == number, IS_RUN))
    return None if found is None else Status(found)


def lock(connection: Connection, number: int) -> RunRow | None:
    """Lock a flow run until the transaction ends."""
    query = select(*RUN).where(task.c.id == number, IS_RUN).with_for_update()
    row = connection.execute(query).first()
    return None if row is None else _run(row)


def is_going(connection: Connection, number: int, *, now: int) -> bool:
    """Whether the nodes of a flow run are being pruned."""
    prune_at = connection.scalar(select(task.c.prune_at).where(task.c.id == number))
    return prune_at is not None and prune_at <= now


def nodes(connection: Connection, number: int, *, results: bool = False) -> list[NodeRow]:
    """The nodes of a flow run, in the order in which they were drawn."""
    columns = (*ROW, task.c.result) if results else ROW
    rows = connection.execute(
        select(*columns).where(task.c.flow_id == number, task.c.id != number).order_by(task.c.id)
    )
    return [row_of(row) for row in rows]


def payloads(connection: Connection, ids: Collection[int]) -> dict[int, str]:
    """The arguments of nodes."""
    found: dict[int, str] = {}
    for part in _parts(sorted(ids)):
        rows = connection.execute(select(task.c.id, task.c.payload).where(task.c.id.in_(part)))
        found |= {row.id: row.payload for row in rows}
    return found


def node(connection: Connection, number: int) -> NodeRow:
    """One node by its id."""
    return row_of(connection.execute(select(*ROW).where(task.c.id == number)).one())


def named(connection: Connection, number: int, names: Collection[str]) -> dict[str, NodeRow]:
    """The nodes of a flow run with these names."""
    if not names:
        return {}
    inside = task.c.flow_id == number, task.c.id != number
    found: dict[str, NodeRow] = {}
    for part in _parts(sorted(names)):
        rows = connection.execute(select(*ROW).where(*inside, task.c.node.in_(part)))
        found |= {row.node: row_of(row) for row in rows}
    return found


def group_of(connection: Connection, number: int) -> NodeRow | None:
    """The nested flow that a node is in."""
    row = connection.execute(
        select(*ROW)
        .join(slot, slot.c.task_id == task.c.id)
        .where(slot.c.dep_id == number, slot.c.rule == Rule.END)
    ).first()
    return None if row is None else row_of(row)


def ancestors(connection: Connection, number: int) -> set[int]:
    """The nodes that ended before a node began: its ancestors, and those of its nested flow."""
    begin = [number]
    while (group := group_of(connection, begin[-1])) is not None:
        begin.append(group.id)
    above = (
        select(slot.c.dep_id)
        .where(slot.c.task_id.in_(begin), slot.c.rule != Rule.END)
        .cte("above", recursive=True)
    )
    # A nested flow has ended when all nodes inside it have.
    above = above.union(select(slot.c.dep_id).join(above, slot.c.task_id == above.c.dep_id))
    return set(connection.scalars(select(above.c.dep_id)))


def counts(connection: Connection, number: int) -> dict[Status, int]:
    """How many nodes of a flow run have which status."""
    rows = connection.execute(
        select(task.c.status, func.count())
        .where(task.c.flow_id == number, task.c.id != number)
        .group_by(task.c.status)
    )
    return {Status(status): int(count) for status, count in rows}


def slots(connection: Connection, number: int) -> list[NewSlot]:
    """The edges of a flow run."""
    inside = select(task.c.id).where(task.c.flow_id == number, task.c.id != number)
    rows = connection.execute(
        select(slot.c.dep_id, slot.c.task_id, slot.c.rule).where(slot.c.dep_id.in_(inside))
    )
    return [NewSlot(*row) for row in rows]


def set_states(connection: Connection, rows: Iterable[NodeRow], again: Collection[int]) -> None:
    """Write the states of nodes; nodes that begin `again` are as if they had never run."""
    alike: dict[tuple[Any, ...], list[int]] = {}
    for row in rows:
        values = (
            row.status,
            row.last_status,
            row.open_slots,
            row.due_at,
            row.finished_at,
            row.remark,
            row.id in again,
        )
        alike.setdefault(values, []).append(row.id)
    names = ("status", "last_status", "open_slots", "due_at", "finished_at", "remark")
    afresh: dict[str, Any] = {"started_at": None, "worker": None, "result": None}
    afresh |= dict.fromkeys(("attempt", "lost", "lost_in_a_row"), 0)
    for (*given, is_again), ids in alike.items():
        changed: dict[str, Any] = dict(zip(names, given, strict=True), batch=None)
        for part in _parts(ids):
            connection.execute(
                update(task)
                .where(task.c.id.in_(part))
                .values(**changed, **(afresh if is_again else {}))
            )


def grow(connection: Connection, number: int, *, more: int) -> bool:
    """Count more nodes that a flow run, or a nested flow, waits for; False if it has ended."""
    grown = connection.execute(
        update(task)
        .where(task.c.id == number, task.c.status == Status.RUNNING)
        .values(open_slots=task.c.open_slots + more)
    )
    return bool(grown.rowcount)


def go_on(connection: Connection, number: int, *, left: int) -> None:
    """Let a flow run continue, even if it had ended; `left` nodes have not ended."""
    connection.execute(
        update(task)
        .where(task.c.id == number)
        .values(
            status=Status.RUNNING,
            open_slots=left,
            finished_at=None,
            prune_at=None,
            remark=None,
            due_at=None,
            batch=None,
            worker=None,
        )
    )


def end_empty(executor: Executor, number: int, *, now: int, keep: int) -> None:
    """End a flow run without nodes at once."""
    executor.execute(END_EMPTY, {"id": number, "now": now, "prune_at": now + keep})


def expand(connection: Connection, number: int, *, left: int) -> None:
    """Let the node of a nested flow wait for the `left` nodes inside it, without a worker."""
    connection.execute(
        update(task)
        .where(task.c.id == number)
        .values(open_slots=left, worker=None, due_at=None, batch=None)
    )


def cancel(connection: Connection, number: int, *, reason: str, now: int, keep: int) -> list[int]:
    """End a flow run and its open nodes; which of those were external."""
    inside = task.c.flow_id == number, task.c.id != number, task.c.status.in_(OPEN)
    away = select(task.c.id).where(*inside, task.c.status == Status.EXTERNAL)
    external_ids = list(connection.scalars(away))
    # A row that a claim or a heartbeat has locked for a moment is not waited for here.
    free = select(task.c.id).where(*inside).order_by(task.c.id).with_for_update(skip_locked=True)
    for part in _parts(list(connection.scalars(free))):
        _cancel(connection, task.c.id.in_(part), reason=reason, now=now)
    more = {"open_slots": 0, "prune_at": now + keep}
    _cancel(connection, task.c.id == number, reason=reason, now=now, **more)
    return external_ids


def cancelled_nodes(connection: Connection, run: int) -> list[int]:
    """The nodes of a flow run that were cancelled."""
    nodes = select(task.c.id).where(task.c.flow_id == run, task.c.status == Status.CANCELLED)
    return list(connection.scalars(nodes))


def cancel_rest(connection: Connection, number: int, *, reason: str, now: int) -> None:
    """End the nodes that were locked while `cancel` ended the others, unless the run continues."""
    found = lock(connection, number)
    if found is not None and found.status is Status.CANCELLED:
        rest = task.c.flow_id == number, task.c.id != number, task.c.status.in_(OPEN)
        _cancel(connection, and_(*rest), reason=reason, now=now)


def _cancel(
    connection: Connection, where: ColumnElement[bool], *, reason: str, now: int, **more: Any
) -> None:
    ended = {"status": Status.CANCELLED, "due_at": None, "batch": None, "finished_at": now}
    connection.execute(update(task).where(where).values(**ended, remark=reason, **more))


def unlink(connection: Connection, edges: Collection[tuple[int, int]]) -> None:
    """Remove edges, each from a parent to its child."""
    parents, children = {dep for dep, _ in edges}, {number for _, number in edges}
    # Grouped by the side with fewer nodes: the edges of a fan are one statement.
    one, other, place = slot.c.dep_id, slot.c.task_id, 0
    if len(children) < len(parents):
        one, other, place = other, one, 1
    ends: dict[int, list[int]] = {}
    for edge in edges:
        ends.setdefault(edge[place], []).append(edge[1 - place])
    for number, others in ends.items():
        for part in _parts(others):
            connection.execute(delete(slot).where(one == number, other.in_(part)))


def prune(
    connection: Connection,
    *,
    now: int,
    limit: int,
    pruned: Callable[[Connection, Collection[int]], None],
) -> int:
    """Delete up to about `limit` rows of flow runs whose time is over, each run last; how many.

    `pruned` is called with the nodes that were deleted.
    """
    over = connection.scalars(
        select(task.c.id)
        .where(task.c.prune_at <= now, task.c.flow_id.is_not(None), IS_RUN)
        .where(or_(task.c.batch.is_(None), task.c.batch != COMING))
        .order_by(task.c.prune_at)
        .limit(10)
        .with_for_update(skip_locked=True)
    ).all()
    count = 0
    for number in over:
        inside = select(task.c.id).where(task.c.flow_id == number, task.c.id != number)
        ids = list(connection.scalars(inside.limit(limit)))
        whole = [*ids, number] if len(ids) < limit else ids
        connection.execute(delete(slot).where(slot.c.dep_id.in_(ids)))
        pruned(connection, ids)
        count += connection.execute(delete(task).where(task.c.id.in_(whole))).rowcount
        if count >= limit:
            break
    return count


def row_of(row: Sequence[Any]) -> NodeRow:
    """A node, from the columns in ROW."""
    number, name, kind, status, last, remark, bucket, left, *rest = row
    before = None if last is None else Status(last)
    return NodeRow(
        number, name or "", kind, Status(status), before, remark, bucket, left or 0, *rest
    )


def _run(row: Sequence[Any]) -> RunRow:
    number, kind, key, status, left, *rest = row
    return RunRow(number, kind, key, Status(status), left or 0, *rest)


def _parts(ids: Sequence[T]) -> Iterable[Sequence[T]]:
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
