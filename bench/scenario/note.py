"""Notes that a handler leaves behind: when it started, in a file that is whole or not there."""

from __future__ import annotations

import os
import time
from pathlib import Path

from bench.tally import FOLDER_VARIABLE


def leave(number: int) -> None:
    """Note that task `number` has started now."""
    started = time.time_ns()
    draft = _path(number).with_suffix(".draft")
    draft.write_text(str(started))
    draft.rename(_path(number))


def wait(number: int, *, seconds: float) -> int:
    """When task `number` started, in nanoseconds since the epoch, once it has."""
    deadline = time.monotonic() + seconds
    while not _path(number).exists():
        if time.monotonic() > deadline:
            raise SystemExit(f"task {number} did not start within {seconds:.0f} s")
        time.sleep(0.001)
    return int(_path(number).read_text())


def _path(number: int) -> Path:
    return Path(os.environ[FOLDER_VARIABLE], f"{number}.started")
