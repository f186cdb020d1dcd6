"""The till: what a customer of the shop's page sees and does."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, Literal

from sqlalchemy import Connection, Row, func, select

from windlass.demo import shop
from windlass.demo.goods import SOLD, product
from windlass.errors import UnknownDeduction
from windlass.ledger import DeductionStatus

SHOWN = 40
STALE_SECONDS = 10.0
ORDERS_KEPT = 200

OrderState = Literal["on its way", "being cancelled", "cancelled"]


@dataclass(frozen=True)
class Offer:
    """One product as the page shows it."""

    code: str
    # What the other system had on hand when it was asked; None if it never was.
    quantity: int | None
    age_seconds: float | None
    # How many may be bought; None if the shop does not sell it.
    available: int | None


@dataclass(frozen=True)
class OrderLine:
    """How many pieces of a product an order has, without those that were given back."""

    code: str
    pieces: int


@dataclass(frozen=True)
class PageOrder:
    """One order of a customer."""

    id: str
    state: OrderState
    lines: list[OrderLine]


class Till:
    """Sells to the customers of the page; each sees the orders of their own session."""

    def __init__(self) -> None:
        self._numbers = count(1)
        self._orders: deque[tuple[str, str]] = deque(maxlen=ORDERS_KEPT)
        self._cancelled: set[str] = set()
        self._lock = threading.Lock()

    def offers(self, search: str) -> list[Offer]:
        """The products whose codes begin with `search`; without it, those that are sold."""
        found = shop.app.database.read(lambda connection: _products(connection, search))
        sold = shop.ledger.stocks([each.code for each in found if each.code in SOLD])
        available = {stock.sku: stock.available for stock in sold}
        now = time.time()
        return [
            Offer(
                code=each.code,
                quantity=each.quantity,
                age_seconds=None if each.asked_at is None else now - each.asked_at / 1_000,
                available=available.get(each.code),
            )
            for each in found
        ]

    def look(self, code: str) -> str:
        """Have a stale product asked for soon; the page does not wait for it."""
        return str(shop.stock_level.visit_soon(code, fresh=f"{STALE_SECONDS}s"))

    def buy(self, customer: str, code: str, pieces: int) -> str:
        """Place an order; OutOfStock changes nothing."""
        order = f"page-{next(self._numbers)}"
        shop.place_order(order, customer, {code: pieces})
        with self._lock:
            self._orders.append((customer, order))
        return order

    def exchange(self, customer: str, order: str, click: str, *, back: str, out: str) -> None:
        """Exchange a piece of an order for another product."""
        self._require_own(customer, order)
        shop.exchange(order, click, back, out)

    def cancel(self, customer: str, order: str) -> int:
        """Start the flow that undoes an order; a second click gets the same run."""
        self._require_own(customer, order)
        run = shop.cancel_order.using(key=order).start(order, customer)
        self._cancelled.add(order)
        return run.id

    def orders(self, customer: str) -> list[PageOrder]:
        """The orders of a customer, newest first."""
        with self._lock:
            own = [order for who, order in self._orders if who == customer]
        return [self._order(order) for order in reversed(own)]

    def _order(self, number: str) -> PageOrder:
        found = shop.ledger.deduction(number)
        state: OrderState = "on its way"
        if found.status is DeductionStatus.VOIDED:
            state = "cancelled"
        elif number in self._cancelled:
            state = "being cancelled"
        lines = [OrderLine(line.sku, line.returnable) for line in found.lines if line.returnable]
        return PageOrder(number, state, lines)

    def _require_own(self, customer: str, order: str) -> None:
        with self._lock:
            if (customer, order) not in self._orders:
                raise UnknownDeduction(id=order)


def _products(connection: Connection, search: str) -> Sequence[Row[Any]]:
    begins = func.substr(product.c.code, 1, len(search)) == search
    wanted = begins if search else product.c.code.in_(SOLD)
    chosen = select(product).where(wanted).order_by(product.c.code).limit(SHOWN)
    return connection.execute(chosen).all()
