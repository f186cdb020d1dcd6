"""Edits a locked flow run: new nodes, new edges, removed edges."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from windlass.core.task.kind import Registry
from windlass.database.connection import Connection
from windlass.errors import BadFlow
from windlass.flow.declare import Draft, Edit
from windlass.flow.engine.grow import insert_nodes
from windlass.flow.model.graph import check_graph, check_needs, downwards
from windlass.flow.model.node import is_to_fill, read_blank
from windlass.flow.operate.change import RunChange
from windlass.flow.store import flow as store
from windlass.flow.store.flow import NewSlot
from windlass.value.status import Status

Edges = Sequence[tuple[str, str]]


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
    for edge in gone:
        graph.unlink(*edge)
    if drafts:
        _insert(connection, change, drafts, registry=registry)
    slots = [
        NewSlot(change.named(parent).id, graph.ids[child], graph.rule(graph.ids[child]))
        for parent, child in links
    ]
    store.insert(connection, change.shard.database.dialect, [], slots)
    for slot in slots:
        graph.link(slot)
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
    insert_nodes(connection, shard.site(registry), drafts, run=change.run.id, known=known)
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
