"""The audit log of commands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from windlass.view.action import Operator
from windlass.view.identity import whoami

if TYPE_CHECKING:
    from windlass.app import App
    from windlass.watch.audit.operate import AuditLog

TERMINAL = "cli"
# The log lists at most this many arguments of a command.
MOST_TOLD = 100


def audit_log(loaded: App, who: str | None = None) -> AuditLog:
    """Records what `who`, by default the user of this terminal, does with the app."""
    from windlass.watch.audit.operate import AuditLog

    return AuditLog(loaded.fleet, Operator(who or whoami(), TERMINAL))
