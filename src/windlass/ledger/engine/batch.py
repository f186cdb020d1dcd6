"""Group commits: requests of concurrent callers travel in one transaction.

A row takes one transaction at a time, so callers that want the same product would wait for each
other's commits. Here whoever comes while a transaction is under way waits for it to end, together
with all others who came meanwhile, and the next transaction carries them all. A caller who is alone
waits for nobody, and uses no thread but its own.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from concurrent.futures import Future

from windlass.errors import Blocked, DatabaseUnavailable
from windlass.fork import watch_forks
from windlass.ledger.engine.pending import Pending, answer_all
from windlass.ledger.engine.siding import CarryOut, Siding
from windlass.ledger.model.ledger import Outcome, Request

# How long a crowd that was there a moment ago is waited for.
WINDOW_SECONDS = 0.002
# How long the thread waits for more to do.
IDLE_SECONDS = 5.0
MOST_REQUESTS = 500
MOST_LINES = 20_000


class Batch:
    """Carries out requests, one transaction at a time, as many in each as have come.

    Whoever finds nobody leading leads: its own request and those that wait with it. For those who
    come meanwhile a thread leads then, until nobody waits.
    """

    def __init__(self, carry_out: CarryOut) -> None:
        self._carry_out = carry_out
        self._siding = Siding(carry_out)
        self._begin()
        watch_forks(self)

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._crowd = threading.Condition(self._lock)
        self._waiting: list[Pending] = []
        self._expected = 0
        # A caller's request, or the thread.
        self._leader: Pending | threading.Thread | None = None
        self._thread: threading.Thread | None = None
        self._called = threading.Event()

    def submit(self, request: Request) -> Outcome:
        """The answer to a request."""
        answer: Future[Outcome] = Future()
        pending = Pending(request, answer)
        # Whatever interrupts the caller from here on, somebody leads those who wait.
        try:
            if self._join(pending):
                self._carry(self._next())
        finally:
            self._resign(pending)
        return answer.result()

    async def asubmit(self, request: Request) -> Outcome:
        """The answer to a request, awaited; no thread waits for it."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Outcome] = loop.create_future()
        pending = Pending(request, answer, loop)
        if self._join(pending):
            self._lead_aside()
        return await answer

    def close(self) -> None:
        """Wait until all that was asked for is answered."""
        with self._crowd:
            self._crowd.wait_for(lambda: self._leader is None)
        self._siding.close()

    def after_fork(self) -> None:
        """Forget the thread and the callers of the parent: they are not in this process."""
        self._begin()
        self._siding.begin()

    def _join(self, pending: Pending) -> bool:
        """Wait with the others; whether nobody leads them, so that it is up to the caller."""
        with self._lock:
            self._waiting.append(pending)
            if self._leader is None:
                self._leader = pending
                return True
            if len(self._waiting) == self._expected:
                self._crowd.notify()
            return False

    def _resign(self, pending: Pending) -> None:
        """If it led, let a thread lead those who wait."""
        with self._lock:
            if self._leader is not pending:
                return
            # One that was interrupted waits for nothing any more.
            self._waiting = [other for other in self._waiting if other is not pending]
            if not self._waiting:
                self._leader = None
                self._crowd.notify_all()
                return
        self._lead_aside()

    def _lead_aside(self) -> None:
        """Let a thread lead those who wait."""
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
        """Lead whenever there is somebody to lead; end when nobody came for a while."""
        while True:
            is_called = self._called.wait(IDLE_SECONDS)
            with self._lock:
                if not (is_called or self._called.is_set()):
                    self._thread = None
                    return
                self._called.clear()
            self._lead()

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
                    self._leader = None
                    self._crowd.notify_all()
                    return
            batch = self._next()
            last = len(batch)
            self._carry(batch)

    def _next(self) -> list[Pending]:
        """Those who wait, as many as one transaction takes."""
        with self._lock:
            count = weight = 0
            for pending in self._waiting[:MOST_REQUESTS]:
                weight += pending.weight
                if count and weight > MOST_LINES:
                    break
                count += 1
            batch, self._waiting = self._waiting[:count], self._waiting[count:]
        blocked = [pending for pending in batch if self._siding.concerns(pending)]
        for pending in blocked:
            self._siding.add(pending)
        return [pending for pending in batch if pending not in blocked] if blocked else batch

    def _carry(self, batch: Sequence[Pending]) -> None:
        if not batch:
            return
        try:
            outcomes = self._carry_out([pending.request for pending in batch])
            answer_all(batch, outcomes)
        except Blocked:
            self._part(batch)
        except DatabaseUnavailable as problem:
            for pending in batch:
                pending.fail(_own(problem))
        except Exception as problem:
            if len(batch) > 1:
                # One of them may be the cause: none of the others is to suffer for it.
                self._part(batch)
            else:
                batch[0].fail(problem)
        except BaseException:
            # The caller that leads is interrupted; what it has carried for others they get again.
            with self._lock:
                self._waiting[:0] = [pending for pending in batch if not pending.answer.done()]
            raise

    def _part(self, batch: Sequence[Pending]) -> None:
        """Carry each by itself, or have it wait aside if its rows are held by somebody else."""
        if len(batch) == 1:
            self._siding.add(batch[0])
            return
        left = list(batch)
        try:
            while left:
                if self._siding.concerns(left[0]):
                    self._siding.add(left[0])
                else:
                    self._carry(left[:1])
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
