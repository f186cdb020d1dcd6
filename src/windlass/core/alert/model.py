"""Alerts as values: what is wrong, how bad it is, and which alerts are about the same cause."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from hashlib import blake2b

LONGEST_CAUSE = 255
LONGEST_TEXT = 2_000


class Severity(IntEnum):
    """How bad a problem is."""

    INFO = 0
    WARNING = 1
    CRITICAL = 2

    def __str__(self) -> str:
        return self.name.lower()


# Every problem that raises an alert, and how bad it is unless the app says otherwise.
SEVERITIES = {
    "task failed": Severity.WARNING,
    "cron failed": Severity.WARNING,
    "flow failed": Severity.WARNING,
    "flow late": Severity.WARNING,
    "run failed": Severity.WARNING,
    "run late": Severity.WARNING,
    "poison": Severity.CRITICAL,
    "breaker opened": Severity.WARNING,
    "breaker closed": Severity.INFO,
    "failures": Severity.WARNING,
    "failing": Severity.WARNING,
    "source": Severity.CRITICAL,
    "straggler": Severity.INFO,
    "promise at risk": Severity.WARNING,
    "promise broken": Severity.CRITICAL,
    "late": Severity.WARNING,
    "no worker": Severity.CRITICAL,
    "worker dead": Severity.INFO,
    "workers dying": Severity.CRITICAL,
    "unknown kind": Severity.WARNING,
    "no consumer": Severity.CRITICAL,
    "ledger": Severity.CRITICAL,
    "cache": Severity.CRITICAL,
    "clock stepped": Severity.WARNING,
    "database": Severity.CRITICAL,
    "broker": Severity.CRITICAL,
    "outbox late": Severity.WARNING,
    "message failed": Severity.WARNING,
}


@dataclass(frozen=True)
class Trouble:
    """What is wrong with what: one cause, which is one alert for as long as it lasts."""

    what: str
    kind: str
    text: str
    # Tells causes of one sort and kind apart: the name of a control run, for example.
    subject: str = ""
    severity: Severity | None = None
    task_id: int | None = None
    # How often it happened since it was last reported.
    times: int = 1

    @property
    def cause(self) -> str:
        """The same text for the same cause, short enough for its column."""
        return cause_of(self.what, self.kind, self.subject)

    @property
    def weight(self) -> Severity:
        return SEVERITIES[self.what] if self.severity is None else self.severity


def cause_of(what: str, kind: str, subject: str = "") -> str:
    """The text that alerts about the same cause share."""
    cause = f"{what}:{kind}:{subject}"
    if len(cause) <= LONGEST_CAUSE:
        return cause
    return f"{what}:{blake2b(cause.encode(), digest_size=16).hexdigest()}"
