"""What can be mirrored: keys that somebody else keeps."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Protocol, runtime_checkable


@runtime_checkable
class Source(Protocol):
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
