"""The shop: what an order sets in motion, and the flow that undoes all of it."""

from __future__ import annotations

import os

from sqlalchemy import create_engine, text

from windlass import App
from windlass.ledger import Ledger

URL = os.environ.get("WINDLASS_DATABASE_URL", "sqlite:///cancel_order.db")

app = App(URL)
ledger = Ledger(URL)
# The systems of others. A real one is called over the network, with the order as the key by which
# it knows a call that comes twice.
outside = create_engine(os.environ.get("CANCEL_ORDER_OUTSIDE", "sqlite:///outside.db"))


def sell(order: str) -> None:
    """Take stock and money for an order."""
    ledger.restock(f"delivery for {order}", {"bolt": 10, "nut": 10})
    ledger.deduct(order, {"bolt": 4, "nut": 2})
    for system in ("payment", "points", "coupon", "parcel"):
        call(system, order)


def cancel(order: str) -> int:
    """Begin to undo an order, once however often it is asked for; the number of the run."""
    return cancel_order.using(key=order).start(order).id


@app.flow
def cancel_order(flow, order: str):
    """Everything is undone side by side; the customer hears of it when all of it is true."""
    goods = flow.add(give_back_stock, order)
    others = [
        flow.add(undo, order) for undo in (refund, revoke_points, restore_coupon, stop_parcel)
    ]
    flow.add(tell_customer, order, goods.result, after=[goods, *others])


@app.task
def give_back_stock(order: str) -> dict[str, int]:
    """Whatever has not come back yet comes back."""
    return {line.sku: line.quantity for line in ledger.void(order).lines}


# A payment service that is down for an evening is no reason to give up.
@app.task(retries=50, backoff="2s")
def refund(order: str) -> None:
    """The customer gets the money back."""
    call("refund", order)


@app.task
def revoke_points(order: str) -> None:
    """The points of this order are taken away."""
    call("revoke points", order)


@app.task
def restore_coupon(order: str) -> None:
    """The coupon can be used again."""
    call("restore coupon", order)


@app.task
def stop_parcel(order: str) -> None:
    """The parcel does not leave, or is called back."""
    call("stop parcel", order)


@app.task
def tell_customer(order: str, goods: dict[str, int]) -> str:
    """The last thing that happens."""
    call("mail", order)
    return f"order {order} is cancelled: {sum(goods.values())} pieces came back"


def call(system: str, order: str) -> None:
    """Have another system do something for an order; it counts calls, and acts on the first."""
    with outside.begin() as connection:
        connection.execute(
            text(
                "create table if not exists call (system text, order_id text, calls integer, "
                "primary key (system, order_id))"
            )
        )
        connection.execute(
            text(
                "insert into call values (:system, :order, 1) "
                "on conflict do update set calls = calls + 1"
            ),
            {"system": system, "order": order},
        )
