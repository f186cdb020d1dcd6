"""How a downstream is declared."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from windlass.core.task.downstream import Downstream
from windlass.core.task.kind import Registry, check_kind_name, positive
from windlass.errors import BadDeclaration
from windlass.value.breaker import parse_breaker
from windlass.value.calendar.window import parse_window
from windlass.value.rate import parse_rate

T = TypeVar("T")


class DownstreamDeclarer:
    """Declares the downstreams of an app."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def __call__(
        self,
        name: str,
        *,
        rate: str | None = None,
        concurrency: int | None = None,
        window: str | None = None,
        breaker: str | None = None,
        adapt: bool = False,
    ) -> Downstream:
        """Declare a system that tasks call: all kinds with `downstream=` of it share its limits.

        `concurrency` is how many of their runs the whole fleet has at once.
        """
        check_kind_name(name, "downstream")
        what = f"downstream {name!r}"
        if not isinstance(adapt, bool):
            raise BadDeclaration(f"{what}: adapt={adapt!r} is neither True nor False")
        return self._registry.add_downstream(
            Downstream(
                name,
                rate=_optional(parse_rate, rate, f"{what}: rate"),
                concurrency=positive(concurrency, f"{what}: concurrency"),
                window=_optional(parse_window, window, f"{what}: window"),
                breaker=_optional(parse_breaker, breaker, f"{what}: breaker"),
                adapt=adapt,
            )
        )


def _optional(parse: Callable[..., T], given: str | None, what: str) -> T | None:
    return None if given is None else parse(given, what=what)
