"""What a command does is written in the audit log."""

from __future__ import annotations

from windlass.app import App
from windlass.core.identity import whoami
from windlass.watch.audit.model import Operator
from windlass.watch.audit.operate import AuditLog

TERMINAL = "cli"
# The log names at most this many of the things that a command was given.
MOST_TOLD = 100


def audit_log(loaded: App, who: str | None = None) -> AuditLog:
    """Records what `who`, or else the user of this terminal, does with the app."""
    return AuditLog(loaded.fleet, Operator(who or whoami(), TERMINAL))
