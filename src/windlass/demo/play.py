"""The demo from start to end: set up, run, remove."""

from __future__ import annotations

import logging
import os
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console

from windlass.database.database import Database
from windlass.database.migrate import migrate
from windlass.database.url import normalise
from windlass.demo import BROKER, DATABASE, INBOX, SERVICE, goods
from windlass.demo.routine import Diary
from windlass.demo.service import Service
from windlass.errors import BadDatabase, WindlassError
from windlass.operate.ring import operate as ring_operate

# How much earlier than usual failures begin: for tests.
PACE = "WINDLASS_DEMO_PACE"
STOP_SECONDS = 3.0
JOIN_SECONDS = 30.0
SIGNALS = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
)


def play(
    console: Console,
    *,
    database: str | None,
    port: int,
    seconds: float | None,
    open_it: bool = False,
    broker: str | None = None,
) -> None:
    """Run the demo until a signal or for `seconds`, then remove everything.

    With the URL of a message `broker`, products also come and go by messages.
    """
    stop = threading.Event()
    with _signals(stop), tempfile.TemporaryDirectory(prefix="windlass-demo-") as name:
        folder = Path(name)
        url = database or f"sqlite:///{folder / 'shop.db'}"
        # Logs are kept off the screen, in a file that is removed with the rest.
        logging.basicConfig(filename=folder / "demo.log", level=logging.WARNING, force=True)
        with _tables(url, console), Service() as service:
            os.environ.update({DATABASE: url, SERVICE: service.url, INBOX: service.inbox.secret})
            if broker is not None:
                os.environ[BROKER] = broker
            _live(console, folder, service, port=port, seconds=seconds, open_it=open_it, stop=stop)
    console.print("The shop is closed, and everything was removed.")


def _live(
    console: Console,
    folder: Path,
    service: Service,
    *,
    port: int,
    seconds: float | None,
    open_it: bool,
    stop: threading.Event,
) -> None:
    # Imported late: the shop reads its database URL during import.
    from windlass.demo import shop
    from windlass.demo.crew import Crew
    from windlass.demo.custom import Custom
    from windlass.demo.market import Market
    from windlass.demo.screen import Glance, Screen
    from windlass.demo.trouble import ShopTrouble

    diary, pace = Diary(), float(os.environ.get(PACE) or 1)
    with ExitStack() as stack:
        stack.callback(shop.app.close)
        service.inventory.move("opening delivery", Custom.open())
        shop.stock_level.follow(shop.catalogue)
        stack.callback(shop.stock_level.unfollow, shop.catalogue)
        shop.stock_level.mirror(shop.catalogue)
        shop.bestseller.add(goods.SOLD)
        market = Market(diary, pace=pace)
        where = _serve(
            stack,
            shop.app,
            port,
            open_it=open_it,
            add=lambda site: _open_shop(site, market, service, diary),
        )
        crew = stack.enter_context(Crew(folder))
        if not console.is_terminal:
            console.print(f"The shop is open. Console: {where}", soft_wrap=True)
        screen = stack.enter_context(Screen(console, diary, where=where))
        _wait_for_workers(shop.app, stop)
        custom = Custom(diary, pace=pace)
        trouble = ShopTrouble(crew, service, diary, pace=pace)
        glance = Glance(custom, trouble)
        screen.rows = glance.rows
        routines = [*custom.routines, *market.routines, *trouble.routines, glance.routine]
        for routine in routines:
            routine.start()
        stop.wait(seconds)
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


def _open_shop(site: Any, market: Any, service: Service, diary: Diary) -> None:
    # Imported late: it imports the packages of the console.
    from windlass.demo.page import ShopPage, open_shop
    from windlass.demo.till import Till

    open_shop(site, ShopPage(Till(), market, service.inbox, diary))


def _serve(
    stack: ExitStack, app: Any, port: int, *, open_it: bool, add: Callable[[Any], None]
) -> str:
    """Serve the console on a thread; the link to it, or which package is missing.

    `add` puts the page of the shop beside it.
    """
    try:
        from windlass.web.credential import Credentials
        from windlass.web.link import Link
        from windlass.web.serve import beside, bind, open_browser, url_of
        from windlass.web.site import make
        from windlass.web.static import is_built
    except WindlassError as problem:
        return str(problem)
    bound = bind("127.0.0.1", port, or_any=True)
    # A browser that connects before the console is up waits instead of being refused.
    bound.listen()
    link = stack.enter_context(Link.made())
    where = link.at(url_of(bound))
    site = make(app, Credentials(link=link))
    add(site)
    stack.enter_context(beside(site, bound))
    if open_it:
        open_browser(bound, link.page.as_uri())
    if not is_built():
        where += " (API only: the pages were not built; run make demo, or install a wheel)"
    return where


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
            migrate(database)
            goods.fill(database)
            yield
        finally:
            if file is None:
                goods.remove(database)
    finally:
        database.close()
        if file is not None:
            for ending in ("", "-wal", "-shm", "-journal"):
                file.with_name(file.name + ending).unlink(missing_ok=True)


def _file_of(url: str) -> Path | None:
    """The file of an SQLite database; None for a server."""
    parsed = normalise(url)
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
