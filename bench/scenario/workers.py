"""No-op tasks a second with 1, 2, 4, 8 and 16 worker processes on one database.

All have joined and divided the ring before the first task is due. `ratio_N` is set beside two
processes. `busy_N` is the part of all cores that was in use meanwhile: near 1 there is nothing left
to gain, and what more processes cost shows. `deadlocks_N` are the server's own count.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

from bench import own, tally
from bench.contract import POLL_SECONDS, clock, end_in_order_when_told, running, url
from bench.own_app import app, noop
from bench.raw.session import Session
from bench.scenario.crew import enqueue_ahead, wait_until_settled, worker

TASKS = 100_000
QUICK = 10_000
PROCESSES = (1, 2, 4, 8, 16)
BASE = 2
FOLDER = Path(os.environ[tally.FOLDER_VARIABLE])

Figures = dict[str, float]


def main() -> None:
    end_in_order_when_told()
    tasks = QUICK if "--quick" in sys.argv else TASKS
    own.prepare()
    figures: Figures = {"tasks": tasks}
    for processes in PROCESSES:
        found = drain(processes, tasks)
        figures |= {f"{name}_{processes}": figure for name, figure in found.items()}
    base = figures[f"per_second_{BASE}"]
    for processes in PROCESSES:
        figures[f"ratio_{processes}"] = round(figures[f"per_second_{processes}"] / base, 2)
    print(json.dumps(figures))


def drain(processes: int, tasks: int) -> Figures:
    """Tasks a second by that many processes, and what it took."""
    tally.clear(FOLDER)
    session = Session(url())
    before = session.deadlocks()
    with running([worker("bench.own_app:app", "--processes", str(processes))]) as started:
        wait_until_settled(app, processes)
        calls = [{"n": number} for number in range(tasks)]
        enqueue_ahead(tasks, lambda delay: noop.using(delay=delay).enqueue_many(calls))
        session.analyse("windlass_task")
        wait_until_begun()
        idle_before, total_before = core_ticks()
        seconds, ran = clock(tasks, own.is_empty, started)
        idle, total = core_ticks()
    if ran < tasks:
        raise SystemExit(f"only {ran} of {tasks} tasks ran")
    return {
        "per_second": round(tasks / seconds),
        "busy": round(1 - (idle - idle_before) / (total - total_before), 2),
        "deadlocks": session.deadlocks() - before,
    }


def wait_until_begun() -> None:
    while tally.read(FOLDER).first_ns is None:
        time.sleep(POLL_SECONDS)


def core_ticks() -> tuple[int, int]:
    """How long all cores together have been idle, and have been there at all."""
    first = Path("/proc/stat").read_text().splitlines()[0]
    user, nice, system, idle, wait, *others = map(int, first.split()[1:])
    return idle + wait, user + nice + system + idle + wait + sum(others[:3])


if __name__ == "__main__":
    main()
