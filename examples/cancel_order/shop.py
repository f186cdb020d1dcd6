"""The shop: what an order sets in motion, and the flow that undoes all of it."""

from __future__ import annotations

import os
from typing import Any

from examples.cancel_order.outside import call
from windlass import App, Drawing
from windlass.ledger import Ledger

URL = os.environ.get("WINDLASS_DATABASE_URL", "sqlite:///cancel_order.db")
PAID_CENTS = 5_900
POINTS_EARNED = 59
POINTS_SPENT = 20
CENTS_A_POINT = 5

app = App(URL)
ledger = Ledger(URL)


def sell(order: str) -> None:
    """Take stock and money for an order, and all that goes with it."""
    ledger.restock(f"delivery for {order}", {"bolt": 10, "nut": 10})
    ledger.deduct(order, {"bolt": 4, "nut": 2})
    call("coupon", order, code="SPRING")
    call("payment", order, cents=PAID_CENTS)
    call("invoice", order, number=f"I-{order}")
    call("points", order, earned=POINTS_EARNED)
    call("parcel", order, pieces=6)


def cancel(order: str) -> int:
    """Begin to undo an order, once however often it is asked for; the number of the run."""
    return cancel_order.using(key=order).start(order).id


def report_of(order: str) -> dict[str, str] | None:
    """What was undone for an order; None until all of it is."""
    nodes = {node.name: node for node in cancel_order.using(key=order).start(order).nodes()}
    found: dict[str, str] | None = nodes["report"].result
    return found


@app.flow(keep="90d")
def cancel_order(flow: Drawing, order: str) -> None:
    """Each step is undone when what it depends on is; the customer is told when all of it is true.

    The parcel comes first: nothing is back on the shelf, and no money is paid back, while it may
    still leave. The refund waits for the points, since the spent ones are kept back from it.
    """
    parcel = flow.add(stop_parcel, order)
    points = flow.add(revoke_points, order)
    coupon = flow.add(restore_coupon, order)
    goods = flow.add(give_back_stock, order, after=parcel)
    money = flow.add(refund, order, points.result, after=[parcel, points])
    note = flow.add(credit_invoice, order, money.result, after=money)
    mail = flow.add(tell_customer, order, money.result, after=[goods, coupon, money, note])
    steps = {
        "parcel": parcel,
        "points": points,
        "coupon": coupon,
        "stock": goods,
        "payment": money,
        "invoice": note,
        "mail": mail,
    }
    found = {name: node.result for name, node in steps.items()}
    flow.add(report, order, found, after=list(steps.values()))


@app.task
def stop_parcel(order: str) -> str:
    """The parcel does not leave, or is called back."""
    return str(call("stop parcel", order, became="stopped in the store")["became"])


@app.task
def give_back_stock(order: str) -> dict[str, int]:
    """Whatever has not come back yet comes back."""
    return {line.sku: line.quantity for line in ledger.void(order).lines}


@app.task
def revoke_points(order: str) -> dict[str, int]:
    """The points of this order are taken away; some may be spent."""
    answer = call("revoke points", order, revoked=POINTS_EARNED - POINTS_SPENT, spent=POINTS_SPENT)
    return {"revoked": answer["revoked"], "spent": answer["spent"]}


@app.task
def restore_coupon(order: str) -> str:
    """The coupon can be used again."""
    return str(call("restore coupon", order, code="SPRING")["code"])


# A payment service that is down for an evening is no reason to give up.
@app.task(retries=50, backoff="2s")
def refund(order: str, points: dict[str, int]) -> int:
    """The customer gets the money back, without what spent points were worth; in cents."""
    due = PAID_CENTS - points["spent"] * CENTS_A_POINT
    return int(call("refund", order, cents=due)["cents"])


@app.task
def credit_invoice(order: str, cents: int) -> str:
    """The books have a credit note for what was paid back."""
    return str(call("credit invoice", order, number=f"C-{order}", cents=cents)["number"])


@app.task
def tell_customer(order: str, cents: int) -> str:
    """The customer hears of it when all of it is true."""
    text = f"order {order} is cancelled: you get {cents / 100:.2f} back"
    return str(call("mail", order, text=text)["text"])


@app.task
def report(_order: str, found: dict[str, Any]) -> dict[str, str]:
    """The end: what was undone, for those who are asked about it later."""
    points = found["points"]
    return {
        "parcel": found["parcel"],
        "stock": ", ".join(f"{count} {sku}" for sku, count in sorted(found["stock"].items())),
        "coupon": f"{found['coupon']} can be used again",
        "points": f"{points['revoked']} revoked, {points['spent']} were spent",
        "payment": f"{found['payment'] / 100:.2f} paid back",
        "invoice": f"credit note {found['invoice']}",
        "mail": found["mail"],
    }
