"""What a handler logs is kept with its run: the last records, within bounds.

Records are taken where `logging` makes them. So no handler, level or filter of the user changes,
and loggers that do not propagate are seen too.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from typing import Any

from windlass.core.task.current import current
from windlass.value.outcome import storable
from windlass.value.task import LogLine

LONGEST_TEXT = 4_000
# How many characters a run may keep in all.
LARGEST_LOG = 64 * 1024

_FORMAT = logging.Formatter()
_lock = threading.Lock()


class RunLog:
    """The last records of one run. The handler may still log while they are taken."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._lines: deque[LogLine] = deque()
        self._size = 0
        self._dropped = 0

    def add(self, record: logging.LogRecord) -> None:
        """Keep a record; forget the oldest ones if there are too many."""
        text = storable(_text_of(record))[:LONGEST_TEXT]
        line = LogLine(
            at=round(record.created * 1e6),
            level=storable(record.levelname.lower())[:20],
            logger=storable(record.name)[:200],
            text=text,
        )
        with self._lock:
            self._lines.append(line)
            self._size += len(text)
            while len(self._lines) > self._most or self._size > LARGEST_LOG:
                self._size -= len(self._lines.popleft().text)
                self._dropped += 1

    def __bool__(self) -> bool:
        return bool(self._lines)

    @property
    def size(self) -> int:
        return self._size

    def taken(self) -> tuple[list[LogLine], int]:
        """The lines until now, and how many older ones were dropped."""
        with self._lock:
            return list(self._lines), self._dropped


def keep_records() -> None:
    """Give each record that a handler logs to the log of its run, if the run has one."""
    with _lock:
        made_before = logging.getLogRecordFactory()
        if not isinstance(made_before, _Factory):
            logging.setLogRecordFactory(_Factory(made_before))


class _Factory:
    """Makes records as before, and keeps those of runs."""

    def __init__(self, make: Any) -> None:
        self._make = make

    def __call__(self, *args: Any, **kwargs: Any) -> logging.LogRecord:
        record: logging.LogRecord = self._make(*args, **kwargs)
        run = current.get()
        # Events about a run are shown elsewhere.
        if run is not None and run.log is not None and record.name != "windlass":
            run.log.add(record)
        return record


def _text_of(record: logging.LogRecord) -> str:
    try:
        text = record.getMessage()
    except Exception:
        # Its arguments do not fit its text; `logging` prints that when the record is shown.
        text = str(record.msg)
    if record.exc_info:
        text = f"{text}\n{_FORMAT.formatException(record.exc_info)}"
    return text
