"""What a source must be able to do to be mirrored or swept."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any, Protocol, runtime_checkable


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
