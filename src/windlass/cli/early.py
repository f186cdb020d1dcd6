"""Signals before there is anything to stop: the process ends with code 0."""

from __future__ import annotations

import signal
from typing import Any

DEFAULTS: dict[signal.Signals, Any] = {
    signal.SIGTERM: signal.SIG_DFL,
    signal.SIGINT: signal.default_int_handler,
}


class StoppedEarly(BaseException):
    """A signal arrived. Not an `Exception`, because modules may catch those during import."""


def end_quietly() -> None:
    """Let SIGTERM and SIGINT end the command until it sets its own handlers."""
    for number in DEFAULTS:
        signal.signal(number, _end)


def forget() -> None:
    """Restore the default handlers unless the command has set its own."""
    for number, default in DEFAULTS.items():
        if signal.getsignal(number) is _end:
            signal.signal(number, default)


def _end(_number: int, _frame: object) -> None:
    raise StoppedEarly
