"""Slots: what the end of nodes does to the nodes, and to the run, that wait for them.

The row of a run is the lock of all of it. Whoever ends, adds, skips, retries or cancels nodes locks
that row first, so two parents that end in two transactions fill the slots of their child one after
the other, and the second sees what the first has left; and nobody waits in a circle. Filling
belongs into the transaction that accepts the outcome: an outcome that is repeated is not accepted,
and fills nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple

from sqlalchemy import Connection, and_, func, select, update

from windlass.core.finish.store.history import MINUTE
from windlass.database.dialect.base import Count, Dialect, encode, lock_runs
from windlass.database.schema import slot, task
from windlass.flow.model.graph import (
    BLOCKED_BY,
    SKIPPED,
    Edge,
    Ended,
    Filled,
    How,
    Rule,
    fill,
    how_ended,
)
from windlass.flow.model.node import head_of
from windlass.flow.store.dialect import STATEMENTS
from windlass.value.outcome import KEEP_FAILED, LONGEST_REMARK
from windlass.value.status import FINAL, Status

__all__ = ["After", "after_end", "edges_below", "end_runs", "lock_runs", "write"]

# So many of the rows that one end makes due come with it; the others are read when there is room.
MOST_ROWS = 200
# Nodes that one end makes due are due at moments of their own in the last milliseconds.
APART = 10_000
RUN_ENDED = "its run had ended"

IS_SKIPPED = and_(task.c.status == Status.CANCELLED, task.c.last_status.is_not(None))

NOTHING: Mapping[int, int] = MappingProxyType({})


@dataclass
class After:
    """What the end of nodes has brought about, once it is committed."""

    # Nodes that are due now, with their buckets.
    due: dict[int, int] = field(default_factory=dict)
    # Of those, whole rows that came with them, as a claim has them.
    rows: list[Sequence[Any]] = field(default_factory=list)
    # Runs that have ended.
    runs: dict[int, Status] = field(default_factory=dict)


def after_end(
    connection: Connection,
    dialect: Dialect,
    ended: Mapping[int, tuple[int, How]],
    *,
    before: Mapping[int, int],
    worker: int,
    now: int,
) -> After:
    """Fill the slots below nodes, id to run and how it ended, whose ends `worker` just wrote.

    Runs that end with them are counted as its work. Call it in a transaction that has locked their
    runs, in which so many nodes were left `before`.
    """
    after = After()
    unhappy = [number for number, (_, how) in ended.items() if how is not How.SUCCEEDED]
    names = _names(connection, unhappy)
    run_of = {number: run for number, (run, _) in ended.items()}
    gone: Counter[int] = Counter()
    round_ = [Ended(number, how, names.get(number, "")) for number, (_, how) in ended.items()]
    while round_:
        is_plain = all(node.how is How.SUCCEEDED for node in round_)
        way = fill_at_once if is_plain and STATEMENTS.of(dialect).fill is not None else fill_below
        empty, count = way(connection, dialect, round_, run_of, after, now=now)
        gone += count
        round_ = _end_nested(connection, empty, now=now)
    over = [run for run, count in gone.items() if before.get(run, 0) <= count]
    if over:
        runs = _end_runs(connection, over, now=now)
        after.runs = {run.id: run.status for run in runs}
        _count(connection, dialect, runs, worker=worker, now=now)
    return after


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


def fill_below(
    connection: Connection,
    dialect: Dialect,
    ended: Sequence[Ended],
    run_of: dict[int, int],
    after: After,
    *,
    now: int,
) -> tuple[list[int], Counter[int]]:
    """Fill the slots below nodes: nested flows that are empty now, and ends by run.

    Notes in `after` what is due, and in `run_of` whose it is.
    """
    edges = edges_below(connection, dialect, ended)
    filled = fill(edges, ended)
    run_of |= {edge.task: edge.run for edge in edges}
    places = {edge.task: edge.bucket for edge in edges}
    after.due |= {number: places[number] for number in filled.due}
    count = Counter(run_of[node.id] for node in (*ended, *filled.ended))
    write(connection, dialect, filled, now=now, left=count)
    return filled.empty, count


def fill_at_once(
    connection: Connection,
    dialect: Dialect,
    ended: Sequence[Ended],
    run_of: dict[int, int],
    after: After,
    *,
    now: int,
) -> tuple[list[int], Counter[int]]:
    """The same for nodes that have all succeeded, by one statement that brings what is due."""
    statements = STATEMENTS.of(dialect)
    count = Counter(run_of[node.id] for node in ended)
    asked = {
        "ids": statements.listed([node.id for node in ended]),
        "runs": statements.listed(count.keys()),
        "counts": statements.listed(count.values()),
        # Not all at the same time: readers go by it.
        "first": now - APART,
        "most": MOST_ROWS,
    }
    assert statements.fill is not None
    empty: list[int] = []
    for status, left, *row in connection.execute(statements.fill, asked).fetchall():
        number, payload, bucket, run = row[0], row[5], row[9], row[10]
        if status == Status.WAITING:
            after.due[number] = bucket
            if payload is not None:
                after.rows.append(row)
        elif status == Status.RUNNING and left <= 0 and number not in count:
            run_of[number] = run
            empty.append(number)
    return empty, count


def edges_below(connection: Connection, dialect: Dialect, ended: Sequence[Ended]) -> list[Edge]:
    """The slots of these nodes; of those that did not succeed, also all slots further below."""
    statements = STATEMENTS.of(dialect)
    found: set[Edge] = set()
    for statement, ids in (
        (statements.edges, [node.id for node in ended if node.how is How.SUCCEEDED]),
        (statements.below, [node.id for node in ended if node.how is not How.SUCCEEDED]),
    ):
        if ids:
            rows = connection.execute(statement, {"ids": statements.listed(ids)}).fetchall()
            found.update(_edge(row) for row in rows)
    return list(found)


def write(
    connection: Connection,
    dialect: Dialect,
    filled: Filled,
    *,
    now: int,
    left: Mapping[int, int] = NOTHING,
) -> None:
    """Write what filling slots has made of those that wait, and that nodes of runs have ended."""
    rows = list(_moves(filled, now))
    rows += [
        _move(run, Status.RUNNING, was=Status.RUNNING, filled=count) for run, count in left.items()
    ]
    if rows:
        statements = STATEMENTS.of(dialect)
        ids = statements.listed([row["id"] for row in rows])
        asked = {"rows": encode(rows).decode(), "ids": ids}
        if not statements.is_array:
            del asked["ids"]
        connection.execute(statements.move, asked)


def end_runs(connection: Connection, runs: Collection[int], *, now: int) -> dict[int, Status]:
    """End those of the runs of which no node is left; how each ended."""
    return {run.id: run.status for run in _end_runs(connection, runs, now=now)}


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
        inside = and_(task.c.flow_id == number, task.c.id != number)
        status, remark = _verdict(connection, inside)
        ended.append(_EndedRun(number, kind, status, began_at))
        head = head_of(payload)
        keep = KEEP_FAILED if head is None else head.keep
        connection.execute(
            update(task)
            .where(task.c.id == number)
            .values(
                status=status,
                finished_at=now,
                prune_at=now + keep,
                remark=remark,
                open_slots=0,
            )
        )
    return ended


def _count(
    connection: Connection, dialect: Dialect, runs: Sequence[_EndedRun], *, worker: int, now: int
) -> None:
    """Add runs to the statistics of their flows: how many, and how long they went on."""
    counts: dict[str, Count] = {}
    for run in runs:
        count = counts.setdefault(run.kind, Count(now // MINUTE, run.kind, worker))
        count.failed += run.status is Status.FAILED
        count.done += run.status is not Status.FAILED
        count.milliseconds += max(0, now - run.began_at) // 1_000
    if counts:
        dialect.count(connection, [counts[kind] for kind in sorted(counts)])


def cancel_open(connection: Connection, ids: Collection[int], *, now: int) -> None:
    """End nodes that would go on, though their run has ended."""
    if ids:
        connection.execute(
            update(task)
            .where(task.c.id.in_(ids), task.c.status.not_in(FINAL))
            .values(
                status=Status.CANCELLED,
                due_at=None,
                batch=None,
                worker=None,
                finished_at=now,
                remark=RUN_ENDED,
            )
        )


def _end_nested(connection: Connection, empty: Iterable[int], *, now: int) -> list[Ended]:
    """End nested flows of which nothing is left; that is a node of the run that ends."""
    ended: list[Ended] = []
    for number in empty:
        members = select(slot.c.dep_id).where(slot.c.task_id == number, slot.c.rule == Rule.END)
        status, remark = _verdict(connection, task.c.id.in_(members))
        connection.execute(
            update(task)
            .where(task.c.id == number)
            .values(status=status, finished_at=now, remark=remark, open_slots=0)
        )
        name = connection.scalar(select(task.c.node).where(task.c.id == number))
        ended.append(Ended(number, how_ended(status, None) or How.FAILED, str(name)))
    return ended


def _verdict(connection: Connection, inside: Any) -> tuple[Status, str | None]:
    """How the nodes that are `inside` have ended, taken together, and what to say of it."""
    counts = {
        Status(status): count
        for status, count in connection.execute(
            select(task.c.status, func.count()).where(inside, ~IS_SKIPPED).group_by(task.c.status)
        )
    }
    if not counts.get(Status.FAILED) and not counts.get(Status.CANCELLED):
        return Status.SUCCEEDED, None
    first = connection.execute(
        select(task.c.node, task.c.remark, task.c.status)
        .where(inside, task.c.status.in_((Status.FAILED, Status.CANCELLED)))
        .where(task.c.last_status.is_(None))
        .order_by(task.c.finished_at, task.c.id)
        .limit(1)
    ).first()
    remark = None if first is None else f"{first.node}: {first.remark}"[:LONGEST_REMARK]
    return (Status.FAILED if counts.get(Status.FAILED) else Status.CANCELLED), remark


def _names(connection: Connection, ids: Collection[int]) -> dict[int, str]:
    if not ids:
        return {}
    rows = connection.execute(select(task.c.id, task.c.node).where(task.c.id.in_(ids)))
    return {number: str(name) for number, name in rows}


def _moves(filled: Filled, now: int) -> Iterator[dict[str, Any]]:
    for number, count in sorted(filled.still.items()):
        is_nested = number in filled.nested
        status = Status.RUNNING if is_nested else Status.BLOCKED
        yield _move(number, status, was=status, filled=count)
    for index, number in enumerate(filled.due):
        # Not all at the same time: readers go by it.
        due_at = now - len(filled.due) + index
        yield _move(number, Status.WAITING, due_at=due_at)
    for node in filled.ended:
        is_skipped = node.how is How.SKIPPED
        status = Status.CANCELLED if is_skipped else Status.FAILED
        remark = f"{SKIPPED if is_skipped else BLOCKED_BY}{node.cause}"[:LONGEST_REMARK]
        last = int(Status.BLOCKED)
        yield _move(node.id, status, finished_at=now, remark=remark, last_status=last)


def _move(
    number: int, status: Status, *, was: Status = Status.BLOCKED, **values: Any
) -> dict[str, Any]:
    names = ("due_at", "filled", "finished_at", "remark", "last_status")
    blank = dict.fromkeys(names)
    return {"id": number, "was": int(was), "status": int(status), **blank, **values}


def _edge(row: Sequence[Any]) -> Edge:
    dep, number, rule, status, left, run, bucket = row
    return Edge(dep, number, Rule(rule), Status(status), left or 0, run, bucket)
