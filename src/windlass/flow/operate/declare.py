"""Declaring flows: `@app.flow`, and flows that are started by a schedule."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Concatenate, ParamSpec, overload

from windlass.core.run.context import context
from windlass.core.task.current import current
from windlass.core.task.kind import (
    Kind,
    Options,
    Registry,
    check_no_required_arguments,
    make_kind,
)
from windlass.errors import UnknownFlow
from windlass.flow.declare import Flow, without_first
from windlass.flow.engine import expand
from windlass.flow.operate.flow import Flows
from windlass.value.cron import Schedule
from windlass.value.duration import Duration

P = ParamSpec("P")


class FlowDeclarer:
    """`app.flow`: declares functions that draw flows."""

    def __init__(self, registry: Registry, flows: Flows) -> None:
        self._registry = registry
        self._flows = flows

    @overload
    def __call__(self, function: Callable[Concatenate[Any, P], object], /) -> Flow[P]: ...

    @overload
    def __call__(
        self,
        /,
        *,
        name: str | None = None,
        keep: Duration | None = None,
        priority: int = 0,
        cron: str | None = None,
        tz: str = "UTC",
    ) -> Callable[[Callable[Concatenate[Any, P], object]], Flow[P]]: ...

    def __call__(
        self,
        function: Callable[..., object] | None = None,
        /,
        *,
        name: str | None = None,
        keep: Duration | None = None,
        priority: int = 0,
        cron: str | None = None,
        tz: str = "UTC",
    ) -> Any:
        """Declare a function that draws the nodes of a flow on its first argument.

        A run is kept for a week after its end unless `keep` says otherwise. With `cron` it is also
        started by a schedule.
        """
        options = Options(name=name, keep=keep, priority=priority)

        def declare(function: Callable[..., object]) -> Flow[...]:
            flow = Flow[...](self._flows, self.add(function, options))
            if cron is not None:
                self.schedule(flow, Options(schedule=Schedule(cron, tz)))
            return flow

        return declare if function is None else declare(function)

    def add(self, function: Callable[..., object], options: Options) -> Kind:
        """Declare the kind whose tasks are nested flows, and whose runs are started."""
        kind = make_flow(function, options)
        self._registry.add(kind)
        return kind

    def schedule(self, flow: Flow[...], options: Options) -> Flow[...]:
        """Have a flow be started by a schedule, once for each turn."""
        check_no_required_arguments(flow.kind, self._registry.get(flow.kind).arguments)

        def start() -> int:
            turn = context().due_at
            return flow.using(key=f"cron {turn.isoformat()}").start().id

        start.__name__ = f"{flow.kind} cron"
        self._registry.add(make_kind(start, replace(options, name=options.name or start.__name__)))
        return flow

    def get(self, name: str) -> Flow[...]:
        """The handle of a declared flow, or of a template that was read."""
        kind = self._registry.kinds.get(name) or self._registry.templates.get(name)
        if kind is None or kind.draw is None:
            known = sorted(each.name for each in self._registry.kinds.values() if each.draw)
            raise UnknownFlow(
                f"flow {name!r} is not declared in this app; declared: {', '.join(known) or 'none'}"
            )
        return Flow[...](self._flows, kind)

    @property
    def names(self) -> list[str]:
        """The flows that are declared."""
        return sorted(name for name, kind in self._registry.kinds.items() if kind.draw is not None)


def make_flow(function: Callable[..., object], options: Options) -> Kind:
    """The kind that a function that draws becomes."""

    def runs(*args: object, **kwargs: object) -> object:
        return expand(current.get(), function, *args, **kwargs)

    return make_kind(without_first(function, runs), replace(options, draw=function))
