"""The flows of the flow scenario; every node does nothing."""

from __future__ import annotations

from typing import Any

from bench.contract import url
from windlass import App

app = App(url())


@app.task
async def nothing() -> None: ...


@app.flow
def chain(flow: Any, length: int) -> None:
    node = None
    for _ in range(length):
        node = flow.add(nothing, after=node)


@app.flow
def fan(flow: Any, width: int) -> None:
    first = flow.add(nothing)
    flow.add(nothing, after=[flow.add(nothing, after=first) for _ in range(width)])


@app.flow
def layered(flow: Any, layers: int, width: int) -> None:
    before: list[Any] = []
    for _ in range(layers):
        before = [
            flow.add(nothing, after=[before[(index + away) % width] for away in (0, 1, 7)])
            if before
            else flow.add(nothing)
            for index in range(width)
        ]
