"""The sweep that worker processes of the fault tests walk, and the accounts of what they did."""

import asyncio
import os
import signal
from collections import Counter
from itertools import count
from pathlib import Path
from typing import Any

from sqlalchemy import select

from tests.fault.crew import Process
from tests.server.process import children_of
from tests.wait import eventually
from windlass import App, Keys, Status, Sweep
from windlass.database.schema import range_, worker

MODULE = """
from pathlib import Path

from tests.fault.face.walks import make

app, offer = make({url!r}, Path({effects!r}), **{options!r})
"""


def make(
    url: str,
    effects: Path,
    *,
    last: int,
    ranges: int = 8,
    seconds: float = 0.001,
    deadly: int = 0,
    concurrency: int = 20,
    lease: str = "5s",
    dead_after: str = "2s",
    auto: bool = True,
) -> tuple[App, Sweep[[int], None]]:
    """A sweep over the numbers from 1 to `last`; `deadly` kills the process that runs it."""
    app = App(url, lease=lease, dead_after=dead_after, grace="10s")
    file = os.open(effects, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    @app.sweep(Keys(1, last), ranges=ranges, concurrency=concurrency, batch=200, auto=auto)
    async def offer(number: int) -> None:
        if number == deadly:
            os.kill(os.getpid(), signal.SIGKILL)
        await asyncio.sleep(seconds)
        # One short write to a file opened for appending is never torn or overwritten.
        os.write(file, f"{number} {os.getpid()}\n".encode())

    return app, offer


class Walkers:
    """Worker processes that walk one sweep."""

    def __init__(self, folder: Path, url: str, **options: Any) -> None:
        self.folder = folder
        self.url = url
        self.effects = folder / "effects"
        self.last = options["last"]
        self.app, self.offer = make(url, self.effects, **options)
        self.app.migrate()
        self.processes: list[Process] = []
        self._numbers = count(1)
        text = MODULE.format(url=url, effects=str(self.effects), options=options)
        (folder / "walked.py").write_text(text)

    def start(self, *options: str, joined: bool = True) -> Process:
        command = ["windlass", "worker", "walked:app", "--json", *options]
        name = f"worker-{next(self._numbers)}"
        process = Process(command, folder=self.folder, name=name, url=self.url)
        self.processes.append(process)
        if joined:
            eventually(process.has_joined, 20.0, what="a worker that has joined")
        return process

    def start_many(self, number: int) -> list[Process]:
        started = [self.start(joined=False) for _ in range(number)]
        for process in started:
            eventually(process.has_joined, 20.0, what="a worker that has joined")
        return started

    def done(self) -> list[tuple[int, int]]:
        """Each item that was handled to its end, and by which process."""
        lines = self.effects.read_text().splitlines()
        return [(int(line.split()[0]), int(line.split()[1])) for line in lines]

    def in_flight(self, pid: int) -> int:
        """How many keys a process that was killed had reserved and not saved as done."""
        ids = select(worker.c.id).where(worker.c.pid == pid).scalar_subquery()
        query = select(range_.c.breakpoint, range_.c.read_to).where(
            range_.c.worker.in_(ids), range_.c.status == Status.RUNNING
        )
        rows = self.app.database.read(lambda connection: connection.execute(query).all())
        return sum(int(row.read_to or 0) - int(row.breakpoint or 0) for row in rows)

    def wait_over(self, timeout: float) -> None:
        try:
            eventually(self.offer.rounds, timeout, what="the end of the round")
        except AssertionError as error:
            ranges = [each for each in self.offer.ranges() if each.percent < 100]
            logs = "\n".join(process.log[-2000:] for process in self.processes[-3:])
            raise AssertionError(f"{error}: {ranges[:5]}\n{logs}") from None

    def check(self) -> Counter[int]:
        """Every key was handled, and those handled again are counted; how often each was."""
        counted = Counter(key for key, _ in self.done())
        progress = self.offer.progress()
        assert set(range(1, self.last + 1)) - set(counted) == {
            each.key for each in self.offer.failures()
        }
        assert sum(count > 1 for count in counted.values()) <= progress.repeated
        assert self.offer.audit().ok, self.offer.audit().problems
        assert progress.done + progress.failed == self.last
        return counted

    def close(self) -> None:
        for process in self.processes:
            for pid in (process.pid, *children_of(process.pid)):
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue
            process.wait()
        self.app.close()
