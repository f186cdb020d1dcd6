"""Keeps Alembic quiet while Windlass uses it, and only then."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager

LOGGERS = ("alembic.runtime.migration", "alembic.runtime.plugins")


@contextmanager
def quietly() -> Iterator[None]:
    """Alembic logs nothing below a warning on this thread meanwhile.

    Migrations of the user, on other threads and later, are logged as the user has set up.
    """
    mine = threading.get_ident()

    def is_told(record: logging.LogRecord) -> bool:
        return record.levelno >= logging.WARNING or record.thread != mine

    loggers = [logging.getLogger(name) for name in LOGGERS]
    for logger in loggers:
        logger.addFilter(is_told)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(is_told)
