"""Keys of sources as text: each key has one text, which decodes to the same key.

Windlass compares these texts for equality only. The source alone decides the order of keys, by its
collation, time zone and type. So every key that the source can sort by works.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Annotated, Any
from uuid import UUID

import msgspec

from windlass.errors import BadKey
from windlass.value.task import is_storable
from windlass.view.field import KEY

LONGEST_KEY = 1_000

Key = Annotated[Any, KEY]

_TAGS: dict[str, tuple[type, Callable[[Any], str], Callable[[str], Any]]] = {
    "uuid": (UUID, str, UUID),
    # Before date: a datetime is also a date.
    "time": (datetime, lambda time: _in_utc(time).isoformat(), datetime.fromisoformat),
    "date": (date, date.isoformat, date.fromisoformat),
    "decimal": (Decimal, str, Decimal),
    "bytes": (bytes, bytes.hex, bytes.fromhex),
}


def encode_key(key: Key, *, what: str = "source") -> str:
    """The text of `key`; equal keys have equal texts."""
    text = msgspec.json.encode(_plain(key, what)).decode()
    if len(text) > LONGEST_KEY:
        raise BadKey(
            f"{what}: the key {text[:40]}... has {len(text)} characters; at most {LONGEST_KEY} fit"
        )
    return text


def decode_key(text: str) -> Key:
    """The key from which `encode_key` made `text`."""
    return _key(msgspec.json.decode(text))


def encoded(key: Key | None, *, what: str = "source") -> str | None:
    """`encode_key`, where None is an open end."""
    return None if key is None else encode_key(key, what=what)


def decoded(text: str | None) -> Key | None:
    """`decode_key`, where None is an open end."""
    return None if text is None else decode_key(text)


def shown(key: Key) -> str:
    """A key for people: text without quotes, composite keys separated by commas."""
    if isinstance(key, tuple):
        return ", ".join(shown(part) for part in key)
    return key.hex() if isinstance(key, bytes) else str(key)


def _plain(key: Key, what: str) -> object:
    match key:
        case None:
            raise BadKey(f"{what}: a key is null; exclude such rows from the source")
        case bool() | float():
            raise BadKey(f"{what}: {key!r} cannot be a key; use a whole number, text or a time")
        case int():
            return key
        case str():
            if not is_storable(key):
                raise BadKey(f"{what}: key {key!r} has characters that databases cannot store")
            return key
        case tuple() | list():
            if not key:
                raise BadKey(f"{what}: a composite key is empty; give it at least one part")
            return [_plain(part, what) for part in key]
    for tag, (kind, write, _) in _TAGS.items():
        if isinstance(key, kind):
            return {tag: write(key)}
    raise BadKey(f"{what}: a key of type {type(key).__name__} cannot be stored; give it as text")


def _in_utc(time: datetime) -> datetime:
    """One moment has one text, whichever time zone the connection uses."""
    return time if time.tzinfo is None else time.astimezone(UTC)


def _key(plain: Any) -> Key:
    match plain:
        case list():
            return tuple(_key(part) for part in plain)
        case dict():
            ((tag, text),) = plain.items()
            return _TAGS[tag][2](text)
    return plain
