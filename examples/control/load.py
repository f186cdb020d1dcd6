"""Load the recordings of a month: four steps, each of which may be the last one of this process."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from windlass import AlreadyRunning, App

app = App(os.environ.get("WINDLASS_DATABASE_URL", "sqlite:///control.db"))
# What the steps did, in the order in which they did it.
journal = Path(os.environ.get("CONTROL_JOURNAL", "journal.txt"))


def did(what: str) -> None:
    """Write down that a step was really done."""
    with journal.open("a") as lines:
        lines.write(f"{what}\n")


def download(month: str) -> list[str]:
    """A step with a result: the next try gets what this one returned."""
    did("download")
    return [f"{month}-{number}.wav" for number in range(3)]


def load(month: str) -> None:
    """All steps, once at a time for each month, each of them once."""
    # The lease is short so that you need not wait long after the kill; a minute is the default.
    with app.control("load-recordings", partition=month, lease="3s") as run:
        files = run.step("download", download, month)
        if run.step("check"):  # False: an earlier try has done it
            did("check")
        if run.step("load"):
            # The shutter: the first try is killed here, as by a power cut.
            if run.tries == 1:
                os.kill(os.getpid(), signal.SIGKILL)
            for _ in run.track(files):  # shown by `windlass control show`
                did("load")
        if run.step("report"):
            did("report")


if __name__ == "__main__":
    try:
        load(sys.argv[1])
    except AlreadyRunning as problem:
        sys.exit(f"not now: {problem}")
