"""Writes flow runs and nodes: a start, a running node that adds nodes, a nested flow, an edit.

Nodes that a running node adds are written in the transaction that records its success.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from windlass import telemetry
from windlass.core.face import Site
from windlass.core.run.ready import Run
from windlass.core.shard.shard import Shard
from windlass.core.task.declare import How
from windlass.core.task.enqueue import Guard, due_of
from windlass.core.task.fate import Fate
from windlass.core.task.kind import TEMPLATE, Kind
from windlass.core.task.store import task as task_store
from windlass.database.connection import Connection, Executor, joined
from windlass.errors import BadFlow, DuplicateKey, NoContext, PayloadTooLarge
from windlass.flow.declare import Draft, Drawing, version_of
from windlass.flow.model.graph import (
    Edge,
    Rule,
    buckets,
    check_graph,
    check_name,
    fill,
)
from windlass.flow.model.node import (
    TIMEOUT,
    Result,
    RunHead,
    keep_of,
    replaced,
    results_in,
    to_fill,
)
from windlass.flow.model.run import RunRow
from windlass.flow.store import flow as store
from windlass.flow.store import slot
from windlass.flow.store.dialect import NewSlot
from windlass.flow.store.flow import NodeRow
from windlass.value.bucket import bucket_of
from windlass.value.outcome import Expanded
from windlass.value.payload import Carrier, trace_of
from windlass.value.status import Status
from windlass.value.task import Claimed, NewNode, NewTask

# The name that a running node has in what it draws itself.
SELF = ""
# How deep flows may be nested in each other.
DEEPEST = 10
# Before nodes that wait: it is about the whole flow run.
TIMEOUT_PRIORITY = 1

Rename = Callable[[str], str]


@dataclass(frozen=True)
class NewRun:
    """A flow run that is about to be written."""

    kind: Kind
    payload: str
    drafts: Sequence[Draft]
    how: How
    head: RunHead
    # The ids under which it was written; none of them counts if another run has its key.
    written: set[int] = field(default_factory=set)


class NewRows(NamedTuple):
    """Nodes and slots that are about to be written."""

    nodes: list[NewNode]
    slots: list[NewSlot]
    # The task that ends the flow run after its timeout.
    timer: NewTask | None = None


def start(shard: Shard, new: NewRun, *, guard: Guard | None = None) -> int:
    """Write a flow run and its nodes; its id, or the id of the flow run that has its key."""
    database, conn = shard.database, new.how.conn
    first = shard.clock.reserve(len(new.drafts) + 1)
    if conn is not None:
        with joined(conn, database.engine, database.dialect) as executor:
            rows = _make_run(shard, new, first, inside=executor)
            if guard is not None:
                guard(executor)
            number = _write(executor, shard, new, rows=rows, fate=None)
    else:
        number = _start(shard, new, first, guard=guard)
    shard.bell.ring_here()
    if number in new.written:
        telemetry.emit("flow.started", run=number, flow=new.kind.name, nodes=len(new.drafts))
    return number


def _start(shard: Shard, new: NewRun, first: int, *, guard: Guard | None) -> int:
    database, fate = shard.database, Fate[int](shard.database)
    early = None if database.dialect.numbers_join else _make_run(shard, new, first)

    def work(connection: Connection) -> int:
        again = fate.is_unknown
        if guard is not None and not again:
            guard(connection)
        rows = early or _make_run(shard, new, first, inside=connection)
        number = _write(connection, shard, new, rows=rows, fate=fate)
        if guard is not None and again:
            # Now, because it does not matter if the first try counted.
            guard(connection)
        return fate.sends(number, [rows.nodes[0].id])

    return fate.settle(lambda: database.write(work))


def _make_run(shard: Shard, new: NewRun, first: int, *, inside: Executor | None = None) -> NewRows:
    """The rows of a flow run, created at the moments from `first` on."""
    kind, how, head = new.kind, new.how, new.head
    timed = head.timeout is not None
    run, *rest = shard.numbers.take(len(new.drafts) + 1 + timed, inside=inside)
    timer = _timer(rest.pop(), run, head, created_at=first) if timed else None
    made = make_rows(
        new.drafts,
        rest,
        run=run,
        known={},
        due_at=due_of(kind, how, first),
        created_at=first + 1,
        priority=how.priority,
        max_payload=shard.max_payload,
        trace=how.trace,
    )
    row = NewNode(
        id=run,
        kind=kind.name,
        task_key=new.how.key,
        bucket=bucket_of(new.how.key or str(run)),
        status=Status.RUNNING if rest else Status.SUCCEEDED,
        priority=kind.priority if how.priority is None else how.priority,
        due_at=None,
        flow_id=run,
        node=SELF,
        open_slots=len(rest),
        payload=new.payload,
        created_at=first,
    )
    return NewRows([row, *made.nodes], made.slots, timer)


def _timer(number: int, run: int, head: RunHead, *, created_at: int) -> NewTask:
    """The task that ends a flow run that begins at `created_at`, or later as its head says."""
    assert head.timeout is not None
    return NewTask(
        id=number,
        kind=TIMEOUT,
        task_key=None,
        bucket=bucket_of(str(number)),
        priority=TIMEOUT_PRIORITY,
        due_at=head.begins_at(created_at) + head.timeout,
        payload=f'{{"run":{run}}}',
        created_at=created_at,
    )


def arm_again(connection: Connection, shard: Shard, run: RunRow, *, begins: int) -> None:
    """Give a flow run that had ended the whole timeout again."""
    head = run.head
    if head is None or head.timeout is None:
        return
    (number,) = shard.numbers.take(1, inside=connection)
    timer = _timer(number, run.id, RunHead(head.keep, timeout=head.timeout), created_at=begins)
    task_store.insert(connection, shard.database.dialect, [timer])


def _write(
    executor: Executor, shard: Shard, new: NewRun, *, rows: NewRows, fate: Fate[int] | None
) -> int:
    dialect, run, key = shard.database.dialect, rows.nodes[0], new.how.key
    store.insert(executor, dialect, [run], [])
    if fate is not None:
        fate.check(executor, [run.id])
    if key is not None:
        number, status = task_store.find_keys(executor, dialect, run.kind, [key])[key]
        if number != run.id:
            if new.how.on_conflict == "raise":
                raise DuplicateKey(run.kind, key, task_id=number, status=str(status))
            return number
    new.written.add(run.id)
    store.insert(executor, dialect, rows.nodes[1:], rows.slots)
    if rows.timer is not None:
        again = fate is not None and fate.is_unknown
        task_store.insert(executor, dialect, [rows.timer], again=again)
    if len(rows.nodes) == 1:
        store.end_empty(executor, run.id, now=run.created_at, keep=keep_of(run.payload))
    shard.bell.ring_inside(executor, is_ours=fate is not None)
    return run.id


def make_rows(
    drafts: Sequence[Draft],
    ids: Sequence[int],
    *,
    run: int,
    known: Mapping[str, NodeRow],
    due_at: int,
    created_at: int,
    priority: int | None,
    max_payload: int,
    trace: Carrier | None,
) -> NewRows:
    """The rows of new nodes. They wait for all their parents, as if none had ended.

    `trace` is the context of the flow run, which its nodes carry.
    """
    shapes = [draft.shape for draft in drafts]
    new = dict(zip((shape.name for shape in shapes), ids, strict=True))
    numbers = {**{name: row.id for name, row in known.items()}, **new}
    own = {name: bucket_of(str(number)) for name, number in new.items()}
    places = buckets(shapes, own=own, known={name: row.bucket for name, row in known.items()})
    nodes: list[NewNode] = []
    slots: list[NewSlot] = []
    for index, draft in enumerate(drafts):
        shape, kind = draft.shape, draft.kind
        number, is_free = new[shape.name], not shape.after
        node = NewNode(
            id=number,
            kind=kind.name if version_of(kind) is None else TEMPLATE,
            task_key=None,
            bucket=places[shape.name],
            status=Status.WAITING if is_free else Status.BLOCKED,
            priority=kind.priority if priority is None else priority,
            due_at=due_at + index if is_free else None,
            flow_id=run,
            node=shape.name,
            open_slots=len(shape.after),
            payload=kind.arguments.carry(_payload(draft, numbers, max_payload), trace),
            created_at=created_at + index,
        )
        nodes.append(node)
        slots += [NewSlot(numbers[parent], number, shape.rule) for parent in shape.after]
    return NewRows(nodes, slots)


def _payload(draft: Draft, numbers: Mapping[str, int], largest: int) -> str:
    kind, shape = draft.kind, draft.shape
    if not shape.needs and shape.when is None and version_of(kind) is None:
        return kind.arguments.encode(draft.args, draft.kwargs, largest=largest)
    bound = kind.arguments.check_open(
        draft.args, draft.kwargs, is_open=lambda value: bool(results_in(value))
    )
    if version_of(kind) is not None:
        bound = {"template": kind.name, "version": version_of(kind), "arguments": bound}
    payload = to_fill(
        bound,
        when=shape.when,
        needs={name: numbers[name] for name in shape.needs},
        names={said: numbers[name] for said, name in draft.names.items()},
    )
    if len(payload) > largest:
        raise PayloadTooLarge(
            f"node {shape.name!r}: the arguments are {len(payload):,} bytes as JSON, over the "
            f"limit of {largest:,}; store the data and give its key, or raise max_payload",
            kind=kind.name,
        )
    return payload


class Growing(Drawing):
    """What a running node draws on to add nodes after itself; written with its success."""


def growing(run: Run) -> Growing:
    """What a running node draws on to add nodes."""
    site = run.load.site
    if run.task.flow_id is None or site is None:
        raise NoContext(
            "context().flow belongs to a running node of a flow; this task is not a node"
        )
    if run.kind.hands_over:
        raise NoContext(
            "submit adds no nodes: it may be called again; let a node after this one add them"
        )
    found = (run.kept or {}).get(Growing)
    if isinstance(found, Growing):
        return found
    made = Growing(site.registry, default=(SELF,))
    run.keep(made)
    _write_with_success(run, site, made.drafts)
    return made


def expand(run: Run | None, draw: Callable[..., object], *args: object, **kwargs: object) -> object:
    """Run the node of a nested flow: draw its nodes; they are written with its outcome."""
    site = None if run is None else run.load.site
    if run is None or run.task.flow_id is None or site is None:
        raise NoContext("a flow is started with start(...), or is a node of another flow")
    drawing = Drawing(site.registry)
    draw(drawing, *args, **kwargs)
    drafts = drawing.checked()
    if not drafts:
        return None
    _write_with_success(run, site, drafts, is_nested=True)
    return Expanded()


def _write_with_success(
    run: Run, site: Site, drafts: Sequence[Draft], *, is_nested: bool = False
) -> None:
    """Let the transaction that records the success of `run` write the nodes that it has drawn."""

    def write(connection: Connection) -> None:
        if drafts:
            add_nodes(connection, site, drafts, task=run.task, is_nested=is_nested)

    run.on_finish = [*(run.on_finish or []), write]


def add_nodes(
    connection: Connection,
    site: Site,
    drafts: Sequence[Draft],
    *,
    task: Claimed,
    is_nested: bool = False,
) -> None:
    """Add nodes to the flow run of `task`, after it or inside it; nothing if that has ended.

    A node inside a nested flow adds nodes inside it. Call it in a transaction that has locked the
    flow run and accepted the end of `task`.
    """
    run = task.flow_id
    assert run is not None
    (me,) = store.by_ids(connection, [task.id])
    group = me if is_nested else store.group_of(connection, me.id)
    if is_nested:
        _check_depth(me.node)
    prefix = "" if group is None else f"{group.node}/"
    free = {} if is_nested else _free_names(connection, drafts, task=task, prefix=prefix)
    new = {check_name(prefix + free.get(name, name)) for name in (d.shape.name for d in drafts)}
    asked = {name for draft in drafts for name in (*draft.shape.after, *draft.shape.needs)}
    near = {prefix + free.get(name, name) for name in asked}
    known = store.named(connection, run, {*new, *asked, *near, me.node})

    def real(name: str) -> str:
        """The name in the flow run of a node that `drafts` call `name`."""
        if name == SELF:
            return me.node
        inside = prefix + free.get(name, name)
        return inside if inside in new or inside in known else name

    renamed = [_renamed(draft, real) for draft in drafts]
    before = _ended_before(connection, me, renamed, known=known)
    check_graph(
        [replace(draft.shape, needs=draft.shape.needs - before) for draft in renamed],
        known=dict.fromkeys(known, ()),
    )
    rows = insert_nodes(
        connection,
        site,
        renamed,
        run=run,
        known=known,
        unless=me.id,
        group=group,
        trace=trace_of(task.payload),
    )
    if rows and group is not None:
        if is_nested:
            store.expand(connection, group.id, left=len(rows))
        else:
            store.grow(connection, group.id, more=len(rows))


def _ended_before(
    connection: Connection, me: NodeRow, drafts: Sequence[Draft], *, known: Mapping[str, NodeRow]
) -> set[str]:
    """The nodes whose results exist when `me` adds nodes: itself, and its ancestors."""
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
    *,
    run: int,
    known: Mapping[str, NodeRow],
    unless: int | None = None,
    group: NodeRow | None = None,
    trace: Carrier | None = None,
) -> list[NewNode]:
    """Write more nodes of a locked flow run; nodes whose parents have ended are due at once.

    `unless` is a parent whose end fills slots later in this transaction, `group` the nested flow
    that the nodes are in. Nothing is written if the flow run has ended.
    """
    if not store.grow(connection, run, more=len(drafts)):
        return []
    now = site.clock.now()
    numbers = site.numbers.take(len(drafts), inside=connection)
    dialect = site.database.dialect
    rows = make_rows(
        drafts,
        numbers,
        run=run,
        known=known,
        due_at=now,
        created_at=now,
        priority=None,
        max_payload=site.max_payload,
        trace=trace,
    )
    slots = rows.slots
    if group is not None:
        slots += [NewSlot(row.id, group.id, Rule.END) for row in rows.nodes]
    store.insert(connection, dialect, rows.nodes, slots)
    ended = [row.ended for row in known.values() if row.id != unless and row.ended is not None]
    if ended:
        filled = fill(_edges(rows.nodes, slots, run), ended)
        left = {run: len(filled.ended)} if filled.ended else {}
        slot.write(connection, dialect, filled, now=now, left=left)
    return rows.nodes


def _check_depth(me: str) -> None:
    depth = me.count("/") + 1
    if depth > DEEPEST:
        raise BadFlow(
            f"flows are nested {depth} levels deep, at most {DEEPEST} are allowed; "
            "is one nested in itself?"
        )


def _free_names(
    connection: Connection, drafts: Sequence[Draft], *, task: Claimed, prefix: str
) -> dict[str, str]:
    """New names for nodes without a name of their own, if their default names are taken."""
    assert task.flow_id is not None
    unnamed = {draft.shape.name for draft in drafts if not draft.is_named}
    is_taken = bool(store.named(connection, task.flow_id, {prefix + name for name in unnamed}))
    # The id makes the name unique; a dash would look like the number of another default name.
    return {name: f"{name}.{task.id}" for name in unnamed} if is_taken else {}


def _edges(nodes: Sequence[NewNode], slots: Sequence[NewSlot], run: int) -> Iterator[Edge]:
    """The slots of nodes that were just written; none is filled."""
    left = {node.id: node.open_slots for node in nodes}
    # One more: the node that adds them is also inside, and is not counted as ended yet.
    inside = len(nodes) + 1
    for each in slots:
        status = Status.RUNNING if each.rule == Rule.END else Status.BLOCKED
        open_slots = left.get(each.task_id, inside)
        yield Edge(each.dep_id, each.task_id, Rule(each.rule), status, open_slots, run)


def _renamed(draft: Draft, rename: Rename) -> Draft:
    """The draft with the names of the flow run."""

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
