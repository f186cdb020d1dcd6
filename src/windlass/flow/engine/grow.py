"""Nodes that are added while a flow runs: by a running node, by a nested flow, or by an edit.

They are written in the transaction that records the success of the node that adds them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from windlass.core.face import Site
from windlass.core.run.ready import Run
from windlass.database.connection import Connection
from windlass.errors import BadFlow, NoContext
from windlass.flow.declare import Draft, Drawing
from windlass.flow.engine.start import SELF, Rows, make_rows
from windlass.flow.model.graph import Edge, Ended, Rule, check_graph, check_name, fill
from windlass.flow.model.node import Result, replaced
from windlass.flow.store import flow as store
from windlass.flow.store import slot
from windlass.flow.store.flow import NewSlot, NodeRow
from windlass.value.outcome import Expanded
from windlass.value.status import Status
from windlass.value.task import Claimed, NewNode

# How deep flows may be nested in each other.
DEEPEST = 10

Rename = Callable[[str], str]


class Growing(Drawing):
    """What a running node draws after itself; written down together with its success."""

    def __init__(self, run: Run, site: Site) -> None:
        super().__init__(site.registry, default=(SELF,))
        self._run = run
        self._site = site

    def write(self, connection: Connection) -> None:
        """Write what was drawn, in the transaction that records the success."""
        if self.drafts:
            add_nodes(connection, self._site, self.drafts, self._run.task, is_nested=False)


def growing(run: Run) -> Growing:
    """What the node that is running may draw on."""
    site = run.load.site
    if run.task.flow_id is None or site is None:
        raise NoContext("context().flow belongs to a running node of a flow; this task is none")
    if run.kind.hands_over:
        raise NoContext(
            "submit adds no nodes: it may be called again; let a node after this one add them"
        )
    found = (run.kept or {}).get(Growing)
    if isinstance(found, Growing):
        return found
    made = Growing(run, site)
    run.keep(made)
    run.on_finish = [*(run.on_finish or []), made.write]
    return made


def expand(run: Run | None, draw: Callable[..., object], *args: object, **kwargs: object) -> object:
    """Be the node of a nested flow: draw its nodes, which are written as this is accepted."""
    site = None if run is None else run.load.site
    if run is None or run.task.flow_id is None or site is None:
        raise NoContext("a flow is started with start(...), or is a node of another flow")
    drawing = Drawing(site.registry)
    draw(drawing, *args, **kwargs)
    drafts = drawing.checked()
    if not drafts:
        return None
    where, task = site, run.task

    def write(connection: Connection) -> None:
        add_nodes(connection, where, drafts, task, is_nested=True)

    run.on_finish = [*(run.on_finish or []), write]
    return Expanded()


def add_nodes(
    connection: Connection,
    site: Site,
    drafts: Sequence[Draft],
    task: Claimed,
    *,
    is_nested: bool,
) -> None:
    """Add nodes to the run of `task`, after it or inside it; nothing if the run has ended.

    What a node inside a nested flow adds is inside that, too. Call it in a transaction that has
    locked the run and accepted the end of `task`.
    """
    run = task.flow_id
    assert run is not None
    me = store.node(connection, task.id)
    group = me if is_nested else store.group_of(connection, me.id)
    if is_nested:
        _check_depth(me.node)
    prefix = "" if group is None else f"{group.node}/"
    free = {} if is_nested else _free_names(connection, drafts, task, prefix)
    new = {check_name(prefix + free.get(name, name)) for name in (d.shape.name for d in drafts)}
    asked = {name for draft in drafts for name in (*draft.shape.after, *draft.shape.needs)}
    near = {prefix + free.get(name, name) for name in asked}
    known = store.named(connection, run, {*new, *asked, *near, me.node})

    def real(name: str) -> str:
        """The name in the run of what the node that draws calls so."""
        if name == SELF:
            return me.node
        inside = prefix + free.get(name, name)
        return inside if inside in new or inside in known else name

    renamed = [_renamed(draft, real) for draft in drafts]
    before = _ended_before(connection, me, renamed, known)
    check_graph(
        [replace(draft.shape, needs=draft.shape.needs - before) for draft in renamed],
        known=dict.fromkeys(known, ()),
    )
    rows = insert_nodes(connection, site, renamed, run, known=known, unless=me.id, group=group)
    if rows and group is not None:
        if is_nested:
            store.expand(connection, group.id, left=len(rows))
        else:
            store.grow(connection, group.id, more=len(rows))


def _ended_before(
    connection: Connection, me: NodeRow, drafts: Sequence[Draft], known: Mapping[str, NodeRow]
) -> set[str]:
    """The nodes whose results are there for whatever `me` adds: itself, and its ancestors."""
    before = {me.node}
    new = {draft.shape.name for draft in drafts}
    if any(draft.shape.needs - new - before for draft in drafts):
        above = store.ancestors(connection, me.id)
        before |= {name for name, row in known.items() if row.id in above}
    return before


def insert_nodes(
    connection: Connection,
    site: Site,
    drafts: Sequence[Draft],
    run: int,
    *,
    known: Mapping[str, NodeRow],
    unless: int | None = None,
    group: NodeRow | None = None,
) -> list[NewNode]:
    """Write more nodes of a run that is locked; those whose parents have ended are due at once.

    `unless` is a parent whose end is about to be told to its children, `group` the nested flow that
    they are in. Nothing is written if the run has ended.
    """
    if not store.grow(connection, run, more=len(drafts)):
        return []
    now = site.clock.now()
    numbers = site.numbers.take(len(drafts), inside=connection)
    ids = dict(zip((draft.shape.name for draft in drafts), numbers, strict=True))
    dialect = site.database.dialect
    rows = make_rows(
        drafts,
        ids,
        run=run,
        known=known,
        due_at=now,
        created_at=now,
        priority=None,
        max_payload=site.max_payload,
    )
    ends = [] if group is None else [NewSlot(row.id, group.id, Rule.END) for row in rows.nodes]
    store.insert(connection, dialect, rows.nodes, [*rows.slots, *ends])
    before = [row for row in known.values() if row.id != unless]
    ended = [Ended(row.id, row.how, row.cause) for row in before if row.how is not None]
    if ended:
        filled = fill(_edges(rows, ends, run), ended)
        left = {run: len(filled.ended)} if filled.ended else {}
        slot.write(connection, dialect, filled, now=now, left=left)
    return rows.nodes


def _check_depth(me: str) -> None:
    """Refuse flows that are nested too deep."""
    depth = me.count("/") + 1
    if depth > DEEPEST:
        raise BadFlow(
            f"flows are nested {depth} levels deep, at most {DEEPEST} are allowed; "
            "is one nested in itself?"
        )


def _free_names(
    connection: Connection, drafts: Sequence[Draft], task: Claimed, prefix: str
) -> dict[str, str]:
    """Other names for nodes that a running one adds, where nobody gave them a name that is free."""
    assert task.flow_id is not None
    unnamed = {draft.shape.name for draft in drafts if not draft.is_named}
    is_taken = bool(store.named(connection, task.flow_id, {prefix + name for name in unnamed}))
    # No other node has that number; a dash would make it look like the number of another name.
    return {name: f"{name}.{task.id}" for name in unnamed} if is_taken else {}


def _edges(rows: Rows, ends: Sequence[NewSlot], run: int) -> Iterator[Edge]:
    """The slots of nodes that were just written, none of which is filled."""
    left = {row.id: row.open_slots for row in rows.nodes}
    for each in rows.slots:
        rule = Rule(each.rule)
        yield Edge(each.dep_id, each.task_id, rule, Status.BLOCKED, left[each.task_id], run)
    for each in ends:
        # The node that adds them is inside, too, and has not been counted as ended.
        yield Edge(each.dep_id, each.task_id, Rule.END, Status.RUNNING, len(ends) + 1, run)


def _renamed(draft: Draft, rename: Rename) -> Draft:
    """The draft with its names as they are in the run."""

    def by(value: object) -> object:
        return replaced(value, lambda result: Result(rename(result.node), result.path))

    shape = draft.shape
    return replace(
        draft,
        shape=replace(
            shape,
            name=check_name(rename(shape.name)),
            after=tuple(map(rename, shape.after)),
            needs=frozenset(map(rename, shape.needs)),
        ),
        args=tuple(map(by, draft.args)),
        kwargs={key: by(value) for key, value in draft.kwargs.items()},
        names={said: rename(name) for said, name in draft.names.items()},
    )
