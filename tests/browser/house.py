"""A shop at work: its database, its worker process and its console's server."""

import re
from pathlib import Path

import httpx
from sqlalchemy import create_engine, text

from tests.browser.shop import CODES, NASTY, Shop
from tests.fault.crew import Process
from tests.wait import eventually
from windlass.database.database import normalise

LINK = re.compile(r"(http://[^\s/]+)/login\?token=\w+")
APP = "tests.browser.served:app"
PATIENCE_SECONDS = 60.0
SECRET = "correct horse battery staple"
ADDRESS = re.compile(r"The console is at (http://\S+?/?);")


class House:
    """The processes of one shop, and the same shop for a test to put work in."""

    def __init__(self, url: str, folder: Path) -> None:
        self.folder = folder
        self.url = url
        self.processes: list[Process] = []
        make_codes(url)
        self.shop = Shop(url)
        self.worker = self.start_worker(joined=False)
        self.console = self.start_console("--secret", SECRET)
        eventually(self.worker.has_joined, PATIENCE_SECONDS, what="a worker that has joined")

    def start_worker(self, *, joined: bool = True) -> Process:
        """One more worker."""
        worker = self._start("worker", APP, "--json")
        if joined:
            eventually(worker.has_joined, PATIENCE_SECONDS, what="a worker that has joined")
        return worker

    def start_console(self, *options: str) -> str:
        """The address of one more console, which has a secret."""
        return self._printed(ADDRESS, *options)[1].rstrip("/") + "/"

    def start_linked_console(self) -> str:
        """The link that one more console has printed, which has no secret."""
        return self._printed(LINK)[0]

    def _printed(self, pattern: re.Pattern[str], *options: str) -> re.Match[str]:
        console = self._start("console", APP, "--port", "0", *options)

        def found() -> re.Match[str] | None:
            assert console.is_running, console.log
            match = pattern.search(console.log)
            return match if match and answers(match[1]) else None

        return eventually(found, PATIENCE_SECONDS, what="a console that answers")

    def close(self) -> None:
        for process in self.processes:
            process.kill()
        self.shop.close()

    def _start(self, *arguments: str) -> Process:
        command = ["windlass", *arguments]
        name = f"{arguments[0]}-{len(self.processes)}"
        process = Process(command, folder=self.folder, name=name, url=self.url)
        self.processes.append(process)
        return process


def make_codes(url: str) -> None:
    """The table that one of the sweeps walks."""
    engine = create_engine(normalise(url))
    with engine.begin() as connection:
        connection.execute(text(f"create table {CODES} (code varchar(100) primary key)"))
        rows = [{"code": f"{letter} {NASTY}"} for letter in "abc"]
        connection.execute(text(f"insert into {CODES} values (:code)"), rows)
    engine.dispose()


def answers(address: str) -> bool:
    try:
        return httpx.get(f"{address}/api/health", trust_env=False, timeout=5).status_code == 200
    except httpx.TransportError:
        return False
