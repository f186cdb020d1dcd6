"""Group commits: requests of concurrent callers share one transaction.

A row takes part in one transaction at a time, so callers that want the same product would wait for
each other's commits. Instead, requests that arrive during a transaction wait for its end, and the
next transaction has all of them. A caller that is alone waits for nobody, and uses its own thread.

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

from windlass.errors import Blocked, DatabaseUnavailable
from windlass.fork import watch_forks
from windlass.ledger.model.ledger import Confirm, Exchange, GiveBack, Outcome, Request, Undo

# How long to wait for the callers of the last group, which probably call again at once.
WINDOW_SECONDS = 0.002
# How long the thread waits for more to do.
IDLE_SECONDS = 5.0
MOST_REQUESTS = 500
MOST_LINES = 20_000
# How many lines an undo gives back is unknown before they are read.
WEIGHT_OF_UNDO = 100
LONGEST_BLOCKED_SECONDS = 60.0

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
            case Exchange(lines=lines, out=out):
                return len(lines) + len(out)
        return len(self.request.lines)

    @property
    def keys(self) -> set[tuple[str, str]]:
        """The rows that it is known to need."""
        found: set[tuple[str, str]] = set()
        if not isinstance(self.request, Undo | Confirm):
            found.update(("sku", sku) for sku in self.request.lines)
        if isinstance(self.request, Exchange):
            found.update(("sku", sku) for sku in self.request.out)
        if isinstance(self.request, GiveBack | Exchange | Undo | Confirm):
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
            if time.monotonic() - since < LONGEST_BLOCKED_SECONDS:
                return False
            pending.fail(problem)
        except Exception as problem:
            pending.fail(problem)
        else:
            _answer_all([pending], outcomes)
        with self._lock:
            self._waiting.remove(pending)
            self._keys -= Counter(pending.keys)
        return True


class GroupCommit:
    """Executes requests, one transaction at a time, with all requests that wait.

    A caller that finds no leader leads: it executes its own request and those that wait with it.
    Then a thread leads those who arrived meanwhile, until nobody waits.
    """

    def __init__(self, execute: Execute) -> None:
        self._execute = execute
        self._blocked = BlockedQueue(execute)
        self._begin()
        watch_forks(self)

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._arrival = threading.Condition(self._lock)
        self._waiting: list[Pending] = []
        self._expected = 0
        # The request of a caller, or the thread.
        self._leader: Pending | threading.Thread | None = None
        self._thread: threading.Thread | None = None
        self._called = threading.Event()

    def submit(self, request: Request) -> Outcome:
        """The answer to a request."""
        answer: Future[Outcome] = Future()
        pending = Pending(request, answer)
        # Whatever interrupts the caller from here on, those who wait keep a leader.
        try:
            if self._join(pending):
                self._run(self._next())
        finally:
            self._resign(pending)
        return answer.result()

    async def asubmit(self, request: Request) -> Outcome:
        """The answer to a request, awaited; no thread waits for it."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Outcome] = loop.create_future()
        pending = Pending(request, answer, loop)
        if self._join(pending):
            self._let_thread_lead()
        return await answer

    def close(self) -> None:
        """Wait until all requests are answered."""
        with self._arrival:
            self._arrival.wait_for(lambda: self._leader is None)
        self._blocked.close()

    def after_fork(self) -> None:
        """Forget the thread and the callers of the parent: they are not in this process."""
        self._begin()
        self._blocked.begin()

    def _join(self, pending: Pending) -> bool:
        """Wait with the others; whether nobody leads them, so that the caller must."""
        with self._lock:
            self._waiting.append(pending)
            if self._leader is None:
                self._leader = pending
                return True
            if len(self._waiting) == self._expected:
                self._arrival.notify()
            return False

    def _resign(self, pending: Pending) -> None:
        """If it led, let a thread lead those who wait."""
        with self._lock:
            if self._leader is not pending:
                return
            # An interrupted caller waits for nothing any more.
            self._waiting = [other for other in self._waiting if other is not pending]
            if not self._waiting:
                self._leader = None
                self._arrival.notify_all()
                return
        self._let_thread_lead()

    def _let_thread_lead(self) -> None:
        with self._lock:
            self._called.set()
            thread, is_new = self._thread, self._thread is None
            if thread is None:
                thread = threading.Thread(target=self._work, name="windlass-ledger", daemon=True)
            self._leader = self._thread = thread
        if is_new:
            try:
                thread.start()
            except RuntimeError:
                # The interpreter is about to end and starts no more threads.
                self._thread = None
                self._lead()

    def _work(self) -> None:
        """Lead whenever called; end after a while without a call."""
        while True:
            is_called = self._called.wait(IDLE_SECONDS)
            with self._lock:
                if not (is_called or self._called.is_set()):
                    self._thread = None
                    return
                self._called.clear()
            self._lead()

    def _lead(self) -> None:
        """Execute waiting requests until none is left."""
        last = 0
        while True:
            with self._lock:
                if last > 1 and len(self._waiting) < last:
                    self._expected = last
                    self._arrival.wait(WINDOW_SECONDS)
                    self._expected = 0
                if not self._waiting:
                    self._leader = None
                    self._arrival.notify_all()
                    return
            group = self._next()
            last = len(group)
            self._run(group)

    def _next(self) -> list[Pending]:
        """The next requests that wait, as many as one transaction takes."""
        with self._lock:
            count = weight = 0
            for pending in self._waiting[:MOST_REQUESTS]:
                weight += pending.weight
                if count and weight > MOST_LINES:
                    break
                count += 1
            group, self._waiting = self._waiting[:count], self._waiting[count:]
        blocked = [pending for pending in group if self._blocked.shares_a_row(pending)]
        for pending in blocked:
            self._blocked.add(pending)
        return [pending for pending in group if pending not in blocked] if blocked else group

    def _run(self, group: Sequence[Pending]) -> None:
        if not group:
            return
        try:
            outcomes = self._execute([pending.request for pending in group])
            _answer_all(group, outcomes)
        except Blocked:
            self._run_each(group)
        except DatabaseUnavailable as problem:
            for pending in group:
                pending.fail(_own(problem))
        except Exception as problem:
            if len(group) > 1:
                # One of them may be the cause, and must not fail the others.
                self._run_each(group)
            else:
                group[0].fail(problem)
        except BaseException:
            # The caller that leads is interrupted; the others are executed again.
            with self._lock:
                self._waiting[:0] = [pending for pending in group if not pending.answer.done()]
            raise

    def _run_each(self, group: Sequence[Pending]) -> None:
        """Run each request by itself, or queue it if others hold its rows."""
        if len(group) == 1:
            self._blocked.add(group[0])
            return
        left = list(group)
        try:
            while left:
                if self._blocked.shares_a_row(left[0]):
                    self._blocked.add(left[0])
                else:
                    self._run(left[:1])
                del left[0]
        except BaseException:
            with self._lock:
                self._waiting[:0] = left[1:]
            raise


def _answer_all(group: Sequence[Pending], outcomes: Sequence[Outcome]) -> None:
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


def _own(problem: DatabaseUnavailable) -> DatabaseUnavailable:
    """The same error for one of several callers, each of whom has a trace of its own."""
    own = DatabaseUnavailable(str(problem), missing=problem.missing)
    own.__cause__ = problem
    return own
