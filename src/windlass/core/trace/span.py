"""A span that is current while its block runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Self

from opentelemetry import context as context_api
from opentelemetry.context import Context
from opentelemetry.trace import Span, Status, StatusCode, set_span_in_context

from windlass.core.trace.fence import FENCE
from windlass.core.trace.name import ERROR_TYPE, OTHER_ERROR
from windlass.errors import Signal

Attributes = Mapping[str, str | int | float | bool]


def error_type(error: BaseException) -> str:
    """The name of an error's class, with its module if that is not Python's."""
    kind = type(error)
    is_plain = kind.__module__ in ("builtins", "__main__")
    return kind.__qualname__ if is_plain else f"{kind.__module__}.{kind.__qualname__}"


class Block:
    """What is recorded around one block of code: a span, if there is one, and what subclasses add.

    The block always runs, and its own errors pass unchanged.
    """

    __slots__ = ("_begin", "_span", "_token", "error")

    def __init__(self, begin: Callable[[], tuple[Span, Context | None]] | None) -> None:
        self._begin = begin
        self._span: Span | None = None
        self._token: Any = None
        # The class of the error, for metrics.
        self.error: str | None = None

    def __enter__(self) -> Self:
        try:
            if self._begin is not None:
                self._span, parent = self._begin()
                self._token = context_api.attach(set_span_in_context(self._span, parent))
            self._began()
        except Exception as problem:
            FENCE.report(problem)
        return self

    def __exit__(
        self, _kind: object, error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        try:
            self._ended(error)
        except Exception as problem:
            FENCE.report(problem)
        try:
            if self._token is not None:
                context_api.detach(self._token)
            if self._span is not None:
                self._span.end()
        except Exception as problem:
            FENCE.report(problem)

    def _began(self) -> None:
        """The block begins; the span is current."""

    def _ended(self, error: BaseException | None) -> None:
        """The block has ended; the span is still current. It may raise."""
        if error is not None and not isinstance(error, Signal):
            self._failed(error)

    def _set(self, attributes: Attributes) -> None:
        if self._span is not None:
            self._span.set_attributes(attributes)

    def _failed(self, error: BaseException | None, text: str = "") -> None:
        """Mark the span as failed, by an error or by what `text` says."""
        self.error = OTHER_ERROR if error is None else error_type(error)
        span = self._span
        if span is None:
            return
        span.set_attribute(ERROR_TYPE, self.error)
        if error is not None:
            span.record_exception(error)
            text = f"{type(error).__name__}: {error}"
        span.set_status(Status(StatusCode.ERROR, text))
