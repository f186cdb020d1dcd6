"""Group commits: requests of concurrent callers share one transaction.

A row takes part in one transaction at a time, so callers that want the same product would wait for
each other's commits. Instead, requests that arrive during a transaction wait for its end, and the
next transaction has all of them. A caller that is alone waits for nobody, and uses its own thread.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from concurrent.futures import Future

from windlass.errors import Blocked, DatabaseUnavailable
from windlass.fork import watch_forks
from windlass.ledger.engine.pending import BlockedQueue, Execute, Pending, answer_all
from windlass.ledger.model.ledger import Outcome, Request

# How long to wait for the callers of the last group, which probably call again at once.
WINDOW_SECONDS = 0.002
# How long the thread waits for more to do.
IDLE_SECONDS = 5.0
MOST_REQUESTS = 500
MOST_LINES = 20_000


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
            answer_all(group, outcomes)
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


def _own(problem: DatabaseUnavailable) -> DatabaseUnavailable:
    """The same error for one of several callers, each of whom has a trace of its own."""
    own = DatabaseUnavailable(str(problem), missing=problem.missing)
    own.__cause__ = problem
    return own
