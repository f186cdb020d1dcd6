"""PgQueuer on PostgreSQL: two processes, batches of 1,000, asyncpg."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable

import asyncpg
from pgqueuer import AsyncpgDriver, Queries

from bench.contract import Command, main, url

BULK = 1000


def prepare() -> None:
    _with_queries(lambda queries: queries.install())


def enqueue_one(tasks: int) -> None:
    async def enqueue(queries: Queries) -> None:
        for number in range(tasks):
            await queries.enqueue("noop", _payload(number))

    _with_queries(enqueue)


def enqueue_bulk(tasks: int) -> None:
    async def enqueue(queries: Queries) -> None:
        for begin in range(0, tasks, BULK):
            numbers = range(begin, min(begin + BULK, tasks))
            payloads = [_payload(number) for number in numbers]
            await queries.enqueue(["noop"] * len(payloads), payloads, [0] * len(payloads))

    _with_queries(enqueue)


def workers() -> list[Command]:
    # Not by its command line, which does not start with today's release of its parser.
    return [Command([sys.executable, "-m", "bench.peer.pgqueuer.app"]) for _ in range(2)]


def is_empty() -> bool:
    async def ask() -> bool:
        connection = await asyncpg.connect(url())
        try:
            return await connection.fetchval("select 1 from pgqueuer limit 1") is None
        finally:
            await connection.close()

    return asyncio.run(ask())


def _payload(number: int) -> bytes:
    return b'{"number": %d}' % number


def _with_queries(work: Callable[[Queries], Awaitable[None]]) -> None:
    async def run() -> None:
        connection = await asyncpg.connect(url())
        try:
            await work(Queries(AsyncpgDriver(connection)))
        finally:
            await connection.close()

    asyncio.run(run())


if __name__ == "__main__":
    main(sys.modules[__name__])
