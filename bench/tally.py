"""How often the no-op handler ran, and when first, told across processes by small files."""

from __future__ import annotations

import itertools
import mmap
import os
import struct
import threading
import time
from dataclasses import dataclass
from pathlib import Path

FOLDER_VARIABLE = "BENCH_TALLY"
CELLS = struct.Struct("<QQ")
FIRST, RUNS = 0, 1


class Tally:
    """This process's own count, in a file shared with the process that holds the clock.

    A handler calls it once per task; that costs about a tenth of a
    microsecond and no system call, so it does not weigh on what is measured.
    Processes that are forked after the import still get a file each, because
    the file is made by the first call.
    """

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._cells: memoryview | None = None
        self._lock = threading.Lock()

    def __call__(self) -> None:
        cells = self._cells or self._open()
        cells[RUNS] = next(self._numbers)

    def begin(self) -> None:
        """Start the clock before the first task ends, for tasks that take long."""
        if self._cells is None:
            self._open()

    def add(self, runs: int) -> None:
        """Count `runs` tasks at once, for loops that have no handler."""
        cells = self._cells or self._open()
        cells[RUNS] += runs

    def _open(self) -> memoryview:
        # Threads may come here together, and a file that is cut short under a mapping kills.
        with self._lock:
            if self._cells is None:
                path = Path(os.environ[FOLDER_VARIABLE], f"{os.getpid()}.tally")
                with path.open("wb+") as file:
                    file.truncate(CELLS.size)
                    cells = memoryview(mmap.mmap(file.fileno(), CELLS.size)).cast("Q")
                cells[FIRST] = time.time_ns()
                self._cells = cells
            return self._cells


@dataclass(frozen=True)
class Progress:
    """What all processes together have run so far."""

    runs: int
    first_ns: int | None


def clear(folder: Path) -> None:
    for path in folder.glob("*.tally"):
        path.unlink()


def read(folder: Path) -> Progress:
    cells = [CELLS.unpack(path.read_bytes()) for path in _whole(folder)]
    started = [first for first, _ in cells if first]
    return Progress(sum(runs for _, runs in cells), min(started, default=None))


def _whole(folder: Path) -> list[Path]:
    return [path for path in folder.glob("*.tally") if path.stat().st_size == CELLS.size]
