"""A SIGTERM that comes while runs are held ends their blocks first, and the process after them.

The signal becomes a SystemExit in the main thread, which no `except Exception` and no event loop
keeps. It ends the blocks from the inside out; `asyncio.run` cancels its tasks, and so theirs. When
the last of them has recorded its end, the process is ended by the signal after all. A second
SIGTERM ends it at once.
"""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType

EXIT_CODE = 128 + signal.SIGTERM


class Terminated(SystemExit):
    """SIGTERM came while a run was held."""


class Termination:
    """Minds SIGTERM for all runs of the main thread, where nobody else does."""

    def __init__(self) -> None:
        self._held = 0
        self._ending = 0
        self._came = False
        self._is_put_off = False
        self._pid = 0

    def mind(self) -> bool:
        """A block begins; whether it is one of those that are ended first."""
        if threading.current_thread() is not threading.main_thread():
            return False
        if not self._held:
            if signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
                return False
            self._came, self._is_put_off, self._pid = False, False, os.getpid()
            signal.signal(signal.SIGTERM, self._handle)
        self._held += 1
        return True

    def ending(self) -> None:
        """The end of a block is being recorded: that is not broken off."""
        self._ending += 1

    def ended(self) -> None:
        """The end of a block was recorded, or could not be."""
        self._ending -= 1
        self._held -= 1
        if self._held:
            if self._is_put_off and not self._ending:
                # It was put off for this one, and ends those around it now. Once: those of an
                # event loop end in turn, and another one would break off their ends.
                self._is_put_off = False
                raise Terminated(EXIT_CODE)
            return
        if signal.getsignal(signal.SIGTERM) == self._handle:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        if self._came:
            os.kill(os.getpid(), signal.SIGTERM)

    def _handle(self, _number: int, _frame: FrameType | None) -> None:
        self._came = True
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        if os.getpid() != self._pid:
            # A child by fork: it has no run, and ends as if we were not there.
            os.kill(os.getpid(), signal.SIGTERM)
        elif self._ending:
            self._is_put_off = True
        else:
            raise Terminated(EXIT_CODE)


termination = Termination()
