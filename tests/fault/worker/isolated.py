"""Handlers that workers of the fault tests run in child processes."""

import ctypes
import os
import subprocess
import time
from pathlib import Path

from windlass import App, Task

KEEP = "1h"


def hold_gil(path: str) -> None:
    note(path)
    ctypes.PyDLL(None).poll(None, 0, 300_000)


def linger(path: str) -> None:
    note(path)
    time.sleep(300)


def spawn(path: str) -> None:
    other = subprocess.Popen(["sleep", "300"])
    note(path, other.pid)
    other.wait()


def crash(number: int) -> None:
    if number % 3 == 0:
        os._exit(1)
    if number % 3 == 1:
        ctypes.string_at(0)
    bytearray(2_000_000_000)


def whoami() -> int:
    return os.getpid()


def note(path: str, *others: int) -> None:
    """Write the processes that run, in one step."""
    made = Path(f"{path}.made")
    made.write_text(" ".join(map(str, (os.getpid(), *others))))
    made.rename(path)


def declare(app: App) -> dict[str, Task]:
    """The same kinds in the worker and in the test."""
    options = {"isolate": "process", "keep": KEEP, "concurrency": 4}
    declared = [
        app.task(**options)(hold_gil),
        app.task(**options)(linger),
        app.task(**options)(spawn),
        app.task(**options)(whoami),
        app.task(isolate="process", memory="300MB", retries=1, backoff="0s")(crash),
    ]
    return {each.kind: each for each in declared}
