"""What a source must be able to do to be mirrored or swept, and how its keys become text.

Each key has one text, which decodes to the same key. Windlass compares these texts for equality
only. The source alone decides the order of keys, by its collation, time zone and type. So every key
that the source can sort by works.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Annotated, Any, Protocol, TypeVar, runtime_checkable
from uuid import UUID

import msgspec

from windlass.errors import BadKey
from windlass.value.task import is_storable
from windlass.view.field import KEY

T = TypeVar("T")


@runtime_checkable
class MirrorSource(Protocol):
    """Keys that are kept elsewhere. Any object with these four members can be mirrored."""

    @property
    def name(self) -> str:
        """Its name for people, without a password."""
        ...

    def check(self) -> None:
        """Raise `BadSource` if it cannot be used, with the reason and the cure."""
        ...

    def keys(self) -> Iterator[list[str]]:
        """All keys as they are at one moment, each once, in the byte order of UTF-8.

        They come in lists, so that millions need little memory. If reading stops early, it must
        raise: a key that does not come is taken as deleted.
        """
        ...

    def present(self, keys: Collection[str]) -> set[str]:
        """Those of up to 10,000 keys that exist now."""
        ...


@runtime_checkable
class Source(Protocol):
    """Rows in the order of their keys. Any object with these three members can be swept.

    A key is a whole number, text, a UUID, a time, bytes, or a tuple of these. The source alone
    decides the order: Windlass never compares two keys. A source may also have `name` for people,
    `check()` as above, `count()` for the approximate number of rows, `find(key)` for one row, and
    `edge(after, upto, count)` for the key of the row `count` rows further, if that is cheaper than
    reading them. The guide names the rest.
    """

    def bounds(self, ranges: int) -> Sequence[Any]:
        """Up to `ranges` - 1 keys, in order, that cut the rows into parts of similar size."""
        ...

    def middle(self, after: Any | None, upto: Any | None) -> Any | None:
        """A key with rows up to it and rows beyond it; None if there is none.

        Only rows after the key `after` and up to the key `upto` count; None is an open end.
        """
        ...

    def read(self, after: Any | None, upto: Any | None, limit: int) -> Sequence[tuple[Any, Any]]:
        """The first rows after the key `after` and up to the key `upto`, each with its key.

        In order, at most `limit`, and at least one if there is one.
        """
        ...


# The same protocol, for code that uses both kinds of source.
SweepSource = Source


def name_of(source: object) -> str:
    """The name of a source for people."""
    return str(getattr(source, "name", None) or repr(source))


class SourceFailed(Exception):
    """A call to a source failed; the error of the source is the cause."""


class CheckedSource:
    """A source that raises `SourceFailed`, whatever goes wrong in it."""

    def __init__(self, source: SweepSource) -> None:
        self._source = source

    def bounds(self, ranges: int) -> Sequence[Any]:
        return self._ask(self._source.bounds, ranges)

    def middle(self, after: Any | None, upto: Any | None) -> Any | None:
        return self._ask(self._source.middle, after, upto)

    def read(self, after: Any | None, upto: Any | None, limit: int) -> Sequence[tuple[Any, Any]]:
        return self._ask(self._source.read, after, upto, limit)

    def __getattr__(self, name: str) -> Any:
        """The optional members of a source."""
        found = getattr(self._source, name)
        return (lambda *given: self._ask(found, *given)) if callable(found) else found

    def __repr__(self) -> str:
        return repr(self._source)

    @staticmethod
    def _ask(method: Callable[..., T], *given: Any) -> T:
        try:
            return method(*given)
        except Exception as problem:
            raise SourceFailed(str(problem)) from problem


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
