"""What operators see of flow runs: a list of them, the graph that can be drawn, and one node."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import msgspec

from windlass.core.finish import store as finish_store
from windlass.core.shard.fleet import ask_page
from windlass.core.shard.shard import Shard
from windlass.core.task.kind import TEMPLATE
from windlass.database.connection import Connection
from windlass.errors import UnknownNode
from windlass.flow.declare import flow_of
from windlass.flow.model.graph import Rule
from windlass.flow.model.node import as_drawn, is_to_fill, read_blank
from windlass.flow.model.run import GraphNode, NodeFilter, RunRow
from windlass.flow.operate.run import RunFinder, kind_of
from windlass.flow.store import flow as flow_store
from windlass.flow.store import page as store
from windlass.flow.store.flow import NodeRow
from windlass.flow.store.page import RunPage
from windlass.value.status import FINAL, Status
from windlass.value.task import FailureView
from windlass.view.field import Json, Moment, exposed
from windlass.view.listing import Listing

# A larger graph cannot be read by people.
MOST_DRAWN = 400
COUNTED_EXACTLY = 1_000
NEIGHBOURS = 60
LONGEST_ERROR = 300


@dataclass(frozen=True)
class FlowRunView(RunRow):
    """A flow run. `left` nodes have not ended; `nodes` counts to 1,000, more is shown as 1,001.

    `template` and `version` name the template that it was started from.
    """

    nodes: int

    @property
    @exposed
    def template(self) -> str | None:
        """The template that it was started from."""
        return None if self.head is None else self.head.template

    @property
    @exposed
    def version(self) -> int | None:
        """The version of that template."""
        return None if self.head is None else self.head.version


@dataclass(frozen=True)
class FlowNodeView:
    """A node. It waits for `open_slots` of its `slots`; `rule` says what fills them."""

    id: int
    name: str
    kind: str
    status: Status
    rule: str
    slots: int
    open_slots: int
    attempt: int
    due_at: Moment | None
    started_at: Moment | None
    finished_at: Moment | None
    error: str | None
    is_skipped: bool


@dataclass(frozen=True)
class FlowNodePage:
    """Nodes in the order of their names; `next` is the `after` of what follows, null at the end."""

    items: list[FlowNodeView]
    next: str | None


@dataclass(frozen=True)
class FlowDetail:
    """A flow run and its graph. If the graph is too large to draw, it has only some of the nodes.

    `inside` are edges from the nodes in nested flows to the nodes of those flows.
    """

    run: FlowRunView
    arguments: Json
    counts: dict[str, int]
    nodes: list[FlowNodeView]
    edges: list[tuple[str, str]]
    inside: list[tuple[str, str]]

    @property
    @exposed
    def total(self) -> int:
        """How many nodes it has."""
        return sum(self.counts.values())

    @property
    @exposed
    def is_whole(self) -> bool:
        """Whether all nodes are here."""
        return len(self.nodes) >= self.total


@dataclass(frozen=True)
class FlowNodeDetail:
    """A node with everything: `arguments` and `result` are JSON.

    `handle` is the name that an external system gave it. Of a long list of neighbours, only some
    are in `waits_for` and `before`.
    """

    node: FlowNodeView
    when: str | None
    arguments: str
    result: str | None
    handle: str | None
    failures: list[FailureView]
    waits_for: list[FlowNodeView]
    before: list[FlowNodeView]


def run(finder: RunFinder, number: int) -> FlowRunView:
    """One flow run."""
    shard, row = finder.find(number)
    return shard.database.read(lambda connection: _runs(connection, [row])[0])


def newest(
    finder: RunFinder, *, kind: str | None = None, status: Status | None = None, limit: int
) -> Listing[FlowRunView]:
    """The newest flow runs."""
    query = _query(finder, kind, status)

    def read(connection: Connection) -> list[FlowRunView]:
        found = query(connection, below=None, limit=limit)
        rows = found.runs
        while found.below is not None and len(rows) < limit:
            found = query(connection, below=found.below, limit=limit - len(rows))
            rows += found.runs
        return _runs(connection, rows)

    found = finder.fleet.fan_out(lambda shard: shard.database.read(read))
    every = [each for part in found.values for each in part]
    # While a flow run moves between shards, the original counts, not the copy.
    once = {each.id: each for each in sorted(every, key=lambda each: not each.is_coming)}
    return Listing(_newest_first(once.values())[:limit], found.missing)


def page(
    finder: RunFinder,
    *,
    kind: str | None = None,
    status: Status | None = None,
    after: str | None = None,
    limit: int,
) -> Listing[FlowRunView]:
    """A page of flow runs, newest first; each shard gives a part of it."""
    query = _query(finder, kind, status)

    def ask(shard: Shard, below: int | None, share: int) -> RunPage[FlowRunView]:
        def read(connection: Connection) -> RunPage[FlowRunView]:
            found = query(connection, below=below, limit=share)
            return RunPage(_runs(connection, found.runs), found.below)

        return shard.database.read(read)

    found = ask_page(finder.fleet, ask, after=after, limit=limit)
    runs = (each for part in found.parts for each in part.runs if not each.is_coming)
    return Listing(_newest_first(runs), found.missing, cursor=found.next)


def show(finder: RunFinder, run: int, *, around: str | None = None) -> FlowDetail:
    """A flow run with all nodes, with the most urgent ones, or with those `around` a node."""
    shard, row = finder.find(run)

    def read(connection: Connection) -> FlowDetail:
        if around is not None:
            centre = _named(connection, run, around)
            rows = store.around(connection, centre.id, limit=NEIGHBOURS)
        else:
            rows = store.urgent(connection, run, limit=MOST_DRAWN)
        names = {each.id: each.node for each in rows}
        edges: list[tuple[str, str]] = []
        inside: list[tuple[str, str]] = []
        for slot in store.edges(connection, names):
            edge = names[slot.dep_id], names[slot.task_id]
            (inside if slot.rule == Rule.END else edges).append(edge)
        counts = flow_store.counts(connection, run)
        return FlowDetail(
            run=FlowRunView(**vars(row), nodes=sum(counts.values())),
            arguments=row.arguments,
            counts={str(status): count for status, count in counts.items()},
            nodes=_nodes(connection, rows),
            edges=edges,
            inside=inside,
        )

    return shard.database.read(read)


def nodes(finder: RunFinder, run: int, wanted: NodeFilter) -> FlowNodePage:
    """The nodes of a flow run that match, in the order of their names."""
    shard, _ = finder.find(run)

    def read(connection: Connection) -> list[FlowNodeView]:
        return _nodes(connection, store.nodes(connection, run, wanted))

    found = shard.database.read(read)
    return FlowNodePage(found, found[-1].name if len(found) == wanted.limit else None)


def node(finder: RunFinder, run: int, name: str) -> FlowNodeDetail:
    """One node of a flow run, with what it waits for and what waits for it."""
    shard, _ = finder.find(run)

    def read(connection: Connection) -> FlowNodeDetail:
        row = _named(connection, run, name)
        payload, result = store.texts(connection, row.id)
        when, arguments = _arguments(connection, row, payload)
        near = store.around(connection, row.id, limit=NEIGHBOURS)
        slots = store.edges(connection, [each.id for each in near])
        edges = [each for each in slots if each.rule != Rule.END]
        views = {view.id: view for view in _nodes(connection, near)}
        return FlowNodeDetail(
            node=replace(views[row.id], error=row.error),
            when=when,
            arguments=arguments,
            result=result,
            handle=store.handle(connection, row.id),
            failures=finish_store.failures_of(connection, row.id),
            waits_for=[views[each.dep_id] for each in edges if each.task_id == row.id],
            before=[views[each.task_id] for each in edges if each.dep_id == row.id],
        )

    return shard.database.read(read)


def _query(
    finder: RunFinder, kind: str | None, status: Status | None
) -> Callable[..., RunPage[RunRow]]:
    finder.fleet.prepare()
    kinds = finder.registry.kinds.items()
    other = {name for name, each in kinds if flow_of(each) is None} | {*finder.registry.own}
    return partial(store.runs, kind=kind, status=status, other=other)


def _newest_first(views: Iterable[FlowRunView]) -> list[FlowRunView]:
    return sorted(views, key=lambda view: (view.created_at, view.id), reverse=True)


def _runs(connection: Connection, rows: Sequence[RunRow]) -> list[FlowRunView]:
    sizes = store.sizes(connection, [row.id for row in rows], most=COUNTED_EXACTLY)
    return [FlowRunView(**vars(row), nodes=sizes[row.id]) for row in rows]


def _named(connection: Connection, run: int, name: str) -> NodeRow:
    found = flow_store.named(connection, run, [name])
    if name not in found:
        raise UnknownNode(run, name)
    return found[name]


def _nodes(connection: Connection, rows: Sequence[NodeRow]) -> list[FlowNodeView]:
    slots = store.slots(connection, [row.id for row in rows])
    nested = [row.id for row in rows if row.kind == TEMPLATE]
    payloads = flow_store.payloads(connection, nested)
    none = 0, Rule.ALL_SUCCESS
    return [_node(row, kind_of(row, payloads), slots.get(row.id, none)) for row in rows]


def _node(row: NodeRow, kind: str, slots: tuple[int, Rule]) -> FlowNodeView:
    total, rule = slots
    return FlowNodeView(
        id=row.id,
        name=row.node,
        kind=kind,
        status=row.status,
        rule=str(rule),
        slots=total,
        open_slots=row.open_slots if row.status not in FINAL else 0,
        attempt=row.attempt,
        due_at=row.due_at,
        started_at=row.started_at,
        finished_at=row.finished_at,
        error=None if row.error is None else row.error[:LONGEST_ERROR],
        is_skipped=row.is_skipped,
    )


def _arguments(connection: Connection, row: NodeRow, payload: str) -> tuple[str | None, str]:
    """The condition of a node, and its arguments as they were drawn."""
    needs = read_blank(payload).needs if is_to_fill(payload) else []
    when, kwargs = as_drawn(payload, flow_store.names(connection, needs))
    plain = GraphNode(row.node, row.kind, kwargs=kwargs).json()
    return when, msgspec.json.encode(plain.get("kwargs", {})).decode()
