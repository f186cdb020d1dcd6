"""Members of one ring in this process and in others, and all that they ever said."""

import contextlib
import os
import subprocess
import sys
import threading
import time
from itertools import count
from pathlib import Path

from tests.fault.ring.member import DEAD_AFTER
from tests.wait import eventually
from windlass import telemetry
from windlass.core.ring.member import connect

ROOT = Path(__file__).resolve().parents[3]
SECONDS = 30.0
"""What must happen is waited for so long; it mostly takes two or three."""


class Watcher:
    """One member, and every answer of its `alive()` in order."""

    def __init__(self, url: str, worker: int) -> None:
        self.worker = worker
        self.members = connect(url, dead_after=DEAD_AFTER)
        self.said = [self.members.alive()]
        self._lock = threading.Lock()
        self.members.listen(self._note)

    def _note(self) -> None:
        with self._lock:
            self.said.append(self.members.alive())

    def sees(self, *workers: int) -> bool:
        return self.members.alive() == set(workers)

    def wait_for(self, *workers: int) -> None:
        what = f"worker {self.worker} that sees {workers} after {self.said[-5:]}"
        eventually(lambda: self.sees(*workers), SECONDS, what=what)

    def wait_until_unknown(self) -> None:
        what = f"worker {self.worker} that knows nothing"
        eventually(lambda: self.members.alive() is None, SECONDS, what=what)


class Neighbour:
    """A member in a process of its own."""

    def __init__(self, url: str, ring: str, worker: int) -> None:
        command = [sys.executable, "-m", "tests.fault.ring.member", url, ring, str(worker)]
        path = os.pathsep.join((str(ROOT), str(ROOT / "src")))
        self.process = subprocess.Popen(
            command,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": path},
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
        )

    def leave(self) -> int:
        """Let it end in good order; its exit code."""
        self.process.communicate(timeout=SECONDS)
        return self.process.returncode

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()


class Circle:
    """A ring of its own for each test."""

    numbers = count(1)

    def __init__(self, url: str) -> None:
        self.url = url
        self.name = f"test-{os.getpid()}-{next(self.numbers)}"
        self._leave = contextlib.ExitStack()
        self.events: list[telemetry.Event] = []
        self._leave.callback(telemetry.subscribe(self.events.append))

    def member(self, worker: int, *, url: str | None = None, joined: bool = True) -> Watcher:
        watcher = Watcher(url or self.url, worker)
        self._leave.callback(watcher.members.close)
        if joined:
            watcher.members.join(self.name, worker)
        return watcher

    def members(self, *workers: int) -> list[Watcher]:
        """So many of them, once all see all."""
        watchers = [self.member(worker) for worker in workers]
        for watcher in watchers:
            watcher.wait_for(*workers)
        return watchers

    def neighbour(self, worker: int) -> Neighbour:
        neighbour = Neighbour(self.url, self.name, worker)
        self._leave.callback(neighbour.close)
        return neighbour

    def told(self, event: str, worker: int) -> int:
        """How often that event was told of that worker."""
        found = [told for told in list(self.events) if told.name == event]
        return sum(told.fields.get("worker") == worker for told in found)

    def close(self) -> None:
        self._leave.close()


def stays_true(predicate, seconds: float) -> bool:
    """Whether it is true now and stays so, looked at all the time."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if not predicate():
            return False
        time.sleep(0.01)
    return True
