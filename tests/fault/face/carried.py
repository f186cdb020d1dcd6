"""The app whose tasks are carried in the fault tests, and the processes that carry and run them."""

import asyncio
import os
import signal
import sqlite3
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from itertools import count
from pathlib import Path

import msgspec
from sqlalchemy import func, make_url, select

import windlass
from tests.fault.crew import Process
from tests.wait import eventually
from windlass import App, Status
from windlass.database.schema import stat, task
from windlass.queue import Queue

MODULE = """
from pathlib import Path

from tests.fault.face.carried import Shop

app = Shop({url!r}, {broker!r}, Path({effects!r}), name={name!r}).app
"""


class Shop:
    """One kind, whose handler notes each run and returns its fence."""

    def __init__(self, url: str, broker: str, effects: Path, *, name: str = "carried") -> None:
        self.effects = effects
        # While there is this file, handlers do not end.
        self.closed = effects.with_name("closed")
        self.begun = effects.with_name("begun")
        self.app = App(url, lease="5s", dead_after="2s", grace="10s")
        # What a dead consumer of Redis had comes back after 2 s, not after a minute.
        quick = {"visibility_timeout": 2} if broker.startswith("redis") else {}
        self.queue = Queue(broker, name, options=quick)
        # Whoever kills at random may meet one task often.
        options = {"keep": "1h", "max_lost": 100, "retries": 100, "backoff": "10ms"}
        self.carried = self.app.task(via=self.queue, timeout="3s", name="carried", **options)(
            self._handler()
        )

    def _handler(self) -> Callable[..., object]:
        def note(path: Path, run: windlass.Context) -> None:
            line = f"{run.task_id} {run.fence} {os.getpid()}\n"
            file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            try:
                os.write(file, line.encode())
            finally:
                os.close(file)

        async def handler(seconds: float) -> int:
            run = windlass.context()
            note(self.begun, run)
            while self.closed.exists():
                await asyncio.sleep(0.02)
            await asyncio.sleep(seconds)
            note(self.effects, run)
            return run.fence

        return handler


class CarrierCrew:
    """Starts workers and consumers, and ends all of them at the end of the test."""

    def __init__(self, folder: Path, url: str, broker: str, *, name: str = "carried") -> None:
        self.folder = folder
        self.url = url
        effects = folder / "effects"
        self.shop = Shop(url, broker, effects, name=name)
        self.shop.app.migrate()
        source = MODULE.format(url=url, broker=broker, effects=str(effects), name=name)
        (folder / "served.py").write_text(source)
        self.processes: list[Process] = []
        self._numbers = count(1)

    def worker(self) -> Process:
        """A worker that has joined."""
        process = self._start("worker", "served:app", "--json")
        eventually(process.has_joined, 60.0, what="a worker that has joined")
        return process

    def consumer(self) -> Process:
        """A consumer that has started."""
        process = self._start("consumer", "served:app", self.shop.queue.name, "--json")
        eventually(lambda: process.events("consumer.started"), 60.0, what="a consumer")
        return process

    def pause(self, process: Process) -> None:
        """Stop a process; on SQLite outside its transactions, which would block all others."""
        process.pause()
        while not self._can_write():
            process.resume()
            process.pause()

    def _can_write(self) -> bool:
        if not self.url.startswith("sqlite"):
            return True
        path = make_url(self.url).database
        assert path is not None
        with closing(sqlite3.connect(path, timeout=0.2, isolation_level=None)) as connection:
            try:
                connection.execute("begin immediate")
            except sqlite3.OperationalError:
                return False
            connection.execute("rollback")
        return True

    def _start(self, *command: str) -> Process:
        name = f"{command[0]}-{next(self._numbers)}"
        process = Process(["windlass", *command], folder=self.folder, name=name, url=self.url)
        self.processes.append(process)
        return process

    def close(self) -> None:
        for process in self.processes:
            process.signal(signal.SIGCONT)
            process.kill()
        self.shop.app.close()

    def ran(self) -> Counter[tuple[int, int]]:
        """How often each task ran, by id and fence."""
        if not self.shop.effects.exists():
            return Counter()
        lines = self.shop.effects.read_text().splitlines()
        return Counter((int(number), int(fence)) for number, fence, _ in map(str.split, lines))

    def ended(self) -> int:
        """How many rows have ended."""
        query = select(func.count()).where(task.c.status == Status.SUCCEEDED)
        return self.shop.app.database.read(lambda connection: connection.scalar(query)) or 0

    def wait_ended(self, wanted: int, timeout: float = 60.0) -> None:
        try:
            eventually(lambda: self.ended() >= wanted, timeout, what=f"{wanted} rows ended")
        except AssertionError as error:
            logs = "\n".join(
                f"{each.log_path.name}:\n{each.log[-3000:]}" for each in self.processes
            )
            raise AssertionError(f"{error}; {self.ended()} have ended\n{logs}") from None

    def check(self, ids: set[int]) -> None:
        """Each row has ended once, by the attempt that it names; each task ran at least once."""
        columns = (task.c.id, task.c.status, task.c.started_at, task.c.result)
        rows = self.shop.app.database.read(
            lambda connection: connection.execute(select(*columns)).all()
        )
        ran = self.ran()
        assert {row.id for row in rows} == ids
        assert {row.status for row in rows} == {Status.SUCCEEDED}
        results = {row.id: msgspec.json.decode(row.result) for row in rows}
        # The result is the fence of the run that ended the row: of no other attempt.
        assert results == {row.id: row.started_at for row in rows}
        assert ran.keys() >= set(results.items())
        counted = self.shop.app.database.read(
            lambda connection: connection.scalar(select(func.sum(stat.c.done)))
        )
        assert int(counted) == len(ids)
