"""DBOS on PostgreSQL: a workflow whose steps are the nodes, gathered layer by layer.

Steps are the lightest durable thing that DBOS has. It wants them to start in an
order that is always the same, so a layer begins when the one before has ended.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from dbos import DBOS, DBOSConfig

from bench.contract import url
from bench.flow import journal
from bench.flow.contract import Declare, Run, main
from bench.flow.shape import Shape, named


@DBOS.step()
async def node(number: int) -> None:
    journal.note(number)


@DBOS.workflow()
async def graph(shape: str) -> None:
    for layer in named(shape).layers:
        await asyncio.gather(*(node(number) for number in layer))


@contextmanager
def run_dbos() -> Iterator[Declare]:
    config: DBOSConfig = {
        "name": "bench",
        "system_database_url": url(),
        "log_level": "ERROR",
        "run_admin_server": False,
    }
    DBOS(config=config)
    DBOS.launch()
    # One loop for all runs: DBOS gives its threads to the first, which closes them at its end.
    with asyncio.Runner() as runner:

        def declare(shape: Shape) -> Run:
            return lambda: runner.run(_start(shape.name))

        try:
            yield declare
        finally:
            DBOS.destroy()


async def _start(shape: str) -> None:
    handle = await DBOS.start_workflow_async(graph, shape)
    await handle.get_result()


if __name__ == "__main__":
    main(run_dbos)
