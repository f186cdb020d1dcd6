"""Plain values as msgpack, and back as the same types: rows of sources and facts of errors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

PLAIN = (str, bytes, float, bool, type(None))
LONG = range(-(1 << 63), 1 << 63)


class Unpackable(TypeError):
    """A value that has no plain form."""


_TEXTS: dict[str, tuple[type, Callable[[Any], Any], Callable[[Any], Any]]] = {
    # Before date: a datetime is also a date.
    "datetime": (datetime, datetime.isoformat, datetime.fromisoformat),
    "date": (date, date.isoformat, date.fromisoformat),
    "time": (time, time.isoformat, time.fromisoformat),
    "timedelta": (
        timedelta,
        lambda it: [it.days, it.seconds, it.microseconds],
        lambda it: timedelta(*it),
    ),
    "decimal": (Decimal, str, Decimal),
    "uuid": (UUID, str, UUID),
}
_LISTS: dict[str, Callable[[list[Any]], Any]] = {
    "list": list,
    "tuple": tuple,
    "set": set,
    "frozenset": frozenset,
}


def pack(value: object) -> Any:
    """A value that msgpack can write: containers are lists with their type in front."""
    if type(value) in PLAIN:
        return value
    if type(value) is int:
        return value if value in LONG else ["int", str(value)]
    if isinstance(value, Mapping):
        return ["dict", [[pack(key), pack(part)] for key, part in value.items()]]
    for name in _LISTS:
        if type(value).__name__ == name and isinstance(value, list | tuple | set | frozenset):
            return [name, [pack(part) for part in value]]
    for name, (kind, write, _) in _TEXTS.items():
        if isinstance(value, kind):
            return [name, write(value)]
    raise Unpackable(type(value).__name__)


def unpack(packed: Any) -> Any:
    """What `pack` packed."""
    if not isinstance(packed, list):
        return packed
    name, inside = packed
    if name == "int":
        return int(inside)
    if name == "dict":
        return {unpack(key): unpack(part) for key, part in inside}
    if name in _LISTS:
        return _LISTS[name]([unpack(part) for part in inside])
    return _TEXTS[name][2](inside)
