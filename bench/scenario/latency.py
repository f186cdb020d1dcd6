"""How long a task waits that is enqueued while a worker idles.

The clock starts before `enqueue` is called, so the commit of the enqueue is
in it, and ends when the handler begins.
"""

from __future__ import annotations

import json
import random
import statistics
import sys
import time

from bench.contract import Command, end_in_order_when_told, running
from bench.scenario import note
from bench.scenario.latency_app import app, stamp

TASKS = 200
WARM = 5
WAIT_SECONDS = 30.0


def main() -> None:
    end_in_order_when_told()
    tasks = 20 if "--quick" in sys.argv else TASKS
    app.migrate()
    worker = [sys.executable, "-m", "windlass", "worker", "bench.scenario.latency_app:app"]
    with running([Command(worker)]):
        waits = [one(number) for number in range(WARM + tasks)][WARM:]
    quantiles = statistics.quantiles(waits, n=100, method="inclusive")
    figures = {"median": statistics.median(waits), "p99": quantiles[98], "max": max(waits)}
    print(json.dumps({f"{name}_ms": round(wait, 2) for name, wait in figures.items()}))


def one(number: int) -> float:
    """Milliseconds from enqueue to start, with the worker idle again before."""
    time.sleep(random.uniform(0.02, 0.06))
    begin = time.time_ns()
    stamp.enqueue(number)
    return (note.wait(number, seconds=WAIT_SECONDS) - begin) / 1e6


if __name__ == "__main__":
    main()
