"""Visits of single keys of a sweep: the caller runs the item now, at the rate of the sweep.

Of many callers at once, in any thread or process, one runs it and the others wait for its result.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from concurrent.futures import wait
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from windlass.clock import SECOND, to_datetime
from windlass.core.face import Site
from windlass.core.finish.store import MINUTE
from windlass.core.limit import store as limit_store
from windlass.core.limit.caller import Passage
from windlass.core.limit.gate import Breakers
from windlass.core.limit.switch import downstream_holds, held_back
from windlass.core.run.observe import observer_of
from windlass.core.run.ready import KindLoad, failure, success
from windlass.core.shard.fleet import Fleet
from windlass.core.shard.home import homes_of
from windlass.core.shard.shard import Shard
from windlass.core.task.current import current
from windlass.core.task.hook import Hooks
from windlass.core.task.kind import Kind, Registry
from windlass.database.connection import Connection
from windlass.database.dialect.base import Count
from windlass.errors import HeldBack, ItemNotFound, ResultTimeout
from windlass.source.contract import Key, encode_key, shown
from windlass.sweep.engine.range_runner import ItemRun, claimed
from windlass.sweep.engine.reader import find_row, known_by
from windlass.sweep.engine.soon import record_visit
from windlass.sweep.model import SweepVisit, terms_of
from windlass.sweep.operate.hold import RENEW_SECONDS, KeyHold
from windlass.sweep.store import failed_item
from windlass.sweep.store import request as requests
from windlass.sweep.store.failed_item import Visited
from windlass.value.outcome import Failed, Outcome, Retried, Snoozed, Succeeded
from windlass.value.period import is_fresh
from windlass.value.status import Status
from windlass.value.twin import in_background, in_thread, twin

if TYPE_CHECKING:
    from windlass.core.run.isolate.call import Isolator

FIRST_PAUSE = 0.005
LONGEST_PAUSE = 0.25
CANCEL_SECONDS = 5.0


@dataclass(frozen=True)
class PreparedVisit:
    """A visit that is about to begin."""

    key: Key
    run: ItemRun
    hold: KeyHold
    deadline: float
    # Its way through the limits; it must leave when its handler has ended.
    passage: Passage


@dataclass(frozen=True)
class SweepVisitor:
    """Visits keys of one sweep; `fresh` and `timeout` are in microseconds."""

    shard: Shard
    kind: Kind
    fleet: Fleet
    fresh: int | None
    timeout: int
    hooks: Hooks
    dead_after: int

    def visit(self, key: Key) -> SweepVisit:
        """Run the item now, in this process, unless it was done at most `fresh` ago."""
        prepared = self._prepare(key)
        if isinstance(prepared, SweepVisit):
            return prepared
        # An async handler needs an event loop; a sync one must not have one around it. The outcome
        # is recorded there: a handler that goes on after the time-out still counts.
        if self.kind.is_async:
            done = in_thread(lambda: self._arun(prepared))
        else:
            done = in_background(lambda: self._run(prepared), "visit")
        while not done.done():
            left = prepared.deadline - time.monotonic()
            if left <= 0:
                raise self._late(key)
            wait([done], min(left, RENEW_SECONDS))
            prepared.hold.keep()
        return done.result()

    def _run(self, prepared: PreparedVisit) -> SweepVisit:
        # Not at the time-out: a sync handler goes on.
        try:
            outcome = _call(prepared.run)
        finally:
            prepared.passage.leave()
        return self._record(prepared, outcome)

    async def avisit(self, key: Key) -> SweepVisit:
        """`visit`, awaited; an async handler runs on this event loop."""
        if not self.kind.is_async:
            return await twin(self.visit, key)
        prepared = await twin(self._prepare, key)
        if isinstance(prepared, SweepVisit):
            return prepared
        running = asyncio.ensure_future(self._arun(prepared))
        try:
            while not running.done():
                left = prepared.deadline - time.monotonic()
                if left <= 0:
                    raise self._late(key)
                await asyncio.wait({running}, timeout=min(left, RENEW_SECONDS))
                await twin(prepared.hold.keep)
        finally:
            if not running.done():
                running.cancel()
                await asyncio.wait({running}, timeout=CANCEL_SECONDS)
                await twin(prepared.hold.give_up)
        return running.result()

    async def _arun(self, prepared: PreparedVisit) -> SweepVisit:
        try:
            outcome = await _acall(prepared.run)
        finally:
            await asyncio.shield(twin(prepared.passage.leave))
        return await twin(self._record, prepared, outcome)

    def _prepare(self, key: Key) -> PreparedVisit | SweepVisit:
        deadline = time.monotonic() + self.timeout / SECOND
        name, now = self.kind.name, self.shard.clock.now()
        text = encode_key(key, what=f"sweep {name!r}")
        switches = self.shard.database.read(limit_store.switches)
        held = switches.of(name, self.kind.group)
        last = self._fresh(text, now)
        if last is not None:
            return self._view(key, last, is_new=False)
        if held.pauses(now) or (self.kind.breaker is not None and held.breaker.is_open):
            raise HeldBack(name, held_back(self.kind, held, now=now) or "held back")
        why = downstream_holds(self.kind, switches, now=now)
        if why is not None:
            raise HeldBack(name, why)
        row = find_row(self.kind, terms_of(self.kind).source, key)
        if row is None:
            raise ItemNotFound(name, shown(key), of="sweep")
        # A database may find "A7" for "a7", or 7 for "7": both are the same item.
        known = known_by(self.kind, row)
        own = encode_key(row[0], what=f"sweep {name!r}")
        hold = KeyHold.of(self.shard, name, own)
        last = self._hold(hold, own, asked_at=now, deadline=deadline, key=key)
        if last is not None:
            return self._view(known, last, is_new=False)
        passage = self._pass(hold, deadline, key)
        task = claimed(name, 0, batch=0, worker=0, now=now)
        load = KindLoad(self.kind, 1)
        load.observer = observer_of(self.kind, self.hooks)
        return PreparedVisit(
            known, ItemRun(task, load, [row], kind=self.kind), hold, deadline, passage
        )

    def _hold(
        self, hold: KeyHold, own: str, *, asked_at: int, deadline: float, key: Key
    ) -> Visited | None:
        """Hold the key, or wait for the visit of it that runs, and return its result."""
        pause = FIRST_PAUSE
        has_waited = False
        while not hold.take():
            has_waited = True
            last = self._last(own)
            # It ended after this one was asked for: that is the result.
            if last is not None and last.visited_at >= asked_at:
                return last
            if time.monotonic() + pause > deadline:
                raise self._late(key)
            time.sleep(pause)
            pause = min(pause * 1.5, LONGEST_PAUSE)
        # Another visit may have ended between the last look and the hold.
        last = self._last(own) if has_waited else None
        if last is None or last.visited_at < asked_at:
            last = self._fresh(own, self.shard.clock.now())
        if last is not None:
            hold.give_up()
        return last

    def _last(self, text: str) -> Visited | None:
        name = self.kind.name
        return self.shard.database.read(
            lambda connection: failed_item.visited(connection, name, text)
        )

    def _fresh(self, text: str, now: int) -> Visited | None:
        """The last visit, or what a round did, if it is at most `fresh` ago."""
        if self.fresh is None:
            return None
        name = self.kind.name
        visited, done_at = self.shard.database.read(
            lambda connection: (
                failed_item.visited(connection, name, text),
                requests.done_at(connection, name, text),
            )
        )
        by_round = None if done_at is None else Visited(done_at, Status.SUCCEEDED, None)
        known = [each for each in (visited, by_round) if each is not None]
        last = max(known, key=lambda each: each.visited_at, default=None)
        return last if last is not None and is_fresh(last.visited_at, self.fresh, now) else None

    def _pass(self, hold: KeyHold, deadline: float, key: Key) -> Passage:
        """Wait until the limits of the kind let one run start."""
        try:
            passage = self._passage()
            if passage.enter(deadline, meanwhile=hold.keep) is None:
                raise self._late(key)
        except BaseException:
            hold.give_up()
            raise
        return passage

    def _passage(self) -> Passage:
        shard = self.shard
        return Passage(
            Site.at(shard, Registry()),
            self.kind,
            share=self.fleet.share,
            homes=homes_of(self.fleet, shard, [self.kind]),
            dead_after=self.dead_after,
        )

    def _record(self, prepared: PreparedVisit, outcome: Outcome) -> SweepVisit:
        shard, kind, run = self.shard, self.kind, prepared.run
        if isinstance(outcome, Snoozed) and outcome.overload is not None:
            prepared.hold.give_up()
            raise HeldBack(kind.name, f"what it calls is overloaded: {outcome.overload}")
        now = shard.clock.now()
        error = _error_of(outcome)
        status = Status.SUCCEEDED if error is None else Status.FAILED
        what = Visited(now, status, error)
        number = shard.numbers.take()[0]
        run.outcome = outcome if isinstance(outcome, Succeeded) else Failed(error or "", "")
        homes = homes_of(self.fleet, shard, [kind])
        breakers = Breakers(
            shard.database, shard.clock, shard.numbers, worker=lambda: 0, homes=homes
        )

        def work(connection: Connection) -> None:
            dialect = shard.database.dialect
            record_visit(connection, dialect, kind.name, prepared.hold.key, what, number=number)
            prepared.hold.end(connection)
            count = Count(now // MINUTE, kind.name, 0, done=int(error is None))
            count.failed, count.milliseconds = int(error is not None), round(run.milliseconds)
            dialect.count(connection, [count])
            breakers.note(connection, [run], {run.task.id}, now=now)

        shard.database.write(work)
        breakers.note_elsewhere([run], {run.task.id})
        return self._view(prepared.key, what, is_new=True)

    @staticmethod
    def _view(key: Key, what: Visited, *, is_new: bool) -> SweepVisit:
        return SweepVisit(
            key=key,
            status=what.status,
            error=what.error,
            visited_at=to_datetime(what.visited_at),
            is_new=is_new,
        )

    def _late(self, key: Key) -> ResultTimeout:
        return ResultTimeout(
            f"sweep {self.kind.name!r}: the visit of {shown(key)} did not end within "
            f"{self.timeout / SECOND:g} s"
        )


def _call(run: ItemRun) -> Outcome:
    """Call a sync handler outside of a worker; how it ended."""
    with _running(run):
        try:
            return success(run.call())
        except Exception as error:
            return failure(run, error)


async def _acall(run: ItemRun) -> Outcome:
    """Call an async handler outside of a worker, within its time-out; how it ended."""
    timeout = run.kind.timeout
    isolator = _isolator(run)
    with _running(run):
        try:
            limit = None if timeout is None else timeout / SECOND
            return success(await asyncio.wait_for(run.call(), limit))
        except Exception as error:
            return failure(run, error)
        finally:
            if isolator is not None:
                await isolator.close()


def _isolator(run: ItemRun) -> Isolator | None:
    """What has an isolated handler called in a child process, for this one call."""
    if run.kind.isolate is None:
        return None
    from windlass.core.run.isolate.call import Isolator

    made = Isolator(1)
    made.isolate(run.load)
    return made


@contextmanager
def _running(run: ItemRun) -> Iterator[None]:
    """Inside, `run` is the current run, and its time is taken."""
    began = time.monotonic()
    token = current.set(run)
    try:
        yield
    finally:
        run.milliseconds = (time.monotonic() - began) * 1_000
        current.reset(token)


def _error_of(outcome: Outcome) -> str | None:
    if isinstance(outcome, Failed | Retried):
        return outcome.error
    return "the handler put it off" if isinstance(outcome, Snoozed) else None
