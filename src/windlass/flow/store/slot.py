"""What the end of nodes does to the nodes, and to the flow run, that wait for them.

The row of a flow run is the lock of the whole flow run. Every transaction that ends, adds, skips,
retries or cancels nodes locks this row first. So two parents that end in two transactions fill the
slots of their child one after the other, the second sees what the first has left, and there is no
deadlock. Slots are filled in the transaction that accepts the outcome: a repeated outcome is not
accepted, and fills nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple

from sqlalchemy import Connection, TextClause, and_, select, update

from windlass.core.finish.store import MINUTE
from windlass.database.dialect.base import Count, Dialect, document
from windlass.database.schema import slot, task
from windlass.flow.model.graph import (
    ON_FAILURE,
    Edge,
    EndedNode,
    Filled,
    NodeEnd,
    Rule,
    blocked_end,
    fill,
    how_ended,
)
from windlass.flow.model.node import keep_of
from windlass.flow.model.run import RunRow
from windlass.flow.store import flow
from windlass.flow.store.dialect import MARKED, STATEMENTS
from windlass.value.outcome import LONGEST_REMARK
from windlass.value.status import Status

# How many whole rows the statement that fills slots returns; other due rows are read later.
MOST_ROWS = 200
# Nodes that become due together get different times, all in the last milliseconds.
APART = 10_000

IS_SKIPPED = and_(task.c.status == Status.CANCELLED, task.c.last_status.is_not(None))

NOTHING: Mapping[int, int] = MappingProxyType({})


@dataclass
class AfterEnd:
    """What follows from the end of nodes, once the transaction has committed."""

    # Nodes that are due now, with their buckets.
    due: dict[int, int] = field(default_factory=dict)
    # Whole rows of some of them, as a claim has them.
    rows: list[Sequence[Any]] = field(default_factory=list)
    # Flow runs that have ended.
    runs: dict[int, Status] = field(default_factory=dict)


def after_end(
    connection: Connection,
    dialect: Dialect,
    ended: Mapping[int, tuple[int, NodeEnd]],
    *,
    before: Mapping[int, int],
    worker: int,
    now: int,
) -> AfterEnd:
    """Fill the slots below nodes whose ends `worker` just wrote: id to flow run and end.

    Flow runs that end with them count as work of `worker`. Call it in a transaction that has locked
    the flow runs; `before` is how many nodes of each were open.
    """
    run_of = {number: run for number, (run, _) in ended.items()}
    filling = _Filling(connection, dialect, now, run_of)
    blocking = [each for each, (_, how) in ended.items() if how != NodeEnd.SUCCEEDED]
    names = flow.names(connection, blocking)
    closed: Counter[int] = Counter()
    nodes = [EndedNode(number, how, names.get(number, "")) for number, (_, how) in ended.items()]
    while nodes:
        empty, count = filling.fill(nodes)
        closed += count
        nodes = _end_nested(connection, empty, now=now)
    over = [run for run, count in closed.items() if before.get(run, 0) <= count]
    if over:
        runs = _end_runs(connection, over, now=now)
        filling.after.runs = {run.id: run.status for run in runs}
        _count(connection, dialect, runs, worker=worker, now=now)
    return filling.after


@dataclass(eq=False)
class _Filling:
    """Fills slots in one transaction, and collects what follows."""

    connection: Connection
    dialect: Dialect
    now: int
    # Nodes, and the flow run of each.
    run_of: dict[int, int]
    after: AfterEnd = field(default_factory=AfterEnd)

    def fill(self, ended: Sequence[EndedNode]) -> tuple[list[int], Counter[int]]:
        """Fill the slots below nodes: which nested flows are empty now, and how many nodes ended.

        The second is by flow run.
        """
        is_plain = all(node.how is NodeEnd.SUCCEEDED for node in ended)
        at_once = is_plain and STATEMENTS.of(self.dialect).fill is not None
        return self._fill_at_once(ended) if at_once else self._fill_below(ended)

    def _fill_below(self, ended: Sequence[EndedNode]) -> tuple[list[int], Counter[int]]:
        return self._decide(self._edges_below(ended), ended, counted=ended)

    def _decide(
        self, edges: Collection[Edge], ended: Sequence[EndedNode], *, counted: Sequence[EndedNode]
    ) -> tuple[list[int], Counter[int]]:
        """Fill these slots; of `ended`, those in `counted` are not counted as ended yet."""
        filled = fill(edges, ended)
        self.run_of |= {edge.task: edge.run for edge in edges}
        buckets = {edge.task: edge.bucket for edge in edges}
        self.after.due |= {number: buckets[number] for number in filled.due}
        count = Counter(self.run_of[node.id] for node in (*counted, *filled.ended))
        write(self.connection, self.dialect, filled, now=self.now, left=count)
        return filled.empty, count

    def _edges_below(self, ended: Sequence[EndedNode]) -> Collection[Edge]:
        """The slots of these nodes, and all slots further below where a node may not run."""
        succeeded = [node.id for node in ended if node.how is NodeEnd.SUCCEEDED]
        found = self._edges(STATEMENTS.of(self.dialect).edges, succeeded)
        others = [node.id for node in ended if node.how is not NodeEnd.SUCCEEDED]
        others += [edge.dep for edge in found if edge.rule in ON_FAILURE]
        return found | self._edges(STATEMENTS.of(self.dialect).below, others)

    def _edges(self, statement: TextClause, ids: Sequence[int]) -> set[Edge]:
        if not ids:
            return set()
        asked = {"ids": STATEMENTS.of(self.dialect).listed(ids)}
        return {_edge(row) for row in self.connection.execute(statement, asked).fetchall()}

    def _fill_marked(
        self, marked: Collection[int], ended: Sequence[EndedNode]
    ) -> tuple[list[int], Counter[int]]:
        """Decide about nodes that wait for failures, and about all nodes below them."""
        parents = {node.id for node in ended}
        below = self._edges(STATEMENTS.of(self.dialect).below, sorted(parents))
        edges = [each for each in below if each.task in marked or each.dep not in parents]
        return self._decide(edges, ended, counted=())

    def _fill_at_once(self, ended: Sequence[EndedNode]) -> tuple[list[int], Counter[int]]:
        """The same for nodes that have all succeeded, by one statement that returns due rows."""
        statements = STATEMENTS.of(self.dialect)
        count = Counter(self.run_of[node.id] for node in ended)
        asked = {
            "ids": statements.listed([node.id for node in ended]),
            "runs": statements.listed(count.keys()),
            "counts": statements.listed(count.values()),
            # Different times: workers read rows in the order of due times.
            "first": self.now - APART,
            "most": MOST_ROWS,
        }
        assert statements.fill is not None
        empty: list[int] = []
        marked: set[int] = set()
        for status, left, *row in self.connection.execute(statements.fill, asked).fetchall():
            number, payload, bucket, run = row[0], row[5], row[9], row[10]
            if status == Status.WAITING:
                self.after.due[number] = bucket
                if payload is not None:
                    self.after.rows.append(row)
            elif status == Status.RUNNING and left <= 0 and number not in count:
                self.run_of[number] = run
                empty.append(number)
            elif row[4] == MARKED:
                marked.add(number)
        if marked:
            more, also = self._fill_marked(marked, ended)
            return empty + more, count + also
        return empty, count


def write(
    connection: Connection,
    dialect: Dialect,
    filled: Filled,
    *,
    now: int,
    left: Mapping[int, int] = NOTHING,
) -> None:
    """Write the new states of waiting nodes; `left` nodes of each flow run have ended."""
    rows = list(_moves(filled, now))
    rows += [
        _move(run, Status.RUNNING, was=Status.RUNNING, filled=count) for run, count in left.items()
    ]
    if rows:
        statements = STATEMENTS.of(dialect)
        asked = {"moves": document(rows)}
        if statements.is_array:
            asked["ids"] = statements.listed([row["id"] for row in rows])
        connection.execute(statements.move, asked)


def rows(connection: Connection, dialect: Dialect, ids: Collection[int]) -> list[Sequence[Any]]:
    """Due nodes as an owner's read finds them."""
    statements = STATEMENTS.of(dialect)
    asked = {"ids": statements.listed(ids)}
    return list(connection.execute(statements.rows, asked).fetchall())


def results(
    connection: Connection, dialect: Dialect, ids: Collection[int]
) -> dict[int, str | None]:
    """The results of ended nodes, as JSON."""
    if not ids:
        return {}
    statements = STATEMENTS.of(dialect)
    found = connection.execute(statements.results, {"ids": statements.listed(ids)})
    return {row[0]: row[1] for row in found.fetchall()}


def end_run(connection: Connection, run: int, *, now: int) -> Status | None:
    """End a flow run if no node is open; its status then."""
    ended = _end_runs(connection, [run], now=now)
    return ended[0].status if ended else None


class _EndedRun(NamedTuple):
    id: int
    kind: str
    status: Status
    began_at: int


def _end_runs(connection: Connection, runs: Collection[int], *, now: int) -> list[_EndedRun]:
    over = connection.execute(
        select(task.c.id, task.c.kind, task.c.created_at, task.c.payload).where(
            task.c.id.in_(runs), task.c.status == Status.RUNNING, task.c.open_slots <= 0
        )
    ).all()
    ended: list[_EndedRun] = []
    for number, kind, began_at, payload in over:
        inside = and_(*flow.inside(number))
        prune_at = now + keep_of(payload)
        status = _end_by_members(connection, number, inside, now=now, prune_at=prune_at)
        ended.append(_EndedRun(number, kind, status, began_at))
    return ended


def _count(
    connection: Connection, dialect: Dialect, runs: Sequence[_EndedRun], *, worker: int, now: int
) -> None:
    """Add flow runs to the statistics of their flows: how many, and how long they took."""
    counts: dict[str, Count] = {}
    for run in runs:
        count = counts.setdefault(run.kind, Count(now // MINUTE, run.kind, worker))
        count.failed += run.status is Status.FAILED
        count.done += run.status is not Status.FAILED
        count.milliseconds += max(0, now - run.began_at) // 1_000
    if counts:
        dialect.count(connection, [counts[kind] for kind in sorted(counts)])


def count_failed(
    connection: Connection, dialect: Dialect, run: RunRow, *, worker: int, now: int
) -> None:
    """Add a flow run that was ended as failed to the statistics of its flow."""
    ended = _EndedRun(run.id, run.flow, Status.FAILED, run.created_at)
    _count(connection, dialect, [ended], worker=worker, now=now)


def _end_nested(connection: Connection, empty: Iterable[int], *, now: int) -> list[EndedNode]:
    """End nested flows without open nodes; each is a node that ends."""
    ended: list[EndedNode] = []
    for number in empty:
        members = select(slot.c.dep_id).where(slot.c.task_id == number, slot.c.rule == Rule.END)
        status = _end_by_members(connection, number, task.c.id.in_(members), now=now)
        name = flow.names(connection, [number])[number]
        ended.append(EndedNode(number, how_ended(status, None) or NodeEnd.FAILED, name))
    return ended


def _end_by_members(
    connection: Connection, number: int, inside: Any, *, now: int, **more: Any
) -> Status:
    """End a flow run or a nested flow as the nodes `inside` have ended; its status."""
    query = select(task.c.status).where(inside, ~IS_SKIPPED).group_by(task.c.status)
    found = set(connection.scalars(query))
    remark = None
    if found.isdisjoint((Status.FAILED, Status.CANCELLED)):
        status = Status.SUCCEEDED
    else:
        status = Status.FAILED if Status.FAILED in found else Status.CANCELLED
        first = connection.execute(
            select(task.c.node, task.c.remark)
            .where(inside, task.c.status.in_((Status.FAILED, Status.CANCELLED)))
            .where(task.c.last_status.is_(None))
            .order_by(task.c.finished_at, task.c.id)
            .limit(1)
        ).first()
        if first is not None:
            remark = f"{first.node}: {first.remark}"[:LONGEST_REMARK]
    values = {"status": status, "finished_at": now, "remark": remark, "open_slots": 0, **more}
    connection.execute(update(task).where(task.c.id == number).values(values))
    return status


def _moves(filled: Filled, now: int) -> Iterator[dict[str, Any]]:
    for number, count in sorted(filled.still.items()):
        is_nested = number in filled.nested
        status = Status.RUNNING if is_nested else Status.BLOCKED
        yield _move(number, status, was=status, filled=count)
    for index, number in enumerate(filled.due):
        # Different times: workers read rows in the order of due times.
        due_at = now - len(filled.due) + index
        yield _move(number, Status.WAITING, due_at=due_at)
    for node in filled.ended:
        status, remark = blocked_end(node.how, node.cause)
        last = int(Status.BLOCKED)
        yield _move(node.id, status, finished_at=now, remark=remark, last_status=last)


def _move(
    number: int, status: Status, *, was: Status = Status.BLOCKED, **values: Any
) -> dict[str, Any]:
    blank = dict.fromkeys(("due_at", "filled", "finished_at", "remark", "last_status"))
    return {"id": number, "was": int(was), "status": int(status), **blank, **values}


def _edge(row: Sequence[Any]) -> Edge:
    dep, number, rule, status, left, run, bucket = row
    return Edge(dep, number, Rule(rule), Status(status), left or 0, run, bucket)
