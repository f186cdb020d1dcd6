"""A PgQueuer worker with the no-op entry point: `python -m bench.peer.pgqueuer.app`."""

from __future__ import annotations

import asyncpg
import uvloop
from pgqueuer import AsyncpgDriver, Job, PgQueuer

from bench.contract import url
from bench.tally import Tally

BATCH = 1000
ran = Tally()


async def work() -> None:
    connection = await asyncpg.connect(url())
    runner = PgQueuer(AsyncpgDriver(connection))

    @runner.entrypoint("noop")
    async def noop(job: Job) -> None:
        ran()

    await runner.run(batch_size=BATCH)


if __name__ == "__main__":
    uvloop.run(work())
