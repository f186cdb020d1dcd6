"""Items that were set aside and are tried again: claimed in batches, run beside the ranges."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection

from windlass.clock import SECOND, Clock
from windlass.core.run.load import KindLoad
from windlass.core.run.ready import Run
from windlass.core.run.runner import failure, success
from windlass.core.task.current import current
from windlass.core.task.kind import Kind
from windlass.errors import BadSource
from windlass.source.contract import SweepSource
from windlass.sweep.engine.item import ItemRun, Row, claimed
from windlass.sweep.engine.range_runner import Later, Tally
from windlass.sweep.engine.reader import name_of
from windlass.sweep.store import failed_item as store
from windlass.sweep.store.failed_item import Failure
from windlass.value.key import Key, decode_key
from windlass.value.outcome import Failed, Outcome, Retried, Snoozed

if TYPE_CHECKING:
    from windlass.sweep.engine.runner import Tools

AT_ONCE = 200


class Taken:
    """A batch of items with their rows; those that are gone, or cannot be found, have none."""

    def __init__(self, batch: int, worker: int, failures: list[Failure]) -> None:
        self.batch = batch
        self.worker = worker
        self.failures = failures
        self.rows: list[tuple[Failure, Key, Any]] = []
        self.gone: list[int] = []
        self.failed: dict[int, str] = {}


class Again:
    """The retries of one sweep in one worker."""

    def __init__(self, kind: Kind, load: KindLoad, clock: Clock, wake: Callable[[], None]) -> None:
        self._kind = kind
        self._load = load
        self._clock = clock
        self._wake = wake
        self.is_asked = False
        self._taking: Future[Taken] | None = None
        self._taken: Taken | None = None
        # Of what is taken, or is being taken.
        self.batch: int | None = None
        self._ready: deque[ItemRun] = deque()
        self._numbers: dict[int, int] = {}
        self._open = 0
        self.later = Later(clock)
        # What ended here, and of parts that are complete: not yet written down.
        self.tallies: list[Tally] = [Tally()]

    @property
    def is_busy(self) -> bool:
        """Whether it holds items."""
        return self._taking is not None or self._taken is not None

    @property
    def has_some(self) -> bool:
        """Whether something could begin."""
        return bool(self._ready or len(self.later))

    def step(
        self, tools: Tools, worker: int, source: SweepSource, threads: ThreadPoolExecutor
    ) -> None:
        """Take a batch if some wait, and settle the one that is done."""
        if self._taking is not None and self._taking.done():
            future, self._taking = self._taking, None
            taken = future.result()
            if taken.worker == worker:
                self._begin(taken)
        if tools.once and not (self._load.running or self._load.queued or self._ready):
            self._give_up_waiting()
        if self._taken is not None and not self._open:
            self._settle(tools)
        if self.is_asked and not self.is_busy and self._load.is_open:
            self.batch = batch = tools.numbers.take()[0]
            self._taking = threads.submit(self._take, tools, batch, worker, source)

    def issue(self, most: int) -> list[ItemRun]:
        """Up to so many runs that may begin now."""
        self._ready.extend(self.later.due())
        return [self._ready.popleft() for _ in range(min(most, len(self._ready)))]

    def landed(self, run: Run) -> None:
        """A run has ended; called under the lock of the rows in flight."""
        assert isinstance(run, ItemRun)
        outcome = run.outcome
        self.tallies[0].note(run, 1)
        if isinstance(outcome, Retried | Snoozed):
            self.later.put(run, outcome)
            return
        taken, number = self._taken, self._numbers.pop(run.number, None)
        if taken is None or number is None:
            return
        if isinstance(outcome, Failed):
            taken.failed[number] = outcome.error
        else:
            taken.gone.append(number)
        self._open -= 1
        self._wake()

    def taken_back(self, run: Run) -> None:
        """A run is not to begin now."""
        assert isinstance(run, ItemRun)
        self._ready.appendleft(run)

    def drop(self) -> None:
        """That heartbeat is over: what was taken is somebody else's."""
        self._taken = None
        self._numbers, self._open = {}, 0
        self._ready.clear()
        self.later = Later(self._clock)

    def _give_up_waiting(self) -> None:
        """One that ends when nothing is due does not wait for later tries."""
        if self._taken is None or self.later.is_due:
            return
        for _, run in self.later.give_up():
            number = self._numbers.pop(run.number)
            error = run.outcome.error if isinstance(run.outcome, Retried) else "it was put off"
            self._taken.failed[number] = error
            self._open -= 1

    def _take(self, tools: Tools, batch: int, worker: int, source: SweepSource) -> Taken:
        def work(connection: Connection) -> list[Failure]:
            return store.claim(
                connection,
                tools.database.dialect,
                self._kind.name,
                batch=batch,
                worker=worker,
                now=tools.clock.now(),
                limit=AT_ONCE,
            )

        taken = Taken(batch, worker, tools.database.write(work))
        for each in taken.failures:
            key = decode_key(each.key)
            try:
                found = find(self._kind, source, key)
            except Exception as problem:
                taken.failed[each.id] = f"the row could not be read: {problem}"[:1_000]
                continue
            if found is not None:
                taken.rows.append((each, key, found[1]))
            else:
                taken.gone.append(each.id)
        return taken

    def _begin(self, taken: Taken) -> None:
        self.is_asked = False
        if not taken.failures:
            return
        self._taken = taken
        now = self._clock.now()
        for each, key, row in taken.rows:
            task = claimed(
                self._kind.name, each.id, batch=taken.batch, worker=taken.worker, now=now
            )
            run = ItemRun(task, self._load, self, [(key, row)])
            self._numbers[run.number] = each.id
            self._ready.append(run)
        self._open = len(taken.rows)

    def _settle(self, tools: Tools) -> None:
        taken = self._taken
        assert taken is not None
        now = tools.clock.now()

        def work(connection: Connection) -> None:
            if tools.database.dialect.alive(connection, taken.worker):
                store.settle(
                    connection, batch=taken.batch, well=taken.gone, failed=taken.failed, now=now
                )

        tools.database.write(work)
        self._taken = None
        # There may be more than fitted into one batch.
        self.is_asked = len(taken.failures) == AT_ONCE


def find(kind: Kind, source: SweepSource, key: Key) -> Row | None:
    """The row of that key, with the key as the source itself has it."""
    terms = kind.sweep
    assert terms is not None
    locate: Callable[[Key], Row | None] | None = getattr(source, "locate", None)
    if locate is not None:
        return locate(key)
    look: Any = getattr(source, "find", None)
    if look is None:
        if terms.key_only:
            return key, None
        raise BadSource(
            f"{name_of(source)} has no find(key), so single rows cannot be had; give it one, or "
            f"declare {kind.name!r} with key_only=True"
        )
    row = look(key)
    return None if row is None else (key, row)


async def call_once(run: ItemRun) -> Outcome:
    """Call the handler outside of a worker, within its time; how it ended."""
    began = time.monotonic()
    token = current.set(run)
    timeout = run.kind.timeout
    try:
        result = run.call()
        if run.kind.is_async:
            result = await asyncio.wait_for(result, None if timeout is None else timeout / SECOND)
        return success(result)
    except Exception as error:
        return failure(run, error)
    finally:
        run.milliseconds = (time.monotonic() - began) * 1_000
        current.reset(token)
