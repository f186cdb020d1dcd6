"""Items: find them in whichever shard they are, and visit one: have it run now, and wait for it.

A live worker runs it, or the caller itself if there is none. The caller never just calls the
handler: it joins as a worker that takes this one row by a written claim. So the item cannot run
twice at the same time, and the outcome is recorded as a visit.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import NamedTuple, TypeVar

from windlass.clock import SECOND, Clock, from_datetime
from windlass.core.face import Runnable
from windlass.core.fetch.claim import Only
from windlass.core.limit import store as limit_store
from windlass.core.limit.permit import store as permit_store
from windlass.core.limit.switch import downstream_holds, held_back, setting_of
from windlass.core.ring import store as ring_store
from windlass.core.ring.heartbeat import mark_dead
from windlass.core.ring.silence import overdue
from windlass.core.shard.fleet import Fleet
from windlass.core.shard.shard import Shard
from windlass.core.task.kind import Kind
from windlass.database.connection import Connection
from windlass.errors import HeldBack, ItemNotFound, ResultTimeout
from windlass.rolling import engine
from windlass.rolling.model import Item
from windlass.rolling.store import item as store
from windlass.value.period import VisitSoon, is_fresh
from windlass.value.status import Status
from windlass.value.twin import in_thread, twin
from windlass.view.listing import Listing

T = TypeVar("T")

FIRST_PAUSE = 0.005
LONGEST_PAUSE = 0.25
ASK_AGAIN_AFTER = 1.0
RESTED_AFTER = 5 * SECOND
CANCEL_SECONDS = 5.0
SEEK_TRIES = 3


class RollingTools(NamedTuple):
    """What the handles of all rolling kinds of an app work with."""

    fleet: Fleet
    clock: Clock
    # A worker that runs one row only.
    worker_for: Callable[[Shard, Kind, Only], Runnable]
    dead_after: int


def item(fleet: Fleet, kind: Kind, code: str) -> Item | None:
    """One item; None if there is none with that code."""
    located = _locate(fleet, kind, code)
    return None if located is None else located[1]


def items(fleet: Fleet, kind: Kind, *, prefix: str, after: str, limit: int) -> Listing[Item]:
    """Items whose codes begin with `prefix`, in the order of their codes, after `after`."""
    read = partial(store.items, kind=kind.name, prefix=prefix, after=after, limit=limit)
    found = fleet.fan_out(lambda shard: shard.database.read(read))
    # An item that is being moved is in two shards for a moment.
    once = {each.code: each for part in found.values for each in part}
    page = [once[code] for code in sorted(once)][:limit]
    return Listing(page, found.missing, cursor=page[-1].code if len(page) == limit else None)


def _locate(fleet: Fleet, kind: Kind, code: str) -> tuple[Shard, Item] | None:
    """The shard that has an item, and the item."""
    for shard in fleet.route(kind.name, code).shards:
        found = shard.database.read(partial(store.item, kind=kind.name, code=code))
        if found is not None:
            return shard, found
    return None


def visit_soon(fleet: Fleet, kind: Kind, code: str, *, fresh: int | None) -> VisitSoon:
    """Have an item visited before all others, unless it is, or was at most `fresh` ago."""
    for shard in fleet.route(kind.name, code).shards:
        now = shard.clock.now()
        found = shard.database.read(partial(store.standing, kind=kind.name, code=code))
        if found is None:
            continue
        if fresh is not None and is_fresh(found.finished_at, fresh, now):
            return VisitSoon.FRESH
        if found.is_next(now):
            return VisitSoon.PENDING
        engine.hurry(shard, kind, [code])
        return VisitSoon.ASKED
    raise ItemNotFound(kind.name, code)


class ItemVisit:
    """One visit of one item, in whichever shard it is."""

    def __init__(self, tools: RollingTools, kind: Kind, code: str) -> None:
        self._tools = tools
        self._kind = kind
        self._code = code
        self._shard, self._asked_at = self._find()
        # When its last visit ended, if that is in the future: the clock stepped back since.
        self._future: datetime | None = None
        # Whether the window of the kind has been closed for so long that no worker still runs it.
        self.is_rested = False

    def visit(self, *, fresh: int | None, timeout: int) -> Item:
        """The item after a visit, or as it is if its last visit is at most `fresh` ago."""
        deadline = time.monotonic() + timeout / SECOND
        item = self._as_it_is()
        if self._is_fresh(item, fresh):
            return item
        while True:
            worker = self._worker_if_needed(deadline)
            if worker is not None:
                self._run_in_thread(worker, deadline)
            visited = self.wait(deadline)
            if visited is not None:
                return visited

    async def avisit(self, *, fresh: int | None, timeout: int) -> Item:
        """`visit`, awaited; if the caller runs it, then on this event loop."""
        deadline = time.monotonic() + timeout / SECOND
        item = await twin(self._as_it_is)
        if self._is_fresh(item, fresh):
            return item
        while True:
            worker = await twin(self._worker_if_needed, deadline)
            if worker is not None and self._kind.is_async:
                await _run_here(worker, deadline)
            elif worker is not None:
                await twin(self._run_in_thread, worker, deadline)
            visited = await twin(self.wait, deadline)
            if visited is not None:
                return visited

    def has_worker(self) -> bool:
        """Whether a live worker may run the kind now; HeldBack if the kind is paused or broken."""

        def look(
            connection: Connection,
        ) -> tuple[limit_store.SwitchRows, list[ring_store.WorkerView]]:
            return limit_store.switches(connection), ring_store.workers(connection)

        switches, workers = self._shard.database.read(look)
        found = switches.of(self._kind.name, self._kind.group)
        now = self._shard.clock.fresh()
        if found.pauses(now):
            why = held_back(self._kind, found, now=now)
            raise HeldBack(self._kind.name, why or "held back")
        if self._kind.breaker is not None and found.breaker.is_open:
            raise HeldBack(self._kind.name, "its breaker is open after too many errors in a row")
        why = downstream_holds(self._kind, switches, now=now)
        if why is not None:
            raise HeldBack(self._kind.name, why)
        is_served = any(
            view.lease_until >= now and self._kind.name in view.kinds for view in workers
        )
        if not is_served:
            self._mark_dead_holder()
        # A closed window holds back the round, but not the visit of one item.
        setting = setting_of(self._kind, found, now=now)
        rest = max(RESTED_AFTER, 2 * self._tools.dead_after)
        # For how long a window that an operator has set has been closed is unknown.
        was_set = found.window is not None
        self.is_rested = not (was_set or setting.is_open(now) or setting.is_open(now - rest))
        return is_served and setting.is_open(now)

    def wait(self, deadline: float) -> Item | None:
        """The item, once a visit has ended that was not over when this one was asked for.

        None after a while, to check whether the worker that was asked is still alive;
        ResultTimeout after the deadline.
        """
        pause, ask_again = FIRST_PAUSE, time.monotonic() + ASK_AGAIN_AFTER
        while time.monotonic() < ask_again:
            item = self._item()
            if self._is_done(item):
                return item
            left = deadline - time.monotonic()
            if left <= 0:
                raise ResultTimeout(
                    f"{self._kind.name!r}: the visit of {self._code!r} did not end in time; "
                    "if it runs it goes on and is recorded, if not it is still asked for"
                )
            time.sleep(min(pause, left))
            pause = min(pause * 1.5, LONGEST_PAUSE)
        return None

    def _find(self) -> tuple[Shard, int]:
        """The shard that has the item, and the time there."""
        shard = self._tools.fleet.single
        if shard is None:
            located = _locate(self._tools.fleet, self._kind, self._code)
            if located is None:
                raise ItemNotFound(self._kind.name, self._code)
            shard = located[0]
        return shard, shard.clock.now()

    def _item(self) -> Item:
        for _ in range(SEEK_TRIES):
            found = self._read(store.item)
            if found is not None:
                return found
            if self._tools.fleet.single is not None:
                break
            # It may have moved to another shard meanwhile.
            self._shard, self._asked_at = self._find()
        raise ItemNotFound(self._kind.name, self._code)

    def _read(self, query: Callable[[Connection, str, str], T]) -> T:
        return self._shard.database.read(
            lambda connection: query(connection, self._kind.name, self._code)
        )

    def _as_it_is(self) -> Item:
        """The item before the visit."""
        item = self._item()
        ended = item.finished_at
        if ended is not None and from_datetime(ended) > self._asked_at + SECOND:
            self._future = ended
        return item

    def _is_fresh(self, item: Item, fresh: int | None) -> bool:
        if fresh is None or item.finished_at is None:
            return False
        # If it is in the future, the clock stepped back since, and its age is not known.
        return -SECOND <= self._asked_at - from_datetime(item.finished_at) <= fresh

    def _is_done(self, item: Item) -> bool:
        return (
            item.status is not Status.RUNNING
            and item.finished_at is not None
            and from_datetime(item.finished_at) > self._asked_at
            and item.finished_at != self._future
        )

    def _mark_dead_holder(self) -> None:
        """A dead worker may hold the item or its bucket, and no other worker is there to notice."""
        holders, shard = set(self._read(store.holders)), self._shard
        has_permits = shard.database.schema.has(permit_store.MIGRATION)
        if has_permits and (self._kind.downstreams or self._kind.total_concurrency is not None):
            held = shard.database.read(permit_store.all_holdings)
            holders |= {each.worker for listed in held.values() for each in listed}
        silent = overdue(
            shard.database,
            shard.clock,
            dead_after=self._tools.dead_after,
            among=lambda view: view.id in holders,
        )
        for number, lease in silent.items():
            now = shard.clock.now()
            mark_dead(shard.database, shard.faces, number=number, now=now, lease=lease)

    def _worker_if_needed(self, deadline: float) -> Runnable | None:
        """Have a live worker run the item next; if there is none, a worker of our own for it."""
        if self.has_worker():
            engine.hurry(self._shard, self._kind, [self._code])
            return None
        number = self._read(store.find)
        if number is None:
            # It was removed, or has just moved.
            return None
        only = Only(number, self.is_rested, deadline)
        return self._tools.worker_for(self._shard, self._kind, only)

    def _run_in_thread(self, worker: Runnable, deadline: float) -> None:
        """Run it until the deadline. A sync handler cannot be stopped: it goes on, recorded."""
        running = in_thread(worker.run)
        try:
            running.result(max(0.0, deadline - time.monotonic()))
        except TimeoutError:
            if self._kind.is_async:
                _stop_at_once(worker)
                running.result(CANCEL_SECONDS)


async def _run_here(worker: Runnable, deadline: float) -> None:
    """Run it on this event loop until the deadline, or until the caller is cancelled."""
    running = asyncio.ensure_future(worker.run())
    try:
        await asyncio.wait({running}, timeout=max(0.0, deadline - time.monotonic()))
    finally:
        if not running.done():
            _stop_at_once(worker)
        await running


def _stop_at_once(worker: Runnable) -> None:
    """Asked twice, a worker waits for nothing: it cancels the handler and returns the row."""
    worker.stop()
    worker.stop()
