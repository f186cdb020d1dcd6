"""Whether a worker's memory grows: its resident size over a million tasks."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

from bench import own, tally
from bench.contract import Command, end_in_order_when_told, running

TASKS = 1_000_000
PART = 100_000
EVERY_SECONDS = 0.25


def main() -> None:
    end_in_order_when_told()
    tasks = 20_000 if "--quick" in sys.argv else TASKS
    own.prepare()
    for begin in range(0, tasks, PART):
        own.enqueue_bulk(min(PART, tasks - begin))
    folder = Path(os.environ[tally.FOLDER_VARIABLE])
    worker = [sys.executable, "-m", "windlass", "worker", "bench.own_app:app"]
    with running([Command(worker)]) as processes:
        sizes = sample(processes[0].pid, folder, tasks)
    warm = [size for runs, size in sizes if runs >= tasks / 20] or [size for _, size in sizes]
    figures = {"first": warm[0], "last": warm[-1], "max": max(warm)}
    print(json.dumps({f"{name}_mib": round(size / 1024, 1) for name, size in figures.items()}))


def sample(pid: int, folder: Path, tasks: int) -> list[tuple[int, int]]:
    """Tasks run so far and the worker's resident KiB, from start to end."""
    sizes = []
    while not sizes or sizes[-1][0] < tasks:
        time.sleep(EVERY_SECONDS)
        if not Path(f"/proc/{pid}").exists():
            raise SystemExit("the worker ended before its tasks did")
        sizes.append((tally.read(folder).runs, resident(pid)))
    return sizes


def resident(pid: int) -> int:
    """KiB of a process and all its children."""
    own_size = 0
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            own_size = int(line.split()[1])
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return own_size + sum(resident(int(child)) for child in children)


if __name__ == "__main__":
    main()
