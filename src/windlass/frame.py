"""Which frames of a traceback are the user's."""

from __future__ import annotations

from types import TracebackType


def users_frames(error: BaseException) -> TracebackType | None:
    """The traceback of `error` without the frames of Windlass that lead to the handler."""
    trace = error.__traceback__
    while trace is not None and "windlass.core" in trace.tb_frame.f_globals.get("__name__", ""):
        trace = trace.tb_next
    return trace
