"""Going through something while a bar on the terminal shows how far."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable
from contextlib import ExitStack
from typing import TypeVar

T = TypeVar("T")


async def each(iterable: Iterable[T] | AsyncIterable[T]) -> AsyncIterator[T]:
    """The items of an iterable, async or not."""
    if isinstance(iterable, AsyncIterable):
        async for item in iterable:
            yield item
    else:
        for item in iterable:
            yield item


def bar(stack: ExitStack, what: str, total: int | None) -> Callable[[], None]:
    """A bar on the terminal, if there is one; returns what moves it."""
    if not sys.stderr.isatty():
        return lambda: None
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    shown = stack.enter_context(
        Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn() if total is None else TimeRemainingColumn(),
            console=Console(stderr=True),
        )
    )
    task = shown.add_task(what, total=total)
    return lambda: shown.advance(task)
