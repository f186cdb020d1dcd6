"""Looking at runs: pages of them, the part of a graph that people can take in, and one node."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
from sqlalchemy import Connection

from windlass.core.finish.store import history
from windlass.core.finish.store.history import FailureView
from windlass.core.shard.fleet import Fleet
from windlass.core.shard.shard import Shard
from windlass.core.task.kind import TEMPLATE, Registry
from windlass.errors import UnknownNode
from windlass.flow.model.graph import Rule
from windlass.flow.model.node import as_drawn, is_to_fill, read_blank
from windlass.flow.model.run import GraphNode
from windlass.flow.operate.flow import Flows
from windlass.flow.operate.run import kind_of
from windlass.flow.store import flow as flow_store
from windlass.flow.store import page as store
from windlass.flow.store.flow import NodeRow, RunRow
from windlass.flow.store.page import RunPage, Slots
from windlass.operate.fan_out import BEGIN, ENDED, places_of
from windlass.value.shard import COMING
from windlass.value.status import Status

# Of a larger graph nobody could see anything.
MOST_DRAWN = 400
COUNTED_EXACTLY = 1_000
NEIGHBOURS = 60


@dataclass(frozen=True)
class RunLine:
    """A run in a list; `nodes` is counted up to COUNTED_EXACTLY + 1."""

    run: RunRow
    nodes: int


@dataclass(frozen=True)
class Runs:
    """A page of runs, newest first, and the cursor of what follows; None at the end."""

    lines: list[RunLine]
    next: str | None
    missing: tuple[str, ...]


@dataclass(frozen=True)
class NodeLine:
    """A node: as it is, its kind as people know it, and what it waits for."""

    row: NodeRow
    kind: str
    slots: Slots

    @property
    def is_skipped(self) -> bool:
        return self.row.is_skipped


@dataclass(frozen=True)
class Picture:
    """A run with its nodes and edges, or with some of them if it has too many.

    `inside` are edges from nodes in nested flows to the nodes that those are.
    """

    run: RunRow
    counts: dict[Status, int]
    nodes: list[NodeLine]
    edges: list[tuple[str, str]]
    inside: list[tuple[str, str]]

    @property
    def is_whole(self) -> bool:
        return len(self.nodes) >= sum(self.counts.values())


@dataclass(frozen=True)
class NodeDetail:
    """A node with everything; `arguments` and `result` are JSON."""

    node: NodeLine
    when: str | None
    arguments: str
    result: str | None
    handle: str | None
    failures: list[FailureView]
    waits_for: list[NodeLine]
    before: list[NodeLine]


def page(
    fleet: Fleet,
    registry: Registry,
    *,
    kind: str | None = None,
    status: Status | None = None,
    after: str | None = None,
    limit: int,
) -> Runs:
    """Runs that match, newest first; of several shards a part of the page each."""
    fleet.prepare()
    places = places_of(fleet, after)
    share = max(1, limit // len(fleet.shards))
    other = {name for name, each in registry.kinds.items() if each.draw is None} | {*registry.own}

    def ask(shard: Shard) -> tuple[RunPage, dict[int, int]]:
        place = places[shard.index]
        if place == ENDED:
            return RunPage([], None), {}

        def read(connection: Connection) -> tuple[RunPage, dict[int, int]]:
            found = store.runs(
                connection,
                kind=kind,
                status=status,
                other=other,
                below=None if place == BEGIN else int(place),
                limit=share,
            )
            ids = [run.id for run in found.runs]
            return found, store.sizes(connection, ids, most=COUNTED_EXACTLY)

        return shard.database.read(read)

    found = fleet.fan_out(ask)
    for shard, (part, _) in found.found:
        places[shard.index] = ENDED if part.below is None else str(part.below)
    lines = [
        RunLine(run, sizes[run.id])
        for part, sizes in found.values
        for run in part.runs
        # One that is on its way is in two shards for a moment.
        if run.batch != COMING
    ]
    lines.sort(key=lambda line: (line.run.created_at, line.run.id), reverse=True)
    is_over = all(places[shard.index] == ENDED for shard, _ in found.found)
    cursor = None if is_over else ".".join(places[shard.index] for shard in fleet.shards)
    return Runs(lines, cursor, found.missing)


def show(flows: Flows, run: int, *, around: str | None = None) -> Picture:
    """A run with the nodes that can be drawn: all, the most urgent ones, or those around one."""
    shard, row = flows.finder.find(run)

    def read(connection: Connection) -> Picture:
        counts = flow_store.counts(connection, run)
        if around is not None:
            centre = _named(connection, run, around)
            rows = store.around(connection, centre.id, limit=NEIGHBOURS)
        else:
            rows = store.urgent(connection, run, limit=MOST_DRAWN)
        names = {each.id: each.node for each in rows}
        slots = store.edges(connection, names)
        edges = [(names[each.dep_id], names[each.task_id]) for each in slots]
        is_inside = [each.rule == Rule.END for each in slots]
        return Picture(
            run=row,
            counts=counts,
            nodes=_lines(connection, rows),
            edges=[edge for edge, inside in zip(edges, is_inside, strict=True) if not inside],
            inside=[edge for edge, inside in zip(edges, is_inside, strict=True) if inside],
        )

    return shard.database.read(read)


def nodes(
    flows: Flows,
    run: int,
    *,
    status: Status | None = None,
    prefix: str = "",
    after: str = "",
    limit: int,
) -> list[NodeLine]:
    """Nodes of a run in the order of their names, after one of them."""
    shard, _ = flows.finder.find(run)

    def read(connection: Connection) -> list[NodeLine]:
        found = store.nodes(connection, run, status=status, prefix=prefix, after=after, limit=limit)
        return _lines(connection, found)

    return shard.database.read(read)


def node(flows: Flows, run: int, name: str) -> NodeDetail:
    """One node of a run, with what it waits for and what waits for it."""
    shard, _ = flows.finder.find(run)

    def read(connection: Connection) -> NodeDetail:
        row = _named(connection, run, name)
        payload, result = store.texts(connection, row.id)
        when, arguments = _arguments(connection, row, payload)
        near = store.around(connection, row.id, limit=NEIGHBOURS)
        edges = store.edges(connection, [each.id for each in near])
        lines = {line.row.id: line for line in _lines(connection, near)}
        above = [each.dep_id for each in edges if each.task_id == row.id and each.rule != Rule.END]
        below = [each.task_id for each in edges if each.dep_id == row.id and each.rule != Rule.END]
        return NodeDetail(
            node=lines[row.id],
            when=when,
            arguments=arguments,
            result=result,
            handle=store.handle(connection, row.id),
            failures=history.failures_of(connection, row.id),
            waits_for=[lines[number] for number in above],
            before=[lines[number] for number in below],
        )

    return shard.database.read(read)


def _named(connection: Connection, run: int, name: str) -> NodeRow:
    found = flow_store.named(connection, run, [name])
    if name not in found:
        raise UnknownNode(run, name)
    return found[name]


def _lines(connection: Connection, rows: Sequence[NodeRow]) -> list[NodeLine]:
    ids = [row.id for row in rows]
    slots = store.slots(connection, ids)
    nested = [row.id for row in rows if row.kind == TEMPLATE]
    payloads = flow_store.payloads(connection, nested)
    none = Slots(0, Rule.ALL_SUCCESS)
    return [NodeLine(row, kind_of(row, payloads), slots.get(row.id, none)) for row in rows]


def _arguments(connection: Connection, row: NodeRow, payload: str) -> tuple[str | None, str]:
    """The condition of a node, and its arguments as they were drawn."""
    needs = read_blank(payload).needs if is_to_fill(payload) else []
    when, kwargs = as_drawn(payload, store.names(connection, needs))
    plain = GraphNode(row.node, row.kind, kwargs=kwargs).json()
    return when, msgspec.json.encode(plain.get("kwargs", {})).decode()
