"""Starting flows: what was drawn becomes rows, in one transaction, ours or the caller's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from windlass import telemetry
from windlass.clock import Clock
from windlass.core.shard.shard import Shard
from windlass.core.task.declare import How
from windlass.core.task.enqueue import Guard, due_of
from windlass.core.task.kind import TEMPLATE, Kind
from windlass.core.task.store import task as task_store
from windlass.core.wake.bell import Bell
from windlass.database.connection import Connection, joined
from windlass.database.database import Database
from windlass.database.dialect.base import Executor
from windlass.database.number import Numbers
from windlass.errors import DuplicateKey, PayloadTooLarge
from windlass.flow.declare import Draft
from windlass.flow.model.graph import buckets
from windlass.flow.model.node import head_of, results_in, to_fill
from windlass.flow.store import flow as store
from windlass.flow.store.flow import NewSlot, NodeRow
from windlass.value.bucket import bucket_of
from windlass.value.status import Status
from windlass.value.task import NewNode

# By this name a node that is running is meant by what it draws.
SELF = ""


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

    @classmethod
    def of(cls, shard: Shard) -> Starts:
        """What starts flows in a shard."""
        return cls(
            shard.database,
            shard.clock,
            shard.numbers,
            shard.bell,
            max_payload=shard.max_payload,
        )

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
