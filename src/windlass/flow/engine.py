"""Starting flows: what was drawn becomes rows, in one transaction, ours or the caller's.

Nodes that a running node adds, and those of a nested flow, are written in the transaction that
records its success.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from sqlalchemy import Connection

from windlass import telemetry
from windlass.clock import Clock
from windlass.core.run.ready import Run
from windlass.core.task.declare import How
from windlass.core.task.enqueue import Guard, due_of
from windlass.core.task.kind import TEMPLATE, Kind, Registry
from windlass.core.task.store import task as task_store
from windlass.core.wake.bell import Bell
from windlass.database.connection import joined
from windlass.database.database import Database
from windlass.database.dialect.base import Executor
from windlass.database.number import Numbers
from windlass.errors import BadFlow, DuplicateKey, NoContext, PayloadTooLarge
from windlass.flow.declare import Draft, Drawing
from windlass.flow.model.graph import Edge, Ended, Rule, buckets, check_graph, check_name, fill
from windlass.flow.model.node import Result, head_of, replaced, results_in, to_fill
from windlass.flow.store import flow as store
from windlass.flow.store import slot
from windlass.flow.store.flow import NewSlot, NodeRow
from windlass.value.bucket import bucket_of
from windlass.value.outcome import Expanded
from windlass.value.status import Status
from windlass.value.task import Claimed, NewNode

# By this name a node that is running is meant by what it draws.
SELF = ""
# How deep flows may be nested in each other.
DEEPEST = 10

Rename = Callable[[str], str]


class Place(NamedTuple):
    """Where a worker's rows are, and what it knows."""

    database: Database
    clock: Clock
    numbers: Numbers
    registry: Registry
    max_payload: int


@dataclass(frozen=True)
class Plan:
    """The nodes of a run, with everything but their numbers."""

    kind: Kind
    payload: str
    drafts: Sequence[Draft]
    how: How
    created_at: int
    due_at: int


class Starts:
    """Writes new runs into one database."""

    def __init__(
        self, database: Database, clock: Clock, numbers: Numbers, bell: Bell, *, max_payload: int
    ) -> None:
        self._database = database
        self._clock = clock
        self._numbers = numbers
        self._bell = bell
        self._max_payload = max_payload

    def start(
        self,
        kind: Kind,
        payload: str,
        drafts: Sequence[Draft],
        how: How,
        *,
        guard: Guard | None = None,
    ) -> int:
        """Write a run and its nodes; the id of the run, or of the one that has its key."""
        first = self._clock.reserve(len(drafts) + 1)
        plan = Plan(kind, payload, drafts, how, first, due_of(kind, how, first))
        if how.conn is not None:
            with joined(how.conn, self._database.engine, self._database.dialect) as executor:
                written = self._rows(plan, executor)
                number = self._write(executor, plan, written, guard, is_ours=False)
        else:
            rows = None if self._database.dialect.numbers_join else self._rows(plan, None)

            def work(connection: Connection) -> int:
                made = rows or self._rows(plan, connection)
                return self._write(connection, plan, made, guard, is_ours=True)

            number = self._database.write(work)
        self._bell.ring_here()
        telemetry.emit("flow.started", run=number, flow=kind.name, nodes=len(drafts))
        return number

    def _rows(self, plan: Plan, inside: Executor | None) -> Rows:
        numbers = self._numbers.take(len(plan.drafts) + 1, inside=inside)
        run, *rest = numbers
        made = make_rows(
            plan.drafts,
            dict(zip((draft.shape.name for draft in plan.drafts), rest, strict=True)),
            run=run,
            known={},
            due_at=plan.due_at,
            created_at=plan.created_at + 1,
            priority=plan.how.priority,
            max_payload=self._max_payload,
        )
        row = NewNode(
            id=run,
            kind=plan.kind.name,
            task_key=plan.how.key,
            bucket=bucket_of(plan.how.key or str(run)),
            status=Status.RUNNING if rest else Status.SUCCEEDED,
            priority=plan.kind.priority if plan.how.priority is None else plan.how.priority,
            due_at=None,
            flow_id=run,
            node=SELF,
            open_slots=len(rest),
            payload=plan.payload,
            created_at=plan.created_at,
        )
        return Rows([row, *made.nodes], made.slots)

    def _write(
        self, executor: Executor, plan: Plan, rows: Rows, guard: Guard | None, *, is_ours: bool
    ) -> int:
        if guard is not None:
            guard(executor)
        dialect, run, key = self._database.dialect, rows.nodes[0], plan.how.key
        store.insert(executor, dialect, [run], [])
        if key is not None:
            number, status = task_store.find_keys(executor, dialect, run.kind, [key])[key]
            if number != run.id:
                if plan.how.on_conflict == "raise":
                    raise DuplicateKey(run.kind, key, task_id=number, status=str(status))
                return number
        store.insert(executor, dialect, rows.nodes[1:], rows.slots)
        if len(rows.nodes) == 1:
            head = head_of(run.payload)
            assert head is not None
            store.end_empty(executor, run.id, now=run.created_at, keep=head.keep)
        self._bell.ring_inside(executor, is_ours=is_ours)
        return run.id


class Rows(NamedTuple):
    """Nodes and slots that are about to be written."""

    nodes: list[NewNode]
    slots: list[NewSlot]


def make_rows(
    drafts: Sequence[Draft],
    ids: Mapping[str, int],
    *,
    run: int,
    known: Mapping[str, NodeRow],
    due_at: int,
    created_at: int,
    priority: int | None,
    max_payload: int,
) -> Rows:
    """The rows of what was drawn. Nodes wait for all their parents; none has ended yet."""
    shapes = [draft.shape for draft in drafts]
    numbers = {**{name: row.id for name, row in known.items()}, **ids}
    own = {name: bucket_of(str(number)) for name, number in ids.items()}
    places = buckets(shapes, own=own, known={name: row.bucket for name, row in known.items()})
    nodes: list[NewNode] = []
    slots: list[NewSlot] = []
    for index, draft in enumerate(drafts):
        shape = draft.shape
        number = ids[shape.name]
        is_free = not shape.after
        nodes.append(
            NewNode(
                id=number,
                kind=draft.kind.name if draft.kind.version is None else TEMPLATE,
                task_key=None,
                bucket=places[shape.name],
                status=Status.WAITING if is_free else Status.BLOCKED,
                priority=draft.kind.priority if priority is None else priority,
                due_at=due_at + index if is_free else None,
                flow_id=run,
                node=shape.name,
                open_slots=len(shape.after),
                payload=_payload(draft, numbers, max_payload),
                created_at=created_at + index,
            )
        )
        slots += [NewSlot(numbers[parent], number, shape.rule) for parent in shape.after]
    return Rows(nodes, slots)


def _payload(draft: Draft, numbers: Mapping[str, int], largest: int) -> str:
    kind, shape = draft.kind, draft.shape
    if not shape.needs and shape.when is None and kind.version is None:
        return kind.arguments.encode(draft.args, draft.kwargs, largest=largest)
    bound = kind.arguments.check_open(
        draft.args, draft.kwargs, is_open=lambda value: bool(results_in(value))
    )
    if kind.version is not None:
        bound = {"template": kind.name, "version": kind.version, "arguments": bound}
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
            kind=draft.kind.name,
        )
    return payload


# What a running node adds


class Growing(Drawing):
    """What a running node draws after itself; written down together with its success."""

    def __init__(self, run: Run, place: Place) -> None:
        super().__init__(place.registry, default=(SELF,))
        self._run = run
        self._place = place

    def write(self, connection: Connection) -> None:
        """Write what was drawn, in the transaction that records the success."""
        if self.drafts:
            add_nodes(connection, self._place, self.drafts, self._run.task, is_nested=False)


def growing(run: Run) -> Growing:
    """What the node that is running may draw on."""
    place = run.load.place
    if run.task.flow_id is None or not isinstance(place, Place):
        raise NoContext("context().flow belongs to a running node of a flow; this task is none")
    if run.kind.system is not None:
        raise NoContext(
            "submit adds no nodes: it may be called again; let a node after this one add them"
        )
    if run.growing is None:
        made = run.growing = Growing(run, place)
        run.on_finish = [*(run.on_finish or []), made.write]
    assert isinstance(run.growing, Growing)
    return run.growing


def expand(run: Run | None, draw: Callable[..., object], *args: object, **kwargs: object) -> object:
    """Be the node of a nested flow: draw its nodes, which are written as this is accepted."""
    place = None if run is None else run.load.place
    if run is None or run.task.flow_id is None or not isinstance(place, Place):
        raise NoContext("a flow is started with start(...), or is a node of another flow")
    drawing = Drawing(place.registry)
    draw(drawing, *args, **kwargs)
    drafts = drawing.checked()
    if not drafts:
        return None
    where, task = place, run.task

    def write(connection: Connection) -> None:
        add_nodes(connection, where, drafts, task, is_nested=True)

    run.on_finish = [*(run.on_finish or []), write]
    return Expanded()


def add_nodes(
    connection: Connection,
    place: Place,
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
    rows = insert_nodes(connection, place, renamed, run, known=known, unless=me.id, group=group)
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
    place: Place,
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
    now = place.clock.now()
    numbers = place.numbers.take(len(drafts), inside=connection)
    ids = dict(zip((draft.shape.name for draft in drafts), numbers, strict=True))
    dialect = place.database.dialect
    rows = make_rows(
        drafts,
        ids,
        run=run,
        known=known,
        due_at=now,
        created_at=now,
        priority=None,
        max_payload=place.max_payload,
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
