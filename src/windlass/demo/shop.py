"""The shop: uses every part of Windlass once, as a user would write it."""

from __future__ import annotations

import asyncio
import os
import random
import time
from typing import Any

from sqlalchemy import Connection, update

from windlass.app import App
from windlass.demo import BROKER, DATABASE, INBOX, SERVICE, goods
from windlass.demo.client import Client
from windlass.errors import AlreadyRunning, Snooze
from windlass.external.model import Answer, Done, External, Running
from windlass.flow.declare import Drawing
from windlass.handler import context
from windlass.ledger import Ledger
from windlass.source.keys import Keys
from windlass.source.store.table import Table

CHAPTERS = ("anchors", "ropes", "sails", "lights", "charts", "clothing")

app = App(os.environ.get(DATABASE, "sqlite:///windlass-demo.db"), grace="2s")
ledger = Ledger(app.database, clock=app.clock)
service = Client(os.environ.get(SERVICE, "http://127.0.0.1:1"))
if INBOX in os.environ:
    # Alerts arrive in the inbox of the shop's page.
    app.alert_to(f"webhook+{os.environ[SERVICE]}/inbox", secret=os.environ[INBOX], severity="info")
catalogue = Table(app.database.engine, "shop_product", key="code")


# Orders: stock and task in one transaction, so neither exists without the other.


def place_order(order: str, customer: str, lines: dict[str, int]) -> None:
    """Deduct the stock of an order and enqueue its fulfilment; OutOfStock changes nothing."""

    def write(connection: Connection) -> None:
        ledger.deduct(order, lines, conn=connection)
        fulfil.using(key=order, conn=connection).enqueue(order, customer, lines)

    app.database.write(write)


def exchange(order: str, click: str, back: str, out: str) -> None:
    """Take a piece of an order back and hand out another, once for each `click`."""

    def write(connection: Connection) -> None:
        ledger.exchange(order, click, back={back: 1}, out={out: 1}, conn=connection)
        moved = f"{order} {click}"
        move_pieces.using(key=moved, conn=connection).enqueue(moved, {back: 1, out: -1})

    app.database.write(write)


@app.task(priority=10, timeout="10s", keep="10m")
async def fulfil(order: str, customer: str, lines: dict[str, int]) -> None:
    """Enqueue the packing of an order and a mail to its customer."""
    await move_pieces.using(key=order).aenqueue(order, {sku: -n for sku, n in lines.items()})
    await pack.using(key=order).aenqueue(order, sum(lines.values()))
    await send_mail.aenqueue(f"{customer}@sea.example", f"{order} is on its way")


@app.task(retries=50, backoff="1s", timeout="10s")
def move_pieces(movement: str, lines: dict[str, int]) -> None:
    """Tell the inventory what left the store, or came into it; a repeated call counts once."""
    service.post("move", movement, body=lines)


@app.task(concurrency=4, timeout="10s", retries=1, backoff="3s", keep="10m")
async def pack(order: str, pieces: int) -> dict[str, object]:
    """Pack a parcel."""
    await asyncio.sleep(0.15 * pieces)
    if random.random() < 0.015:
        raise ValueError(f"no box is large enough for the {pieces} pieces of {order}")
    return {"order": order, "pieces": pieces, "weight_kg": round(0.4 * pieces, 1)}


@app.task(retries=4, backoff="1s", timeout="10s")
async def send_mail(to: str, subject: str) -> None:
    """Send a mail to a customer; the mail server drops some."""
    await asyncio.sleep(random.uniform(0.05, 0.3))
    if random.random() < 0.1:
        raise ConnectionError(f"the mail server did not take {subject!r} for {to}")


@app.task(timeout="10s", keep="10m")
def take_delivery(delivery: str, lines: dict[str, int]) -> int:
    """Add a delivery to the stock; the same delivery twice counts once."""
    ledger.restock(delivery, lines)
    move_pieces.using(key=delivery).enqueue(delivery, lines)
    return sum(lines.values())


@app.cron("* * * * *", timeout="20s")
def report() -> str:
    """Record every minute how fresh the catalogue is."""
    return stock_level.freshness().forecast


# Rolling: the inventory answers for one product at a time; bestsellers are refreshed more often.


@app.rolling(
    every="30m", batch=50, rate="20/s", concurrency=8, breaker="8 in a row, 6s", timeout="20s"
)
def stock_level(code: str) -> str:
    """Ask the inventory how many of a product are on hand, for the pages of the shop."""
    return _ask(code)


@app.rolling(every="30s", retry_after="5s", concurrency=4, timeout="20s")
def bestseller(code: str) -> str:
    """Ask for a bestseller every half minute."""
    return _ask(code)


def _ask(code: str) -> str:
    quantity = service.get("stock", code)["on_hand"]
    # Written in the transaction that finishes the visit: no commit of its own.
    context().on_finish(lambda connection: goods.note_quantity(connection, code, quantity))
    return f"{quantity} on hand"


# Products also come and go by messages, if there is a broker.

if BROKER in os.environ:
    from windlass.queue import Queue

    news = Queue(os.environ[BROKER], "shop.product")

    @app.consume(news)
    def on_news(event: dict[str, str]) -> None:
        """Add or remove a product, once for each message."""
        goods.change(context().conn, event["code"], is_new=event["what"] == "new")


# Sweeps: all articles, round after round.


@app.sweep(
    Table(app.database.engine, "shop_article", key="id"),
    ranges=24,
    redo="30s",
    concurrency=8,
    rate="100/s",
    batch=250,
)
async def offer(article: dict[str, Any]) -> None:
    """Check whether the offer of an article has ended, and enqueue its removal."""
    if article["id"] % 1_511 == 0:
        raise LookupError(f"the offer page of article {article['id']} is gone")
    ends = article["offer_ends_at"]
    if ends is not None and ends < time.time():
        await end_offer.using(key=str(article["id"])).aenqueue(article["id"])


@app.task(timeout="10s", keep="5m")
async def end_offer(article: int) -> None:
    """Remove an ended offer, in the transaction that finishes the task."""
    ended = update(goods.article).where(goods.article.c.id == article).values(offer_ends_at=None)

    def write(connection: Connection) -> None:
        connection.execute(ended)

    context().on_finish(write)


@app.sweep(Keys(1, 900), ranges=4, redo="10s", concurrency=2, batch=50)
async def shelf(_number: int) -> None:
    """Check whether the label of a shelf is readable."""
    await asyncio.sleep(random.uniform(0.05, 0.15))


# A flow: a cancelled order is undone in parallel steps, and the customer is told last.


@app.flow(keep="30m")
def cancel_order(flow: Drawing, order: str, customer: str) -> None:
    """Undo everything that an order started."""
    goods_back = flow.add(give_back_stock, order)
    others = [flow.add(undo, order) for undo in (refund, revoke_points, stop_parcel)]
    flow.add(tell_customer, order, customer, goods_back.result, after=[goods_back, *others])


@app.task(timeout="20s")
def give_back_stock(order: str) -> dict[str, int]:
    """Give back the stock that was not returned yet."""
    back = {line.sku: line.quantity for line in ledger.void(order).lines}
    move_pieces.using(key=f"{order} back").enqueue(f"{order} back", back)
    return back


# A payment service may be down for hours.
@app.task(retries=50, backoff="1s", timeout="20s")
def refund(order: str) -> None:
    """Refund the customer."""
    time.sleep(random.uniform(0.3, 1.2))
    service.post("refund", order)


@app.task(timeout="20s")
async def revoke_points(_order: str) -> None:
    """Revoke the points of the order."""
    await asyncio.sleep(random.uniform(0.5, 2.5))


@app.task(timeout="20s")
async def stop_parcel(_order: str) -> str:
    """Stop the parcel, or call it back."""
    await asyncio.sleep(random.uniform(1.0, 4.0))
    return random.choice(("still here", "called back"))


@app.task(timeout="20s")
async def tell_customer(order: str, customer: str, back: dict[str, int]) -> str:
    """Tell the customer, after everything else."""
    await asyncio.sleep(random.uniform(0.2, 0.8))
    return f"told {customer}: {order} is cancelled, {sum(back.values())} pieces came back"


# A larger flow, with a job that an external system executes.


class Printer(External):
    """A printing service that must be polled."""

    def submit(self, issue: str) -> str:
        """Send the catalogue; a repeated submission has the same name."""
        return str(service.post("print", f"{issue}-{context().submission}")["job"])

    def poll(self, handles: list[str]) -> dict[str, Answer]:
        """Ask which catalogues are printed."""
        printed = service.get("print", query=f"?job={','.join(handles)}")
        return {each: Done({"copies": 500}) if printed[each] else Running() for each in handles}


printer = app.external("printer", Printer(), every="2s", timeout="3m", retries=3)


@app.flow(keep="30m")
def print_catalogue(flow: Drawing, issue: str) -> None:
    """Freeze prices, set the chapters in parallel, then print."""
    prices = flow.add(freeze_prices, issue)
    chapters = [
        flow.add(set_chapter, chapter, prices.result, after=prices, name=f"set {chapter}")
        for chapter in CHAPTERS
    ]
    proof = flow.add(read_proof, [each.result for each in chapters], after=chapters)
    printed = flow.add(printer, issue, after=proof, when="read_proof.result.pages > 0")
    flow.add(send_mail, "all@sea.example", f"Catalogue {issue}", after=printed, name="announce")
    flow.add(archive, issue, after=proof)


@app.task(timeout="20s")
async def freeze_prices(issue: str) -> dict[str, object]:
    """Freeze the prices for this issue."""
    await asyncio.sleep(random.uniform(0.8, 2.0))
    return {"issue": issue, "prices": goods.PRODUCTS}


@app.task(retries=5, backoff="1s", timeout="20s")
async def set_chapter(chapter: str, prices: dict[str, object]) -> dict[str, object]:
    """Set the pages of a chapter."""
    await asyncio.sleep(random.uniform(1.0, 5.0))
    if random.random() < 0.15:
        raise OSError(f"a picture of chapter {chapter!r} cannot be read")
    return {"chapter": chapter, "pages": random.randint(4, 24), "issue": prices["issue"]}


@app.task(timeout="20s")
async def read_proof(chapters: list[dict[str, Any]]) -> dict[str, int]:
    """Proofread all chapters."""
    await asyncio.sleep(random.uniform(1.0, 3.0))
    return {"pages": sum(chapter["pages"] for chapter in chapters)}


@app.task(timeout="20s")
async def archive(_issue: str) -> None:
    """Archive the issue."""
    await asyncio.sleep(random.uniform(0.5, 2.0))


# A control run: one at a time, and finished steps are not repeated.


@app.task(retries=10, backoff="2s", timeout="1m", max_lost=10, keep="10m")
def import_prices(supplier: str) -> str:
    """Import the prices of a supplier; a retry continues at the failed step."""
    try:
        with app.control("import-prices", partition=supplier, expires="30s") as run:
            lines = run.step("download", _download)
            run.step("check", _check, lines)
            if run.step("load"):
                for _ in run.track(range(12)):
                    time.sleep(0.15)
                if random.random() < 0.35:
                    raise ConnectionError(f"{supplier} closed the connection at line {lines // 2}")
            run.step("publish", _publish)
            return f"{lines} prices of {supplier}"
    except AlreadyRunning:
        # Its worker was killed; the run is free after it expires.
        raise Snooze("5s") from None


def _download() -> int:
    time.sleep(random.uniform(0.5, 1.5))
    return random.randint(800, 4_000)


def _check(lines: int) -> dict[str, int]:
    time.sleep(random.uniform(0.3, 1.0))
    return {"lines": lines, "refused": random.randint(0, 9)}


def _publish() -> str:
    time.sleep(random.uniform(0.2, 0.6))
    return "published"
