"""What handlers logged, as values."""

from __future__ import annotations

import msgspec

from windlass.view.field import Moment


class LogLine(msgspec.Struct, frozen=True):
    """One record that a handler logged."""

    at: Moment
    level: str
    logger: str
    text: str


class RunLogView(msgspec.Struct, frozen=True):
    """What one run of a task logged, oldest first; `dropped` older records were not kept."""

    id: int
    attempt: int
    worker: int | None
    ended_at: Moment
    dropped: int
    lines: list[LogLine]

    def having(self, text: str) -> RunLogView:
        """Only the lines in which `text` is, in upper or lower case."""
        wanted = text.casefold()
        lines = [line for line in self.lines if wanted in f"{line.logger} {line.text}".casefold()]
        return msgspec.structs.replace(self, lines=lines)
