"""Declares flows with `@app.flow`, starts them, and finds their runs again."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any, Concatenate, Generic, ParamSpec, cast, overload

from windlass.core.run.context import RunContext, current_run
from windlass.core.shard.fleet import Fleet
from windlass.core.shard.route import Router, targets_of
from windlass.core.shard.shard import OUTAGES
from windlass.core.task.current import current
from windlass.core.task.declare import How, OnConflict, OnPast
from windlass.core.task.hook import MiddlewareContext, acall_through, call_through
from windlass.core.task.kind import (
    Kind,
    Registry,
    check_no_required_arguments,
    make_kind,
    optional_duration,
)
from windlass.core.task.option import Options
from windlass.core.task.store import task
from windlass.core.trace.provider import sending_of
from windlass.database.connection import is_async, on_its_thread
from windlass.errors import BadDeclaration, BadFlow, BadInput, DuplicateKey, UnknownFlow
from windlass.flow.declare import (
    Draft,
    Drawing,
    FlowTerms,
    draw_of,
    flow_of,
    timeout_of,
    version_of,
    without_first,
)
from windlass.flow.engine import NewRun, expand, start
from windlass.flow.model.node import RunHead, with_head
from windlass.flow.model.run import FlowGraph
from windlass.flow.operate import view
from windlass.flow.operate.run import FlowRun, RunFinder
from windlass.flow.operate.view import FlowRunView
from windlass.value.cron import schedule_of
from windlass.value.duration import Duration
from windlass.value.status import Status
from windlass.value.task import KEEP_FAILED, Call
from windlass.value.twin import twin
from windlass.view.listing import Listing

P = ParamSpec("P")
Arguments = tuple[tuple[object, ...], Mapping[str, object]]


@dataclass(eq=False, repr=False)
class Starter(Generic[P]):
    """Starts one flow with given options."""

    _flows: Flows
    _kind: Kind
    _how: How

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
        on_past: OnPast | None = None,
    ) -> Starter[P]:
        """The same flow, started with other options.

        A `key` is started once: a second start returns the flow run that has it, whose `created` is
        False, or raises DuplicateKey with on_conflict="raise". `delay` or `at` say when the first
        nodes are due; with `on_past="raise"` a moment that has passed is refused.
        `conn` joins the caller's transaction.
        """
        name, what = self._kind.name, f"flow {self._kind.name!r}"
        how = self._how.changed(
            name,
            what=what,
            key=key,
            delay=delay,
            at=at,
            priority=priority,
            conn=conn,
            on_past=on_past,
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
        functools.update_wrapper(cast(Any, self), draw_of(kind))

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


@dataclass(eq=False, repr=False)
class FlowDeclarer:
    """`app.flow`: declares functions that draw flows."""

    _registry: Registry
    _flows: Flows

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
        every: Duration | None = None,
        tz: str = "UTC",
        within: Duration | None = None,
        timeout: Duration | None = None,
        group: str | None = None,
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
        every: Duration | None = None,
        tz: str = "UTC",
        within: Duration | None = None,
        timeout: Duration | None = None,
        group: str | None = None,
    ) -> Any:
        """Declare a function that draws the nodes of a flow on its first argument.

        A flow run is kept for a week after its end, or for `keep`. With `cron`, or `every`, a
        schedule also starts it. `within` is how long a flow run takes at most; one that takes
        longer is told. One that takes longer than `timeout` is ended: it has failed, and nodes that
        have not ended are cancelled. A pause of the flow, or of its `group`, holds the nodes of its
        runs.
        """
        options = Options(name=name, keep=keep, priority=priority, within=within, group=group)
        ends = optional_duration(timeout, "flow: timeout")
        is_scheduled = cron is not None or every is not None
        schedule = schedule_of(cron, every, tz) if is_scheduled else None

        def declare(function: Callable[..., object]) -> Flow[...]:
            kind = make_flow(function, options, timeout=ends)
            self._registry.add(kind)
            flow = Flow[...](self._flows, kind)
            if schedule is not None:
                self.schedule(flow, Options(schedule=schedule, group=group))
            return flow

        return declare if function is None else declare(function)

    def schedule(self, flow: Flow[...], options: Options) -> Flow[...]:
        """Let a schedule start a flow, once at each of its times."""
        check_no_required_arguments(flow.kind, self._registry.get(flow.kind).arguments)
        if options.within is not None:
            raise BadDeclaration(
                f"cron of flow {flow.kind!r}: within={options.within!r} would only be about its "
                "start; give it to the flow: @app.flow(within=...)"
            )
        if options.isolate is not None:
            raise BadDeclaration(
                f"cron of flow {flow.kind!r}: isolate={options.isolate!r} would only be about its "
                "start; give it to the tasks of the flow"
            )

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


@dataclass(eq=False, repr=False)
class Flows:
    """All flows of an app."""

    finder: RunFinder
    _router: Router

    @property
    def _fleet(self) -> Fleet:
        return self.finder.fleet

    def draw(self, kind: Kind, arguments: Arguments) -> list[Draft]:
        """The nodes that a flow draws, checked."""
        drawing = Drawing(self.finder.registry)
        args, kwargs = arguments
        draw_of(kind)(drawing, *args, **kwargs)
        return drawing.checked()

    def start(self, kind: Kind, arguments: Arguments, how: How) -> FlowRun:
        """Write a flow run and its nodes, through all middlewares; traced, if the program traces.

        The span of the start stands for the flow run, which its nodes are children of.
        """
        sending = sending_of(kind.name, 1)
        if sending is None:
            return self._through(kind, arguments, how)
        with sending:
            run = self._through(kind, arguments, replace(how, trace=sending.carrier))
            sending.wrote(run.id)
            return run

    async def astart(self, kind: Kind, arguments: Arguments, how: How) -> FlowRun:
        """`start`, awaited; in the caller's transaction if `how` has an async connection."""
        sending = sending_of(kind.name, 1)
        if sending is None:
            return await self._athrough(kind, arguments, how)
        with sending:
            run = await self._athrough(kind, arguments, replace(how, trace=sending.carrier))
            sending.wrote(run.id)
            return run

    def _through(self, kind: Kind, arguments: Arguments, how: How) -> FlowRun:
        around = self.finder.registry.hooks.middlewares
        if not around:
            return self._start(kind, arguments, how)
        context = _enqueued(kind, arguments, how)
        return call_through(around, context, lambda: self._start(kind, arguments, how))

    async def _athrough(self, kind: Kind, arguments: Arguments, how: How) -> FlowRun:
        around = self.finder.registry.hooks.middlewares
        if not around:
            return await self._astart(kind, arguments, how)
        context = _enqueued(kind, arguments, how)
        return await acall_through(around, context, lambda: self._astart(kind, arguments, how))

    def _start(self, kind: Kind, arguments: Arguments, how: How) -> FlowRun:
        self._fleet.prepare()
        args, kwargs = arguments
        largest = self._fleet.shards[0].max_payload
        payload = kind.arguments.encode(args, kwargs, largest=largest)
        drafts = self.draw(kind, arguments)
        head = RunHead(
            keep=KEEP_FAILED if kind.terms.keep is None else kind.terms.keep,
            template=None if version_of(kind) is None else kind.name,
            version=version_of(kind),
            delay=how.delay or 0,
            at=how.at,
            timeout=timeout_of(kind),
        )
        new = NewRun(kind, with_head(payload, head), drafts, how, head)
        number = self._write(new)
        run = FlowRun(self.finder, number, created=number in new.written)
        meter = self.finder.registry.meter
        if meter is not None and run.created:
            meter.enqueue(kind.name, 1)
        return run

    async def _astart(self, kind: Kind, arguments: Arguments, how: How) -> FlowRun:
        if how.conn is None:
            return await twin(self._start, kind, arguments, how)
        if is_async(how.conn):
            await twin(self._fleet.prepare)
        return await on_its_thread(
            how.conn, lambda conn: self._start(kind, arguments, replace(how, conn=conn))
        )

    def ref(self, run: int) -> FlowRun:
        """A handle on a flow run that was started before, maybe elsewhere."""
        return FlowRun(self.finder, self.finder.find(run)[1].id)

    def run(self, run: int) -> FlowRunView:
        """One flow run."""
        return view.run(self.finder, run)

    def runs(
        self, *, kind: str | None = None, status: Status | None = None, limit: int = 50
    ) -> Listing[FlowRunView]:
        """Flow runs, newest first."""
        return view.newest(self.finder, kind=kind, status=status, limit=limit)

    def _write(self, new: NewRun) -> int:
        single = self._fleet.single
        if single is not None:
            return start(single, new)
        if new.how.key is not None:
            return self._fleet.keyed(partial(self._write_keyed, new, new.how.key))
        if new.how.conn is not None:
            shard = self._router.shard_of(new.how.conn)
        else:
            shard = next(iter(self._fleet.taking()), None) or self._fleet.shards[0]
        try:
            return start(shard, new)
        except OUTAGES as problem:
            what = f"flow {new.kind.name!r} was to start in"
            raise shard.unavailable(what, problem) from problem

    def _write_keyed(self, new: NewRun, key: str) -> int:
        name, how = new.kind.name, new.how
        roster = self._fleet.roster
        target = targets_of(self._fleet, roster, name, [key])[key]
        shard = target.shard
        if how.conn is not None and self._router.shard_of(how.conn) is not shard:
            raise BadFlow(
                f"flow {name!r}: key {key!r} belongs to {shard.name}, where conn is not; "
                "start it without conn, or without a key"
            )
        if not target.is_home:
            find = partial(task.find_keys, dialect=shard.database.dialect, kind=name, keys=[key])
            number, status = shard.database.read(find)[key]
            if how.on_conflict == "raise":
                raise DuplicateKey(name, key, task_id=number, status=str(status))
            return number
        return start(shard, new, guard=self._fleet.guard(shard, roster.number))


def _enqueued(kind: Kind, arguments: Arguments, how: How) -> MiddlewareContext:
    args, kwargs = arguments
    return MiddlewareContext("enqueue", kind.name, (Call(args, kwargs, how.key),))


def make_flow(
    function: Callable[..., object],
    options: Options,
    *,
    version: int | None = None,
    timeout: int | None = None,
) -> Kind:
    """The kind of a function that draws a flow; with a version, it is a template."""

    def runs(*args: object, **kwargs: object) -> object:
        return expand(current.get(), function, *args, **kwargs)

    terms = FlowTerms(function, version, timeout)
    return make_kind(without_first(function, runs), replace(options, face="flow", face_terms=terms))
