"""Why a sweep does or does not go on, in words."""

from __future__ import annotations

from windlass.sweep.model import Range
from windlass.sweep.store.sweep import SweepRow


def sweep_why(row: SweepRow | None, found: list[Range], now: int) -> str:
    """Why a sweep does or does not go on, in a few words."""
    if row is None:
        return "no worker has found it yet"
    if row.stopped_at is not None:
        return "no longer declared"
    if row.error is not None:
        return f"its source cannot be read: {row.error}"
    if row.is_running:
        owned = sum(each.batch is not None for each in found)
        return "running" if owned else "waiting for a worker"
    if row.due_at is None:
        return "ended; start() begins another round"
    return "the next round is due" if row.due_at <= now else "waiting for the next round"
