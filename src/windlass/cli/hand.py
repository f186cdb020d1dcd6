"""The hand at the terminal: what a command does is written in the audit log."""

from __future__ import annotations

from windlass.app import App
from windlass.core.identity import whoami
from windlass.errors import WindlassError
from windlass.watch.audit.model import Hand
from windlass.watch.audit.operate import Log

TERMINAL = "cli"
# Of what was given in great number, the log tells so many.
MOST_TOLD = 100


class Refusal(WindlassError):
    """The state of things does not allow it."""


def log_of(loaded: App, who: str | None = None) -> Log:
    """What writes down that the user of this terminal, or `who`, does something with the app."""
    return Log(loaded.fleet, Hand(who or whoami(), TERMINAL))
