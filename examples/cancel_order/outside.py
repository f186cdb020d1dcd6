"""The systems of others: payment, parcels, points, coupons, invoices, mail.

A real one is called over the network. Each knows the order as the key by which it recognises a call
that comes twice: it acts on the first one, and gives the same answer to all.
"""

from __future__ import annotations

import json
import os
from typing import Any

from sqlalchemy import create_engine, text

engine = create_engine(os.environ.get("CANCEL_ORDER_OUTSIDE", "sqlite:///outside.db"))

TABLE = """
create table if not exists call (
    place integer primary key, system text, order_id text, calls integer, answer text,
    unique (system, order_id)
)
"""
ASK = """
insert into call (system, order_id, calls, answer) values (:system, :order, 1, :answer)
on conflict (system, order_id) do update set calls = calls + 1 returning answer
"""


def call(system: str, order: str, **answer: Any) -> dict[str, Any]:
    """Have a system do something for an order; the answer that its first call got."""
    with engine.begin() as connection:
        connection.execute(text(TABLE))
        given = {"system": system, "order": order, "answer": json.dumps(answer)}
        found: dict[str, Any] = json.loads(connection.execute(text(ASK), given).scalar_one())
    return found
