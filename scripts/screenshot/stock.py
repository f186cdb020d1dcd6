"""Three days of a shop's stock: deliveries, orders, holds, returns, a count, and some refusals."""

from __future__ import annotations

import random
from contextlib import suppress
from datetime import UTC, datetime, timedelta

from windlass.clock import SECOND, ManualClock
from windlass.database.database import Database
from windlass.errors import WindlassError
from windlass.ledger import Ledger

GOODS = ("bolt-m4", "bolt-m6", "bolt-m8", "hinge-90", "hinge-180", "lamp-desk", "lamp-floor")
SHELVES = tuple(f"shelf-{width}-{wood}" for width in (60, 80, 120) for wood in ("oak", "pine"))
EVIL = "<img src=x onerror=alert('stock')>"
ORDERS = 260


def seed(database: Database) -> None:
    """Fill the ledger, as if it had happened one after the other until now."""
    begin = datetime.now(UTC) - timedelta(days=3)
    clock = ManualClock(begin)
    ledger = Ledger(database, clock=clock)
    goods = (*GOODS, *SHELVES)
    ledger.restock("delivery-2026-0117", dict.fromkeys(goods, 240) | {EVIL: 12, "chair-red": 9})
    step = timedelta(days=3) / (ORDERS + 6)
    for number in range(ORDERS):
        clock.advance(int(step.total_seconds() * SECOND))
        _order(ledger, 41_000 + number, random.sample(goods, random.randint(1, 4)))
        if number == 120:
            ledger.restock("delivery-2026-0118", dict.fromkeys(goods[:9], 60))
        if number == 200:
            ledger.adjust("count-november", {"bolt-m6": -7, "lamp-desk": 2}, reason="shelf count")
    clock.advance(int((datetime.now(UTC) - begin - step * ORDERS).total_seconds() * SECOND))
    ledger.deduct("order-chairs", {"chair-red": 9})
    with suppress(WindlassError):
        ledger.deduct("order-chairs-late", {"chair-red": 1})
    ledger.deduct(EVIL, {EVIL: 3, "bolt-m4": 2})
    ledger.give_back(EVIL, EVIL, {EVIL: 1})
    ledger.deduct("order-large", dict.fromkeys(goods, 1))
    for number in range(4):
        ledger.deduct(f"basket-{7_001 + number}", {"lamp-floor": 1}, hold=f"{10 + number}m")
    ledger.void("order-that-never-came")


def _order(ledger: Ledger, number: int, goods: list[str]) -> None:
    of = f"order-{number}"
    with suppress(WindlassError):
        ledger.deduct(of, {sku: random.randint(1, 6) for sku in goods})
    if number % 7 == 0:
        with suppress(WindlassError):
            ledger.give_back(of, f"return-{number}-1", {goods[0]: 1})
    if number % 31 == 0:
        with suppress(WindlassError):
            ledger.give_back(of, f"return-{number}-2", {goods[0]: 50})
    if number % 17 == 0:
        ledger.void(of)
