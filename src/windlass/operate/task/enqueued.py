"""Which tasks wait, with their arguments by the names of the handler's parameters."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

import msgspec

from windlass.clock import to_datetime
from windlass.core.shard.fleet import Fleet
from windlass.core.task.kind import Kind, Registry
from windlass.errors import BadArgument
from windlass.operate.task import operate
from windlass.value.payload import encode_value
from windlass.value.status import Status
from windlass.value.task import TaskFilter, TaskView

PAGE = 1_000
MOST_SHOWN = 20


@dataclass(frozen=True)
class Enqueued:
    """A task that waits; its arguments as they are stored, in JSON, with defaults filled in."""

    id: int
    kind: str
    key: str | None
    due_at: datetime
    priority: int
    arguments: Mapping[str, Any] = field(hash=False)

    def __str__(self) -> str:
        given = ", ".join(f"{name}={value!r}" for name, value in self.arguments.items())
        return f"{self.kind}({given})" + ("" if self.key is None else f" with key {self.key!r}")


def enqueued(fleet: Fleet, kind: Kind, arguments: Mapping[str, object]) -> list[Enqueued]:
    """The waiting tasks of a kind that have at least these arguments, oldest first."""
    wanted = _as_stored(kind, arguments)
    return [each for each in _waiting(fleet, kind) if wanted.items() <= each.arguments.items()]


def require_enqueued(fleet: Fleet, kind: Kind, arguments: Mapping[str, object]) -> Enqueued:
    """The first of them, or an AssertionError that shows what waits instead."""
    __tracebackhide__ = True
    found = enqueued(fleet, kind, arguments)
    if found:
        return found[0]
    wanted = ", ".join(f"{each}={value!r}" for each, value in arguments.items())
    others = _waiting(fleet, kind)
    told = [f"no task {kind.name}({wanted}) waits; {_what_else(kind.name, others)}"]
    told += [f"  {each}" for each in others[:MOST_SHOWN]]
    if len(others) > MOST_SHOWN:
        told.append(f"  and {len(others) - MOST_SHOWN} more")
    raise AssertionError("\n".join(told))


def kind_of(registry: Registry, given: object) -> Kind:
    """The kind of a declared task, or of its name."""
    name = given if isinstance(given, str) else getattr(given, "kind", None)
    if not isinstance(name, str):
        raise BadArgument(f"{given!r} is neither a declared task nor the name of one", kind="")
    return registry.get(name)


def _what_else(name: str, others: list[Enqueued]) -> str:
    if not others:
        return f"nothing of kind {name!r} does"
    return "this does:" if len(others) == 1 else f"these {len(others)} do:"


def _waiting(fleet: Fleet, kind: Kind) -> list[Enqueued]:
    fleet.prepare()
    wanted = TaskFilter(kind=kind.name, status=Status.WAITING)
    rows: list[TaskView] = []
    while page := operate.listing(fleet, wanted, limit=PAGE):
        rows += page
        wanted = replace(wanted, before=page[-1].id)
    return [_seen(kind, row) for row in reversed(rows)]


def _seen(kind: Kind, row: TaskView) -> Enqueued:
    assert row.due_at is not None
    return Enqueued(
        id=row.id,
        kind=row.kind,
        key=row.key,
        due_at=to_datetime(row.due_at),
        priority=row.priority,
        arguments=_arguments(kind, row),
    )


def _arguments(kind: Kind, row: TaskView) -> dict[str, Any]:
    parameters = kind.arguments.signature.parameters
    if kind.period is not None:
        # An item is called with its code, which is its key.
        return {next(iter(parameters)): row.key}
    stored: dict[str, Any] = msgspec.json.decode(row.payload)
    for name, parameter in parameters.items():
        if name not in stored and parameter.default is not inspect.Parameter.empty:
            # A default that is not JSON cannot be asked for.
            with suppress(TypeError, ValueError):
                stored[name] = msgspec.json.decode(encode_value(parameter.default))
    return stored


def _as_stored(kind: Kind, arguments: Mapping[str, object]) -> dict[str, Any]:
    """Arguments as JSON keeps them; a name that the handler does not have is a mistake."""
    parameters = kind.arguments.signature.parameters
    takes_any = any(each.kind is each.VAR_KEYWORD for each in parameters.values())
    for name in arguments:
        if name not in parameters and not takes_any:
            raise BadArgument(
                f"kind {kind.name!r} has no parameter {name!r}; it has {', '.join(parameters)}",
                kind=kind.name,
                argument=name,
            )
    return {name: msgspec.json.decode(encode_value(value)) for name, value in arguments.items()}
