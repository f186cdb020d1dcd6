"""`Keys`: whole numbers as a source."""

from __future__ import annotations

from collections.abc import Sequence

from windlass.errors import BadSource


class Keys:
    """The whole numbers from `begin` to `end`, both included; a handler gets the number.

    If `end` is less than `begin`, there are none.
    """

    def __init__(self, begin: int, end: int) -> None:
        for given in (begin, end):
            if isinstance(given, bool) or not isinstance(given, int):
                raise BadSource(f"Keys({begin!r}, {end!r}): {given!r} is not a whole number")
        self.begin = begin
        self.end = end

    @property
    def name(self) -> str:
        """Its name for people."""
        return f"the numbers from {self.begin} to {self.end}"

    def count(self) -> int:
        """How many there are."""
        return max(0, self.end - self.begin + 1)

    def bounds(self, ranges: int) -> Sequence[int]:
        """Numbers that cut the whole span into equal parts."""
        total = self.count()
        parts = max(1, min(ranges, total))
        return [self.begin - 1 + total * part // parts for part in range(1, parts)]

    def middle(self, after: int | None, upto: int | None) -> int | None:
        """The number in the middle; None if there are fewer than two."""
        first, last = self._span(after, upto)
        return None if last <= first else (first + last) // 2

    def edge(self, after: int | None, upto: int | None, count: int) -> int | None:
        """The number `count` numbers further, or the last one; None if there is none."""
        first, last = self._span(after, upto)
        return None if last < first else min(last, first + count - 1)

    def read(self, after: int | None, upto: int | None, limit: int) -> Sequence[tuple[int, int]]:
        """The next numbers, each as its own key."""
        first, last = self._span(after, upto)
        return [(number, number) for number in range(first, min(last, first + limit - 1) + 1)]

    def find(self, key: int) -> int | None:
        """The number itself, if it is between `begin` and `end`."""
        is_number = isinstance(key, int) and not isinstance(key, bool)
        return key if is_number and self.begin <= key <= self.end else None

    def __repr__(self) -> str:
        return f"Keys({self.begin}, {self.end})"

    def _span(self, after: int | None, upto: int | None) -> tuple[int, int]:
        first = self.begin if after is None else max(self.begin, after + 1)
        return first, self.end if upto is None else min(self.end, upto)
