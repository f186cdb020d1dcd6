"""Windlass under the same contract as its peers: `python -m bench.flow.own SHAPE`.

The workers are processes of their own. Only when the last node has noted itself
is the database asked, until it says that the run has ended: so looking costs
the workers nothing, and the last commit is paid.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

from bench.contract import running
from bench.flow import journal
from bench.flow.contract import After, Declare, Run, main
from bench.flow.own_app import app, draw
from bench.flow.shape import Shape
from bench.scenario.crew import wait_until_settled, worker

WORKERS = int(os.environ.get("BENCH_WORKERS", "1"))
LOOK_SECONDS = 0.001


@contextmanager
def windlass() -> Iterator[Declare]:
    app.migrate()
    with running([worker("bench.flow.own_app:app") for _ in range(WORKERS)]):
        wait_until_settled(app, WORKERS)
        yield _declare


def _declare(shape: Shape) -> Run:
    def run() -> After:
        begin = time.perf_counter()
        started = draw.start(shape.name)
        start_seconds = time.perf_counter() - begin
        while not journal.has_run(shape.ends):
            time.sleep(LOOK_SECONDS)
        while not started.status().is_final:
            time.sleep(LOOK_SECONDS)
        return lambda: {"until started": start_seconds}

    return run


if __name__ == "__main__":
    main(windlass)
