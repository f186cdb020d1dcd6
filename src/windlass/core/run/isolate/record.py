"""Log records cross from a child to its worker, where they are handled as if logged there."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from windlass.core.run.isolate.error import error_of, sent_of
from windlass.core.run.isolate.pack import Unpackable, pack, unpack
from windlass.core.run.isolate.wire import Logged
from windlass.core.run.log import RunLog
from windlass.telemetry import RESERVED

LONGEST_TEXT = 64_000


def send_records(send: Callable[[Logged], None], number: Callable[[], int | None]) -> None:
    """In a child: give all records of this process to the worker, and to no handler here.

    They are taken where `logging` hands a record to its handlers. So levels and filters hold, and
    loggers that do not propagate are seen, too.
    """

    def hand_over(_logger: logging.Logger, record: logging.LogRecord) -> None:
        send(_logged(record, number()))

    setattr(logging.Logger, "callHandlers", hand_over)  # noqa: B010


def handle_here(logged: Logged, log: RunLog | None, *, pid: int) -> None:
    """In the worker: keep a record with its run, and give it to the handlers."""
    error = None if logged.error is None else error_of(logged.error)
    record = logging.LogRecord(
        logged.name,
        logged.level,
        logged.path,
        logged.line,
        logged.text,
        None,
        None if error is None else (type(error), error, error.__traceback__),
        logged.function,
        logged.stack,
    )
    record.created, record.msecs = logged.created, logged.created % 1 * 1_000
    record.process, record.processName = pid, "windlass-child"
    record.threadName = logged.thread
    for name, value in logged.extra.items():
        setattr(record, name, unpack(value))
    if log is not None and logged.name != "windlass":
        log.add(record)
    logger = logging.getLogger(None if logged.name == "root" else logged.name)
    if logger.isEnabledFor(logged.level):
        logger.handle(record)


def _logged(record: logging.LogRecord, number: int | None) -> Logged:
    error = record.exc_info[1] if record.exc_info else None
    return Logged(
        number=number,
        name=record.name,
        level=record.levelno,
        text=_text_of(record)[:LONGEST_TEXT],
        path=record.pathname,
        line=record.lineno,
        function=record.funcName,
        thread=record.threadName,
        created=record.created,
        stack=record.stack_info,
        extra=_extra_of(record),
        error=None if error is None else sent_of(error),
    )


def _text_of(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception:
        # Its arguments do not fit its text.
        return f"{record.msg} {record.args}"


def _extra_of(record: logging.LogRecord) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in vars(record).items():
        if name in RESERVED or name == "windlass":
            continue
        try:
            found[name] = pack(value)
        except Unpackable:
            found[name] = str(value)
    return found
