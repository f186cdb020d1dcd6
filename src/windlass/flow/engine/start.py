"""Starts flows: what was drawn becomes rows, in one transaction, ours or the caller's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from windlass import telemetry
from windlass.core.shard.shard import Shard
from windlass.core.task.declare import How
from windlass.core.task.enqueue import Guard, due_of
from windlass.core.task.kind import TEMPLATE, Kind
from windlass.core.task.store import task as task_store
from windlass.database.connection import Connection, Executor, joined
from windlass.errors import DuplicateKey, PayloadTooLarge
from windlass.flow.declare import Draft
from windlass.flow.model.graph import buckets
from windlass.flow.model.node import head_of, results_in, to_fill
from windlass.flow.model.terms import version_of
from windlass.flow.store import flow as store
from windlass.flow.store.flow import NewSlot, NodeRow
from windlass.value.bucket import bucket_of
from windlass.value.status import Status
from windlass.value.task import NewNode

# The name that a running node has in what it draws itself.
SELF = ""


@dataclass(frozen=True)
class NewRun:
    """A flow run that is about to be written."""

    kind: Kind
    payload: str
    drafts: Sequence[Draft]
    how: How

    @property
    def key(self) -> str | None:
        """Its key."""
        return self.how.key


class NewRows(NamedTuple):
    """Nodes and slots that are about to be written."""

    nodes: list[NewNode]
    slots: list[NewSlot]


def start(shard: Shard, new: NewRun, *, guard: Guard | None = None) -> int:
    """Write a flow run and its nodes; its id, or the id of the flow run that has its key."""
    database, conn = shard.database, new.how.conn
    first = shard.clock.reserve(len(new.drafts) + 1)
    if conn is not None:
        with joined(conn, database.engine, database.dialect) as executor:
            rows = _make_run(shard, new, first, inside=executor)
            number = _write(executor, shard, new, rows=rows, guard=guard)
    else:
        early = None if database.dialect.numbers_join else _make_run(shard, new, first)

        def work(connection: Connection) -> int:
            rows = early or _make_run(shard, new, first, inside=connection)
            return _write(connection, shard, new, rows=rows, guard=guard)

        number = database.write(work)
    shard.bell.ring_here()
    telemetry.emit("flow.started", run=number, flow=new.kind.name, nodes=len(new.drafts))
    return number


def _make_run(shard: Shard, new: NewRun, first: int, *, inside: Executor | None = None) -> NewRows:
    """The rows of a flow run, created at the moments from `first` on."""
    kind, how = new.kind, new.how
    run, *rest = shard.numbers.take(len(new.drafts) + 1, inside=inside)
    made = make_rows(
        new.drafts,
        dict(zip((draft.shape.name for draft in new.drafts), rest, strict=True)),
        run=run,
        known={},
        due_at=due_of(kind, how, first),
        created_at=first + 1,
        priority=how.priority,
        max_payload=shard.max_payload,
    )
    row = NewNode(
        id=run,
        kind=kind.name,
        task_key=new.key,
        bucket=bucket_of(new.key or str(run)),
        status=Status.RUNNING if rest else Status.SUCCEEDED,
        priority=kind.priority if how.priority is None else how.priority,
        due_at=None,
        flow_id=run,
        node=SELF,
        open_slots=len(rest),
        payload=new.payload,
        created_at=first,
    )
    return NewRows([row, *made.nodes], made.slots)


def _write(
    executor: Executor, shard: Shard, new: NewRun, *, rows: NewRows, guard: Guard | None
) -> int:
    if guard is not None:
        guard(executor)
    dialect, run, key = shard.database.dialect, rows.nodes[0], new.key
    store.insert(executor, dialect, [run], [])
    if key is not None:
        number, status = task_store.find_keys(executor, dialect, run.kind, [key])[key]
        if number != run.id:
            if new.how.on_conflict == "raise":
                raise DuplicateKey(run.kind, key, task_id=number, status=str(status))
            return number
    store.insert(executor, dialect, rows.nodes[1:], rows.slots)
    if len(rows.nodes) == 1:
        head = head_of(run.payload)
        assert head is not None
        store.end_empty(executor, run.id, now=run.created_at, keep=head.keep)
    shard.bell.ring_inside(executor, is_ours=new.how.conn is None)
    return run.id


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
) -> NewRows:
    """The rows of new nodes. They wait for all their parents, as if none had ended."""
    shapes = [draft.shape for draft in drafts]
    numbers = {**{name: row.id for name, row in known.items()}, **ids}
    own = {name: bucket_of(str(number)) for name, number in ids.items()}
    places = buckets(shapes, own=own, known={name: row.bucket for name, row in known.items()})
    nodes: list[NewNode] = []
    slots: list[NewSlot] = []
    for index, draft in enumerate(drafts):
        shape, kind = draft.shape, draft.kind
        number, is_free = ids[shape.name], not shape.after
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
            payload=_payload(draft, numbers, max_payload),
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
