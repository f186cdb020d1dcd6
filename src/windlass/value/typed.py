"""Types that msgspec does not know: pydantic models, by their own JSON. pydantic stays optional."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, cast

import msgspec

# How a model is written and read: the names of its aliases, so that it can be read again.
DUMP = {"mode": "json", "by_alias": True, "round_trip": True}


PLAIN = (Any, object, str, int, float, bool, None, bytes, dict, list)


def is_model(kind: object) -> bool:
    """Whether it is a class of pydantic's models, without importing pydantic."""
    return isinstance(kind, type) and hasattr(kind, "__pydantic_validator__")


def _write(value: object) -> object:
    if is_model(type(value)) and hasattr(value, "model_dump"):
        return cast(Any, value).model_dump(**DUMP)
    raise TypeError(f"Encoding objects of type {type(value).__name__} is unsupported")


def _read(kind: type, found: object) -> object:
    if not is_model(kind):
        if isinstance(found, kind):
            return found
        raise TypeError(f"objects of type {kind.__name__} cannot be read from JSON")
    try:
        # As JSON: a strict model takes a date as text there, and nowhere else.
        return cast(Any, kind).model_validate_json(msgspec.json.encode(found))
    except ValueError as problem:
        raise ValueError(f"Expected {kind.__name__} ({_first_error(problem)})") from None


def _first_error(problem: ValueError) -> str:
    """What pydantic says, without the value: it may be long."""
    errors: Callable[[], list[dict[str, Any]]] | None = getattr(problem, "errors", None)
    found = errors()[0] if errors is not None else {"msg": str(problem), "loc": ()}
    path = ".".join(map(str, found["loc"]))
    return f"{path}: {found['msg']}" if path else str(found["msg"])


encode = msgspec.json.Encoder(enc_hook=_write).encode


def decoder(wanted: Any) -> msgspec.json.Decoder[Any]:
    """Reads JSON as this type."""
    return msgspec.json.Decoder(wanted, dec_hook=_read)


def convert(value: object, wanted: Any) -> Any:
    """A value of JSON as this type."""
    return msgspec.convert(value, wanted, str_keys=True, dec_hook=_read)


def unreadable(wanted: Any) -> str | None:
    """The name of a class in this type that cannot be read from JSON; None if all can."""
    if any(wanted is plain for plain in PLAIN):
        return None
    # Imported here: most programs only have plain types.
    from msgspec.inspect import type_info

    found = (each for each in _customs(type_info(wanted), set()) if not is_model(each))
    return next((each.__name__ for each in found), None)


def _customs(info: Any, seen: set[int]) -> Iterator[type]:
    """The classes in a type that msgspec does not know itself."""
    from msgspec import inspect

    if isinstance(info, inspect.CustomType):
        yield info.cls
        return
    if not isinstance(info, inspect.Type | inspect.Field) or id(info) in seen:
        return
    seen.add(id(info))
    for name in info.__struct_fields__:
        part = getattr(info, name)
        for each in part if isinstance(part, tuple) else (part,):
            yield from _customs(each, seen)
