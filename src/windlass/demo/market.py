"""What moves the shop besides its customers: sales, new products, and a sweep split anew."""

from __future__ import annotations

import os
import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import count

from windlass.demo import BROKER, goods, shop
from windlass.demo.goods import SOLD, THINGS
from windlass.demo.routine import Diary, Routine
from windlass.errors import OutOfStock

TILLS = 8
PIECES = 60
LATE = 30
PARTS = (12, 24, 36, 48)
NEW_KEPT = 5


@dataclass(frozen=True)
class Sale:
    """A product that everyone wants at once."""

    code: str
    pieces: int
    sold: int
    refused: int
    is_over: bool


class Market:
    """Holds a sale once a minute, brings and removes products, and changes the split."""

    def __init__(self, diary: Diary, *, pace: float) -> None:
        self._diary = diary
        self.sale: Sale | None = None
        self._sales = count(1)
        self._numbers = count(1)
        self._new: list[str] = []
        self._lock = threading.Lock()
        self.routines = [
            Routine("sale", self._sell, first=24.0 / pace, every=(55, 60)),
            Routine("products", self._change, first=6.0 / pace, every=(8, 14)),
            Routine("split", self._split, first=18.0 / pace, every=(35, 50)),
        ]

    def _sell(self) -> None:
        """Sell a hot product to more customers than there are pieces, all at once."""
        number, code = next(self._sales), random.choice(SOLD)
        left = shop.ledger.stock(code).available
        delivered = max(0, PIECES - left)
        if delivered:
            shop.ledger.restock(f"sale-{number}", {code: delivered})
        pieces = left + delivered
        self.sale = Sale(code, pieces, 0, 0, is_over=False)
        began = time.monotonic()
        with ThreadPoolExecutor(TILLS, thread_name_prefix="demo-till") as tills:
            wanted = [f"sale-{number}-{customer}" for customer in range(pieces + LATE)]
            got = list(tills.map(lambda order: self._take(order, code), wanted))
        self.sale = Sale(code, pieces, sum(got), len(got) - sum(got), is_over=True)
        self._diary.write(
            f"sale of {code}: {sum(got)} pieces in {time.monotonic() - began:.1f} s, "
            f"{len(got) - sum(got)} customers came too late"
        )
        shop.move_pieces.using(key=f"sale-{number}").enqueue(
            f"sale-{number}", {code: delivered - sum(got)}
        )

    def _take(self, order: str, code: str) -> bool:
        try:
            shop.ledger.deduct(order, {code: 1})
        except OutOfStock:
            return False
        sale = self.sale
        with self._lock:
            if sale is not None and self.sale is not None:
                self.sale = Sale(code, sale.pieces, self.sale.sold + 1, 0, is_over=False)
        return True

    def _change(self) -> None:
        """Add a product, and remove one of those that were added before."""
        code = f"{random.choice(THINGS)}-new-{next(self._numbers)}"
        self._tell(code, is_new=True)
        self._new.append(code)
        if len(self._new) > NEW_KEPT:
            self._tell(self._new.pop(0), is_new=False)

    def _tell(self, code: str, *, is_new: bool) -> None:
        what = "is new" if is_new else "is gone"
        if BROKER in os.environ:
            event = {"code": code, "what": "new" if is_new else "gone"}
            shop.app.publish(shop.news, event, key=code)
            self._diary.write(f"{code} {what}: a message tells it")
            return
        shop.app.database.write(lambda conn: goods.change(conn, code, is_new=is_new))
        self._diary.write(f"{code} {what}: a trigger tells the rolling kind")

    def _split(self) -> None:
        """Cut the sweep differently while it runs."""
        parts = random.choice([each for each in PARTS if each != len(shop.offer.ranges())])
        shop.offer.split(parts)
        self._diary.write(
            f"the sweep of articles now has {parts} ranges, in the middle of its round"
        )
