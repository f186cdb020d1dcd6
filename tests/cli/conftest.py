"""A small shop in a folder of its own, and `windlass` run on it."""

import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tests.spawn import Spawned
from windlass.cli import main

SHOP = """
from windlass import App, Cancel

app = App({url!r})

@app.task(retries=0, timeout="5s")
def send_mail(to: str, copies: int = 1) -> str:
    if to == "nobody":
        raise ValueError("no such address")
    return f"sent to {{to}}"

@app.task(timeout="5s")
async def quick() -> None: ...

@app.task(timeout="5s")
def refuse() -> None:
    raise Cancel("not today")

@app.cron("0 3 * * *", tz="Asia/Shanghai", timeout="1m")
def nightly() -> None: ...

nothing = 7
"""

DEPOT = """
from datetime import UTC, datetime

from windlass import App
from windlass.clock import ManualClock

app = App({url!r}, clock=ManualClock(datetime(2026, 1, 1, 0, 0, 30, tzinfo=UTC)))

@app.rolling(every="10d", retry_after="1h", timeout="5s")
def stock(code: str) -> str:
    if code == "broken":
        raise ValueError("no such product")
    return f"7 of {{code}}"

@app.rolling(every="1d", rate="200/s", concurrency=20, window="01:00-07:00", timeout="5s")
def price(code: str) -> None: ...

@app.task(retries=0, breaker="2 in a row, 10m", timeout="5s")
def send_mail(to: str) -> None:
    raise ConnectionError("the mail server is down")
"""

numbers = count(1)


@dataclass(frozen=True)
class Answer:
    """What a command did."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current folder, with nothing of the outside."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("COLUMNS", "200")
    for name in ("WINDLASS_APP", "WINDLASS_DATABASE_URL", "WINDLASS_CHILD"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.fixture
def write_module(folder: Path, monkeypatch: pytest.MonkeyPatch):
    """Write a module under a new name, and forget it after the test."""

    def write(text: str) -> str:
        name = f"shop_{next(numbers)}"
        (folder / f"{name}.py").write_text(text)
        monkeypatch.delitem(sys.modules, name, raising=False)
        return name

    return write


@pytest.fixture
def windlass(folder: Path, capsys, monkeypatch) -> Callable[..., Answer]:
    """Run `windlass` in this process, through its front door."""

    def run(*arguments: str) -> Answer:
        monkeypatch.setattr(sys, "argv", ["windlass", *map(str, arguments)])
        capsys.readouterr()
        try:
            main()
            code = 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(bool(end.code))
        said = capsys.readouterr()
        return Answer(code, said.out, said.err)

    return run


@pytest.fixture
def windlass_process(folder: Path) -> Callable[..., Answer]:
    """Run `windlass` as a process of its own."""

    def run(*arguments: str, **environment: str) -> Answer:
        out, err = folder / ".out", folder / ".err"
        process = Spawned(
            "windlass",
            *map(str, arguments),
            folder=folder,
            log=out,
            errors=err,
            environment={**os.environ, **environment},
        )
        try:
            return Answer(process.wait(60), out.read_text(), err.read_text())
        finally:
            process.kill()

    return run


@pytest.fixture
def shop(database_url: str, write_module, monkeypatch):
    """The shop on a clean database; commands find it by $WINDLASS_APP."""
    yield from open_module(SHOP.format(url=database_url), write_module, monkeypatch)


@pytest.fixture
def sqlite_shop(sqlite_url: str, write_module, monkeypatch):
    """The shop on SQLite, for what is the same on every database."""
    yield from open_module(SHOP.format(url=sqlite_url), write_module, monkeypatch)


@pytest.fixture
def depot(sqlite_url: str, write_module, monkeypatch):
    """The depot on SQLite, for what is the same on every database."""
    yield from open_depot(sqlite_url, write_module, monkeypatch)


@pytest.fixture
def each_depot(database_url: str, write_module, monkeypatch):
    """The depot on a clean database of each engine."""
    yield from open_depot(database_url, write_module, monkeypatch)


def open_depot(url: str, write_module, monkeypatch):
    """Rolling kinds and a task with a breaker; the clock stands at 2026-01-01 00:00:30 UTC."""
    yield from open_module(DEPOT.format(url=url), write_module, monkeypatch)


def open_module(text: str, write_module, monkeypatch):
    """A module with an app, which commands find by $WINDLASS_APP."""
    module = write_module(text)
    monkeypatch.setenv("WINDLASS_APP", f"{module}:app")
    sys.path.insert(0, os.getcwd())
    loaded = __import__(module)
    yield loaded
    loaded.app.close()
