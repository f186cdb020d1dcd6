"""A shop with work of every sort, and with trouble of every sort; its database is an environment
variable, so that workers and the console find the same one.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from datetime import UTC, datetime, timedelta

from windlass import App, Cancel, Keys, context

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


@app.task(rate="5/s", group="sale", window="06:00-23:00")
async def publish_feed(channel: str, note: str = "") -> None:
    """Publish the price feed of a channel."""
    await asyncio.sleep(0.05)


@app.task(retries=0, breaker="5 in a row, 5m", group="sale")
async def charge_card(order: int, amount: float) -> None:
    """Charge a card at the payment service."""
    await asyncio.sleep(0.02)
    raise TimeoutError(f"pay.example did not answer for order {order} ({amount:.2f})")


# Its window has days that are off, whenever the pictures are made.
SOON = datetime.now(UTC).date() + timedelta(days=3)
NIGHTS = f"01:00-05:30, Sat-Sun 01:00-09:00, not {SOON} - {SOON + timedelta(days=1)} Asia/Shanghai"


@app.task(window=NIGHTS, group="night")
async def rebuild_index(shelf: str) -> None:
    """Rebuild the search index at night."""


@app.task(retries=0)
def scale_image(name: str, width: int) -> None:
    """Make a small picture of a product."""
    raise ValueError(f"cannot read {name!r}: <script>alert('an image?')</script>")


@app.task(timeout="10m")
async def export_year(year: int) -> None:
    """Export a year of orders."""
    for done in range(300):
        context().progress(done + 40, 365, f"writing the orders of day {done + 40}")
        await asyncio.sleep(1)


@app.task(retries=0, timeout="10m")
async def fetch(source: str, seconds: float = 0.4) -> dict[str, object]:
    """Fetch the rows of a day."""
    await asyncio.sleep(seconds)
    return {"source": source, "rows": 1_200 + len(source)}


@app.task(retries=0)
async def clean(rows: dict[str, object]) -> dict[str, object]:
    """Clean rows."""
    await asyncio.sleep(random.uniform(0.3, 1.2))
    return rows


@app.task(retries=0)
async def train(rows: list[object], model: str = "demand") -> str:
    """Train a model."""
    await asyncio.sleep(1.5)
    if model == "returns":
        raise MemoryError("the model <returns> needs 96 GB, and 64 GB are free")
    return f"{model}-2026-11"


@app.task(retries=0)
async def publish(model: object, to: str = "shop") -> None:
    """Publish what was made."""
    await asyncio.sleep(0.3)


@app.flow
def nightly(flow, day: str, model: str = "demand", seconds: float = 0.4):
    """Fetch a day, clean it, train a model and publish it."""
    parts = []
    for source in ("orders", "stock", "clicks"):
        raw = flow.add(fetch, source, seconds, name=f"fetch {source}")
        parts.append(flow.add(clean, raw.result, after=raw, name=f"clean {source}"))
    made = flow.add(train, [part.result for part in parts], model, after=parts, name="train")
    check = flow.add(clean, parts[0].result, after=parts[0], name="check")
    flow.add(publish, made.result, after=[made, check], name="publish")
    flow.add(publish, None, "ops", after=[made], trigger="all_done", name="tell ops")


@app.flow
def close_order(flow, order: str):
    """Close an order: tell the customer and the archive."""
    told = flow.add(fetch, order, name="read")
    flow.add(publish, told.result, "mail", after=told, name="mail")
    flow.add(publish, told.result, "archive", after=told, name="archive")


@app.flow
def week(flow, first: str):
    """Two nights, and what comes after them."""
    nights = [flow.add(nightly, f"{first}+{day}", name=f"night-{day}") for day in (1, 2)]
    flow.add(publish, None, "board", after=nights, name="board")


@app.flow
def thumbnails(flow, count: int):
    """A wide one."""
    begin = flow.add(fetch, "pictures", name="list")
    each = flow.each(clean, [{"picture": number} for number in range(count)], after=begin)
    flow.add(publish, None, after=each, name="publish")


@app.cron("* * * * *")
def report() -> str:
    """Write the report of the minute."""
    return "written"


@app.cron("30 2 * * mon-fri", tz="Asia/Shanghai", timeout="1h")
def nightly_backup() -> None:
    """Copy the database to the other site."""


@app.cron(every="20s", retries=0)
def import_prices() -> int:
    """Fetch the prices of the wholesaler."""
    time.sleep(random.uniform(0.2, 1.5))
    if random.random() < 0.3:
        raise ConnectionError("the wholesaler's server closed the connection")
    return 420


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
