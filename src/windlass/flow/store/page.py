"""Reads flow runs and nodes a page at a time; each call reads a bounded number of rows."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Any, Generic, TypeVar

from sqlalchemy import BigInteger, Connection, Select, bindparam, case, func, select

from windlass.core.task.store.page import kinds_undue, undue_of
from windlass.database.dialect import PerDialect
from windlass.database.scan import scan
from windlass.database.schema import external, slot, task
from windlass.flow.model.graph import URGENT, Rule
from windlass.flow.model.run import NodeFilter, RunRow
from windlass.flow.store.dialect import NewSlot
from windlass.flow.store.flow import (
    LARGEST,
    ROW,
    SLOT,
    NodeRow,
    by_ids,
    inside,
    newest,
    row_of,
    runs_of,
)
from windlass.value.status import Status

R = TypeVar("R", bound=RunRow)

# How many rows of each kind are read: nested flows have the same kinds as flow runs.
LOOKED_AT = 2_000
RUNS_LOOKED_AT = 500
# MariaDB sorts all rows if the order names a column that has one value; the others need it.
NEEDS_NO_KIND = PerDialect(sqlite=False, postgresql=False, mysql=False, mariadb=True)
# Sorts after every name with the same beginning.
LAST = chr(0x10FFFF)
RUN_STATUSES = (Status.RUNNING, Status.SUCCEEDED, Status.FAILED, Status.CANCELLED)
COUNTED_AT_ONCE = 200


@dataclass(frozen=True)
class RunPage(Generic[R]):
    """Flow runs, newest first, and the id below which more may follow; None at the end."""

    runs: list[R]
    below: int | None


def runs(
    connection: Connection,
    *,
    kind: str | None,
    status: Status | None,
    other: Collection[str],
    below: int | None,
    limit: int,
) -> RunPage[RunRow]:
    """Flow runs that match, with ids less than `below`; `other` are kinds that are not flows."""
    if kind is None and status is None:
        found = _newest(connection, below, limit)
        return RunPage(found, found[-1].id if len(found) == limit else None)
    ids: list[int] = []
    floors: list[int] = []
    for each in RUN_STATUSES if status is None else (status,):
        kinds = [name for name in kinds_undue(connection, each) if name not in other]
        for name in kinds if kind is None else [kind]:
            some, floor = _runs_of(connection, each, name, below=below, limit=limit)
            ids += some
            floors += [] if floor is None else [floor]
    # Below the highest id where a scan stopped, more may follow.
    floor = max(floors, default=None)
    chosen = sorted((each for each in ids if floor is None or each >= floor), reverse=True)[:limit]
    found = runs_of(connection, chosen)
    return RunPage(found, chosen[-1] if len(chosen) == limit else floor)


def first_running(connection: Connection, kind: str, *, limit: int) -> list[RunRow]:
    """The flow runs of a kind that go on and were started first, among the first that are read."""
    rows = _few(connection, Status.RUNNING, kind, is_newest=False)
    return runs_of(connection, _run_ids(connection, rows)[:limit])


def last_succeeded(connection: Connection, kind: str, *, limit: int) -> list[RunRow]:
    """The newest flow runs of a kind that succeeded and are kept, among the last that are read."""
    rows = _few(connection, Status.SUCCEEDED, kind, is_newest=True)
    return runs_of(connection, _run_ids(connection, rows)[:limit])


def _few(connection: Connection, status: Status, kind: str, *, is_newest: bool) -> Select[Any]:
    columns = [task.c.id] if NEEDS_NO_KIND.on(connection) else [task.c.kind, task.c.id]
    order = [column.desc() if is_newest else column.asc() for column in columns]
    rows = undue_of(status, kind, task.c.flow_id).order_by(None)
    return rows.order_by(*order).limit(RUNS_LOOKED_AT)


def _run_ids(connection: Connection, rows: Select[Any]) -> list[int]:
    return [row.id for row in connection.execute(rows) if row.id == row.flow_id]


def _newest(connection: Connection, below: int | None, limit: int) -> list[RunRow]:
    """The newest flow runs: one statement for those of the last nodes, then one statement each."""
    nodes_of = select(task.c.flow_id).where(task.c.flow_id < (LARGEST if below is None else below))
    window = nodes_of.order_by(task.c.flow_id.desc(), task.c.node.desc()).limit(LOOKED_AT)
    several = select(window.subquery().c.flow_id).distinct()
    ids = sorted(connection.scalars(several), reverse=True)[:limit]
    found = runs_of(connection, ids)
    if found and len(found) < limit:
        found += islice(newest(connection, below=ids[-1]), limit - len(found))
    return found


def _runs_of(
    connection: Connection, status: Status, kind: str, *, below: int | None, limit: int
) -> tuple[list[int], int | None]:
    """The ids of flow runs of a kind, and the lowest id that was read; None if that was all."""
    rows = undue_of(status, kind, task.c.flow_id)
    if below is not None:
        rows = rows.where(task.c.id < below)

    looked = scan(
        connection,
        rows.limit,
        ("id",),
        lambda window: window.c.id == window.c.flow_id,
        limit=limit,
        most=LOOKED_AT,
    )
    ids = [int(row.id) for row in looked.rows]
    return ids, None if looked.last is None else int(looked.last.id)


def sizes(connection: Connection, runs: Sequence[int], *, most: int) -> dict[int, int]:
    """How many nodes each flow run has, counted up to `most` + 1."""
    found: dict[int, int] = {}
    for begin in range(0, len(runs), COUNTED_AT_ONCE):
        part = runs[begin : begin + COUNTED_AT_ONCE]
        given = {f"run_{index}": run for index, run in enumerate(part)}
        row = connection.execute(_counts(len(part), most), given).one()
        # The row of the flow run itself is counted, too.
        found |= {run: int(count) - 1 for run, count in zip(part, row, strict=True)}
    return found


@lru_cache(64)
def _counts(runs: int, most: int) -> Select[Any]:
    # Cached: it takes longer to build this statement than to run it.

    def count(name: str) -> Any:
        of_run = select(task.c.node).where(task.c.flow_id == bindparam(name, type_=BigInteger))
        few = of_run.order_by(task.c.node).limit(most + 2)
        return select(func.count()).select_from(few.subquery()).scalar_subquery()

    return select(*(count(f"run_{index}").label(f"nodes_{index}") for index in range(runs)))


def nodes(connection: Connection, run: int, wanted: NodeFilter) -> list[NodeRow]:
    """The nodes of a flow run that match, in the order of their names."""
    query = select(*ROW).where(*inside(run), task.c.node > wanted.after)
    if wanted.prefix:
        query = query.where(task.c.node.between(wanted.prefix, wanted.prefix + LAST))
    if wanted.status is not None:
        query = query.where(task.c.status == wanted.status)
    rows = connection.execute(query.order_by(task.c.node).limit(wanted.limit))
    return [row_of(row) for row in rows]


def urgent(connection: Connection, run: int, *, limit: int) -> list[NodeRow]:
    """Some nodes of a flow run: failed nodes first, then running ones."""
    first = (*URGENT, Status.CANCELLED)
    places = [(task.c.status == status, index) for index, status in enumerate(first)]
    place = case(*places, else_=len(places))
    ids = select(task.c.id).where(*inside(run)).order_by(place, task.c.id).limit(limit)
    return by_ids(connection, connection.scalars(ids).all())


def around(connection: Connection, number: int, *, limit: int) -> list[NodeRow]:
    """A node, up to `limit` of its parents and up to `limit` of its children."""
    above = select(slot.c.dep_id).where(slot.c.task_id == number).order_by(slot.c.dep_id)
    below = select(slot.c.task_id).where(slot.c.dep_id == number).order_by(slot.c.task_id)
    ids = {number, *connection.scalars(above.limit(limit)), *connection.scalars(below.limit(limit))}
    return by_ids(connection, ids)


def edges(connection: Connection, ids: Collection[int]) -> list[NewSlot]:
    """The edges between these nodes."""
    both = slot.c.dep_id.in_(ids), slot.c.task_id.in_(ids)
    query = select(*SLOT).where(*both).order_by(slot.c.dep_id, slot.c.task_id)
    return [NewSlot(*row) for row in connection.execute(query)]


def slots(connection: Connection, ids: Collection[int]) -> dict[int, tuple[int, Rule]]:
    """How many slots nodes have, and what fills them; END slots of nested flows do not count."""
    rows = connection.execute(
        select(slot.c.task_id, func.count(), func.min(slot.c.rule))
        .where(slot.c.task_id.in_(ids), slot.c.rule != Rule.END)
        .group_by(slot.c.task_id)
    )
    return {number: (int(count), Rule(rule)) for number, count, rule in rows}


def texts(connection: Connection, number: int) -> tuple[str, str | None]:
    """The arguments and the result of a node, as they are stored."""
    found = select(task.c.payload, task.c.result).where(task.c.id == number)
    payload, result = connection.execute(found).one()
    return payload, result


def handle(connection: Connection, number: int) -> str | None:
    """The handle of a node at its external system, if it was submitted."""
    query = select(external.c.handle).where(external.c.task_id == number)
    return connection.scalar(query.order_by(external.c.submission.desc()).limit(1))


def marks(connection: Connection, *, limit: int) -> list[tuple[Any, ...]]:
    """What changes when a flow run starts, continues or ends: the open nodes of running ones."""
    going = (
        select(task.c.id, task.c.open_slots)
        .where(task.c.status == Status.RUNNING, task.c.due_at.is_(None))
        .order_by(task.c.kind, task.c.id)
        .limit(limit)
    )
    return [tuple(row) for row in connection.execute(going)]
