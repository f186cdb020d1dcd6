"""Membership by etcd: a key with a lease for each worker, and a watch on all of them.

A session is one connection to one endpoint. It renews or grants the lease, puts the key, lists the
keys, and watches from the revision of that list, so that it misses no change. The last change may
come once more, which changes nothing. A watch that began after it would get no sign of progress
from etcd 3.5 until the next change, and would look as if it were cut off.

Any failure ends the session; the next one begins at the next endpoint with the same lease. A lost
lease or key is a failure, too: etcd may have lost those of other workers as well.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import threading
import time
from collections.abc import Coroutine
from concurrent.futures import Future
from itertools import cycle
from typing import Any

from windlass import telemetry
from windlass.clock import SECOND
from windlass.core.ring.member.address import Address
from windlass.core.ring.member.base import (
    LONGEST_PAUSE_SECONDS,
    Broken,
    LiveWorkers,
    Seat,
    in_short,
    pause_after,
    workers_in,
)
from windlass.core.ring.member.etcd_client import DELETE, PROGRESS, EtcdClient

LEAST_TTL_SECONDS = 2
TTL_PER_DEAD_AFTER = 0.4
RENEWALS_PER_TTL = 3
CLOSE_SECONDS = 1.0
END_SECONDS = 2.0


class EtcdStay:
    """Keeps one key alive, and watches all others."""

    def __init__(self, address: Address, seat: Seat, live: LiveWorkers, *, dead_after: int) -> None:
        self._address = address
        self._seat = seat
        self._prefix = f"{seat.folder}/".encode()
        self._live = live
        hosts = list(address.hosts)
        random.shuffle(hosts)
        self._hosts = len(hosts)
        self._endpoints = cycle(hosts)
        # etcd counts leases in whole seconds.
        self._ttl = max(LEAST_TTL_SECONDS, int(TTL_PER_DEAD_AFTER * dead_after / SECOND))
        self._lease: int | None = None
        self._workers: set[int] = set()
        self._is_silent = False
        self._ending = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._future: Future[None] | None = None
        self.entered = threading.Event()

    def start(self) -> None:
        self._loop = SHARED.borrow()
        self._future = asyncio.run_coroutine_threadsafe(self._run(), self._loop)

    def end(self, timeout: float) -> None:
        if self._loop is None or self._future is None:
            return
        self._loop.call_soon_threadsafe(self._ending.set)
        try:
            self._future.result(timeout)
        except TimeoutError:
            self._future.cancel()
        except Exception:
            telemetry.log.exception("leaving etcd failed")
        SHARED.give_back()

    async def _run(self) -> None:
        failures = 0
        while not self._ending.is_set():
            began = time.monotonic()
            try:
                await self._session()
            except Exception as problem:
                lasted = time.monotonic() - began
                failures = 1 if lasted > self._ttl else failures + 1
                # A worker that joins has not lost etcd because one host is down.
                if self.entered.is_set() or failures >= self._hosts:
                    self._live.lose(self._seat, _reason(problem))
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._ending.wait(), pause_after(failures))

    async def _session(self) -> None:
        """Returns when the stay must end; raises when the session cannot go on."""
        host, port = next(self._endpoints)
        client = EtcdClient(self._address, host, port)
        try:
            await self._enter(client)
            watch = await self._list_and_watch(client)
            self.entered.set()
            await _first_of(self._ending.wait(), self._hear(watch), self._keep(client, watch))
            await self._withdraw(client)
        finally:
            with contextlib.suppress(Exception):
                await asyncio.wait_for(client.close(), CLOSE_SECONDS)

    async def _enter(self, client: EtcdClient) -> None:
        if self._lease is not None and not await self._renew(client):
            self._lease = None
        if self._lease is None:
            self._lease, self._ttl = await client.grant_lease(self._ttl)
        await client.put(self._seat.key.encode(), lease=self._lease)

    async def _list_and_watch(self, client: EtcdClient) -> Any:
        keys, revision = await client.keys(self._prefix)
        self._workers = workers_in(keys)
        self._report()
        return await client.watch(self._prefix, revision=revision)

    async def _hear(self, watch: Any) -> None:
        self._is_silent = False
        async for response in watch:
            self._is_silent = False
            if response.canceled:
                raise Broken(f"etcd ended the watch: {response.cancel_reason or 'compacted'}")
            for event in response.events:
                changed = workers_in([event.kv.key.decode()])
                if event.type == DELETE:
                    self._workers -= changed
                else:
                    self._workers |= changed
            if self._seat.worker not in self._workers:
                raise Broken("its own key is gone")
            self._report()
        raise Broken("etcd ended the watch")

    async def _keep(self, client: EtcdClient, watch: Any) -> None:
        """Renew the lease, and check that the watch still answers."""
        while True:
            await asyncio.sleep(self._ttl / RENEWALS_PER_TTL)
            if not await self._renew(client):
                raise Broken("its own lease has run out")
            if self._is_silent:
                raise Broken("the watch does not answer")
            self._is_silent = True
            await watch.write(PROGRESS)
            self._live.settle()

    async def _renew(self, client: EtcdClient) -> bool:
        assert self._lease is not None
        renewal = client.renew_lease(self._lease)
        return await asyncio.wait_for(renewal, self._ttl / RENEWALS_PER_TTL)

    async def _withdraw(self, client: EtcdClient) -> None:
        assert self._lease is not None
        with contextlib.suppress(Exception):
            await client.revoke_lease(self._lease)

    def _report(self) -> None:
        settle_seconds = self._ttl + LONGEST_PAUSE_SECONDS
        self._live.hear(self._seat, self._workers, settle_seconds=settle_seconds)


def _reason(problem: Exception) -> str:
    # The text of a gRPC error has several lines; the reason is in its details.
    details = getattr(problem, "details", None)
    return (callable(details) and details()) or in_short(problem)


async def _first_of(*works: Coroutine[Any, Any, Any]) -> None:
    """Wait for the first that ends, raise its error, and cancel the others."""
    tasks = [asyncio.create_task(work) for work in works]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class LoopThread:
    """One event loop on its own thread, shared by all etcd clients while one of them borrows it.

    For every answer gRPC wakes every event loop that it was ever used on, and all but one of them
    log an error.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._borrowers = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def borrow(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._loop.set_exception_handler(_on_error)
                self._thread = threading.Thread(
                    target=_run, args=(self._loop,), name="windlass-members", daemon=True
                )
                self._thread.start()
            self._borrowers += 1
            return self._loop

    def give_back(self) -> None:
        with self._lock:
            self._borrowers -= 1
            if self._borrowers or self._loop is None or self._thread is None:
                return
            loop, thread = self._loop, self._thread
            self._loop = self._thread = None
        loop.call_soon_threadsafe(loop.stop)
        if thread is not threading.current_thread():
            thread.join(END_SECONDS)


SHARED = LoopThread()


def _run(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
        left_over = asyncio.all_tasks(loop)
        for task in left_over:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*left_over, return_exceptions=True))
        loop.run_until_complete(loop.shutdown_asyncgens())
    finally:
        loop.close()


def _on_error(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    # It only says that another event loop, of the user, was quicker to fetch an answer.
    if not isinstance(context.get("exception"), BlockingIOError):
        loop.default_exception_handler(context)
