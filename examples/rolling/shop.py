"""The shop: what it asks the inventory system, how often, and how fast."""

from __future__ import annotations

import json
import os
import urllib.request

from windlass import App

app = App(os.environ.get("WINDLASS_DATABASE_URL", "sqlite:///rolling.db"))
inventory_url = "http://127.0.0.1:8090"


# Every product at least once in ten days; never more than 200 questions a second over all workers;
# a question that failed is asked again in a minute; ten failures in a row stop the questions.
@app.rolling(
    every="10d",
    rate="200/s",
    concurrency=20,
    timeout="5s",
    retry_after="1m",
    breaker="10 in a row, 30s",
)
def stock_level(code: str) -> str:
    """Ask for one product. What is returned is kept as the remark of the item."""
    with urllib.request.urlopen(f"{inventory_url}/stock/{code}") as answer:
        quantity = json.load(answer)["quantity"]
    # Here the shop would write the quantity into its own table.
    return f"{quantity} in stock"
