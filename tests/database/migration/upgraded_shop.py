"""A small shop that the released Windlass fills and today's Windlass takes over.

    python -m upgraded_shop fill URL      leaves work of every face unfinished
    python -m upgraded_shop finish URL    does what is left, and tells what came of it

It uses only what every release since 0.1.0 has.
"""

import json
import sys
from contextlib import suppress

from windlass import App, Keys
from windlass.ledger import Ledger

ORDERS = 20
OFFERS = list(range(1, 31))

app = App(sys.argv[2])
ledger = Ledger(sys.argv[2])
seen: dict[str, list[object]] = {"order": [], "product": [], "offer": [], "step": []}


@app.task(keep="1d")
def order(number: int) -> int:
    seen["order"].append(number)
    return number * 2


@app.rolling(every="1d")
def product(code: str) -> None:
    seen["product"].append(code)


@app.sweep(Keys(1, OFFERS[-1]), ranges=3)
def offer(key: int) -> None:
    seen["offer"].append(key)


@app.task
def pack(part: str) -> None:
    seen["step"].append(part)


@app.flow
def ship(flow):
    first = flow.add(pack, "box")
    flow.add(pack, "label", after=[first])


def fill() -> None:
    app.migrate()
    order.enqueue_many([{"number": number} for number in range(ORDERS)])
    order.using(key="gift", delay="30d").enqueue(99)
    product.add(["bolt", "nut"])
    ship.start()
    with suppress(OSError), app.control("report") as run:
        run.step("count", lambda: 42)
        raise OSError("the script died half-way")
    ledger.restock("delivery", {"bolt": 10})
    ledger.deduct("order-7", {"bolt": 4})


def finish() -> None:
    app.migrate()
    app.drain()
    ledger.give_back("order-7", "return-1", {"bolt": 1})
    with app.control("report") as run:
        counted = run.step("count", lambda: 0)
    told = {
        "order": sorted(seen["order"]),
        "product": sorted(seen["product"]),
        "offer": sorted(seen["offer"]),
        "step": seen["step"],
        "gift": str(order.using(key="gift", on_conflict="skip").enqueue(99).status()),
        "stock": ledger.stock("bolt").available,
        "audit": bool(ledger.audit()),
        "counted": counted,
    }
    json.dump(told, sys.stdout)


{"fill": fill, "finish": finish}[sys.argv[1]]()
app.close()
