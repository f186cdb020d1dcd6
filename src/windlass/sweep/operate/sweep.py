"""`Sweep`: the handle of a declared sweep, and what can be done with it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Generic, ParamSpec, TypeVar, cast, overload

from windlass.core.task.kind import Kind, optional_duration
from windlass.errors import BadInput
from windlass.source.contract import Key, SweepSource
from windlass.sweep.declare import check_limit
from windlass.sweep.engine.round import open_round
from windlass.sweep.model import SweepVisit, has_source, terms_of
from windlass.sweep.operate.run import SweepRun, find_run, runs_of, start_run
from windlass.sweep.operate.state import Sweeps, SweepState
from windlass.sweep.operate.visit import SweepVisitor
from windlass.value.calendar.until import Until
from windlass.value.duration import Duration, parse_duration
from windlass.value.period import VisitSoon
from windlass.value.twin import awaited, twin

P = ParamSpec("P")
R = TypeVar("R")

VISIT_TIMEOUT = "30s"
RUNS_SHOWN = 20


class Sweep(SweepState, Generic[P, R]):
    """A declared sweep. Calling it just calls the function."""

    def __init__(self, sweeps: Sweeps, kind: Kind) -> None:
        super().__init__(sweeps, kind)
        functools.update_wrapper(cast(Any, self), kind.function)

    @overload
    def start(self) -> int: ...

    @overload
    def start(self, *, source: SweepSource, key: str | None = None) -> SweepRun: ...

    def start(self, *, source: SweepSource | None = None, key: str | None = None) -> int | SweepRun:
        """Begin a round now, unless one runs; its number.

        With `source` it begins a run over that instead, beside all others, and returns the run.
        Every worker must be able to open the source. A second start with the same `key` returns
        the run that the first one began.
        """
        if source is not None:
            return start_run(self._sweeps, self._kind, source, key=key)
        if key is not None:
            raise BadInput(f"sweep {self.kind!r}: key= names a run; give its source=, too")
        if not has_source(self._kind):
            raise BadInput(
                f"sweep {self.kind!r} has no source of its own; write "
                f'{self.kind}.start(source=Csv("upload.csv", key="id"))'
            )
        shard = self._sweeps.declared(self._kind)
        row = self._row(shard)
        if row.is_running:
            return row.round
        number = open_round(shard, self._kind, row, source=terms_of(self._kind).source)
        shard.bell.ring_here()
        assert number is not None
        return number

    @overload
    async def astart(self) -> int: ...

    @overload
    async def astart(self, *, source: SweepSource, key: str | None = None) -> SweepRun: ...

    async def astart(
        self, *, source: SweepSource | None = None, key: str | None = None
    ) -> int | SweepRun:
        """`start`, awaited."""
        if source is None and key is None:
            return await twin(self.start)
        return await twin(lambda: self.start(source=cast(SweepSource, source), key=key))

    @property
    def declared_source(self) -> SweepSource:
        """The source that it declares."""
        return terms_of(self._kind).source

    def runs(self, limit: int = RUNS_SHOWN) -> list[SweepRun]:
        """The runs over sources that were given at their start, newest first."""
        return runs_of(self._sweeps, self._kind, limit=check_limit(limit))

    def run(self, number: int) -> SweepRun:
        """One of these runs, by its number."""
        return find_run(self._sweeps, self._kind, number)

    def pause(
        self, reason: str = "", *, until: Until | None = None, who: str | None = None
    ) -> None:
        """Start no more items until it is resumed, or `until`; ranges keep their breakpoints."""
        self._sweeps.switches.pause(self.kind, until=until, reason=reason, who=who)

    def resume(self, *, who: str | None = None) -> None:
        """Continue from the breakpoints, and close the breaker if it is open."""
        self._sweeps.switches.resume(self.kind, who=who)

    def visit(
        self, key: Key, *, fresh: Duration | None = None, timeout: Duration = VISIT_TIMEOUT
    ) -> SweepVisit:
        """Run the item with this key now, in this process, and return its result.

        If it was visited, or a round did it, at most `fresh` ago, it returns that result. Of many
        callers at once one runs it, and the others get its result. A visit counts against the rate.
        Raises ResultTimeout, ItemNotFound, or HeldBack if the sweep is paused, its breaker is open
        or the handler raised Overloaded.
        """
        return self._visitor(fresh, timeout).visit(key)

    def visit_soon(self, key: Key, *, fresh: Duration | None = None) -> VisitSoon:
        """Have a worker run the item with this key soon, and return at once.

        Does nothing if that is asked for already, or if it was done at most `fresh` ago, or if very
        many visits of the sweep wait. What holds the sweep back holds the visit back, too.
        """
        fresh_for = optional_duration(fresh, f"sweep {self.kind!r}: fresh", zero=True)
        shard = self._sweeps.at(self._kind)
        self._sweeps.asked.want_fresh(shard, self._kind, fresh_for)
        return self._sweeps.asked.ask(shard, self._kind, key, fresh=fresh_for)

    aruns = awaited(runs)
    arun = awaited(run)
    apause = awaited(pause)
    aresume = awaited(resume)
    avisit_soon = awaited(visit_soon)

    async def avisit(
        self, key: Key, *, fresh: Duration | None = None, timeout: Duration = VISIT_TIMEOUT
    ) -> SweepVisit:
        """`visit`, awaited; an async handler runs on this event loop."""
        visitor = await twin(self._visitor, fresh, timeout)
        return await visitor.avisit(key)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        function = cast(Callable[P, R], self._kind.function)
        return function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<sweep {self.kind!r}>"

    def _visitor(self, fresh: Duration | None, timeout: Duration) -> SweepVisitor:
        what = f"sweep {self.kind!r}"
        fresh_for = optional_duration(fresh, f"{what}: fresh", zero=True)
        shard = self._sweeps.at(self._kind)
        self._sweeps.asked.want_fresh(shard, self._kind, fresh_for)
        return SweepVisitor(
            shard,
            self._kind,
            self._sweeps.fleet,
            fresh=fresh_for,
            timeout=parse_duration(timeout, what=f"{what}: timeout"),
            hooks=self._sweeps.hooks,
            dead_after=self._sweeps.dead_after,
        )
