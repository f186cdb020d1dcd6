"""`windlass demo`: a small shop that lives in this terminal."""

from __future__ import annotations

import asyncio
import random
import tempfile
import threading
import time
from pathlib import Path
from typing import Annotated

import typer

from windlass.app import App
from windlass.cli.output import console, say
from windlass.errors import Cancel, Snooze

NAMES = ("ada", "grace", "linus", "margaret", "edsger", "barbara", "ken", "radia")


def register(cli: typer.Typer) -> None:
    """Add the command."""
    cli.command()(demo)


def demo(
    seconds: Annotated[
        float | None, typer.Option("--seconds", min=1, help="Stop by itself after so long.")
    ] = None,
    database: Annotated[
        str | None, typer.Option("--database", help="A database URL instead of a temporary file.")
    ] = None,
) -> None:
    """Watch orders come in, mails fail and be retried, a report run by cron. Ctrl-C ends it."""
    from windlass.cli.worker import run_worker

    with tempfile.TemporaryDirectory(prefix="windlass-demo-") as folder:
        app = App(database or f"sqlite:///{Path(folder) / 'shop.db'}")
        app.migrate()
        shop = declare_shop(app)
        shop.stock_level.add(f"SKU-{number:03d}" for number in range(100))
        console.print()
        say("A shop takes orders. Each is a task that charges, packs and sends a mail.")
        say("Some mails bounce and are retried; some orders are cancelled; a report runs by cron.")
        say("The stock level of each of 100 products is asked for every 20 s, 10 a second at most.")
        say(f"Everything is in {app.database.name}. Press Ctrl-C to end it.")
        console.print()
        worker = app.worker(concurrency=20)
        customers = Customers(shop)
        customers.start()
        if seconds is not None:
            timer = threading.Timer(seconds, worker.stop)
            timer.daemon = True
            timer.start()
        code = run_worker(worker, app, as_json=False)
        customers.stop()
        pulse = worker.pulse()
        say(f"The shop is closed: {pulse.done:,} tasks ended, {pulse.failed:,} of them failed.")
    raise typer.Exit(code)


class Shop:
    """The tasks of the demo."""

    def __init__(self, app: App) -> None:
        @app.task(retries=3, backoff="500ms", timeout="5s")
        async def send_mail(to: str, subject: str) -> None:
            await asyncio.sleep(random.uniform(0.02, 0.1))
            if random.random() < 0.15:
                raise ConnectionError(f"the mail server did not take {subject!r} for {to}")

        @app.task(concurrency=4, timeout="5s", keep="1h")
        def pack(order: int, items: int) -> str:
            time.sleep(0.02 * items)
            return f"parcel of {items} for order {order}"

        @app.task(retries=2, backoff="300ms", priority=10, timeout="5s")
        async def take_order(order: int, customer: str, items: int) -> None:
            if random.random() < 0.03:
                raise Cancel("the customer changed their mind")
            if random.random() < 0.05:
                raise Snooze("1s")
            await pack.using(key=f"order-{order}").aenqueue(order, items)
            await send_mail.aenqueue(f"{customer}@shop.example", f"Order {order} is on its way")

        @app.rolling(every="20s", rate="10/s", breaker="5 in a row, 5s", timeout="5s")
        async def stock_level(_code: str) -> str:
            await asyncio.sleep(random.uniform(0.01, 0.05))
            if random.random() < 0.02:
                raise ConnectionError("the inventory system does not answer")
            return f"{random.randint(0, 40)} in stock"

        @app.cron("* * * * *")
        def report() -> str:
            return stock_level.freshness().forecast

        self.take_order = take_order
        self.stock_level = stock_level


def declare_shop(app: App) -> Shop:
    """Declare the tasks of the demo on `app`."""
    return Shop(app)


class Customers(threading.Thread):
    """Place orders at a leisurely pace."""

    def __init__(self, shop: Shop) -> None:
        super().__init__(name="demo-customers", daemon=True)
        self._shop = shop
        self._closed = threading.Event()

    def run(self) -> None:
        order = 0
        while not self._closed.wait(random.uniform(0.02, 0.15)):
            order += 1
            self._shop.take_order.enqueue(order, random.choice(NAMES), random.randint(1, 5))

    def stop(self) -> None:
        self._closed.set()
        self.join(timeout=5.0)
