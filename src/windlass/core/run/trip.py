"""A trip: a worker's own count of the errors that open a breaker, in the order in which runs end.

The breaker itself is a row, and counts outcomes when they are written. Fast failures would go on
until then. So after the same number of errors in a row a worker starts nothing more, writes down
what has ended, and then does what the row says.
"""

from __future__ import annotations

import time

from windlass.value.breaker import BreakerTerms
from windlass.value.outcome import Failed, Outcome, Retried


class Trip:
    """The errors in a row of one breaker in one worker. Used under the lock of `InFlight`."""

    def __init__(self, name: str, terms: BreakerTerms) -> None:
        self.name = name
        self._enough = terms.errors
        self._errors = 0
        self.tripped_at: float | None = None

    @property
    def is_tripped(self) -> bool:
        """Whether nothing may start, except a probe."""
        return self.tripped_at is not None

    def ended(self, outcome: Outcome) -> bool:
        """Count a run; returns whether it trips now."""
        if is_ok(outcome):
            self._errors = 0
            return False
        self._errors += 1
        if self._errors < self._enough or self.tripped_at is not None:
            return False
        self.tripped_at = time.monotonic()
        return True

    def reset(self) -> None:
        """What had ended is written: the row decides."""
        self._errors, self.tripped_at = 0, None


def is_ok(outcome: Outcome | None) -> bool:
    """Whether a run counts as a success for a breaker."""
    return not isinstance(outcome, Failed | Retried) or outcome.is_answer
