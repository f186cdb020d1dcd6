"""The customers and suppliers of the shop."""

from __future__ import annotations

import random
import threading
from itertools import count

from windlass.demo import shop
from windlass.demo.goods import SOLD
from windlass.demo.routine import Diary, Routine
from windlass.errors import OutOfStock

# fmt: off
NAMES = (
    "ahab", "anne", "drake", "grace", "ishmael", "jacques", "linus", "nemo", "sindbad", "zheng",
)
# fmt: on
SUPPLIERS = ("northwind", "harbour-co", "sailmakers", "brassworks")
# A few products sell much better than the rest.
WEIGHTS = tuple(1 / (place + 2) for place in range(len(SOLD)))
CANCELLED = 0.15
FIRST_STOCK = (25, 70)
DELIVERED = (5, 16)


class Custom:
    """Orders and their cancellations, deliveries, price lists and catalogues."""

    def __init__(self, diary: Diary, *, pace: float) -> None:
        self._diary = diary
        self._orders = count(1_001)
        self._deliveries = count(1)
        self._issues = count(1)
        self._imports = count()
        self.placed = 0
        self.refused = 0
        self.cancelled = 0
        self._regretted: list[tuple[str, str]] = []
        self._lock = threading.Lock()
        self.routines = [
            Routine("orders", self._order, first=0.5, every=(0.25, 0.9)),
            Routine("regrets", self._regret, first=4.0 / pace, every=(1.5, 3.5)),
            Routine("deliveries", self._deliver, first=8.0 / pace, every=(12, 18)),
            Routine("imports", self._import, first=2.0 / pace, every=(9, 15)),
            Routine("catalogues", self._print, first=1.0, every=(25, 40)),
        ]

    @staticmethod
    def open() -> dict[str, int]:
        """Take the first delivery, before the first order; its pieces."""
        lines = {sku: random.randint(*FIRST_STOCK) for sku in SOLD}
        shop.ledger.restock("opening delivery", lines)
        return lines

    def _order(self) -> None:
        order, customer = f"order-{next(self._orders)}", random.choice(NAMES)
        skus = set(random.choices(SOLD, WEIGHTS, k=random.randint(1, 3)))
        try:
            shop.place_order(order, customer, {sku: random.randint(1, 3) for sku in skus})
        except OutOfStock as problem:
            self.refused += 1
            if self.refused % 10 == 1:
                self._diary.write(
                    f"{order} was refused: {problem.wanted} x {problem.sku} wanted, "
                    f"{problem.available} available"
                )
            return
        self.placed += 1
        if random.random() < CANCELLED or self.placed == 2:
            with self._lock:
                self._regretted.append((order, customer))

    def _regret(self) -> None:
        with self._lock:
            regretted, self._regretted = self._regretted, []
        for order, customer in regretted:
            shop.cancel_order.using(key=order).start(order, customer)
            self.cancelled += 1

    def _deliver(self) -> None:
        delivery = f"delivery-{next(self._deliveries):03d}"
        scarce = sorted(shop.ledger.stocks(SOLD), key=lambda stock: stock.available)[:6]
        lines = {stock.sku: random.randint(*DELIVERED) for stock in scarce}
        shop.take_delivery.using(key=delivery).enqueue(delivery, lines)

    def _import(self) -> None:
        shop.import_prices.enqueue(SUPPLIERS[next(self._imports) % len(SUPPLIERS)])

    def _print(self) -> None:
        issue = f"no-{next(self._issues):02d}"
        shop.print_catalogue.using(key=issue).start(issue)
