"""Signals that come before there is anything to stop: the process ends, and all is well."""

from __future__ import annotations

import signal


class StoppedEarly(BaseException):
    """A signal has come; not an `Exception`, as modules that are being imported catch those."""


def end_quietly() -> None:
    """Have SIGTERM and SIGINT end the command, until it has its own way to stop."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _end)


def _end(_number: int, _frame: object) -> None:
    raise StoppedEarly
