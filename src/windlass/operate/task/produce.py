"""New tasks for programs elsewhere: one or many of a kind, as Python's calls write them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple, Protocol

from windlass.core.shard.fleet import Fleet
from windlass.core.task.declare import Enqueue, How, OnConflict, OnPast, TaskApp, TaskRef
from windlass.core.task.kind import Kind, Registry
from windlass.errors import BadInput, UnknownKind
from windlass.operate.idempotency import RequestHome
from windlass.value.duration import Duration
from windlass.value.task import RESERVED, Call, check_key


class ProducingApp(TaskApp, Protocol):
    """What new tasks need of the app."""

    @property
    def registry(self) -> Registry: ...
    @property
    def fleet(self) -> Fleet: ...


class NewWork(NamedTuple):
    """How tasks of one kind are to be enqueued."""

    kind: str
    lane: str | None = None
    delay: Duration | None = None
    at: datetime | None = None
    priority: int | None = None
    on_conflict: OnConflict | None = None
    on_past: OnPast | None = None


class NewCall(NamedTuple):
    """The arguments of one task, by name, and its key."""

    arguments: dict[str, Any]
    key: str | None = None


def kind_of(registry: Registry, name: str) -> Kind:
    """The kind of that name, if its tasks are enqueued."""
    kind = registry.kinds.get(name)
    if kind is None or name.startswith(RESERVED):
        raise UnknownKind(name, list(registry.kinds))
    if kind.period is not None:
        raise BadInput(
            f"kind {name!r} is rolling: its items are not enqueued, but added, and visited"
        )
    if kind.face == "flow":
        raise BadInput(f"kind {name!r} is a flow: start it with POST /api/flows")
    if not kind.has_rows:
        raise BadInput(f"kind {name!r} has no tasks to enqueue: it is a {kind.face}")
    return kind


def enqueue(
    app: ProducingApp,
    work: NewWork,
    calls: Sequence[NewCall],
    *,
    conn: object = None,
) -> list[TaskRef]:
    """Write a task for each call, in one transaction: all or none.

    `conn` is the transaction of an idempotency key.
    """
    kind = kind_of(app.registry, work.kind)
    keyed = sum(call.key is not None for call in calls)
    if keyed not in (0, len(calls)):
        raise BadInput(f"kind {kind.name!r}: give a key to each of the tasks, or to none")
    if keyed or app.fleet.single is not None or _lane(kind, work, calls) is not None:
        # They have a home, and join that transaction if it is there.
        conn = None
    handle: Enqueue[..., Any] = Enqueue(app, kind, How())
    how = handle.using(
        lane=work.lane,
        delay=work.delay,
        at=work.at,
        priority=work.priority,
        on_conflict=work.on_conflict,
        on_past=work.on_past,
        conn=conn,
    ).how
    made = [
        Call((), arguments, None if key is None else check_key(kind.name, key))
        for arguments, key in calls
    ]
    return app.submit(kind, made, how)


def place_of(app: ProducingApp, work: NewWork, calls: Sequence[NewCall]) -> RequestHome:
    """What decides the shard of these tasks."""
    kind = kind_of(app.registry, work.kind)
    return RequestHome(kind.name, calls[0].key, _lane(kind, work, calls))


def _lane(kind: Kind, work: NewWork, calls: Sequence[NewCall]) -> str | None:
    return work.lane or kind.lane_of((), calls[0].arguments)
