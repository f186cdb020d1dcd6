"""A run whose graph was read, in the transaction that changes it: retry, skip, edit.

The end of a node is its own (it ran, was skipped by hand or by its condition, or was cancelled), or
it follows from how its parents ended. A change gives some nodes another state; everything below
them is then decided again, parents before children: nodes that wait, ends that followed from their
parents, and nested flows. What has begun, and what has ended by itself, stays as it is.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace as with_
from typing import Any

from sqlalchemy import Connection

from windlass.core.shard.shard import Shard
from windlass.core.task.kind import Registry
from windlass.errors import BadFlow, UnknownNode
from windlass.flow.declare import Draft, Edit
from windlass.flow.engine.grow import insert_nodes
from windlass.flow.model.graph import (
    BLOCKED_BY,
    SKIPPED,
    How,
    Rule,
    check_graph,
    check_needs,
    downwards,
    open_after,
)
from windlass.flow.model.node import is_to_fill, read_blank
from windlass.flow.store import flow as store
from windlass.flow.store import slot
from windlass.flow.store.flow import NewSlot, NodeRow, RunRow
from windlass.value.outcome import LONGEST_REMARK
from windlass.value.status import Status

SKIPPED_BY_HAND = "skipped by hand"


class Graph:
    """The nodes of a run and their edges, by id."""

    def __init__(self, rows: Iterable[NodeRow], slots: Iterable[NewSlot]) -> None:
        self.rows = {row.id: row for row in rows}
        self.ids = {row.node: row.id for row in self.rows.values()}
        self.parents: dict[int, list[int]] = {number: [] for number in self.rows}
        # Those that wait for a node; for one inside a nested flow also that.
        self.children: dict[int, list[int]] = {number: [] for number in self.rows}
        self.members: dict[int, list[int]] = {}
        self.rules: dict[int, Rule] = {}
        for each in slots:
            if each.task_id not in self.rows:
                # The run is just being pruned.
                continue
            self.children[each.dep_id].append(each.task_id)
            if each.rule == Rule.END:
                self.members.setdefault(each.task_id, []).append(each.dep_id)
            else:
                self.parents[each.task_id].append(each.dep_id)
                self.rules[each.task_id] = Rule(each.rule)

    def after(self) -> dict[str, list[str]]:
        """The nodes, each with what must have ended before it can: a nested flow waits inside."""
        return {
            row.node: [
                self.rows[other].node
                for other in (*self.parents[number], *self.members.get(number, ()))
            ]
            for number, row in self.rows.items()
        }

    def rule(self, number: int) -> Rule:
        """What the slots of a node wait for."""
        return self.rules.get(number, Rule.ALL_SUCCESS)

    def inside(self, number: int) -> Iterator[int]:
        """The nodes in a nested flow, those in nested flows inside it too."""
        for member in self.members.get(number, ()):
            yield member
            yield from self.inside(member)


class Change:
    """What becomes of the nodes of a run that is locked."""

    def __init__(self, shard: Shard, run: RunRow, graph: Graph) -> None:
        self.shard = shard
        self.run = run
        self.graph = graph
        self.rows = graph.rows
        self.now = shard.clock.now()
        self._before = dict(graph.rows)
        self._has_more = False
        # How many nodes had ended, and have not any more.
        self.began_again = 0

    def named(self, node: str) -> NodeRow:
        """The node of that name."""
        number = self.graph.ids.get(node)
        if number is None:
            raise UnknownNode(self.run.id, node)
        return self.rows[number]

    def retry(self, node: str | None) -> None:
        """Have what failed by itself begin again, all of it or one node."""
        among = [row.id for row in self.rows.values()]
        if node is not None:
            row = self.named(node)
            if row.how is not How.FAILED:
                raise BadFlow(f"node {node!r} has not failed: it is {row.status}")
            among = [row.id, *self.graph.inside(row.id)]
        failed = [self.rows[number] for number in among]
        begin = {row.id for row in failed if row.how is How.FAILED and not row.is_blocked_end}
        self._follow(begin, again=begin)
        if node is not None and self.named(node).is_blocked_end:
            raise BadFlow(
                f"node {node!r} cannot run: it is {self.named(node).remark}; retry or skip that"
            )

    def skip(self, node: str) -> None:
        """Have a node count as succeeded; of a nested flow, all in it that has not."""
        row = self.named(node)
        if row.how is How.SUCCEEDED:
            raise BadFlow(f"node {node!r} has succeeded; there is nothing to skip")
        leaves = [row.id, *self.graph.inside(row.id)]
        if row.id in self.graph.members:
            leaves = [each for each in leaves if self.rows[each].how is not How.SKIPPED]
        skipped = [
            number
            for number in leaves
            if number not in self.graph.members and self.rows[number].how is not How.SUCCEEDED
        ]
        for number in skipped:
            self._end(number, Status.SUCCEEDED, SKIPPED_BY_HAND)
        self._follow({*skipped, row.id})

    def write(self, connection: Connection) -> Status | None:
        """Write what has changed, and that the run goes on; how it ended if nothing is left."""
        before = self._before
        changed = [row for number, row in self.rows.items() if row is not before[number]]
        changed = [row for row in changed if row != before[row.id]]
        again = {row.id for row in changed if row.how is None and before[row.id].how is not None}
        self.began_again = len(again)
        is_well = self.run.status in (Status.RUNNING, Status.SUCCEEDED)
        if not changed and not self._has_more and is_well:
            return None
        store.set_states(connection, changed, again)
        faces = self.shard.faces
        faces.restarted(connection, again)
        away = (row.id for row in changed if before[row.id].status is Status.EXTERNAL)
        faces.stopped(connection, [number for number in away if number not in again], now=self.now)
        left = sum(row.how is None for row in self.rows.values())
        store.go_on(connection, self.run.id, left=left)
        return slot.end_run(connection, self.run.id, now=self.now)

    # Deciding

    def _follow(self, begin: Collection[int], *, again: Collection[int] = ()) -> None:
        """Decide about all below the nodes that have changed, and those that begin `again`."""
        for number in downwards(self.graph.children, begin):
            if number in self.graph.members:
                self._decide_nested(number)
            elif number in again or self._follows_parents(number):
                self._decide(number)

    def _follows_parents(self, number: int) -> bool:
        row = self.rows[number]
        # One that was cancelled before it began ended with its run, not by itself.
        is_unbegun = row.how is How.FAILED and row.attempt == 0
        return row.status is Status.BLOCKED or row.is_blocked_end or is_unbegun

    def _decide(self, number: int) -> None:
        """Have a node wait, be due, or end, as its parents say."""
        parents = self.graph.parents[number]
        opening = open_after(self.graph.rule(number), [self.rows[each].how for each in parents])
        match opening.verdict:
            case None:
                self._set(number, Status.BLOCKED, open_slots=opening.left)
            case How.SUCCEEDED:
                self._set(number, Status.WAITING, due_at=self.now)
            case verdict:
                assert opening.by is not None
                is_skipped = verdict is How.SKIPPED
                cause = self.rows[parents[opening.by]].cause
                remark = f"{SKIPPED if is_skipped else BLOCKED_BY}{cause}"[:LONGEST_REMARK]
                status = Status.CANCELLED if is_skipped else Status.FAILED
                self._end(number, status, remark, last_status=Status.BLOCKED)

    def _decide_nested(self, number: int) -> None:
        """Have a nested flow run while something in it has not ended, and end as that says."""
        members = [self.rows[each] for each in self.graph.members[number]]
        left = sum(row.how is None for row in members)
        if left:
            self._set(number, Status.RUNNING, open_slots=left)
            return
        failed = [row for row in members if row.how is How.FAILED]
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
        self.rows[number] = with_(row, **{"open_slots": 0, **blank, **values, "status": status})

    def _end(self, number: int, status: Status, remark: str | None, **values: Any) -> None:
        row = self.rows[number]
        same = row.status, row.remark, row.last_status
        if same != (status, remark, values.get("last_status")):
            self._set(number, status, remark=remark, finished_at=self.now, **values)

    # Editing

    def edit(self, connection: Connection, edit: Edit, registry: Registry) -> None:
        """Make the changes of `edit`, if all of them are still possible."""
        graph, number = self.graph, self.run.id
        if self.run.status.is_final:
            raise BadFlow(
                f"run {number} has ended, it is {self.run.status}; only a run that goes on can be "
                "changed: retry it first"
            )
        drafts = with_links(edit)
        new = {draft.shape.name for draft in drafts}
        links = [(parent, child) for parent, child in edit.linked if child not in new]
        self._check(connection, edit.unlinked, links, drafts)
        gone = [(graph.ids[parent], graph.ids[child]) for parent, child in edit.unlinked]
        store.unlink(connection, gone)
        for parent, child in gone:
            graph.parents[child].remove(parent)
            graph.children[parent].remove(child)
        self._insert(connection, drafts, registry)
        slots = [
            NewSlot(self.named(parent).id, graph.ids[child], graph.rule(graph.ids[child]))
            for parent, child in links
        ]
        store.insert(connection, self.shard.database.dialect, [], slots)
        for each in slots:
            graph.parents[each.task_id].append(each.dep_id)
            graph.children[each.dep_id].append(each.task_id)
        changed = {graph.ids[child] for _, child in (*edit.unlinked, *links)}
        self._follow(changed)
        for row in map(self.rows.__getitem__, changed):
            if row.how is not None:
                raise BadFlow(f"node {row.node!r} could never run: it would be {row.remark}")

    def _insert(self, connection: Connection, drafts: Sequence[Draft], registry: Registry) -> None:
        if not drafts:
            return
        shard, shapes = self.shard, [draft.shape for draft in drafts]
        asked = {name for shape in shapes for name in (*shape.after, *shape.needs)}
        known = {name: self.named(name) for name in asked if name in self.graph.ids}
        insert_nodes(connection, shard.site(registry), drafts, run=self.run.id, known=known)
        self._has_more = True
        rows = store.named(connection, self.run.id, {shape.name for shape in shapes})
        for row in rows.values():
            self.rows[row.id] = self._before[row.id] = row
            self.graph.ids[row.node] = row.id
            self.graph.children[row.id] = []
        for shape in shapes:
            number = rows[shape.name].id
            self.graph.rules[number] = shape.rule
            self.graph.parents[number] = [self.graph.ids[parent] for parent in shape.after]
            for parent in self.graph.parents[number]:
                self.graph.children[parent].append(number)

    def _check(
        self,
        connection: Connection,
        unlinked: Iterable[tuple[str, str]],
        linked: Iterable[tuple[str, str]],
        drafts: Sequence[Draft],
    ) -> None:
        """Refuse what cannot be, before anything is written."""
        after = {name: dict.fromkeys(parents) for name, parents in self.graph.after().items()}
        for parent, child in unlinked:
            self._untouched(child)
            if self.named(parent).id not in self.graph.parents[self.graph.ids[child]]:
                raise BadFlow(f"node {child!r} does not wait for {parent!r}")
            if parent not in after[child]:
                raise BadFlow(f"the edge from {parent!r} to {child!r} is removed twice")
            del after[child][parent]
        new = {draft.shape.name for draft in drafts}
        for parent, child in linked:
            self._untouched(child)
            if parent not in new:
                self.named(parent)
            if parent in after[child]:
                raise BadFlow(f"node {child!r} waits for {parent!r} already")
            after[child][parent] = None
        check_graph([draft.shape for draft in drafts], known=after)
        self._check_results(connection, {child for _, child in unlinked}, after)

    def _check_results(
        self, connection: Connection, changed: Iterable[str], after: Mapping[str, Collection[str]]
    ) -> None:
        """Refuse to have nodes wait less if they, or others below, are given results."""
        below = downwards(self.graph.children, (self.graph.ids[name] for name in changed))
        open_ = [number for number in below if self.rows[number].how is None]
        known: dict[str, Collection[str]] = dict(after)
        for group, members in self.graph.members.items():
            # What is inside began after all that the nested flow waited for.
            before = {self.rows[each].node for each in self.graph.parents[group]}
            for row in map(self.rows.__getitem__, members):
                known[row.node] = {*after[row.node], *before}
        needs = {
            self.rows[number].node: {self.rows[each].node for each in read_blank(payload).needs}
            for number, payload in store.payloads(connection, open_).items()
            if is_to_fill(payload)
        }
        check_needs(known, needs)

    def _untouched(self, node: str) -> None:
        """Refuse a node unless it is surely not begun: it waits for others."""
        row = self.named(node)
        if row.status is not Status.BLOCKED:
            raise BadFlow(
                f"node {node!r} is {row.status}: what has begun, or may begin at any moment, "
                "cannot be changed"
            )


def with_links(edit: Edit) -> list[Draft]:
    """The new nodes, each also after what it is linked to."""
    more: dict[str, list[str]] = {}
    for parent, child in edit.linked:
        more.setdefault(child, []).append(parent)
    return [
        with_(draft, shape=with_(draft.shape, after=_joined(draft, more[draft.shape.name])))
        if draft.shape.name in more
        else draft
        for draft in edit.drafts
    ]


def _joined(draft: Draft, more: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*draft.shape.after, *more)))
