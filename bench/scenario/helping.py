"""Whether two workers end together when one of them has too much to do.

Each figure is the time of all tasks as a part of the ideal, in which no slot of any worker is ever
empty: the tasks' own seconds divided by the slots, a slot of a slow machine counting by its speed.

    kind         a slow kind, all of it in the buckets of one worker, beside a fast one
    concurrency  a worker that runs one task at a time beside one that runs ten
    machine      a worker on which each task takes ten times as long
    single       workers that run one task at a time, all of 200 ms in one bucket
    few          workers that run four at a time, all of 200 ms in one bucket
    short        workers that run one at a time, all of 10 ms in one bucket
    long         workers that run one at a time, as long ones as fit, all in one bucket
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count, islice
from pathlib import Path

from bench import own, tally
from bench.contract import Command, clock, end_in_order_when_told, running
from bench.scenario.crew import enqueue_ahead, wait_until_settled, worker
from bench.scenario.helping_app import SLOWER, app, fast, slow
from windlass.value.bucket import BUCKETS, bucket_of

APP = "bench.scenario.helping_app:app"
TASK_SECONDS = 0.05
IDEAL_SECONDS = 20.0
QUICK_SECONDS = 5.0
FAST_TASKS = 2_000
SLOTS = 10
TIMES_SLOWER = 10


@dataclass(frozen=True)
class Case:
    """Two unequal workers, or unequal work; `slots` is what they have together."""

    name: str
    workers: Sequence[Command]
    slots: float
    fast_tasks: int = 0
    # All tasks are in the buckets below this one, the first of which one worker owns.
    below: int = BUCKETS
    task_seconds: float = TASK_SECONDS


def cases(ideal: float) -> list[Case]:
    ten = worker(APP, "--concurrency", str(SLOTS))
    one = worker(APP, "--concurrency", "1")
    four = worker(APP, "--concurrency", "4")
    slowed = worker(APP, "--concurrency", str(SLOTS), **{SLOWER: str(TIMES_SLOWER)})
    return [
        Case("kind", [ten, ten], 2 * SLOTS, fast_tasks=FAST_TASKS, below=BUCKETS // 2),
        Case("concurrency", [ten, one], SLOTS + 1),
        Case("machine", [ten, slowed], SLOTS + SLOTS / TIMES_SLOWER),
        Case("single", [one, one], 2, below=1, task_seconds=0.2),
        Case("few", [four, four], 8, below=1, task_seconds=0.2),
        Case("short", [one, one], 2, below=1, task_seconds=0.01),
        Case("long", [one, one], 2, below=1, task_seconds=ideal / 2),
    ]


def main() -> None:
    end_in_order_when_told()
    ideal = QUICK_SECONDS if "--quick" in sys.argv else IDEAL_SECONDS
    app.migrate()
    figures: dict[str, float] = {"ideal_seconds": ideal}
    for case in cases(ideal):
        seconds = run(case, ideal)
        figures[f"{case.name}_seconds"] = round(seconds, 2)
        figures[f"{case.name}_ratio"] = round(seconds / ideal, 2)
    print(json.dumps(figures))


def run(case: Case, ideal: float) -> float:
    """Seconds of a drain of as many tasks as would take `ideal` if no slot were ever empty."""
    tally.clear(Path(os.environ[tally.FOLDER_VARIABLE]))
    tasks = round(ideal * case.slots / case.task_seconds)
    with running(case.workers) as processes:
        wait_until_settled(app, len(case.workers))
        enqueue_ahead(tasks + case.fast_tasks, enqueue(case, tasks))
        seconds, _ = clock(tasks + case.fast_tasks, own.is_empty, processes)
    return seconds


def enqueue(case: Case, tasks: int) -> Callable[[str], list[object]]:
    def work(delay: str) -> list[object]:
        keys = None
        if case.below < BUCKETS:
            keys = list(islice(keys_below(case.below, of=case.name), tasks))
        calls = [{"seconds": case.task_seconds}] * tasks
        quick = [{"n": number} for number in range(case.fast_tasks)]
        return [
            *slow.using(delay=delay).enqueue_many(calls, keys=keys),
            *fast.using(delay=delay).enqueue_many(quick),
        ]

    return work


def keys_below(bucket: int, *, of: str) -> Iterator[str]:
    """Keys of a case, of the first buckets; one of two workers owns the first half of them."""
    keys = (f"{of} {number}" for number in count())
    return (key for key in keys if bucket_of(key) < bucket)


if __name__ == "__main__":
    main()
