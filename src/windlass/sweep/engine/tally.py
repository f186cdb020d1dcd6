"""What has ended since the last save, for statistics and for the breaker."""

from __future__ import annotations

from copy import copy

from windlass.core.run.ready import Run
from windlass.value.outcome import Failed, Retried, Snoozed, Succeeded


class Tally:
    """Counts how runs ended."""

    def __init__(self) -> None:
        self.done = 0
        self.failed = 0
        self.retried = 0
        self.milliseconds = 0.0
        # In order; of several successes in a row only the first, because the breaker needs one.
        self.outcomes: list[Run] = []
        self._errors_in_a_row = 0
        self._enough_errors: int | None = None

    def note(self, run: Run, rows: int) -> None:
        """Count how a run ended. A snoozed run counts only if it is the probe of a breaker."""
        if isinstance(run.outcome, Snoozed):
            if run.is_probe:
                self.outcomes.append(copy(run))
            return
        self.milliseconds += run.milliseconds
        is_ok = not isinstance(run.outcome, Failed | Retried)
        if isinstance(run.outcome, Failed):
            self.failed += rows
        elif isinstance(run.outcome, Retried):
            self.retried += rows
        else:
            self.done += rows
        if run.kind.breaker is not None:
            self._enough_errors = run.kind.breaker.errors
            self._errors_in_a_row = 0 if is_ok else self._errors_in_a_row + 1
            last = self.outcomes[-1] if self.outcomes else None
            is_same = last is not None and isinstance(last.outcome, Succeeded)
            if not (is_ok and is_same) or run.is_probe:
                self.outcomes.append(copy(run))

    @property
    def is_urgent(self) -> bool:
        """Whether a breaker must know it at once."""
        return any(
            run.is_probe or isinstance(run.outcome, Failed | Retried) for run in self.outcomes
        )

    @property
    def opens_breaker(self) -> bool:
        """Whether it has enough errors in a row to open the breaker."""
        return self._enough_errors is not None and self._errors_in_a_row >= self._enough_errors

    @property
    def is_empty(self) -> bool:
        return not (self.done or self.failed or self.retried or self.outcomes)

    def successor(self) -> Tally:
        """An empty tally that continues to count errors in a row."""
        following = Tally()
        if not self.opens_breaker:
            following._errors_in_a_row = self._errors_in_a_row
        return following
