"""Which run the calling handler is in."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from windlass.core.run.ready import Run

current: ContextVar[Run | None] = ContextVar("windlass_run", default=None)


def is_running(task_id: int) -> bool:
    """Whether the caller is the handler of that task."""
    run = current.get()
    return run is not None and run.is_of(task_id)
