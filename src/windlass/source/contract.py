"""What can be mirrored, and what can be swept: keys and rows that somebody else keeps."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any, Protocol, runtime_checkable


@runtime_checkable
class MirrorSource(Protocol):
    """Keys that somebody else keeps. Whatever has these four members can be mirrored."""

    @property
    def name(self) -> str:
        """What people know it by, without a password."""
        ...

    def check(self) -> None:
        """Raise `BadSource` if it cannot be used, with the reason and the cure."""
        ...

    def keys(self) -> Iterator[list[str]]:
        """All keys as they are at one moment, each once, in the byte order of UTF-8.

        They come in lists, so that millions need little memory. An end that is not the end must
        raise: whatever does not come is taken for gone.
        """
        ...

    def present(self, keys: Collection[str]) -> set[str]:
        """Those of up to 10,000 keys that are there now."""
        ...


@runtime_checkable
class Source(Protocol):
    """Rows that lie in the order of their keys. Whatever has these three members can be swept.

    A key is a whole number, text, a UUID, a time, bytes, or a tuple of these. What comes first is
    for the source to say; nobody else compares two keys. It may also have `name` for people,
    `check()` as above, `count()` for about how many rows there are, `find(key)` for one row, and
    `edge(after, upto, count)` for the key of a row that many further on, if that is cheaper. The
    guide names the rest.
    """

    def bounds(self, ranges: int) -> Sequence[Any]:
        """Up to `ranges` - 1 keys, in order, that cut the rows into about equal parts."""
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


# The same, where both kinds of source are spoken of.
SweepSource = Source
