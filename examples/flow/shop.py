"""The shop: its tasks, the graph that they make every night, and what goes wrong once."""

from __future__ import annotations

import os

from examples.flow.warehouse import Warehouse
from windlass import App

app = App(os.environ.get("WINDLASS_DATABASE_URL", "sqlite:///flow.db"))
warehouse = app.external("warehouse", Warehouse(), every="100ms", timeout="1h")
# The printer is out of paper until a person fills it.
is_out_of_paper = True


@app.task(timeout="10s")
def fetch(shop: str) -> int:
    """The sales of one branch."""
    return len(shop)


@app.task(timeout="10s")
def add_up(sales: list[int]) -> int:
    return sum(sales)


@app.task(timeout="10s")
def print_report(total: int, facts: dict) -> str:
    if is_out_of_paper:
        raise OSError("out of paper")
    return f"{total} sold, {facts['rows']} rows of {facts['table']}"


@app.task(timeout="10s")
def warn(total: int) -> None:
    """Only when nothing was sold."""


# The function only draws. All of it is written in one transaction when the flow is started.
@app.flow
def nightly(flow, branches: list[str]):
    sales = flow.each(fetch, branches)
    total = flow.add(add_up, [node.result for node in sales], after=sales)
    facts = flow.add(warehouse, "facts", name="facts")
    flow.add(print_report, total.result, facts.result, after=[total, facts])
    flow.add(warn, total.result, after=total, when="add_up.result == 0")
