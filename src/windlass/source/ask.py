"""A source whose errors can be told from those of Windlass's own database."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from windlass.source.contract import SweepSource

T = TypeVar("T")


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
