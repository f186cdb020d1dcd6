"""Requests that wait for their answers, on a thread or in an event loop.

A transaction of a caller may hold the row of a product for long, and may even wait for the answer
to another request of this process. Requests that need such a row leave the main queue for the
blocked one, and so do later ones that share a row with them, so that no other request waits for
them. There each is tried again by itself, in the order of arrival.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass

from windlass.errors import Blocked
from windlass.ledger.model.ledger import Confirm, GiveBack, Outcome, Request, Undo

# How many lines an undo gives back is unknown before they are read.
WEIGHT_OF_UNDO = 100
LONGEST_SECONDS = 60.0

Execute = Callable[[list[Request]], list[Outcome]]


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


class BlockedQueue:
    """Tries blocked requests until they are answered or have waited for too long."""

    def __init__(self, execute: Execute) -> None:
        self._execute = execute
        self.begin()

    def begin(self) -> None:
        """Start empty, also in a forked process."""
        self._lock = threading.Lock()
        self._waiting: list[Pending] = []
        self._keys: Counter[tuple[str, str]] = Counter()
        self._thread: threading.Thread | None = None

    def shares_a_row(self, pending: Pending) -> bool:
        """Whether a request needs a row that one in this queue needs."""
        return bool(self._keys) and not self._keys.keys().isdisjoint(pending.keys)

    def add(self, pending: Pending) -> None:
        """Queue a request."""
        pending.blocked_since = time.monotonic()
        with self._lock:
            self._waiting.append(pending)
            self._keys.update(pending.keys)
            if self._thread is None:
                thread = threading.Thread(
                    target=self._work, name="windlass-ledger-blocked", daemon=True
                )
                thread.start()
                self._thread = thread

    def close(self) -> None:
        """Wait until the queue is empty."""
        thread = self._thread
        if thread is not None:
            thread.join()

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._thread = None
                    return
                waiting = list(self._waiting)
            blocked: set[tuple[str, str]] = set()
            for pending in waiting:
                if blocked.isdisjoint(pending.keys) and not self._try(pending):
                    blocked |= pending.keys

    def _try(self, pending: Pending) -> bool:
        """Whether the request is answered, or has failed."""
        try:
            outcomes = self._execute([pending.request])
        except Blocked as problem:
            since = pending.blocked_since or 0.0
            if time.monotonic() - since < LONGEST_SECONDS:
                return False
            pending.fail(problem)
        except Exception as problem:
            pending.fail(problem)
        else:
            answer_all([pending], outcomes)
        with self._lock:
            self._waiting.remove(pending)
            self._keys -= Counter(pending.keys)
        return True


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
