"""Whether a rate of 700 a second holds with 1, 2 and 4 workers, how much of it is used, and cost.

`most_N` is the largest number of starts in any two seconds with N workers, as a part of what the
rate allows in them; `mean_N` is the same over the whole measured time.

`cost_R` is the processor time of one worker and of the server, with all their children, while a
kind is held at R a second, in percent of one core; `cost_0` is that of an idle worker. `starts_R`
is how many starts a second were counted meanwhile, so no cost is low because too little ran.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from bisect import bisect_left
from pathlib import Path

from bench import processor
from bench.contract import Command, end_in_order_when_told, running
from bench.scenario import SERVER
from bench.scenario.rolling_app import NOTES, app, rated, slow

RATE = 700
WORKERS = (1, 2, 4)
WINDOW = 2_000_000_000
SECONDS = 12.0
# By then a worker has done everything once, such as its first maintenance.
WARM_SECONDS = 15.0
COST_SECONDS = 30.0
WORKER = [sys.executable, "-m", "windlass", "worker", "bench.scenario.rolling_app:app"]


def main() -> None:
    end_in_order_when_told()
    is_quick = "--quick" in sys.argv
    seconds = 4.0 if is_quick else SECONDS
    app.migrate()
    figures = costs(5.0, 5.0) if is_quick else costs(WARM_SECONDS, COST_SECONDS)
    rated.add(f"SKU-{number}" for number in range(int(RATE * seconds * (len(WORKERS) + 1) * 1.2)))
    for workers in WORKERS:
        starts = run(workers, seconds)
        figures[f"most_{workers}"] = round(most(starts) / (RATE * 2), 3)
        # Without the first second, in which the workers come one after the other.
        steady = [start for start in starts if start >= starts[0] + WINDOW // 2]
        elapsed = (steady[-1] - steady[0]) / 1e9
        figures[f"mean_{workers}"] = round(len(steady) / elapsed / RATE, 3)
    print(json.dumps(figures))


def costs(warm: float, seconds: float) -> dict[str, float]:
    """What an idle worker costs, and one with a kind at each rate."""
    figures: dict[str, float] = {}
    for rate, kind in ((0, None), (50, slow), (RATE, rated)):
        items = [f"SKU-{number}" for number in range(int(rate * (warm + seconds) * 1.2))]
        if kind is not None:
            kind.add(items)
        cost, starts = measure(warm, seconds)
        figures[f"cost_{rate}"] = round(cost, 2)
        figures[f"starts_{rate}"] = round(starts, 1)
        if kind is not None:
            kind.remove(items)
    return figures


def measure(warm: float, seconds: float) -> tuple[float, float]:
    """Percent of one core that a worker and its server use, and starts a second."""
    server = [int(pid) for pid in [os.environ.get(SERVER)] if pid]
    with tempfile.TemporaryDirectory(prefix="windlass-rate-") as folder:
        os.environ[NOTES] = folder
        with running([Command(WORKER)]) as processes:
            time.sleep(warm)
            roots = [*server, *(process.pid for process in processes)]
            before, began, used = (
                len(read(Path(folder))),
                time.monotonic(),
                processor.seconds(roots),
            )
            time.sleep(seconds)
            elapsed = time.monotonic() - began
            used = processor.seconds(roots) - used
            return 100 * used / elapsed, (len(read(Path(folder))) - before) / elapsed


def run(workers: int, seconds: float) -> list[int]:
    """When each visit started, in nanoseconds."""
    with tempfile.TemporaryDirectory(prefix="windlass-rate-") as folder:
        os.environ[NOTES] = folder
        with running([Command(WORKER)] * workers):
            while not read(Path(folder)):
                time.sleep(0.05)
            time.sleep(seconds)
        return read(Path(folder))


def read(folder: Path) -> list[int]:
    lines = [line for path in folder.iterdir() for line in path.read_text().splitlines()]
    return sorted(int(line.split()[0]) for line in lines if " " in line)


def most(starts: list[int]) -> int:
    """The most starts in any two seconds."""
    return max(
        bisect_left(starts, start + WINDOW, lo=index) - index for index, start in enumerate(starts)
    )


if __name__ == "__main__":
    main()
