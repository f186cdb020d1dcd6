"""For the logging of users: which task a record is from, and records as JSON.

    handler.addFilter(windlass.logging.ContextFilter())

The `task`, `kind`, `key` and `attempt` of the running task are then attributes of each record that
a handler logs, whether it runs on a thread or on the event loop. Threads that a handler starts by
itself do not know its task, unless it gives them its context (`contextvars.copy_context().run`).
"""

from __future__ import annotations

import logging
from collections.abc import MutableMapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from windlass.core.run.many.together import is_list
from windlass.core.task.current import current
from windlass.core.trace.provider import span_ids
from windlass.telemetry import RESERVED, Event

__all__ = ["ContextFilter", "JsonFormatter", "add_task", "task_fields"]

FIELDS = ("task", "kind", "key", "attempt")
TRACE_FIELDS = ("trace_id", "span_id")


def task_fields() -> dict[str, object]:
    """The `task`, `kind`, `key` and `attempt` of the calling handler; empty outside of one.

    Of a handler that takes lists the `kind`, and how many `tasks` it was called with.
    If the program traces, also the `trace_id` and the `span_id`, inside and outside.
    """
    run, traced = current.get(), span_ids()
    found = {} if traced is None else dict[str, object](zip(TRACE_FIELDS, traced, strict=True))
    if run is None:
        return found
    if is_list(run):
        return {"kind": run.kind.name, "tasks": len(run.given_items)} | found
    own = (run.task.id, run.kind.name, run.key, run.task.attempt)
    return dict(zip(FIELDS, own, strict=True)) | found


class ContextFilter(logging.Filter):
    """Gives each record the attributes `task`, `kind`, `key` and `attempt`; `absent` outside.

    And `trace_id` and `span_id`, which are `absent` if nothing is traced.

    It lets every record pass. Attributes that a record has already stay.
    """

    def __init__(self, *, absent: object = "-") -> None:
        super().__init__()
        self._absent = absent

    def filter(self, record: logging.LogRecord) -> bool:
        """Add the attributes."""
        fields = task_fields()
        for name in (*FIELDS, *TRACE_FIELDS):
            if not hasattr(record, name):
                value = fields.get(name)
                setattr(record, name, self._absent if value is None else value)
        return True


def add_task(_logger: object, _method: str, event: MutableMapping[str, Any]) -> Any:
    """A processor of structlog that adds what `task_fields` has."""
    for name, value in task_fields().items():
        if value is not None:
            event.setdefault(name, value)
    return event


class JsonFormatter(logging.Formatter):
    """One JSON object for each record: time, level, event, logger, message, fields, exception."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as one line."""
        event = getattr(record, "windlass", None)
        known = event if isinstance(event, Event) else None
        shown: dict[str, object] = {
            "time": moment_of(record),
            "level": record.levelname.lower(),
            "event": "log" if known is None else known.name,
            "logger": record.name,
            "message": record.getMessage(),
        }
        fields = fields_of(record) if known is None else known.fields
        for name, value in (task_fields() | fields).items():
            if value is not None and name not in shown:
                shown[name] = value
        if record.exc_info:
            shown["exception"] = self.formatException(record.exc_info)
        if record.stack_info:
            shown["stack"] = record.stack_info
        return msgspec.json.encode(shown, enc_hook=str).decode()


def moment_of(record: logging.LogRecord) -> str:
    """When a record was made, in UTC."""
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")


def fields_of(record: logging.LogRecord) -> dict[str, object]:
    """The `extra` of a record."""
    return {name: value for name, value in vars(record).items() if name not in RESERVED}
