"""Forms: what can be enqueued or started by hand, and the parameters that its handler takes."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, NoReturn, get_args

import msgspec

from windlass.core.task.kind import Kind, Registry
from windlass.value.payload import argument_views
from windlass.view.field import JsonText

# What a form does: enqueue a task, start a flow, or nothing, and then it says why.
Does = Literal["enqueue", "start", "nothing"]
TEXT = {"type": "string"}
# Both forms in which docstrings describe parameters.
_SPHINX = re.compile(r":param\s+(?:[^:]*\s)?(\w+)\s*:\s*(.+)")
_GOOGLE = re.compile(r"^\s+(\w+)\s*(?:\([^)]*\))?\s*:\s+(.+)$")
_SECTION = re.compile(r"^\s*(Args|Arguments|Parameters)\s*:\s*$")


@dataclass(frozen=True)
class ParameterView:
    """A parameter of a handler: its type by name and as a JSON schema, and its default, as JSON."""

    name: str
    type: str
    # The schema, with its definitions; an empty one takes anything.
    accepts: JsonText
    required: bool
    default: JsonText | None
    doc: str | None


@dataclass(frozen=True)
class FormView:
    """What a kind takes when a person enqueues or starts it."""

    kind: str
    does: Does
    # Why there is nothing to enqueue, and what to do instead.
    why_not: str | None
    summary: str
    parameters: list[ParameterView]
    # Whether it takes arguments of other names, too.
    takes_more: bool
    priority: int


def form_of(registry: Registry, name: str) -> FormView:
    """The form of a kind."""
    kind = registry.get(name)
    why_not = _why_not(kind)
    does: Does = "start" if kind.face == "flow" else "enqueue"
    signature = kind.arguments.signature
    return FormView(
        kind=name,
        does=does if why_not is None else "nothing",
        why_not=why_not,
        summary=(inspect.getdoc(kind.function) or "").partition("\n")[0],
        parameters=_parameters(kind),
        takes_more=any(each.kind is each.VAR_KEYWORD for each in signature.parameters.values()),
        priority=kind.priority,
    )


def _why_not(kind: Kind) -> str | None:
    if kind.period is not None:
        return f"kind {kind.name!r} is rolling: its items are not enqueued; add them"
    if not kind.has_rows:
        return f"kind {kind.name!r} has no tasks of its own: it is a {kind.face}"
    return None


def _parameters(kind: Kind) -> list[ParameterView]:
    signature, docs = kind.arguments.signature, _docs(kind.function)
    found = []
    for view in argument_views(signature):
        parameter = signature.parameters[view.name]
        if parameter.kind is parameter.VAR_KEYWORD:
            continue
        schema = _schema(kind.arguments.types.get(view.name, Any))
        told = schema.get("description")
        found.append(
            ParameterView(
                name=view.name,
                type=view.type,
                accepts=msgspec.json.encode(schema).decode(),
                required=view.required,
                default=None if view.required else _default(parameter.default),
                doc=told if isinstance(told, str) else docs.get(view.name),
            )
        )
    return found


def _default(value: object) -> str | None:
    try:
        return msgspec.json.encode(value, enc_hook=_plain).decode()
    except (TypeError, ValueError):
        return None


def _plain(value: Any) -> Any:
    dump: Callable[..., Any] | None = getattr(value, "model_dump", None)
    if dump is None:
        raise TypeError(type(value).__name__)
    return dump(mode="json")


def _schema(wanted: Any) -> dict[str, Any]:
    """The JSON schema of an annotation; empty where there is none."""
    try:
        schema = msgspec.json.schema(wanted, schema_hook=_foreign)
    except (TypeError, ValueError, NotImplementedError, RecursionError):
        return {}
    return _dated(_resolved(schema), wanted)


def _dated(schema: dict[str, Any], wanted: Any) -> dict[str, Any]:
    """The schema, in which a moment says that it is one: its time zone may be left out."""
    parts = get_args(wanted)
    if wanted is datetime or (parts and parts[0] is datetime and "anyOf" not in schema):
        return {**schema, "format": "date-time"}
    if datetime in parts and "anyOf" in schema:
        each = [_dated(part, datetime) if part == TEXT else part for part in schema["anyOf"]]
        return {**schema, "anyOf": each}
    return schema


def _foreign(wanted: type) -> dict[str, Any]:
    """The schema of a model of pydantic."""
    make: Callable[[], dict[str, Any]] | None = getattr(wanted, "model_json_schema", None)
    if make is None:
        _refuse(wanted)
    return make()


def _refuse(wanted: type) -> NoReturn:
    raise NotImplementedError(wanted)


def _resolved(schema: dict[str, Any]) -> dict[str, Any]:
    """A schema that begins with what it is, where that is only named: enums, dataclasses."""
    name = schema.get("$ref")
    definitions: Mapping[str, Any] = schema.get("$defs", {})
    if isinstance(name, str) and (found := definitions.get(name.rpartition("/")[2])):
        return {**found, "$defs": definitions}
    return schema


def _docs(function: Callable[..., Any]) -> dict[str, str]:
    """What a docstring says of each parameter."""
    text = inspect.getdoc(function) or ""
    found = {name: told.strip() for name, told in _SPHINX.findall(text)}
    is_inside = False
    for line in text.splitlines():
        if _SECTION.match(line):
            is_inside = True
        elif is_inside and (match := _GOOGLE.match(line)) is not None:
            found.setdefault(match[1], match[2].strip())
        elif line.strip() and not line[0].isspace():
            is_inside = False
    return found
