"""The handle of a sweep: how far it is, and what may be done with it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Generic, ParamSpec, Protocol, TypeVar, cast

from windlass.core.task.kind import Kind
from windlass.sweep.model import (
    Progress,
    RangeView,
    RoundView,
    SetAside,
    SweepVisit,
    check_limit,
    check_ranges,
)
from windlass.value.audit import Audit
from windlass.value.duration import Duration, parse_duration
from windlass.value.key import Key
from windlass.value.twin import twin

P = ParamSpec("P")
R = TypeVar("R")

VISIT_TIMEOUT = "30s"
FAILURES_SHOWN = 1_000
ROUNDS_SHOWN = 20


class SweepDesk(Protocol):
    """What the handle of a sweep needs of the app."""

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


class SwitchDesk(Protocol):
    """What pausing needs of the app."""

    def pause(self, kind: str, *, reason: str = "", who: str | None = None) -> None: ...
    def resume(self, kind: str, *, who: str | None = None) -> None: ...


class Sweep(Generic[P, R]):
    """A declared sweep. Calling it just calls the function."""

    def __init__(self, desk: SweepDesk, switches: SwitchDesk, kind: Kind) -> None:
        self._desk = desk
        self._switches = switches
        self._kind = kind
        functools.update_wrapper(cast(Any, self), kind.function)

    @property
    def kind(self) -> str:
        """Its name."""
        return self._kind.name

    def ranges(self) -> list[RangeView]:
        """The ranges of the round that runs, or of the last one, as they follow each other."""
        return self._desk.ranges(self._kind)

    def split(self, ranges: int) -> int:
        """Have so many ranges in the round, and in those to come; how many there are then.

        Also while it runs or is paused. Ranges that are open are cut, the largest first; if there
        are too many, neighbours of which nothing was begun become one. A range with one key left
        cannot be cut, and one that was begun is not merged, so there may be fewer or more.
        """
        return self._desk.split(self._kind, check_ranges(self._kind.name, ranges))

    def start(self) -> int:
        """Begin a round now; its number. If one is running, that one goes on."""
        return self._desk.start(self._kind)

    def pause(self, reason: str = "", *, who: str | None = None) -> None:
        """Let nothing of it begin until it is resumed; ranges stay where they are."""
        self._switches.pause(self._kind.name, reason=reason, who=who)

    def resume(self, *, who: str | None = None) -> None:
        """Let it go on from where it is, and close its breaker if that is open."""
        self._switches.resume(self._kind.name, who=who)

    def progress(self) -> Progress:
        """How far the round is, how fast, and when it will be over; totals are estimates."""
        return self._desk.progress(self._kind)

    def rounds(self, limit: int = ROUNDS_SHOWN) -> list[RoundView]:
        """The rounds that ended, newest first."""
        return self._desk.rounds(self._kind, limit=check_limit(limit))

    def failures(self, limit: int = FAILURES_SHOWN) -> list[SetAside]:
        """Items that failed and were set aside, newest first."""
        return self._desk.failures(self._kind, limit=check_limit(limit))

    def retry_failures(self) -> int:
        """Have all items that were set aside run again; how many that are.

        Live workers run them; if there are none, the caller does, and waits for it.
        """
        return self._desk.retry_failures(self._kind)

    def audit(self) -> Audit:
        """Whether the ranges tile the key space: no gap and no overlap, across all splits."""
        return self._desk.audit(self._kind)

    def visit(
        self, key: Key, *, fresh: Duration | None = None, timeout: Duration = VISIT_TIMEOUT
    ) -> SweepVisit:
        """Have the item with this key run now, here, and wait for it; what came of it.

        Does nothing if its last visit is at most `fresh` ago. A sweep keeps no row for each item,
        so what the rounds did does not count as a visit. It counts against the rate. Raises
        ResultTimeout, ItemNotFound, or HeldBack if the sweep is paused or its breaker is open.
        """
        fresh_for, patience = self._wish(fresh, timeout)
        return self._desk.visit(self._kind, key, fresh=fresh_for, timeout=patience)

    async def aranges(self) -> list[RangeView]:
        """`ranges`, awaited."""
        return await twin(self.ranges)

    async def asplit(self, ranges: int) -> int:
        """`split`, awaited."""
        return await twin(self.split, ranges)

    async def astart(self) -> int:
        """`start`, awaited."""
        return await twin(self.start)

    async def apause(self, reason: str = "", *, who: str | None = None) -> None:
        """`pause`, awaited."""
        await twin(self.pause, reason, who=who)

    async def aresume(self, *, who: str | None = None) -> None:
        """`resume`, awaited."""
        await twin(self.resume, who=who)

    async def aprogress(self) -> Progress:
        """`progress`, awaited."""
        return await twin(self.progress)

    async def arounds(self, limit: int = ROUNDS_SHOWN) -> list[RoundView]:
        """`rounds`, awaited."""
        return await twin(self.rounds, limit)

    async def afailures(self, limit: int = FAILURES_SHOWN) -> list[SetAside]:
        """`failures`, awaited."""
        return await twin(self.failures, limit)

    async def aretry_failures(self) -> int:
        """`retry_failures`, awaited."""
        return await twin(self.retry_failures)

    async def aaudit(self) -> Audit:
        """`audit`, awaited."""
        return await twin(self.audit)

    async def avisit(
        self, key: Key, *, fresh: Duration | None = None, timeout: Duration = VISIT_TIMEOUT
    ) -> SweepVisit:
        """`visit`, awaited; an async handler runs on this event loop."""
        fresh_for, patience = self._wish(fresh, timeout)
        return await self._desk.avisit(self._kind, key, fresh=fresh_for, timeout=patience)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        function = cast(Callable[P, R], self._kind.function)
        return function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<sweep {self._kind.name!r}>"

    def _wish(self, fresh: Duration | None, timeout: Duration) -> tuple[int | None, int]:
        what = f"sweep {self._kind.name!r}"
        return (
            None if fresh is None else parse_duration(fresh, what=f"{what}: fresh", zero=True),
            parse_duration(timeout, what=f"{what}: timeout"),
        )
