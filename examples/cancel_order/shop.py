"""The shop: what an order sets in motion, and how all of it is undone."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from functools import partial

from sqlalchemy import create_engine, text

from windlass import App
from windlass.ledger import Ledger

URL = os.environ.get("WINDLASS_DATABASE_URL", "sqlite:///cancel_order.db")
# How long a run that was killed keeps the next one waiting.
EXPIRES = os.environ.get("CANCEL_ORDER_EXPIRES", "10m")

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


def cancel(order: str) -> None:
    """Undo an order, as far as an earlier try has not done it."""
    with app.control("cancel-order", partition=order, expires=EXPIRES) as run:
        for step in STEPS:
            run.step(step.__name__, partial(carry_out, step, order))


def give_back_stock(order: str) -> dict[str, int]:
    """Whatever has not come back yet comes back."""
    return {line.sku: line.quantity for line in ledger.void(order).lines}


def refund(order: str) -> None:
    """The customer gets the money back."""
    call("refund", order)


def revoke_points(order: str) -> None:
    """The points of this order are taken away."""
    call("revoke points", order)


def restore_coupon(order: str) -> None:
    """The coupon can be used again."""
    call("restore coupon", order)


def stop_parcel(order: str) -> None:
    """The parcel does not leave, or is called back."""
    call("stop parcel", order)


def tell_customer(order: str) -> None:
    """The customer hears of it when all of it is true."""
    call("mail", order)


STEPS: tuple[Callable[[str], object], ...] = (
    give_back_stock,
    refund,
    revoke_points,
    restore_coupon,
    stop_parcel,
    tell_customer,
)


def carry_out(step: Callable[[str], object], order: str) -> object:
    """Do a step; the test of this example kills the process before its end is written down."""
    result = step(order)
    if os.environ.get("CANCEL_ORDER_DIE_IN") == step.__name__:
        os.kill(os.getpid(), signal.SIGKILL)
    return result


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
