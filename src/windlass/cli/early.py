"""Signals that come before there is anything to stop: the process ends, and all is well."""

from __future__ import annotations

import signal
from typing import Any

DEFAULTS: dict[signal.Signals, Any] = {
    signal.SIGTERM: signal.SIG_DFL,
    signal.SIGINT: signal.default_int_handler,
}


class StoppedEarly(BaseException):
    """A signal has come; not an `Exception`, as modules that are being imported catch those."""


def end_quietly() -> None:
    """Have SIGTERM and SIGINT end the command, until it has its own way to stop."""
    for number in DEFAULTS:
        signal.signal(number, _end)


def forget() -> None:
    """Let signals do what they do by default, unless the command had its own way."""
    for number, default in DEFAULTS.items():
        if signal.getsignal(number) is _end:
            signal.signal(number, default)


def _end(_number: int, _frame: object) -> None:
    raise StoppedEarly
