"""Loops whose progress is shown: in the table, and by a bar on the terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable
from contextlib import ExitStack
from typing import TypeVar

from windlass.control.model.control import LoopProgress, Noted

T = TypeVar("T")

PROGRESS_SECONDS = 1.0


class Tracker:
    """Counts the turns of one loop."""

    def __init__(
        self,
        total: int | None,
        *,
        keep: Callable[[LoopProgress], None],
        write: Callable[[Noted], object],
        bar: Callable[[], None],
    ) -> None:
        self._total = total
        self._keep = keep
        self._write = write
        self._bar = bar
        self._done = 0
        self._written_at = 0.0

    def advance(self) -> bool:
        """Count one turn; whether it is time to write the count."""
        self._done += 1
        self._keep(LoopProgress(self._done, self._total))
        self._bar()
        return time.monotonic() - self._written_at >= PROGRESS_SECONDS

    def write(self) -> None:
        """Write the count into the table."""
        progress = LoopProgress(self._done, self._total)
        self._keep(progress)
        self._write(Noted(progress=progress))
        self._written_at = time.monotonic()


async def each(iterable: Iterable[T] | AsyncIterable[T]) -> AsyncIterator[T]:
    """The items of an iterable, async or not."""
    if isinstance(iterable, AsyncIterable):
        async for item in iterable:
            yield item
    else:
        for item in iterable:
            yield item


def bar(stack: ExitStack, what: str, total: int | None) -> Callable[[], None]:
    """Show a bar if standard error is a terminal; returns what advances it."""
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
