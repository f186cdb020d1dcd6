"""`Sweep`: the handle of a declared sweep."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Generic, ParamSpec, Protocol, TypeVar, cast

from windlass.core.task.kind import (
    CommonOptions,
    Kind,
    RetryOptions,
    SpeedOptions,
    optional_duration,
    positive,
)
from windlass.errors import BadDeclaration
from windlass.source.contract import SweepSource
from windlass.source.key_text import Key
from windlass.sweep.model import (
    Progress,
    RangeView,
    RoundView,
    SetAside,
    SweepTerms,
    SweepVisit,
    check_limit,
    check_order,
    check_ranges,
    declared_ranges,
)
from windlass.value.duration import Duration, parse_duration
from windlass.value.payload import Arguments
from windlass.value.twin import awaited
from windlass.view.audit import Audit

P = ParamSpec("P")
R = TypeVar("R")

VISIT_TIMEOUT = "30s"
FAILURES_SHOWN = 1_000
ROUNDS_SHOWN = 20


class SweepOperations(Protocol):
    """What a handle needs of the sweeps of its app."""

    def ranges(self, kind: Kind) -> list[RangeView]: ...
    def split(self, kind: Kind, count: int) -> int: ...
    def start(self, kind: Kind) -> int: ...
    def progress(self, kind: Kind) -> Progress: ...
    def rounds(self, kind: Kind, *, limit: int) -> list[RoundView]: ...
    def failures(self, kind: Kind, *, limit: int) -> list[SetAside]: ...
    def retry_failures(self, kind: Kind) -> int: ...
    def audit(self, kind: Kind) -> Audit: ...
    def visit(self, kind: Kind, key: Key, *, fresh: int | None, timeout: int) -> SweepVisit: ...
    async def avisit(
        self, kind: Kind, key: Key, *, fresh: int | None, timeout: int
    ) -> SweepVisit: ...


class SwitchOperations(Protocol):
    """What a handle needs of the switches of its app."""

    def pause(self, kind: str, *, reason: str = "", who: str | None = None) -> None: ...
    def resume(self, kind: str, *, who: str | None = None) -> None: ...


class SweepOptions(CommonOptions, RetryOptions, SpeedOptions, total=False):
    """The options of a sweep, beside how it cuts its source."""


class Sweep(Generic[P, R]):
    """A declared sweep. Calling it just calls the function."""

    def __init__(self, sweeps: SweepOperations, switches: SwitchOperations, kind: Kind) -> None:
        self._sweeps = sweeps
        self._switches = switches
        self._kind = kind
        functools.update_wrapper(cast(Any, self), kind.function)

    @property
    def kind(self) -> str:
        """Its name."""
        return self._kind.name

    def ranges(self) -> list[RangeView]:
        """The ranges of the current or the last round, in the order of their keys."""
        return self._sweeps.ranges(self._kind)

    def split(self, ranges: int) -> int:
        """Change the number of ranges, in this round and in future ones; how many there are then.

        It may run or be paused. To get more, open ranges are cut, the largest first. To get fewer,
        neighbours that were never begun are merged. A range with one key left cannot be cut and a
        begun one is not merged, so the result may be another number.
        """
        return self._sweeps.split(self._kind, check_ranges(self._kind.name, ranges))

    def start(self) -> int:
        """Begin a round now, unless one runs; its number."""
        return self._sweeps.start(self._kind)

    def pause(self, reason: str = "", *, who: str | None = None) -> None:
        """Start no more items until it is resumed; the ranges keep their breakpoints."""
        self._switches.pause(self._kind.name, reason=reason, who=who)

    def resume(self, *, who: str | None = None) -> None:
        """Continue from the breakpoints, and close the breaker if it is open."""
        self._switches.resume(self._kind.name, who=who)

    def progress(self) -> Progress:
        """How far the round is, how fast, and when it will end; totals are estimates."""
        return self._sweeps.progress(self._kind)

    def rounds(self, limit: int = ROUNDS_SHOWN) -> list[RoundView]:
        """The rounds that ended, newest first."""
        return self._sweeps.rounds(self._kind, limit=check_limit(limit))

    def failures(self, limit: int = FAILURES_SHOWN) -> list[SetAside]:
        """Failed items, newest first."""
        return self._sweeps.failures(self._kind, limit=check_limit(limit))

    def retry_failures(self) -> int:
        """Retry all failed items; how many there are.

        Live workers run them. If there are none, this process does, and the call waits for it.
        """
        return self._sweeps.retry_failures(self._kind)

    def audit(self) -> Audit:
        """Whether the ranges cover all keys: no gap and no overlap, across all splits."""
        return self._sweeps.audit(self._kind)

    def visit(
        self, key: Key, *, fresh: Duration | None = None, timeout: Duration = VISIT_TIMEOUT
    ) -> SweepVisit:
        """Run the item with this key now, in this process, and return its result.

        If its last visit is at most `fresh` ago, it returns that result. Only visits count here: a
        sweep keeps no row for each item that a round ran. A visit counts against the rate. Raises
        ResultTimeout, ItemNotFound, or HeldBack if the sweep is paused or its breaker is open.
        """
        fresh_for, wait_for = self._durations(fresh, timeout)
        return self._sweeps.visit(self._kind, key, fresh=fresh_for, timeout=wait_for)

    aranges = awaited(ranges)
    asplit = awaited(split)
    astart = awaited(start)
    apause = awaited(pause)
    aresume = awaited(resume)
    aprogress = awaited(progress)
    arounds = awaited(rounds)
    afailures = awaited(failures)
    aretry_failures = awaited(retry_failures)
    aaudit = awaited(audit)

    async def avisit(
        self, key: Key, *, fresh: Duration | None = None, timeout: Duration = VISIT_TIMEOUT
    ) -> SweepVisit:
        """`visit`, awaited; an async handler runs on this event loop."""
        fresh_for, wait_for = self._durations(fresh, timeout)
        return await self._sweeps.avisit(self._kind, key, fresh=fresh_for, timeout=wait_for)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        function = cast(Callable[P, R], self._kind.function)
        return function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<sweep {self._kind.name!r}>"

    def _durations(self, fresh: Duration | None, timeout: Duration) -> tuple[int | None, int]:
        what = f"sweep {self._kind.name!r}"
        return (
            None if fresh is None else parse_duration(fresh, what=f"{what}: fresh", zero=True),
            parse_duration(timeout, what=f"{what}: timeout"),
        )


def make_sweep(
    source: object,
    *,
    ranges: int,
    redo: Duration | None,
    batch: int,
    order: str,
    many: bool,
    key_only: bool,
    steal: bool,
) -> SweepTerms:
    """How a source is swept, or an error that names the option that is wrong."""
    if not isinstance(source, SweepSource):
        raise BadDeclaration(
            f"sweep: {source!r} is not a source; give a Table, Keys, Lines, Csv or Pages, or an "
            "object that has bounds, middle and read"
        )
    return SweepTerms(
        source=source,
        ranges=declared_ranges(ranges),
        redo=optional_duration(redo, "sweep: redo", zero=True),
        batch=positive(batch, "sweep: batch") or 1,
        order=check_order(order),
        many=bool(many),
        key_only=bool(key_only),
        steal=bool(steal),
    )


def check_takes_a_row(name: str, arguments: Arguments) -> None:
    """Refuse a handler that cannot be called with a row."""
    try:
        arguments.signature.bind(object())
    except TypeError as problem:
        raise BadDeclaration(
            f"sweep {name!r}: its handler is called with one argument, a row of the source; "
            f"write def {name}(row)"
        ) from problem
