"""An alert as people see it, and the acknowledgement of a person.

A person acknowledges a trouble: all alerts of one sort and one kind up to now, or for a while. One
acknowledgement therefore quiets the fortieth alert like the first, and a later alert is open again.
"""

from __future__ import annotations

from dataclasses import dataclass

from windlass.view.field import Moment


@dataclass(frozen=True)
class AlertView:
    """An alert. It is open until a person acknowledges it, and again after `quiet_until`."""

    id: int
    what: str
    kind: str | None
    task_id: int | None
    raised_at: Moment
    text: str
    is_open: bool
    seen_by: str | None
    seen_at: Moment | None
    quiet_until: Moment | None

    @property
    def trouble(self) -> str:
        """What is acknowledged together with this alert, in words."""
        return self.what if self.kind is None else f"{self.what} of {self.kind}"


@dataclass(frozen=True)
class Acknowledgement:
    """Who acknowledged a trouble, when, and until when its alerts stay quiet."""

    who: str
    seen_at: int
    quiet_until: int | None

    def quiets(self, raised_at: int, *, now: int) -> bool:
        """Whether an alert raised at that moment is acknowledged."""
        if self.quiet_until is None:
            return raised_at <= self.seen_at
        return now < self.quiet_until
