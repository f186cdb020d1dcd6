"""The shop: a task that takes a moment, and says which worker ran it."""

from __future__ import annotations

import os
import time

from windlass import App

# A dead worker is noticed after a second instead of five, so that you need not wait.
app = App(
    os.environ.get("WINDLASS_DATABASE_URL", "sqlite:///ring.db"), dead_after="1s", lease="10s"
)


@app.task(keep="1h", timeout="10s", concurrency=4)
def pack(order: int) -> int:
    """Pack a parcel; returns the process that did it."""
    time.sleep(0.04 + order % 3 * 0.01)
    return os.getpid()
