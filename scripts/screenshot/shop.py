"""A shop with work of every sort, and with trouble of every sort; its database is an environment
variable, so that workers and the console find the same one.
"""

from __future__ import annotations

import asyncio
import os
import random
import time

from windlass import App, Cancel, Keys

app = App(os.environ.get("WINDLASS_SHOP", "sqlite:///shop.db"))


@app.task(retries=3, backoff="2s", timeout="5s")
async def send_mail(to: str, subject: str) -> None:
    """Send a mail to a customer."""
    await asyncio.sleep(random.uniform(0.02, 0.1))
    if random.random() < 0.12:
        raise ConnectionError(f"the mail server did not take {subject!r} for {to}")


@app.task(concurrency=4, keep="1h")
def pack(order: int, items: int) -> dict[str, object]:
    """Pack a parcel."""
    time.sleep(0.02 * items)
    return {"order": order, "items": items, "parcel": f"P-{order:06d}", "weight": items * 0.4}


@app.task(priority=10)
async def take_order(order: int, customer: str, items: int) -> None:
    """Take an order: pack it and tell the customer."""
    if random.random() < 0.03:
        raise Cancel("the customer changed their mind")
    await pack.using(key=f"order-{order}").aenqueue(order, items)
    await send_mail.aenqueue(f"{customer}@shop.example", f"Order {order} is on its way")


@app.task(rate="5/s")
async def publish_feed(channel: str, note: str = "") -> None:
    """Publish the price feed of a channel."""
    await asyncio.sleep(0.05)


@app.task(retries=0, breaker="5 in a row, 5m")
async def charge_card(order: int, amount: float) -> None:
    """Charge a card at the payment service."""
    await asyncio.sleep(0.02)
    raise TimeoutError(f"pay.example did not answer for order {order} ({amount:.2f})")


@app.task(window="01:00-01:01")
async def rebuild_index(shelf: str) -> None:
    """Rebuild the search index at night."""


@app.task(retries=0)
def scale_image(name: str, width: int) -> None:
    """Make a small picture of a product."""
    raise ValueError(f"cannot read {name!r}: <script>alert('an image?')</script>")


@app.task(timeout="10m")
async def export_year(year: int) -> None:
    """Export a year of orders."""
    await asyncio.sleep(300)


@app.cron("* * * * *")
def report() -> str:
    """Write the report of the minute."""
    return "written"


@app.rolling(every="90s", rate="8/s", timeout="5s")
async def stock_level(code: str) -> str:
    """Ask the inventory for the stock of a product."""
    await asyncio.sleep(random.uniform(0.01, 0.05))
    if random.random() < 0.03:
        raise ConnectionError("the inventory system does not answer")
    return f"{random.randint(0, 40)} in stock"


@app.rolling(every="20s", rate="3/s")
async def price_check(code: str) -> str:
    """Compare a price with that of others."""
    await asyncio.sleep(0.02)
    return f"{random.uniform(3, 90):.2f}"


@app.sweep(Keys(1, 40_000), ranges=24, redo="1h", concurrency=4)
async def offer(article: int) -> None:
    """Check whether the offer of an article still stands."""
    await asyncio.sleep(random.uniform(0.02, 0.08) * (6 if 9_000 < article < 10_500 else 1))
    if article % 61 == 0:
        raise LookupError(f"article {article} has no offer page")


@app.sweep(Keys(1, 600), ranges=6, redo="30s", concurrency=20)
async def thumbnail(picture: int) -> None:
    """Look whether each thumbnail is there."""
    await asyncio.sleep(0.01)
