"""The app of the flows: one task that notes its node, one flow that draws any shape."""

from __future__ import annotations

from typing import Any

from bench.contract import url
from bench.flow import journal
from bench.flow.shape import named
from windlass import App

app = App(url())


@app.task
async def node(number: int) -> None:
    journal.note(number)


@app.flow
def draw(flow: Any, shape: str) -> None:
    nodes: list[Any] = []
    for number, parents in enumerate(named(shape).parents):
        nodes.append(flow.add(node, number, after=[nodes[parent] for parent in parents]))
