"""How far a running handler says that it is: kept with its run, and written now and then."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from windlass.errors import BadInput
from windlass.value.outcome import storable

if TYPE_CHECKING:
    from windlass.core.run.ready import Run

LONGEST_NOTE = 200
LARGEST = 2**63 - 1
SAVE_SECONDS = 1.0
TELL_SECONDS = 0.05


class Reached(NamedTuple):
    """How much is done, of how much, and what is being done."""

    done: int
    total: int | None
    note: str | None


# Nothing was reported yet.
NOWHERE = Reached(-1, None, None)


class ReportedProgress:
    """What the handler of one run reported last, and what was written of it."""

    __slots__ = ("now", "saved", "saved_at", "tell", "told_at")

    def __init__(self, now: Reached, tell: Callable[[Reached], object] | None = None) -> None:
        # The handler replaces it as a whole, so that another thread may read it at any time.
        self.now = now
        # In a child process: says it to the worker.
        self.tell = tell
        self.told_at = float("-inf")
        self.saved: Reached | None = None
        self.saved_at = float("-inf")

    def reach(self, now: Reached) -> None:
        """The handler is there now."""
        self.now = now
        at = time.monotonic()
        if self.tell is not None and (at - self.told_at >= TELL_SECONDS or now.done == now.total):
            self.told_at = at
            self.tell(now)

    def is_due(self, at: float) -> bool:
        """Whether there is news, and the last write was long enough ago."""
        return self.now is not self.saved and at - self.saved_at >= SAVE_SECONDS

    def written(self, what: Reached) -> None:
        """Note that this was written."""
        self.saved, self.saved_at = what, time.monotonic()


def report(run: Run, done: int, total: int | None, note: str) -> None:
    """Keep with a run how far it is; it costs the handler no write."""
    reached = Reached(_number(done, "done"), _total(total), _note(note))
    known = progress_of(run)
    if known is None:
        run.keep(ReportedProgress(reached))
    elif known.now != reached:
        known.reach(reached)


def progress_of(run: Run) -> ReportedProgress | None:
    """What the handler of a run reported."""
    return None if run.kept is None else run.kept.get(ReportedProgress)


def _total(given: int | None) -> int | None:
    return None if given is None else _number(given, "total")


def _number(given: object, what: str) -> int:
    if isinstance(given, bool) or not isinstance(given, int) or not 0 <= given <= LARGEST:
        raise BadInput(f"progress: {what}={given!r} is not a number from 0 on")
    return given


def _note(given: object) -> str | None:
    return storable(str(given))[:LONGEST_NOTE] or None
