"""Visits of single keys of a sweep: the caller runs the item now, at the rate of the sweep."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from windlass.clock import SECOND, to_datetime
from windlass.core.finish.store import MINUTE
from windlass.core.limit import store as limit_store
from windlass.core.limit.gate import Breakers, Rates
from windlass.core.limit.store import Switch
from windlass.core.limit.switch import held_back, setting_of
from windlass.core.run.observe import observer_of
from windlass.core.run.ready import KindLoad, failure, success
from windlass.core.shard.shard import Shard
from windlass.core.task.current import current
from windlass.core.task.hook import Hooks
from windlass.core.task.kind import Kind
from windlass.database.connection import Connection
from windlass.database.dialect.base import Count
from windlass.errors import HeldBack, ItemNotFound, ResultTimeout
from windlass.source.contract import Key, encode_key, shown
from windlass.sweep.engine.range_runner import ItemRun, claimed
from windlass.sweep.engine.reader import find_row, known_by
from windlass.sweep.model import SweepVisit, terms_of
from windlass.sweep.store import failed_item
from windlass.sweep.store import sweep as store
from windlass.sweep.store.failed_item import FailedItem, Visited
from windlass.value.outcome import Failed, Outcome, Retried, Snoozed, Succeeded
from windlass.value.status import Status
from windlass.value.twin import in_background, in_thread, twin

LOOK_SECONDS = 0.01


@dataclass(frozen=True)
class PreparedVisit:
    """A visit that is about to begin; `text` is the encoded key."""

    key: Key
    text: str
    run: ItemRun
    deadline: float


@dataclass(frozen=True)
class SweepVisitor:
    """Visits keys of one sweep; `fresh` and `timeout` are in microseconds."""

    shard: Shard
    kind: Kind
    share: float
    fresh: int | None
    timeout: int
    hooks: Hooks

    def visit(self, key: Key) -> SweepVisit:
        """Run the item now, in this process, unless its last visit is at most `fresh` ago."""
        prepared = self._prepare(key)
        if isinstance(prepared, SweepVisit):
            return prepared
        # An async handler needs an event loop; a sync one must not have one around it.
        run = prepared.run
        if self.kind.is_async:
            done = in_thread(lambda: _acall(run))
        else:
            done = in_background(lambda: _call(run), "visit")
        try:
            outcome = done.result(max(0.0, prepared.deadline - time.monotonic()))
        except TimeoutError:
            raise self._late(key) from None
        return self._record(prepared, outcome)

    async def avisit(self, key: Key) -> SweepVisit:
        """`visit`, awaited; an async handler runs on this event loop."""
        if not self.kind.is_async:
            return await twin(self.visit, key)
        prepared = await twin(self._prepare, key)
        if isinstance(prepared, SweepVisit):
            return prepared
        left = max(0.0, prepared.deadline - time.monotonic())
        try:
            outcome = await asyncio.wait_for(_acall(prepared.run), left)
        except TimeoutError:
            raise self._late(key) from None
        return await twin(self._record, prepared, outcome)

    def _prepare(self, key: Key) -> PreparedVisit | SweepVisit:
        deadline = time.monotonic() + self.timeout / SECOND
        name, now = self.kind.name, self.shard.clock.now()
        text = encode_key(key, what=f"sweep {name!r}")
        held = self.shard.database.read(
            lambda connection: limit_store.switch_of(connection, name, self.kind.group)
        )
        last = self._fresh(text, now)
        if last is not None:
            return self._view(key, last, is_new=False)
        if held.pauses(now) or (self.kind.breaker is not None and held.breaker.is_open):
            raise HeldBack(name, held_back(self.kind, held, now=now) or "held back")
        row = find_row(self.kind, terms_of(self.kind).source, key)
        if row is None:
            raise ItemNotFound(name, shown(key), of="sweep")
        # A database may find "A7" for "a7", or 7 for "7": both are the same item.
        known = known_by(self.kind, row)
        own = encode_key(row[0], what=f"sweep {name!r}")
        last = None if own == text else self._fresh(own, now)
        if last is not None:
            return self._view(known, last, is_new=False)
        self._wait_for_rate(held, deadline, key)
        task = claimed(name, 0, batch=0, worker=0, now=now)
        load = KindLoad(self.kind, 1)
        load.observer = observer_of(self.kind, self.hooks)
        return PreparedVisit(known, own, ItemRun(task, load, [row]), deadline)

    def _fresh(self, text: str, now: int) -> Visited | None:
        """The last visit, if it is at most `fresh` ago."""
        if self.fresh is None:
            return None
        last = self.shard.database.read(
            lambda connection: failed_item.visited(connection, self.kind.name, text)
        )
        if last is None:
            return None
        # If it is in the future, the clock stepped back since, and its age is not known.
        return last if now - self.fresh <= last.visited_at <= now + SECOND else None

    def _wait_for_rate(self, held: Switch, deadline: float, key: Key) -> None:
        per_second = setting_of(self.kind, held, now=self.shard.clock.now()).rate
        if per_second is None:
            return
        name = self.kind.name
        rates = Rates(self.shard.database, share=self.share)
        rates.set(name, per_second)
        while not rates.available(name):
            if time.monotonic() > deadline:
                raise self._late(key)
            time.sleep(LOOK_SECONDS)
        rates.spend(name, 1)

    def _record(self, prepared: PreparedVisit, outcome: Outcome) -> SweepVisit:
        shard, kind, run = self.shard, self.kind, prepared.run
        now = shard.clock.now()
        error = _error_of(outcome)
        status = Status.SUCCEEDED if error is None else Status.FAILED
        what = Visited(now, status, error)
        number = shard.numbers.take()[0]
        run.outcome = outcome if isinstance(outcome, Succeeded) else Failed(error or "", "")
        breakers = Breakers(shard.database, shard.clock, shard.numbers, worker=lambda: 0)

        def work(connection: Connection) -> None:
            dialect = shard.database.dialect
            failed_item.note_visit(connection, dialect, kind.name, key=prepared.text, what=what)
            if error is None:
                failed_item.forget(connection, kind.name, prepared.text)
            else:
                row = store.get(connection, kind.name)
                failed = FailedItem(number, prepared.text, error, row.round if row else 0, 1)
                failed_item.add(connection, kind.name, [failed], now=now)
            count = Count(now // MINUTE, kind.name, 0, done=int(error is None))
            count.failed, count.milliseconds = int(error is not None), round(run.milliseconds)
            dialect.count(connection, [count])
            breakers.note(connection, [run], {run.task.id}, now=now)

        shard.database.write(work)
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
    with _running(run):
        try:
            limit = None if timeout is None else timeout / SECOND
            return success(await asyncio.wait_for(run.call(), limit))
        except Exception as error:
            return failure(run, error)


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
