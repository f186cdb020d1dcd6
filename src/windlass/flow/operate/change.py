"""Changes a locked flow run: retry, skip and edit, and what follows for the nodes below.

A node ended by itself (it ran, was skipped or was cancelled), or because of how its parents ended.
A change gives some nodes another status. Then everything below them is decided again, parents
before children: nodes that wait, nodes that ended because of their parents, and nested flows. What
has begun, and what ended by itself, stays as it is.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from windlass.core.face import Site
from windlass.core.shard.shard import Shard
from windlass.core.task.kind import Registry
from windlass.database.connection import Connection
from windlass.errors import BadFlow, UnknownNode
from windlass.flow.declare import Draft, Edit
from windlass.flow.engine import arm_again, insert_nodes
from windlass.flow.model.graph import (
    SKIPPED_BY_HAND,
    Edge,
    NodeEnd,
    Rule,
    blocked_end,
    check_graph,
    check_needs,
    downwards,
    fill,
)
from windlass.flow.model.node import is_to_fill, read_blank
from windlass.flow.model.run import RunRow
from windlass.flow.store import flow as store
from windlass.flow.store import slot
from windlass.flow.store.dialect import NewSlot
from windlass.flow.store.flow import NodeRow
from windlass.value.outcome import LONGEST_REMARK
from windlass.value.status import Status

Edges = Sequence[tuple[str, str]]


class RunGraph:
    """The nodes of a flow run and their edges, by id."""

    def __init__(self, rows: Iterable[NodeRow], slots: Iterable[NewSlot]) -> None:
        self.rows: dict[int, NodeRow] = {}
        self.ids: dict[str, int] = {}
        self.parents: dict[int, list[int]] = {}
        # The nodes that wait for a node, and the nested flow that it is in.
        self.children: dict[int, list[int]] = {}
        # The nodes in each nested flow.
        self.members: dict[int, list[int]] = {}
        self._rules: dict[int, Rule] = {}
        for row in rows:
            self.add(row)
        for each in slots:
            # A node may be missing: the flow run is just being pruned, or has just grown.
            if self.rows.keys() >= {each.task_id, each.dep_id}:
                self.link(each)

    def add(self, row: NodeRow) -> None:
        """Add a node without edges."""
        self.rows[row.id] = row
        self.ids[row.node] = row.id
        self.parents[row.id] = []
        self.children[row.id] = []

    def link(self, edge: NewSlot) -> None:
        """Add an edge."""
        self.children[edge.dep_id].append(edge.task_id)
        if edge.rule == Rule.END:
            self.members.setdefault(edge.task_id, []).append(edge.dep_id)
        else:
            self.parents[edge.task_id].append(edge.dep_id)
            self._rules[edge.task_id] = Rule(edge.rule)

    def unlink(self, parent: int, child: int) -> None:
        """Remove an edge."""
        self.parents[child].remove(parent)
        self.children[parent].remove(child)

    def after(self) -> dict[str, list[str]]:
        """The nodes, each with what must end before it; for a nested flow also what is inside."""
        return {
            row.node: [
                self.rows[other].node
                for other in (*self.parents[number], *self.members.get(number, ()))
            ]
            for number, row in self.rows.items()
        }

    def rule(self, number: int) -> Rule:
        """What fills the slots of a node."""
        return self._rules.get(number, Rule.ALL_SUCCESS)

    def inside(self, number: int) -> Iterator[int]:
        """The nodes in a nested flow, however deep."""
        for member in self.members.get(number, ()):
            yield member
            yield from self.inside(member)


class RunChange:
    """The new states of the nodes of a locked flow run."""

    def __init__(self, shard: Shard, run: RunRow, graph: RunGraph) -> None:
        self.shard = shard
        self.run = run
        self.graph = graph
        self.rows = graph.rows
        self.now = shard.clock.now()
        self._before = dict(graph.rows)
        self._has_more = False
        # How many nodes had ended and now have not.
        self.began_again = 0

    def named(self, node: str) -> NodeRow:
        """The node of that name."""
        number = self.graph.ids.get(node)
        if number is None:
            raise UnknownNode(self.run.id, node)
        return self.rows[number]

    def added(self, row: NodeRow) -> None:
        """Know a node that was just written."""
        self._before[row.id] = row
        self._has_more = True
        self.graph.add(row)

    def retry(self, node: str | None) -> None:
        """Let the nodes that failed by themselves begin again, or one of them."""
        among = list(self.rows)
        if node is not None:
            row = self.named(node)
            if row.how is not NodeEnd.FAILED:
                raise BadFlow(f"node {node!r} has not failed: it is {row.status}")
            among = [row.id, *self.graph.inside(row.id)]
        failed = [self.rows[number] for number in among]
        begin = {row.id for row in failed if row.how is NodeEnd.FAILED and not row.is_blocked_end}
        self.follow(begin, again=begin)
        if node is not None and self.named(node).is_blocked_end:
            raise BadFlow(
                f"node {node!r} cannot run: it is {self.named(node).remark}; retry or skip that"
            )

    def skip(self, node: str) -> None:
        """Count a node as succeeded; in a nested flow, every node that has not."""
        row = self.named(node)
        if row.how is NodeEnd.SUCCEEDED:
            raise BadFlow(f"node {node!r} has succeeded; there is nothing to skip")
        leaves = [row.id, *self.graph.inside(row.id)]
        if row.id in self.graph.members:
            leaves = [each for each in leaves if self.rows[each].how is not NodeEnd.SKIPPED]
        skipped = [
            number
            for number in leaves
            if number not in self.graph.members and self.rows[number].how is not NodeEnd.SUCCEEDED
        ]
        for number in skipped:
            self._end(number, Status.SUCCEEDED, SKIPPED_BY_HAND)
        self.follow({*skipped, row.id})

    def write(self, connection: Connection) -> Status | None:
        """Write what has changed; the status of the flow run if it has ended with that."""
        before = self._before
        changed = [row for number, row in self.rows.items() if row != before[number]]
        again = {row.id for row in changed if row.how is None and before[row.id].how is not None}
        self.began_again = len(again)
        is_well = self.run.status in (Status.RUNNING, Status.SUCCEEDED)
        if not changed and not self._has_more and is_well:
            return None
        store.set_states(connection, changed, again)
        self.shard.faces.restarted(connection, again)
        away = (row.id for row in changed if before[row.id].status is Status.EXTERNAL)
        stopped = [number for number in away if number not in again]
        self.shard.faces.stopped(connection, stopped, now=self.now)
        left = sum(row.how is None for row in self.rows.values())
        begins = None
        if self.run.status.is_final:
            begins = self.now
            arm_again(connection, self.shard, self.run, begins=begins)
        store.go_on(connection, self.run.id, left=left, begins=begins)
        return slot.end_run(connection, self.run.id, now=self.now)

    def follow(self, begin: Collection[int], *, again: Collection[int] = ()) -> None:
        """Decide everything below the nodes that have changed, and the nodes that begin `again`."""
        for number in downwards(self.graph.children, begin):
            if number in self.graph.members:
                self._decide_nested(number)
            elif number in again or self._follows_parents(number):
                self._decide(number)

    def _follows_parents(self, number: int) -> bool:
        row = self.rows[number]
        # A node that was cancelled before it began ended with its run, not by itself.
        is_unbegun = row.how is NodeEnd.FAILED and row.attempt == 0
        return row.status is Status.BLOCKED or row.is_blocked_end or is_unbegun

    def _decide(self, number: int) -> None:
        parents = self.graph.parents[number]
        waits = self.graph.rule(number), Status.BLOCKED, len(parents), self.run.id
        ended = (self.rows[each].ended for each in parents)
        filled = fill([Edge(each, number, *waits) for each in parents], filter(None, ended))
        if filled.ended:
            status, remark = blocked_end(filled.ended[0].how, filled.ended[0].cause)
            self._end(number, status, remark, last_status=Status.BLOCKED)
        elif filled.due or not parents:
            self._set(number, Status.WAITING, due_at=self.now)
        else:
            left = len(parents) - filled.still.get(number, 0)
            self._set(number, Status.BLOCKED, open_slots=left)

    def _decide_nested(self, number: int) -> None:
        members = [self.rows[each] for each in self.graph.members[number]]
        left = sum(row.how is None for row in members)
        if left:
            self._set(number, Status.RUNNING, open_slots=left)
            return
        failed = [row for row in members if row.how is NodeEnd.FAILED]
        if not failed:
            self._end(number, Status.SUCCEEDED, None)
            return
        is_failed = any(row.status is Status.FAILED for row in failed)
        status = Status.FAILED if is_failed else Status.CANCELLED
        first = min(failed, key=lambda row: (row.is_blocked_end, row.finished_at or 0, row.id))
        self._end(number, status, f"{first.node}: {first.remark}"[:LONGEST_REMARK])

    def _set(self, number: int, status: Status, **values: Any) -> None:
        blank = dict.fromkeys(("last_status", "due_at", "finished_at", "remark"))
        row = self.rows[number]
        self.rows[number] = replace(row, **{"open_slots": 0, **blank, **values, "status": status})

    def _end(self, number: int, status: Status, remark: str | None, **values: Any) -> None:
        row = self.rows[number]
        same = row.status, row.remark, row.last_status
        if same != (status, remark, values.get("last_status")):
            self._set(number, status, remark=remark, finished_at=self.now, **values)


def edit_run(connection: Connection, change: RunChange, edit: Edit, *, registry: Registry) -> None:
    """Make all changes of `edit`, or raise BadFlow if one of them is not possible any more."""
    graph, run = change.graph, change.run
    if run.status.is_final:
        raise BadFlow(
            f"run {run.id} has ended, it is {run.status}; only a run that has not ended can be "
            "changed: retry it first"
        )
    drafts = _with_links(edit)
    new = {draft.shape.name for draft in drafts}
    links = [(parent, child) for parent, child in edit.linked if child not in new]
    after = _checked(change, drafts, unlinked=edit.unlinked, linked=links)
    changed = {child for _, child in edit.unlinked}
    _check_results(connection, change, changed, after=after)
    gone = [(graph.ids[parent], graph.ids[child]) for parent, child in edit.unlinked]
    store.unlink(connection, gone)
    for parent, child in gone:
        graph.unlink(parent, child)
    if drafts:
        _insert(connection, change, drafts, registry=registry)
    slots = [
        NewSlot(change.named(parent).id, graph.ids[child], graph.rule(graph.ids[child]))
        for parent, child in links
    ]
    store.insert(connection, change.shard.database.dialect, [], slots)
    for edge in slots:
        graph.link(edge)
    linked = {graph.ids[child] for _, child in (*edit.unlinked, *links)}
    change.follow(linked)
    for row in map(change.rows.__getitem__, linked):
        if row.how is not None:
            raise BadFlow(f"node {row.node!r} could never run: it would be {row.remark}")


def _insert(
    connection: Connection, change: RunChange, drafts: Sequence[Draft], *, registry: Registry
) -> None:
    shard, graph, shapes = change.shard, change.graph, [draft.shape for draft in drafts]
    asked = {name for shape in shapes for name in (*shape.after, *shape.needs)}
    known = {name: change.named(name) for name in asked if name in graph.ids}
    insert_nodes(connection, Site.at(shard, registry), drafts, run=change.run.id, known=known)
    rows = store.named(connection, change.run.id, {shape.name for shape in shapes})
    for row in rows.values():
        change.added(row)
    for shape in shapes:
        for parent in shape.after:
            graph.link(NewSlot(graph.ids[parent], rows[shape.name].id, shape.rule))


def _checked(
    change: RunChange, drafts: Sequence[Draft], *, unlinked: Edges, linked: Edges
) -> Mapping[str, Collection[str]]:
    """What each node would wait for; raises BadFlow if a change is not possible."""
    after = {name: dict.fromkeys(parents) for name, parents in change.graph.after().items()}
    for parent, child in unlinked:
        _check_untouched(change, child)
        if change.named(parent).id not in change.graph.parents[change.graph.ids[child]]:
            raise BadFlow(f"node {child!r} does not wait for {parent!r}")
        if parent not in after[child]:
            raise BadFlow(f"the edge from {parent!r} to {child!r} is removed twice")
        del after[child][parent]
    new = {draft.shape.name for draft in drafts}
    for parent, child in linked:
        _check_untouched(change, child)
        if parent not in new:
            change.named(parent)
        if parent in after[child]:
            raise BadFlow(f"node {child!r} waits for {parent!r} already")
        after[child][parent] = None
    check_graph([draft.shape for draft in drafts], known=after)
    return after


def _check_results(
    connection: Connection,
    change: RunChange,
    changed: Iterable[str],
    *,
    after: Mapping[str, Collection[str]],
) -> None:
    """Refuse to remove an edge that a node, or a node below it, needs for a result."""
    graph, rows = change.graph, change.rows
    below = downwards(graph.children, (graph.ids[name] for name in changed))
    open_ = [number for number in below if rows[number].how is None]
    known: dict[str, Collection[str]] = dict(after)
    for group, members in graph.members.items():
        # Nodes inside a nested flow begin after everything that the nested flow waits for.
        before = {rows[each].node for each in graph.parents[group]}
        for row in map(rows.__getitem__, members):
            known[row.node] = {*after[row.node], *before}
    needs = {
        rows[number].node: {rows[each].node for each in read_blank(payload).needs}
        for number, payload in store.payloads(connection, open_).items()
        if is_to_fill(payload)
    }
    check_needs(known, needs)


def _check_untouched(change: RunChange, node: str) -> None:
    """Refuse a node that has begun, or may begin at any moment."""
    row = change.named(node)
    if row.status is not Status.BLOCKED:
        raise BadFlow(
            f"node {node!r} is {row.status}: what has begun, or may begin at any moment, "
            "cannot be changed"
        )


def _with_links(edit: Edit) -> list[Draft]:
    """The new nodes, with the edges that `edit.link` added to them."""
    more: dict[str, list[str]] = {}
    for parent, child in edit.linked:
        more.setdefault(child, []).append(parent)

    def linked(draft: Draft) -> Draft:
        shape = draft.shape
        after = tuple(dict.fromkeys((*shape.after, *more.get(shape.name, ()))))
        return replace(draft, shape=replace(shape, after=after))

    return [linked(draft) for draft in edit.drafts]
