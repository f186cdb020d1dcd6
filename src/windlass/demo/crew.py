"""The two worker processes of the shop."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from windlass.fork import CHILD

SHOP = "windlass.demo.shop:app"
CONCURRENCY = 16
GRACE_SECONDS = 5.0


class WorkerProcess:
    """One worker process, which can be started again after it died."""

    def __init__(self, number: int, folder: Path) -> None:
        self.number = number
        self._log = folder / f"worker-{number}.log"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    @property
    def is_alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start the process. It stops by itself if the demo is killed."""
        arguments = ["-m", "windlass", "worker", SHOP, "--concurrency", str(CONCURRENCY)]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, *arguments],
                env={**os.environ, CHILD: str(os.getpid())},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
                # Ctrl-C reaches only the demo, which stops its workers.
                start_new_session=True,
            )

    def kill(self) -> None:
        """Kill it without warning, as if the machine failed."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def ask_to_leave(self) -> None:
        if self.is_alive and self._process is not None:
            self._process.terminate()

    def wait(self) -> None:
        """Wait until it has ended; kill it if that takes too long."""
        if self._process is None:
            return
        try:
            self._process.wait(GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()

    def last_line(self) -> str:
        """The last line of its log."""
        try:
            lines = self._log.read_text(errors="replace").splitlines()
        except OSError:
            lines = []
        return lines[-1] if lines else "its log is empty"


class Crew:
    """Both workers; they stop when the block ends."""

    def __init__(self, folder: Path) -> None:
        self.workers = (WorkerProcess(1, folder), WorkerProcess(2, folder))

    def __enter__(self) -> Crew:
        for worker in self.workers:
            worker.start()
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self.workers:
            worker.ask_to_leave()
        for worker in self.workers:
            worker.wait()
