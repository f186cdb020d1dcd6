"""SIGTERM while control runs are held: their blocks end first, then the process.

The signal becomes a SystemExit in the main thread, which no `except Exception` and no event loop
keeps. It ends the blocks from the inside out; `asyncio.run` cancels its tasks, and so theirs. When
the last block has recorded its end, the signal ends the process. A second SIGTERM ends it at once.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

EXIT_CODE = 128 + signal.SIGTERM


class Terminated(SystemExit):
    """SIGTERM came while a run was held."""


class Termination:
    """Handles SIGTERM for all runs of the main thread, unless the program has its own handler."""

    def __init__(self) -> None:
        self._held = 0
        self._recording = 0
        self._was_received = False
        self._is_postponed = False
        self._pid = 0

    def watch(self) -> bool:
        """A block begins; whether a SIGTERM ends it before the process."""
        if threading.current_thread() is not threading.main_thread():
            return False
        if not self._held:
            if signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
                return False
            self._was_received, self._is_postponed, self._pid = False, False, os.getpid()
            signal.signal(signal.SIGTERM, self._handle)
        self._held += 1
        return True

    @contextmanager
    def recording(self) -> Iterator[None]:
        """The end of a watched block is being recorded: a SIGTERM waits until that is done."""
        self._recording += 1
        try:
            yield
        finally:
            self._end()

    def _end(self) -> None:
        self._recording -= 1
        self._held -= 1
        if self._held:
            if self._is_postponed and not self._recording:
                # It waited for this block, and ends the blocks around it now. Only once: the
                # blocks of an event loop end in turn, and a second one would interrupt their ends.
                self._is_postponed = False
                raise Terminated(EXIT_CODE)
            return
        if signal.getsignal(signal.SIGTERM) == self._handle:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        if self._was_received:
            os.kill(os.getpid(), signal.SIGTERM)

    def _handle(self, _number: int, _frame: FrameType | None) -> None:
        self._was_received = True
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        if os.getpid() != self._pid:
            # A forked child holds no run: the signal ends it as usual.
            os.kill(os.getpid(), signal.SIGTERM)
        elif self._recording:
            self._is_postponed = True
        else:
            raise Terminated(EXIT_CODE)


termination = Termination()
