"""A SIGTERM that comes while a run is held ends its block first, and the process after it."""

from __future__ import annotations

import asyncio
import signal
import threading
from types import FrameType
from typing import Any


class Signals:
    """Turns a SIGTERM that would kill the process into an end of the block."""

    def __init__(self) -> None:
        self._is_ours = False
        self._was_terminated = False

    def catch(self, task: asyncio.Task[Any] | None = None) -> None:
        """From the main thread only, and only where nobody else minds the signal."""
        self._was_terminated = False
        if threading.current_thread() is not threading.main_thread():
            return
        if signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
            return

        def handle(_number: int, _frame: FrameType | None) -> None:
            if self._was_terminated:
                return
            self._was_terminated = True
            if task is None:
                raise Terminated
            task.get_loop().call_soon_threadsafe(task.cancel)

        signal.signal(signal.SIGTERM, handle)
        self._is_ours = True

    def release(self) -> bool:
        """As it was before; whether the signal came."""
        if self._is_ours:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            self._is_ours = False
        return self._was_terminated


class Terminated(BaseException):
    """SIGTERM came while the block was running."""
