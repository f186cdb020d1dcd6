"""The app that worker processes of the rate tests serve, and when its tasks began."""

import asyncio
import os
import time
from pathlib import Path
from typing import NamedTuple

from windlass import App, Task

MODULE = """
from pathlib import Path

from tests.fault.worker.paced import Paced

app = Paced({url!r}, Path({path!r}), {rate!r}).app
"""


class Start(NamedTuple):
    """A moment on the monotonic clock, which all processes of a machine share, and a process."""

    moment: float
    pid: int


class Paced:
    """The app, and its kind with a rate."""

    def __init__(self, url: str, path: Path, rate: str) -> None:
        self.path = path
        self.app = App(url, lease="5s", dead_after="2s", grace="10s")
        self.kind: Task = self.app.task(rate=rate, keep="1h", name="paced")(self._run)

    async def _run(self, seconds: float = 0.0) -> None:
        line = f"{time.monotonic()} {os.getpid()}\n"
        # One short write to a file opened for appending is never torn or overwritten.
        file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        try:
            os.write(file, line.encode())
        finally:
            os.close(file)
        await asyncio.sleep(seconds)

    def starts(self) -> list[Start]:
        """All starts so far, in the order in which they were written down."""
        if not self.path.exists():
            return []
        lines = self.path.read_text().splitlines()
        return [Start(float(moment), int(pid)) for moment, pid in map(str.split, lines)]

    def moments(self) -> list[float]:
        return [start.moment for start in self.starts()]
