"""Membership by etcd: a key with a lease for each worker, and a watch on all of them.

A session is one connection to one endpoint. It renews or grants the lease, puts the key, lists the
keys, and watches from the revision of that list, so that it misses no change. Any failure ends the
session; the next one begins at the next endpoint with the same lease. A lost lease or key is a
failure, too: etcd may have lost those of other workers as well.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
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
from windlass.core.ring.member.thread import SHARED

# Otherwise gRPC takes part in every fork, and some children die before they run another program.
# gRPC reads this once, when it is imported.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
import aetcd

LEAST_TTL_SECONDS = 2
TTL_PER_DEAD_AFTER = 0.4
RENEWALS_PER_TTL = 3
CALL_SECONDS = 1.0
CLOSE_SECONDS = 1.0

CHANNEL = {
    # A new channel must not wait for the back-off of an earlier one.
    "grpc.use_local_subchannel_pool": 1,
    "grpc.enable_http_proxy": 0,
}


class EtcdStay:
    """Keeps one key alive, and watches all others."""

    def __init__(self, address: Address, seat: Seat, live: LiveWorkers, *, dead_after: int) -> None:
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
        client = aetcd.Client(host, port, timeout=CALL_SECONDS, options=CHANNEL)
        try:
            await self._enter(client)
            watch = await self._list_and_watch(client)
            self.entered.set()
            await _first_of(self._ending.wait(), self._hear(watch), self._keep(client, watch))
            await self._withdraw(client)
        finally:
            with contextlib.suppress(Exception):
                await asyncio.wait_for(client.close(), CLOSE_SECONDS)

    async def _enter(self, client: Any) -> None:
        if self._lease is not None and not await self._renew(client):
            self._lease = None
        if self._lease is None:
            lease = await client.lease(self._ttl)
            self._lease, self._ttl = lease.id, lease.ttl
        await client.put(self._seat.key.encode(), b"", lease=self._lease)

    async def _list_and_watch(self, client: Any) -> Any:
        found = await client.get_prefix(self._prefix, keys_only=True)
        self._workers = workers_in(pair.key.decode() for pair in found)
        self._report()
        request = aetcd.rpc.WatchCreateRequest(
            key=self._prefix,
            range_end=aetcd.utils.prefix_range_end(self._prefix),
            start_revision=found.header.revision + 1,
        )
        watch = aetcd.rpc.WatchStub(client.channel).Watch()
        await watch.write(aetcd.rpc.WatchRequest(create_request=request))
        return watch

    async def _hear(self, watch: Any) -> None:
        # Not aetcd's own watch: it does not report that the server cancelled or ended it.
        self._is_silent = False
        async for response in watch:
            self._is_silent = False
            if response.canceled:
                raise Broken(f"etcd ended the watch: {response.cancel_reason or 'compacted'}")
            for event in response.events:
                changed = workers_in([event.kv.key.decode()])
                if event.type == aetcd.rpc.Event.DELETE:
                    self._workers -= changed
                else:
                    self._workers |= changed
            if self._seat.worker not in self._workers:
                raise Broken("its own key is gone")
            self._report()
        raise Broken("etcd ended the watch")

    async def _keep(self, client: Any, watch: Any) -> None:
        """Renew the lease, and check that the watch still answers."""
        progress = aetcd.rpc.WatchRequest(progress_request=aetcd.rpc.WatchProgressRequest())
        while True:
            await asyncio.sleep(self._ttl / RENEWALS_PER_TTL)
            if not await self._renew(client):
                raise Broken("its own lease has run out")
            if self._is_silent:
                raise Broken("the watch does not answer")
            self._is_silent = True
            await watch.write(progress)
            self._live.settle()

    async def _renew(self, client: Any) -> bool:
        renewal = client.refresh_lease(self._lease)
        reply = await asyncio.wait_for(renewal, self._ttl / RENEWALS_PER_TTL)
        return reply is not None and reply.TTL > 0

    async def _withdraw(self, client: Any) -> None:
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
