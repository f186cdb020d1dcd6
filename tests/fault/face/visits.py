"""The rolling kind that worker processes serve, and the log of what was really visited."""

import asyncio
import os
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import func, select

from tests.fault.crew import Crew
from windlass import App
from windlass.database.schema import task

MODULE = """
from pathlib import Path

from tests.fault.face.visits import Visits

app = Visits({url!r}, Path({folder!r}), **{options!r}).app
"""
NAP_SECONDS = 0.03


@dataclass(frozen=True)
class Note:
    """One line of the log: a visit of `code` has begun or ended in process `pid`."""

    what: str
    code: str
    pid: int


class Visits:
    """An app with the kind `stock`. A code that begins with "slow" waits until the gate is open."""

    def __init__(self, url: str, folder: Path, **options: str) -> None:
        self._log = folder / "visits"
        self._gate = folder / "open"
        self.app = App(url, **options)
        self.stock = self.app.rolling(every="1d", name="stock")(self._visit)

    async def _visit(self, code: str) -> None:
        self._note("begin", code)
        await asyncio.sleep(NAP_SECONDS)
        while code.startswith("slow") and not self._gate.exists():
            await asyncio.sleep(NAP_SECONDS)
        self._note("end", code)

    def open_gate(self) -> None:
        self._gate.touch()

    def all(self) -> list[Note]:
        """What was noted, in the order in which it happened."""
        written = self._log.read_text() if self._log.exists() else ""
        # Who reads while others write may see the beginning of a line.
        lines = written[: written.rfind("\n") + 1].splitlines()
        return [Note(what, code, int(pid)) for what, code, pid in map(str.split, lines)]

    def count(self, what: str) -> Counter[str]:
        return Counter(note.code for note in self.all() if note.what == what)

    def overlapped(self, *, killed: Collection[int] = ()) -> list[Note]:
        """Visits that began while another of their item ran, in a process that was not killed."""
        return list(self._overlapped(set(killed)))

    def _overlapped(self, killed: set[int]) -> Iterator[Note]:
        running: dict[str, int] = {}
        for note in self.all():
            if note.what == "end":
                del running[note.code]
                continue
            if running.get(note.code) not in {None, *killed}:
                yield note
            running[note.code] = note.pid

    def _note(self, what: str, code: str) -> None:
        # One short write to a file opened for appending is never torn or overwritten.
        file = os.open(self._log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        try:
            os.write(file, f"{what} {code} {os.getpid()}\n".encode())
        finally:
            os.close(file)


class RollingCrew(Crew):
    """A crew whose workers serve `stock`."""

    def __init__(self, folder: Path, url: str, **options: str) -> None:
        settings = {"lease": "5s", "dead_after": "2s", "grace": "10s", **options}
        super().__init__(folder, url, **settings)
        self.visits = Visits(url, folder, **settings)
        self.stock = self.visits.stock
        module = MODULE.format(url=url, folder=str(folder), options=settings)
        (folder / "served.py").write_text(module)

    def close(self) -> None:
        super().close()
        self.visits.app.close()

    def visited(self) -> int:
        """How many items have been visited and wait for their next turn."""
        query = select(func.count()).where(task.c.status == 0, task.c.finished_at.is_not(None))
        return self.jobs.app.database.read(
            lambda connection: connection.execute(query).scalar_one()
        )
