"""When each node ran and how often, told across processes by one small shared file.

A node calls `note` with its number, which costs a few tenths of a microsecond
and no system call. The clock that is noted is the machine's, not a process's.
"""

from __future__ import annotations

import functools
import mmap
import os
import time
from collections.abc import Iterable
from pathlib import Path

from bench.flow.shape import Shape
from bench.tally import FOLDER_VARIABLE

NODES = 20_000
WORD = 8


class OutOfOrder(Exception):
    """A node that did not run, ran twice, or before its parents; the message says which."""


def note(number: int) -> None:
    """Node `number` runs now."""
    cells = _cells()
    cells[2 * number] = time.monotonic_ns()
    cells[2 * number + 1] += 1


def make() -> None:
    """Make the file, once, before any node runs."""
    with _path().open("wb") as file:
        file.truncate(2 * WORD * NODES)


def clear() -> None:
    """Forget all runs; processes that have the file open see it."""
    cells = _cells()
    for number in range(len(cells)):
        cells[number] = 0


def has_run(numbers: Iterable[int]) -> bool:
    cells = _cells()
    return all(cells[2 * number + 1] for number in numbers)


def check(shape: Shape) -> None:
    """See that every node ran once, and not before any of its parents."""
    cells = _cells()
    for number, parents in enumerate(shape.parents):
        if cells[2 * number + 1] != 1:
            raise OutOfOrder(f"{shape.name}: node {number} ran {cells[2 * number + 1]} times")
        for parent in parents:
            if cells[2 * parent] > cells[2 * number]:
                raise OutOfOrder(f"{shape.name}: node {number} ran before its parent {parent}")


@functools.cache
def _cells() -> memoryview:
    with _path().open("rb+") as file:
        return memoryview(mmap.mmap(file.fileno(), 0)).cast("Q")


def _path() -> Path:
    return Path(os.environ[FOLDER_VARIABLE], "journal")
