"""A request that waits for its own answer, on a thread or in an event loop."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass

from windlass.ledger.model.ledger import Confirm, GiveBack, Outcome, Request, Undo

# How many lines an undo gives back is unknown before they are read.
WEIGHT_OF_UNDO = 100


@dataclass(slots=True, eq=False)
class Pending:
    """A request and the future that its caller waits for."""

    request: Request
    answer: Future[Outcome] | asyncio.Future[Outcome]
    loop: asyncio.AbstractEventLoop | None = None
    # When its rows were first found locked.
    blocked_since: float | None = None

    @property
    def weight(self) -> int:
        """About how many rows it needs."""
        match self.request:
            case Undo():
                return WEIGHT_OF_UNDO
            case Confirm():
                return 1
        return len(self.request.lines)

    @property
    def keys(self) -> set[tuple[str, str]]:
        """The rows that it is known to need."""
        found: set[tuple[str, str]] = set()
        if not isinstance(self.request, Undo | Confirm):
            found.update(("sku", sku) for sku in self.request.lines)
        if isinstance(self.request, GiveBack | Undo | Confirm):
            found.add(("deduction", self.request.deduction))
        return found

    def fail(self, problem: BaseException) -> None:
        """Raise an error in the caller."""
        if isinstance(self.answer, Future):
            if not self.answer.done():
                self.answer.set_exception(problem)
        elif self.loop is not None:
            _tell(self.loop, _fail, self.answer, problem)


def answer_all(group: Sequence[Pending], outcomes: Sequence[Outcome]) -> None:
    """Give each caller its answer; an event loop is woken once for all of its callers."""
    by_loop: dict[asyncio.AbstractEventLoop, list[tuple[asyncio.Future[Outcome], Outcome]]]
    by_loop = defaultdict(list)
    for pending, outcome in zip(group, outcomes, strict=True):
        if not isinstance(pending.answer, Future):
            assert pending.loop is not None
            by_loop[pending.loop].append((pending.answer, outcome))
        elif not pending.answer.done():
            pending.answer.set_result(outcome)
    for loop, answers in by_loop.items():
        _tell(loop, _settle, answers)


def _tell(loop: asyncio.AbstractEventLoop, call: Callable[..., None], *of: object) -> None:
    # If the loop is closed, nobody waits any more.
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(call, *of)


def _settle(answers: Sequence[tuple[asyncio.Future[Outcome], Outcome]]) -> None:
    for answer, outcome in answers:
        if not answer.done():
            answer.set_result(outcome)


def _fail(answer: asyncio.Future[Outcome], problem: BaseException) -> None:
    if not answer.done():
        answer.set_exception(problem)
