"""The rows of flow runs and their nodes: written, read, changed, pruned, and moved to a shard."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from operator import attrgetter
from typing import Any, TypeVar

from sqlalchemy import ColumnElement, Connection, and_, delete, func, or_, select, text, update

from windlass.core.face import Copied, Read, Values
from windlass.core.task.store import gone, lane
from windlass.core.task.store.task import UNENDED, chunks
from windlass.database.dialect.base import Dialect, Executor, document
from windlass.database.dialect.by_id import delete_by_id
from windlass.database.schema import slot, task
from windlass.flow.model.graph import (
    BLOCKED_BY,
    SKIPPED,
    SKIPPED_BY_HAND,
    EndedNode,
    NodeEnd,
    Rule,
    how_ended,
)
from windlass.flow.model.run import RunRow
from windlass.flow.store.dialect import STATEMENTS, NewSlot
from windlass.value.shard import COMING
from windlass.value.status import FINAL, Status
from windlass.value.task import NewNode

PART = 1_000
SLOTS_AT_ONCE = 8_000
RUN_ENDED = "its run had ended"
FLOW_PAUSED = "put off: its flow is paused"
END_EMPTY = text("""
    update windlass_task set finished_at = :now, prune_at = :prune_at where id = :id""")

T = TypeVar("T")


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
    def how(self) -> NodeEnd | None:
        """How it ended; None if it has not ended."""
        return how_ended(self.status, self.last_status)

    @property
    def ended(self) -> EndedNode | None:
        """Its end, for the nodes that wait for it."""
        return None if self.how is None else EndedNode(self.id, self.how, self.cause)

    @property
    def is_blocked_end(self) -> bool:
        """Whether it ended only because of how its parents ended."""
        return self.how is not None and self.last_status is Status.BLOCKED

    @property
    def is_skipped(self) -> bool:
        """Whether its condition, the condition of a parent or an operator skipped it."""
        return self.how is NodeEnd.SKIPPED or self.remark == SKIPPED_BY_HAND

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


ROW = [task.c[each.name] for each in fields(NodeRow) if each.name != "result"]
RUN_NAMES = (
    "id kind task_key status open_slots created_at finished_at remark payload batch started_at"
)
RUN = [task.c[name] for name in RUN_NAMES.split()]
IS_RUN = task.c.id == task.c.flow_id
SLOT = (slot.c.dep_id, slot.c.task_id, slot.c.rule)
LARGEST = 1 << 62


def inside(run: int) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
    """The condition for the nodes of a flow run."""
    return task.c.flow_id == run, task.c.id != run


def insert(
    executor: Executor, dialect: Dialect, rows: Sequence[NewNode], slots: Sequence[NewSlot]
) -> None:
    """Write nodes and slots in as few statements as their size allows; safe to repeat."""
    statements = STATEMENTS.of(dialect)
    for chunk in chunks(rows):
        executor.execute(statements.insert_nodes, {"nodes": document(chunk)})
    for part in _parts(slots, SLOTS_AT_ONCE):
        executor.execute(statements.insert_slots, {"slots": document(part)})


def run(connection: Connection, number: int, *, is_locked: bool = False) -> RunRow | None:
    """One flow run; `is_locked` locks it until the transaction ends."""
    query = select(*RUN).where(task.c.id == number, IS_RUN)
    row = connection.execute(query.with_for_update() if is_locked else query).first()
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


def is_going(connection: Connection, number: int, *, now: int) -> bool:
    """Whether the nodes of a flow run are being pruned."""
    prune_at = connection.scalar(select(task.c.prune_at).where(task.c.id == number))
    return prune_at is not None and prune_at <= now


def nodes(connection: Connection, number: int, *, results: bool = False) -> list[NodeRow]:
    """The nodes of a flow run, in the order in which they were drawn."""
    columns = (*ROW, task.c.result) if results else ROW
    query = select(*columns).where(*inside(number)).order_by(task.c.id)
    return [row_of(row) for row in connection.execute(query)]


def by_ids(connection: Connection, ids: Collection[int]) -> list[NodeRow]:
    """Nodes by their ids, in the order in which they were drawn."""
    rows = connection.execute(select(*ROW).where(task.c.id.in_(ids)).order_by(task.c.id))
    return [row_of(row) for row in rows]


def names(connection: Connection, ids: Collection[int]) -> dict[int, str]:
    """The names of nodes."""
    if not ids:
        return {}
    rows = connection.execute(select(task.c.id, task.c.node).where(task.c.id.in_(ids)))
    return {number: name or "" for number, name in rows}


def payloads(connection: Connection, ids: Collection[int]) -> dict[int, str]:
    """The arguments of nodes."""
    found: dict[int, str] = {}
    for part in _parts(sorted(ids)):
        rows = connection.execute(select(task.c.id, task.c.payload).where(task.c.id.in_(part)))
        found |= {row.id: row.payload for row in rows}
    return found


def named(connection: Connection, number: int, names: Collection[str]) -> dict[str, NodeRow]:
    """The nodes of a flow run with these names."""
    found: dict[str, NodeRow] = {}
    for part in _parts(sorted(names)):
        rows = connection.execute(select(*ROW).where(*inside(number), task.c.node.in_(part)))
        found |= {row.node: row_of(row) for row in rows}
    return found


def among(connection: Connection, numbers: Collection[int], kinds: Collection[str]) -> set[int]:
    """Which of these flow runs are of one of these flows."""
    found: set[int] = set()
    for part in _parts(sorted(numbers)):
        query = select(task.c.id).where(task.c.id.in_(part), task.c.kind.in_(sorted(kinds)))
        found |= set(connection.scalars(query))
    return found


def put_off(connection: Connection, numbers: Collection[int], *, due_at: int) -> None:
    """Let waiting nodes of a paused flow wait longer."""
    for part in _parts(sorted(numbers)):
        waits = task.c.id.in_(part), task.c.status == Status.WAITING
        values = {"due_at": due_at, "remark": FLOW_PAUSED}
        connection.execute(update(task).where(*waits).values(values))


def put_off_nodes(connection: Connection, kinds: Collection[str]) -> list[int]:
    """The nodes that were put off while one of these flows was paused."""
    undue = task.c.status.in_(UNENDED), task.c.due_at.is_(None)
    runs = connection.scalars(
        select(task.c.id).where(*undue, task.c.kind.in_(sorted(kinds)), IS_RUN)
    )
    waits = task.c.status == Status.WAITING, task.c.remark == FLOW_PAUSED
    found: list[int] = []
    for part in _parts(runs.all()):
        found += connection.scalars(select(task.c.id).where(task.c.flow_id.in_(part), *waits))
    return found


def let_go(connection: Connection, numbers: Collection[int], *, now: int) -> None:
    """Make nodes due that were put off."""
    waits = task.c.status == Status.WAITING, task.c.remark == FLOW_PAUSED
    for part in _parts(sorted(numbers)):
        few = task.c.id.in_(part)
        connection.execute(update(task).where(few, *waits).values(due_at=now, remark=None))


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
    query = select(task.c.status, func.count()).where(*inside(number)).group_by(task.c.status)
    return {Status(status): int(count) for status, count in connection.execute(query)}


def slots(connection: Connection, number: int) -> list[NewSlot]:
    """The edges of a flow run."""
    query = select(*SLOT).where(slot.c.dep_id.in_(select(task.c.id).where(*inside(number))))
    return [NewSlot(*row) for row in connection.execute(query)]


def set_states(connection: Connection, rows: Iterable[NodeRow], again: Collection[int]) -> None:
    """Write the states of nodes; nodes that begin `again` are as if they had never run."""
    names = ("status", "last_status", "open_slots", "due_at", "finished_at", "remark")
    state_of = attrgetter(*names)
    alike: dict[tuple[tuple[Any, ...], bool], list[int]] = {}
    for row in rows:
        alike.setdefault((state_of(row), row.id in again), []).append(row.id)
    afresh: dict[str, Any] = {"started_at": None, "worker": None, "result": None}
    afresh |= dict.fromkeys(("attempt", "lost", "lost_in_a_row"), 0)
    for (state, is_again), ids in alike.items():
        changed: dict[str, Any] = dict(zip(names, state, strict=True), batch=None)
        for part in _parts(ids):
            _set(connection, task.c.id.in_(part), **changed, **(afresh if is_again else {}))


def grow(connection: Connection, number: int, *, more: int) -> bool:
    """Count more nodes that a flow run, or a nested flow, waits for; False if it has ended."""
    grown = connection.execute(
        update(task)
        .where(task.c.id == number, task.c.status == Status.RUNNING)
        .values(open_slots=task.c.open_slots + more)
    )
    return bool(grown.rowcount)


def go_on(connection: Connection, number: int, *, left: int, begins: int | None = None) -> None:
    """Let a flow run continue; `left` nodes have not ended. If it had ended, it `begins` again."""
    blank = dict.fromkeys(("finished_at", "prune_at", "remark", "due_at", "batch", "worker"))
    going = {"status": Status.RUNNING, "open_slots": left}
    if begins is not None:
        going["started_at"] = begins
    _set(connection, task.c.id == number, **going, **blank)


def end_empty(executor: Executor, number: int, *, now: int, keep: int) -> None:
    """End a flow run without nodes at once."""
    executor.execute(END_EMPTY, {"id": number, "now": now, "prune_at": now + keep})


def expand(connection: Connection, number: int, *, left: int) -> None:
    """Let the node of a nested flow wait for the `left` nodes inside it, without a worker."""
    _set(connection, task.c.id == number, open_slots=left, worker=None, due_at=None, batch=None)


def cancel(
    connection: Connection,
    number: int,
    *,
    reason: str,
    now: int,
    keep: int,
    status: Status = Status.CANCELLED,
) -> list[int]:
    """End a flow run with this status, and cancel its open nodes; which of those were external."""
    unended = *inside(number), task.c.status.in_(UNENDED)
    away = select(task.c.id).where(*unended, task.c.status == Status.EXTERNAL)
    external_ids = list(connection.scalars(away))
    # A row that a claim or a heartbeat has locked for a moment is not waited for here.
    free = select(task.c.id).where(*unended).order_by(task.c.id).with_for_update(skip_locked=True)
    for part in _parts(list(connection.scalars(free))):
        _cancel(connection, task.c.id.in_(part), reason=reason, now=now)
    more = {"open_slots": 0, "prune_at": now + keep, "status": status}
    _cancel(connection, task.c.id == number, reason=reason, now=now, **more)
    return external_ids


def cancel_rest(connection: Connection, number: int, *, reason: str, now: int) -> list[int]:
    """End the nodes that were locked while `cancel` ended the others; all cancelled nodes.

    Nothing ends if the flow run continues.
    """
    found = run(connection, number, is_locked=True)
    if found is not None and found.status.is_final:
        rest = and_(*inside(number), task.c.status.in_(UNENDED))
        _cancel(connection, rest, reason=reason, now=now)
    ended = select(task.c.id).where(task.c.flow_id == number, task.c.status == Status.CANCELLED)
    return list(connection.scalars(ended))


def cancel_open(connection: Connection, ids: Collection[int], *, now: int) -> None:
    """End nodes that would continue although their flow run has ended."""
    unended = and_(task.c.id.in_(ids), task.c.status.in_(UNENDED))
    _cancel(connection, unended, reason=RUN_ENDED, now=now, worker=None)


def _cancel(
    connection: Connection, where: ColumnElement[bool], *, reason: str, now: int, **more: Any
) -> None:
    ended = {"status": Status.CANCELLED, "due_at": None, "batch": None, "finished_at": now}
    _set(connection, where, **{**ended, "remark": reason, **more})


def _set(connection: Connection, where: ColumnElement[bool], **values: Any) -> None:
    connection.execute(update(task).where(where).values(**values))


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
    dialect: Dialect,
    *,
    now: int,
    limit: int,
    pruned: Callable[[Connection, Collection[int]], None],
) -> int:
    """Delete about `limit` rows of flow runs that are kept no longer; how many were deleted.

    The row of the flow run goes last. `pruned` is called with the nodes that are deleted.
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
        ids = list(connection.scalars(select(task.c.id).where(*inside(number)).limit(limit)))
        whole = [*ids, number] if len(ids) < limit else ids
        drop_slots(connection, ids)
        pruned(connection, ids)
        gone.remember(connection, dialect, whole, now=now)
        count += delete_by_id(connection, task, whole)
        if count >= limit:
            break
    return count


# All columns of a node, which has no lane.
NODE = [column for column in task.c if column not in set(lane.COLUMNS)]


def moving_nodes(read: Read, rows: Sequence[Values]) -> Iterator[list[Values]]:
    """The nodes that move to another shard with the flow runs among `rows`, a page at a time."""
    for run in _runs_in(rows):
        last = 0
        while True:
            after = select(*NODE).where(*inside(run), task.c.id > last).order_by(task.c.id)
            page = _read_all(read, after.limit(PART))
            if not page:
                break
            yield page
            last = page[-1]["id"]


def moving_ids(connection: Connection, rows: Collection[Values]) -> Iterator[Sequence[int]]:
    """The ids of those nodes, a page at a time."""
    for run in _runs_in(rows):
        yield from _parts(list(connection.scalars(select(task.c.id).where(*inside(run)))))


def moving_slots(read: Read, ids: Sequence[int], _new: Mapping[int, int]) -> Iterator[Copied]:
    """The slots that nodes fill."""
    yield Copied(slot, _read_all(read, select(slot).where(slot.c.dep_id.in_(ids))))


def drop_slots(connection: Connection, ids: Sequence[int]) -> None:
    """Delete those slots."""
    connection.execute(delete(slot).where(slot.c.dep_id.in_(ids)))


def _runs_in(rows: Collection[Values]) -> list[int]:
    return [row["id"] for row in rows if row["flow_id"] == row["id"]]


def _read_all(read: Read, query: Any) -> list[Values]:
    found: list[Values] = read(
        lambda connection: [dict(row) for row in connection.execute(query).mappings()]
    )
    return found


def row_of(row: Sequence[Any]) -> NodeRow:
    """A node, from the columns in ROW."""
    number, name, kind, status, last, remark, bucket, left, *rest = row
    before = None if last is None else Status(last)
    return NodeRow(
        number, name or "", kind, Status(status), before, remark, bucket, left or 0, *rest
    )


def _run(row: Sequence[Any]) -> RunRow:
    number, kind, key, status, left, *rest = row
    return RunRow(number, kind, key, Status(status), 0 if status in FINAL else left or 0, *rest)


def _parts(whole: Sequence[T], size: int = PART) -> Iterator[Sequence[T]]:
    for begin in range(0, len(whole), size):
        yield whole[begin : begin + size]
