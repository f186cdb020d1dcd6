"""Processes of this machine that outlive the worker that started them.

Each submission has a folder. The process that runs the command holds a lock in it as long as it
lives and writes the exit code as the last thing it does: so whoever looks later, maybe another
worker, knows whether it runs, how it ended, or that it is gone. Nobody starts it a second time.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

from windlass.declare.external import External
from windlass.engine.context import context
from windlass.model.external import Answer, Done, Failed, Running

START_SECONDS = 10.0
SHOWN = 2_000


class Command(External):
    """Runs commands, each as a process of its own, with its files in a folder below `folder`."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self._folder = Path(folder).absolute()

    def submit(self, argv: list[str]) -> str:
        """Start a command, unless this submission has started it before."""
        handle = context().submission
        place = self._place(handle)
        place.mkdir(parents=True, exist_ok=True)
        if (place / "exit").exists() or is_locked(place):
            return handle
        with (place / "output").open("ab") as output:
            subprocess.Popen(
                [sys.executable, "-m", "windlass.external.keeper", str(place), *argv],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        deadline = time.monotonic() + START_SECONDS
        while not (place / "pid").exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        return handle

    def poll(self, handles: list[str]) -> dict[str, Answer]:
        """Look at the files of each."""
        return {handle: self._poll(self._place(handle)) for handle in handles}

    def cancel(self, handle: str) -> None:
        """End the process and all that it started."""
        place = self._place(handle)
        with contextlib.suppress(OSError, ValueError):
            if is_locked(place):
                os.killpg(int((place / "pid").read_text()), signal.SIGTERM)

    def _poll(self, place: Path) -> Answer:
        is_running = is_locked(place)
        # Looked at afterwards: it is written before the lock is let go.
        code = read_exit(place)
        if code is None:
            return Running() if is_running else Failed("the process is gone without an exit code")
        output = (place / "output").read_bytes()[-SHOWN:].decode(errors="replace")
        if code:
            return Failed(f"exit code {code}: {output.strip()[-500:]}")
        return Done({"code": code, "output": output})

    def _place(self, handle: str) -> Path:
        if not re.fullmatch(r"[0-9]+(-[0-9]+)?", handle):
            raise ValueError(f"{handle!r} is no handle of a command")
        return self._folder / handle


def is_locked(place: Path) -> bool:
    """Whether the process of a submission is alive."""
    try:
        file = os.open(place / "lock", os.O_RDWR | os.O_CREAT)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(file)
    return False


def read_exit(place: Path) -> int | None:
    """The exit code, if the process has ended in good order."""
    try:
        return int((place / "exit").read_text())
    except (FileNotFoundError, ValueError):
        return None
