"""A list of views that several shards gave."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

T = TypeVar("T")


class Listing(list[T]):
    """Views from all shards; `missing` names the shards that do not answer.

    `next` is the cursor of the page that follows, None at the end.
    """

    def __init__(
        self, found: Iterable[T] = (), missing: tuple[str, ...] = (), *, cursor: str | None = None
    ) -> None:
        super().__init__(found)
        self.missing = missing
        self.next = cursor

    @property
    def items(self) -> list[T]:
        """The views, under the name that the API gives them."""
        return self
