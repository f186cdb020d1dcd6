"""The demo from start to end: set up, run, remove."""

from __future__ import annotations

import logging
import signal
import socket
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from sqlalchemy import make_url

from windlass.database.database import Database
from windlass.demo import goods
from windlass.demo.diary import Diary
from windlass.demo.service import Service
from windlass.demo.setting import DemoSetting
from windlass.errors import BadDatabase, WindlassError
from windlass.operate.ring import operate as ring_operate

STOP_SECONDS = 3.0
JOIN_SECONDS = 30.0
SIGNALS = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
)


@dataclass(frozen=True)
class DemoOptions:
    """Options of the demo. With a `pace` of 2, failures begin twice as early."""

    database: str | None
    port: int
    seconds: float | None
    pace: float


def play(options: DemoOptions, console: Console) -> None:
    """Run the demo until a signal or for `seconds`, then remove everything."""
    stop = threading.Event()
    with _signals(stop), tempfile.TemporaryDirectory(prefix="windlass-demo-") as name:
        folder = Path(name)
        url = options.database or f"sqlite:///{folder / 'shop.db'}"
        _log_to(folder / "demo.log")
        with _tables(url, console), Service() as service:
            DemoSetting(url, service.url).publish()
            _live(options, console, folder, service, stop)
    console.print("The shop is closed, and everything was removed.")


def _live(
    options: DemoOptions, console: Console, folder: Path, service: Service, stop: threading.Event
) -> None:
    # Imported late: the shop reads its database URL during import.
    from windlass.demo import shop
    from windlass.demo.crew import Crew
    from windlass.demo.custom import Custom
    from windlass.demo.glance import Glance
    from windlass.demo.screen import Screen
    from windlass.demo.trouble import Trouble

    diary = Diary()
    with ExitStack() as stack:
        stack.callback(shop.app.close)
        Custom.open()
        shop.stock_level.mirror(shop.catalogue)
        shop.bestseller.add(goods.SOLD)
        web, where = _console(shop.app, options.port)
        stack.enter_context(web)
        crew = stack.enter_context(Crew(folder))
        if not console.is_terminal:
            console.print(f"The shop is open. Console: {where}", soft_wrap=True)
        screen = stack.enter_context(Screen(console, diary, where=where))
        _wait_for_workers(shop.app, stop)
        custom = Custom(diary, pace=options.pace)
        trouble = Trouble(crew, service, diary, pace=options.pace)
        glance = Glance(custom, trouble)
        screen.rows = glance.rows
        routines = [*custom.routines, *trouble.routines, glance.routine]
        for routine in routines:
            routine.start()
        stop.wait(options.seconds)
        for routine in routines:
            routine.stop()
        for routine in routines:
            routine.join(STOP_SECONDS)


def _wait_for_workers(app: Any, stop: threading.Event) -> None:
    """Wait until both workers have joined the ring, or for JOIN_SECONDS."""
    deadline = time.monotonic() + JOIN_SECONDS
    while time.monotonic() < deadline and not stop.wait(0.2):
        if sum(len(ring.members) for ring in ring_operate.rings(app.fleet)) >= 2:
            return


def _console(app: Any, port: int) -> tuple[AbstractContextManager[object], str]:
    """The console on a thread and its URL; without its extra, how to install it."""
    try:
        from windlass.web import create
        from windlass.web.serve import Beside, url_of
        from windlass.web.static import is_built
    except WindlassError as problem:
        return nullcontext(), str(problem)
    bound = _bind(port)
    # A browser that connects before the console is up waits instead of being refused.
    bound.listen()
    where = url_of(bound)
    if not is_built():
        where += " (API only: the pages were not built; run make demo, or install a wheel)"
    return Beside(create(app), bound), where


def _bind(port: int) -> socket.socket:
    """A socket on `port` if it is free, else on another port."""
    from windlass.web.serve import DEFAULT_HOST, bind

    try:
        return bind(DEFAULT_HOST, port)
    except WindlassError:
        return bind(DEFAULT_HOST, 0)


@contextmanager
def _tables(url: str, console: Console) -> Iterator[None]:
    """Create and fill the tables of the shop; remove them after the block."""
    file = _file_of(url)
    if file is not None and file.exists():
        raise BadDatabase(
            f"{file} exists already; the demo creates its own file and removes it at the end"
        )
    database = Database(url)
    try:
        if file is None:
            goods.require_empty(database)
        console.print(
            f"Filling the shelves: {goods.PRODUCTS:,} products, {goods.ARTICLES:,} articles ..."
        )
        try:
            _make(database)
            yield
        finally:
            if file is None:
                goods.remove(database)
    finally:
        database.close()
        if file is not None:
            for ending in ("", "-wal", "-shm", "-journal"):
                file.with_name(file.name + ending).unlink(missing_ok=True)


def _make(database: Database) -> None:
    from windlass.database.migrate import migrate

    migrate(database)
    goods.fill(database)


def _file_of(url: str) -> Path | None:
    """The file of an SQLite database; None for a server."""
    parsed = make_url(url)
    if parsed.get_backend_name() != "sqlite":
        return None
    if not parsed.database or parsed.database == ":memory:":
        raise BadDatabase(f"{url}: two workers cannot share a database in memory; name a file")
    return Path(parsed.database)


@contextmanager
def _signals(stop: threading.Event) -> Iterator[None]:
    """Let signals stop the demo; a second signal changes nothing."""
    before = {number: signal.signal(number, lambda *_: stop.set()) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _log_to(path: Path) -> None:
    """Keep logs off the screen, in a file that is removed with the rest."""
    logging.basicConfig(filename=path, level=logging.WARNING, force=True)
