"""Declares flows: `@app.flow`, the handle that starts them, and flows that a schedule starts."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import Any, Concatenate, Generic, ParamSpec, cast, overload

from windlass.core.run.context import RunContext, current_run
from windlass.core.task.current import current
from windlass.core.task.declare import How, OnConflict
from windlass.core.task.kind import (
    Kind,
    Options,
    Registry,
    check_no_required_arguments,
    make_kind,
)
from windlass.errors import BadInput, UnknownFlow
from windlass.flow.declare import without_first
from windlass.flow.engine.grow import expand
from windlass.flow.model.run import FlowGraph
from windlass.flow.model.terms import FlowTerms, flow_of
from windlass.flow.operate.flow import Flows
from windlass.flow.operate.run import FlowRun
from windlass.value.cron import Schedule
from windlass.value.duration import Duration

P = ParamSpec("P")


class Starter(Generic[P]):
    """Starts one flow with given options."""

    def __init__(self, flows: Flows, kind: Kind, how: How) -> None:
        self._flows = flows
        self._kind = kind
        self._how = how

    def start(self, *args: P.args, **kwargs: P.kwargs) -> FlowRun:
        """Draw the flow with these arguments and write its nodes, in one transaction."""
        return self._flows.start(self._kind, (args, kwargs), self._how)

    async def astart(self, *args: P.args, **kwargs: P.kwargs) -> FlowRun:
        """`start`, awaited; also joins async connections and sessions."""
        return await self._flows.astart(self._kind, (args, kwargs), self._how)

    def using(
        self,
        *,
        key: str | None = None,
        delay: Duration | None = None,
        at: datetime | None = None,
        priority: int | None = None,
        conn: object = None,
        on_conflict: OnConflict | None = None,
    ) -> Starter[P]:
        """The same flow, started with other options.

        A `key` is started once: a second start returns the flow run that has it, or raises
        DuplicateKey with on_conflict="raise". `delay` or `at` say when the first nodes are due.
        `conn` joins the caller's transaction.
        """
        name, what = self._kind.name, f"flow {self._kind.name!r}"
        how = self._how.changed(
            name, what=what, key=key, delay=delay, at=at, priority=priority, conn=conn
        )
        if on_conflict is not None:
            if on_conflict not in ("skip", "raise"):
                raise BadInput(f"{what}: on_conflict={on_conflict!r} is not one of skip, raise")
            how = replace(how, on_conflict=on_conflict)
        return Starter(self._flows, self._kind, how)


class Flow(Starter[P]):
    """A declared flow. It can be a node of another flow."""

    def __init__(self, flows: Flows, kind: Kind) -> None:
        super().__init__(flows, kind, How())
        terms = flow_of(kind)
        functools.update_wrapper(cast(Any, self), terms.draw if terms else kind.function)

    @property
    def kind(self) -> str:
        """Its name."""
        return self._kind.name

    def graph(self, *args: P.args, **kwargs: P.kwargs) -> FlowGraph:
        """The graph that a start with these arguments would have; nothing is written."""
        self._kind.arguments.encode(args, kwargs, largest=sys.maxsize)
        drafts = self._flows.draw(self._kind, (args, kwargs))
        return FlowGraph.drawn([(draft.shape, draft.args, draft.kwargs) for draft in drafts])

    def __repr__(self) -> str:
        return f"<flow {self._kind.name!r}>"


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

        A flow run is kept for a week after its end, or for `keep`. With `cron` a schedule also
        starts it.
        """
        options = Options(name=name, keep=keep, priority=priority)

        def declare(function: Callable[..., object]) -> Flow[...]:
            kind = make_flow(function, options)
            self._registry.add(kind)
            flow = Flow[...](self._flows, kind)
            if cron is not None:
                self.schedule(flow, Options(schedule=Schedule(cron, tz)))
            return flow

        return declare if function is None else declare(function)

    def schedule(self, flow: Flow[...], options: Options) -> Flow[...]:
        """Let a schedule start a flow, once at each of its times."""
        check_no_required_arguments(flow.kind, self._registry.get(flow.kind).arguments)

        def start() -> int:
            turn = RunContext(current_run()).due_at
            return flow.using(key=f"cron {turn.isoformat()}").start().id

        start.__name__ = f"{flow.kind} cron"
        self._registry.add(make_kind(start, replace(options, name=options.name or start.__name__)))
        return flow

    def get(self, name: str) -> Flow[...]:
        """The handle of a declared flow, or of a template that was read."""
        kind = self._registry.kinds.get(name) or self._registry.templates.get(name)
        if kind is None or flow_of(kind) is None:
            raise UnknownFlow(
                f"flow {name!r} is not declared in this app; "
                f"declared: {', '.join(self.names) or 'none'}"
            )
        return Flow[...](self._flows, kind)

    @property
    def names(self) -> list[str]:
        """The declared flows."""
        return sorted(
            name for name, kind in self._registry.kinds.items() if flow_of(kind) is not None
        )


def make_flow(
    function: Callable[..., object], options: Options, *, version: int | None = None
) -> Kind:
    """The kind of a function that draws a flow; with a version, it is a template."""

    def runs(*args: object, **kwargs: object) -> object:
        return expand(current.get(), function, *args, **kwargs)

    terms = FlowTerms(function, version)
    return make_kind(without_first(function, runs), replace(options, face="flow", face_terms=terms))
