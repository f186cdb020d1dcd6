"""Visits: have one item run now, and wait for it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from functools import partial

from windlass.clock import SECOND
from windlass.core.face import Runnable
from windlass.core.fetch.one import Only
from windlass.core.shard.fleet import Fleet
from windlass.core.shard.shard import Shard
from windlass.core.task.kind import Kind
from windlass.errors import ItemNotFound
from windlass.operate.fan_out import shard_of_item
from windlass.rolling.model import Item
from windlass.rolling.operate.request import VisitRequest
from windlass.rolling.store import item as rolling
from windlass.value.twin import in_thread, twin

LET_GO_SECONDS = 5.0
SEEK_TRIES = 3


class Visits:
    """Has single items visited, in whichever shard they are."""

    def __init__(
        self,
        fleet: Fleet,
        *,
        worker_for: Callable[[Shard, Kind, Only], Runnable],
        dead_after: int,
    ) -> None:
        self._fleet = fleet
        self._worker_for = worker_for
        self._dead_after = dead_after

    def visit(self, kind: Kind, code: str, *, fresh: int | None, timeout: int) -> Item:
        """The item after a visit, or as it is if its last visit is that fresh."""
        for _ in range(SEEK_TRIES):
            try:
                return self._at(kind, code).visit(kind, code, fresh=fresh, timeout=timeout)
            except ItemNotFound:
                # It may have moved to another shard under us.
                if self._fleet.single is not None:
                    raise
        raise ItemNotFound(kind.name, code)

    async def avisit(self, kind: Kind, code: str, *, fresh: int | None, timeout: int) -> Item:
        """`visit`, awaited; if the caller runs it, then on this event loop."""
        for _ in range(SEEK_TRIES):
            try:
                visitor = await twin(self._at, kind, code)
                return await visitor.avisit(kind, code, fresh=fresh, timeout=timeout)
            except ItemNotFound:
                if self._fleet.single is not None:
                    raise
        raise ItemNotFound(kind.name, code)

    def _at(self, kind: Kind, code: str) -> Visitor:
        single = self._fleet.single
        shard = single or shard_of_item(self._fleet, kind, code)
        if shard is None:
            raise ItemNotFound(kind.name, code)
        return Visitor(
            shard,
            worker_for=partial(self._worker_for, shard),
            dead_after=self._dead_after,
        )


class Visitor:
    """Has single items of one shard visited."""

    def __init__(
        self,
        shard: Shard,
        *,
        worker_for: Callable[[Kind, Only], Runnable],
        dead_after: int,
    ) -> None:
        self._shard = shard
        self._database = shard.database
        self._worker_for = worker_for
        self._dead_after = dead_after

    def visit(self, kind: Kind, code: str, *, fresh: int | None, timeout: int) -> Item:
        """The item after a visit, or as it is if its last visit is that fresh."""
        deadline = time.monotonic() + timeout / SECOND
        wish = self._wish(kind, code)
        item = wish.item()
        if wish.is_fresh(item, fresh):
            return item
        while True:
            if not self._ask(wish, kind, code):
                self._run_in_thread(kind, self._worker(wish, kind, code), deadline)
            visited = wish.wait(deadline)
            if visited is not None:
                return visited

    async def avisit(self, kind: Kind, code: str, *, fresh: int | None, timeout: int) -> Item:
        """`visit`, awaited; if the caller runs it, then on this event loop."""
        deadline = time.monotonic() + timeout / SECOND
        wish = self._wish(kind, code)
        item = await twin(wish.item)
        if wish.is_fresh(item, fresh):
            return item
        while True:
            if not await twin(self._ask, wish, kind, code):
                worker = await twin(self._worker, wish, kind, code)
                if kind.is_async:
                    await self._run_here(worker, deadline)
                else:
                    await twin(self._run_in_thread, kind, worker, deadline)
            visited = await twin(wish.wait, deadline)
            if visited is not None:
                return visited

    def _wish(self, kind: Kind, code: str) -> VisitRequest:
        return VisitRequest(self._shard, kind, code, dead_after=self._dead_after)

    def _ask(self, wish: VisitRequest, kind: Kind, code: str) -> bool:
        """Have a live worker run it next; False if there is none."""
        if not wish.has_worker():
            return False
        self._shard.items.hurry(kind, [code])
        return True

    def _worker(self, wish: VisitRequest, kind: Kind, code: str) -> Runnable:
        number = self._database.read(lambda connection: rolling.find(connection, kind.name, code))
        if number is None:
            raise ItemNotFound(kind.name, code)
        return self._worker_for(kind, Only(number, wish.is_rested))

    @staticmethod
    def _run_in_thread(kind: Kind, worker: Runnable, deadline: float) -> None:
        """Run it until then. A handler that cannot be stopped goes on, and is recorded."""
        running = in_thread(worker.run)
        try:
            running.result(max(0.0, deadline - time.monotonic()))
        except TimeoutError:
            if kind.is_async:
                _stop_at_once(worker)
                running.result(LET_GO_SECONDS)

    @staticmethod
    async def _run_here(worker: Runnable, deadline: float) -> None:
        """Run it on this event loop until then, or until the caller is cancelled."""
        running = asyncio.ensure_future(worker.run())
        try:
            await asyncio.wait({running}, timeout=max(0.0, deadline - time.monotonic()))
        finally:
            if not running.done():
                _stop_at_once(worker)
            await running


def _stop_at_once(worker: Runnable) -> None:
    """Asked twice, it waits for nothing: the handler is cancelled, its row handed back."""
    worker.stop()
    worker.stop()
