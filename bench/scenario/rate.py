"""Whether a rate of 700 a second holds with 1, 2 and 4 workers, and how much of it is used.

`most_N` is the largest number of starts in any two seconds with N workers, as a part of what the
rate allows in them; `mean_N` is the same over the whole measured time.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from bisect import bisect_left
from pathlib import Path

from bench.contract import Command, end_in_order_when_told, running
from bench.scenario.rolling_app import NOTES, app, rated

RATE = 700
WORKERS = (1, 2, 4)
WINDOW = 2_000_000_000
SECONDS = 12.0


def main() -> None:
    end_in_order_when_told()
    seconds = 4.0 if "--quick" in sys.argv else SECONDS
    app.migrate()
    rated.add(f"SKU-{number}" for number in range(int(RATE * seconds * (len(WORKERS) + 1) * 1.2)))
    figures: dict[str, float] = {}
    for workers in WORKERS:
        starts = run(workers, seconds)
        figures[f"most_{workers}"] = round(most(starts) / (RATE * 2), 3)
        # Without the first second, in which the workers come one after the other.
        steady = [start for start in starts if start >= starts[0] + WINDOW // 2]
        elapsed = (steady[-1] - steady[0]) / 1e9
        figures[f"mean_{workers}"] = round(len(steady) / elapsed / RATE, 3)
    print(json.dumps(figures))


def run(workers: int, seconds: float) -> list[int]:
    """When each visit started, in nanoseconds."""
    command = [sys.executable, "-m", "windlass", "worker", "bench.scenario.rolling_app:app"]
    with tempfile.TemporaryDirectory(prefix="windlass-rate-") as folder:
        os.environ[NOTES] = folder
        with running([Command(command)] * workers):
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
