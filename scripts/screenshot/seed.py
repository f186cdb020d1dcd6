"""What the shop has when the pictures are made: an hour of history, runs, items, and trouble."""

from __future__ import annotations

import random
from contextlib import suppress

from scripts.screenshot import stock
from scripts.screenshot.shop import (
    app,
    charge_card,
    close_order,
    export_year,
    nightly,
    price_check,
    publish_feed,
    rebuild_index,
    scale_image,
    stock_level,
    take_order,
    thumbnails,
    week,
)
from windlass.clock import SECOND
from windlass.database.schema import stat
from windlass.operate.token.operate import FleetTokens
from windlass.view.role import Role

MINUTE = 60 * SECOND
PACES = {
    "send_mail": (90, 7, 60),
    "pack": (80, 0, 75),
    "take_order": (85, 1, 8),
    "stock_level": (400, 9, 30),
    "offer": (900, 14, 50),
}


def seed() -> None:
    """Fill the database of the shop; workers do the rest."""
    app.migrate()
    _tokens()
    random.seed(9)
    _history()
    _runs()
    stock.seed(app.database)
    stock_level.add(f"SKU-{number:04d}" for number in range(600))
    price_check.add(f"EAN-40{number:05d}" for number in range(300))
    for number in range(1, 400):
        take_order.enqueue(number, random.choice(("ada", "grace", "linus")), 1 + number % 5)
    publish_feed.enqueue_many(
        [{"channel": f"shop-{number}", "note": "<b>not bold</b>"} for number in range(900)]
    )
    for number in range(8):
        charge_card.enqueue(number, number * 19.9)
    rebuild_index.enqueue_many([{"shelf": f"shelf {letter}"} for letter in "abcdef"])
    for number in range(12):
        scale_image.using(key=f"picture-{number}.png").enqueue(f"picture-{number}.png", 480)
    for year in (2023, 2024, 2025):
        export_year.enqueue(year)
    _flows()
    app.pause("publish_feed", reason="the partner asked us to wait until noon", who="grace")


def _tokens() -> None:
    tokens = FleetTokens(app.fleet)
    for name, role, expires in (
        ("ada", Role.ADMIN, "365d"),
        ("grafana", Role.VIEWER, None),
        ("nightly-import", Role.PRODUCER, "90d"),
        ("old-laptop", Role.OPERATOR, None),
    ):
        tokens.create(name, role, expires=expires, who="ada@till")
    tokens.revoke("old-laptop", who="grace@till")


def _flows() -> None:
    nightly.using(key="2026-11-13").start("2026-11-13", "returns")
    nightly.using(key="2026-11-14").start("2026-11-14")
    for number in range(6):
        close_order.using(key=f"order-{7_000 + number}").start(f"order-{7_000 + number}")
    week.start("2026-11-02")
    thumbnails.start(1_500)
    nightly.using(key="2026-11-15").start("2026-11-15", "demand", 500)
    empty = nightly.using(key="2026-11-12").start("2026-11-12", "demand", 500)
    empty.cancel("there were no orders that night")
    spec = {
        "nodes": [
            {"name": "orders", "kind": "fetch", "kwargs": {"source": {"$argument": "day"}}},
            {"name": "stock", "kind": "fetch", "kwargs": {"source": "stock"}},
            {"name": "clean", "kind": "clean", "kwargs": {"rows": {"$result": "orders"}}},
            {
                "name": "train",
                "kind": "train",
                "kwargs": {"rows": [{"$result": "clean"}, {"$result": "stock"}]},
            },
            {
                "name": "publish",
                "kind": "publish",
                "kwargs": {"model": {"$result": "train"}},
                "when": "orders.result.rows > 0",
            },
        ],
        "edges": [
            ["orders", "clean"],
            ["clean", "train"],
            ["stock", "train"],
            ["train", "publish"],
        ],
    }
    app.flow_template("forecast", {**spec, "nodes": spec["nodes"][:4], "edges": spec["edges"][:3]})
    app.flow_template("forecast", spec)


def _history() -> None:
    """An hour of minutes, as workers would have counted them."""
    now = app.clock.now() // MINUTE
    rows = [
        {
            "minute": now - back,
            "kind": kind,
            "worker": 1,
            "done": (done := int(pace * random.uniform(0.7, 1.2) * (0.4 if 24 < back < 31 else 1))),
            "failed": int(failed * random.uniform(0, 2) * (6 if 24 < back < 31 else 1)),
            "retried": failed,
            "milliseconds": done * average,
        }
        for back in range(1, 61)
        for kind, (pace, failed, average) in PACES.items()
    ]
    app.database.write(lambda connection: connection.execute(stat.insert(), rows))


def _runs() -> None:
    with app.control("close-books", partition="2026-10") as run:
        run.step("collect", lambda: {"orders": 18_211})
        run.step("sum", lambda: {"total": "1,204,311.20"})
        run.step("post", lambda: "booked")
    with suppress(OSError), app.control("backup") as run:
        run.step("dump", lambda: {"rows": 123_456, "path": "/srv/shop.sql"})
        run.step("compress", lambda: {"bytes": 88_123_904})
        run.step("upload", _full_disk)
    app.control.start("load-recordings", "2026-11", expires="2h")
    for step in ("fetch", "parse", "store"):
        app.control.step("load-recordings", step, "2026-11")
    app.control.start("import-prices", expires="1us")


def _full_disk() -> None:
    raise OSError("no space left on /backup")


if __name__ == "__main__":
    seed()
