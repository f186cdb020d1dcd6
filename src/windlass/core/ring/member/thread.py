"""One event loop on its own thread, shared by all etcd clients of this process.

For every answer gRPC wakes every event loop that it was ever used on, and all but one of them log
an error. So all etcd clients share this loop.
"""

from __future__ import annotations

import asyncio
import threading
from typing import Any

NAME = "windlass-members"
END_SECONDS = 2.0


class LoopThread:
    """Runs while it is borrowed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._borrowers = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def borrow(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._loop.set_exception_handler(_on_error)
                self._thread = threading.Thread(
                    target=_run, args=(self._loop,), name=NAME, daemon=True
                )
                self._thread.start()
            self._borrowers += 1
            return self._loop

    def give_back(self) -> None:
        with self._lock:
            self._borrowers -= 1
            if self._borrowers or self._loop is None or self._thread is None:
                return
            loop, thread = self._loop, self._thread
            self._loop = self._thread = None
        loop.call_soon_threadsafe(loop.stop)
        if thread is not threading.current_thread():
            thread.join(END_SECONDS)


SHARED = LoopThread()


def _run(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
        left_over = asyncio.all_tasks(loop)
        for task in left_over:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*left_over, return_exceptions=True))
        loop.run_until_complete(loop.shutdown_asyncgens())
    finally:
        loop.close()


def _on_error(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    # It only says that another event loop, of the user, was quicker to fetch an answer.
    if not isinstance(context.get("exception"), BlockingIOError):
        loop.default_exception_handler(context)
