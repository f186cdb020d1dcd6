"""Group commits: requests of concurrent callers travel in one transaction.

A row takes one transaction at a time, so callers that want the same product would wait for each
other's commits. Here whoever comes while a transaction is under way waits for it to end, together
with all others who came meanwhile, and the next transaction carries them all. A caller who is alone
waits for nobody, and uses no thread but its own.
"""

from __future__ import annotations

import asyncio
import threading
from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass

from windlass.errors import DatabaseUnavailable
from windlass.model.ledger import Confirm, Outcome, Request, Undo
from windlass.store.fork import watch_forks

# How long a crowd that was there a moment ago is waited for.
WINDOW_SECONDS = 0.002
MOST_REQUESTS = 500
MOST_LINES = 20_000

CarryOut = Callable[[Sequence[Request]], Sequence[Outcome]]


@dataclass(slots=True)
class Pending:
    """A request that waits for its own answer, on a thread or in an event loop."""

    request: Request
    answer: Future[Outcome] | asyncio.Future[Outcome]
    loop: asyncio.AbstractEventLoop | None = None

    @property
    def weight(self) -> int:
        """About how many rows it takes."""
        if isinstance(self.request, Undo | Confirm):
            return 1
        return len(self.request.lines)


class Batch:
    """Carries out requests, one transaction at a time, as many in each as have come."""

    def __init__(self, carry_out: CarryOut) -> None:
        self._carry_out = carry_out
        self._begin()
        watch_forks(self)

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._crowd = threading.Condition(self._lock)
        self._waiting: list[Pending] = []
        self._expected = 0
        self._is_led = False
        self._thread: ThreadPoolExecutor | None = None

    def submit(self, request: Request) -> Outcome:
        """The answer to a request."""
        answer: Future[Outcome] = Future()
        if self._join(Pending(request, answer)):
            try:
                self._carry(self._next())
            finally:
                self._pass_on()
        return answer.result()

    async def asubmit(self, request: Request) -> Outcome:
        """The answer to a request, awaited; no thread waits for it."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Outcome] = loop.create_future()
        if self._join(Pending(request, answer, loop)):
            self._pass_on()
        return await answer

    def close(self) -> None:
        """End the thread that carries requests for others, once they are carried out."""
        with self._lock:
            thread, self._thread = self._thread, None
        if thread is not None:
            thread.shutdown()

    def after_fork(self) -> None:
        """Forget the thread and the callers of the parent: they are not in this process."""
        self._begin()

    def _join(self, pending: Pending) -> bool:
        """Wait with the others; whether nobody leads them, so that it is up to the caller."""
        with self._lock:
            self._waiting.append(pending)
            if not self._is_led:
                self._is_led = True
                return True
            if len(self._waiting) == self._expected:
                self._crowd.notify()
            return False

    def _pass_on(self) -> None:
        """Let the thread lead those who wait, if there are any."""
        with self._lock:
            if not self._waiting:
                self._is_led = False
                return
            if self._thread is None:
                self._thread = ThreadPoolExecutor(1, thread_name_prefix="windlass-ledger")
            self._thread.submit(self._lead)

    def _lead(self) -> None:
        """Carry out whatever waits, until nothing does."""
        last = 0
        while True:
            with self._lock:
                if last > 1 and len(self._waiting) < last:
                    # Those who were answered just now are about to come again.
                    self._expected = last
                    self._crowd.wait(WINDOW_SECONDS)
                    self._expected = 0
                if not self._waiting:
                    self._is_led = False
                    return
            batch = self._next()
            last = len(batch)
            self._carry(batch)

    def _next(self) -> list[Pending]:
        with self._lock:
            count = weight = 0
            for pending in self._waiting[:MOST_REQUESTS]:
                weight += pending.weight
                if count and weight > MOST_LINES:
                    break
                count += 1
            batch, self._waiting = self._waiting[:count], self._waiting[count:]
        return batch

    def _carry(self, batch: Sequence[Pending]) -> None:
        try:
            outcomes = self._carry_out([pending.request for pending in batch])
        except DatabaseUnavailable as problem:
            for pending in batch:
                _fail(pending, problem)
        except Exception as problem:
            if len(batch) == 1:
                _fail(batch[0], problem)
                return
            # One of them may be the cause: none of the others is to suffer for it.
            for pending in batch:
                self._carry([pending])
        except BaseException:
            # The caller that leads, the first, is interrupted; the others go with the next.
            with self._lock:
                self._waiting[:0] = batch[1:]
            raise
        else:
            _answer(batch, outcomes)


def _answer(batch: Sequence[Pending], outcomes: Sequence[Outcome]) -> None:
    """Give everybody their own answer; an event loop is woken once for all in it."""
    by_loop: dict[asyncio.AbstractEventLoop, list[tuple[asyncio.Future[Outcome], Outcome]]]
    by_loop = defaultdict(list)
    for pending, outcome in zip(batch, outcomes, strict=True):
        if isinstance(pending.answer, Future):
            pending.answer.set_result(outcome)
        elif pending.loop is not None:
            by_loop[pending.loop].append((pending.answer, outcome))
    for loop, answers in by_loop.items():
        _tell(loop, _settle, answers)


def _settle(answers: Sequence[tuple[asyncio.Future[Outcome], Outcome]]) -> None:
    for answer, outcome in answers:
        if not answer.done():
            answer.set_result(outcome)


def _fail(pending: Pending, problem: BaseException) -> None:
    answer = pending.answer
    if isinstance(answer, Future):
        answer.set_exception(problem)
    elif pending.loop is not None:
        _tell(pending.loop, _settle_badly, answer, problem)


def _tell(loop: asyncio.AbstractEventLoop, call: Callable[..., None], *of: object) -> None:
    # A loop that is closed has nobody left who waits.
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(call, *of)


def _settle_badly(answer: asyncio.Future[Outcome], problem: BaseException) -> None:
    if not answer.done():
        answer.set_exception(problem)
