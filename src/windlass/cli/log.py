"""The output of a worker: a live line on a terminal, structured lines elsewhere."""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

import msgspec
from rich.console import Console
from rich.live import Live
from rich.text import Text

from windlass import telemetry
from windlass.logging import JsonFormatter, moment_of, task_fields
from windlass.telemetry import Event

LEVEL_STYLE = {"error": "bold red", "warning": "yellow", "info": "", "debug": "bright_black"}


class LineFormatter(logging.Formatter):
    """`time level message`, with the task if a handler logged it."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as a line, and its traceback."""
        line = f"{moment_of(record)} {record.levelname.lower():7} {_text_of(record)}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


class ConsoleHandler(logging.Handler):
    """Prints records above the live line, in colour."""

    def __init__(self, console: Console) -> None:
        super().__init__()
        self._console = console

    def emit(self, record: logging.LogRecord) -> None:
        """Print a record and its traceback."""
        line = Text(time.strftime("%H:%M:%S "), style="bright_black")
        line += Text(_text_of(record), style=LEVEL_STYLE.get(record.levelname.lower(), ""))
        self._console.print(line)
        if record.exc_info:
            trace = logging.Formatter().formatException(record.exc_info)
            self._console.print(Text(trace, style="bright_black"))


def set_up_logs(*, as_json: bool, console: Console | None) -> None:
    """Log Windlass's events, and warnings of all other modules, to standard error.

    Not if the app has set up logging: then nothing is added and nothing is replaced.
    """
    if is_set_up():
        if as_json:
            telemetry.log.warning(
                "--json is ignored: the app has set up logging itself; "
                "give its handler windlass.logging.JsonFormatter()"
            )
        return
    handler: logging.Handler
    if console is not None:
        handler = ConsoleHandler(console)
    else:
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(JsonFormatter() if as_json else LineFormatter())
    handler.addFilter(_is_shown)
    root = logging.getLogger()
    root.addHandler(handler)
    if root.level == logging.WARNING:
        # Not shown, but kept with the run of a kind that has `logs`.
        root.setLevel(logging.INFO)
    if telemetry.log.level == logging.NOTSET:
        level = os.environ.get("WINDLASS_LOG", "info").upper()
        telemetry.log.setLevel(level if level in logging.getLevelNamesMapping() else logging.INFO)


def is_set_up() -> bool:
    """Whether the program has set up logging: handlers of its own, or a call of logging.config."""
    for logger in (logging.getLogger(), telemetry.log):
        if any(not isinstance(each, logging.NullHandler) for each in logger.handlers):
            return True
    # A configuration forgets all handlers that were made before it, the one of last resort too.
    made = getattr(logging, "_handlerList", None)
    return made is not None and logging.lastResort not in [reference() for reference in made]


def _is_shown(record: logging.LogRecord) -> bool:
    return record.levelno >= logging.WARNING or f"{record.name}.".startswith("windlass.")


def _text_of(record: logging.LogRecord) -> str:
    """The message, and which task it is from if the message does not say so."""
    text = record.getMessage()
    if isinstance(getattr(record, "windlass", None), Event):
        return text
    facts = {name: value for name, value in task_fields().items() if value is not None}
    return " ".join([text, *(f"{name}={_value(value)}" for name, value in facts.items())])


@dataclass(frozen=True)
class Shown:
    """The numbers of the live line."""

    processes: int
    running: int
    done: int
    failed: int


def live_line(console: Console, read: Callable[[], Shown], due: Callable[[], str]) -> Live:
    """One line at the bottom of the terminal that shows the progress while the block lasts."""
    history: list[tuple[float, int]] = []

    def render() -> Text:
        shown, now = read(), time.monotonic()
        history[:] = [(at, done) for at, done in history if now - at < 3.0]
        history.append((now, shown.done))
        began, before = history[0]
        rate = (shown.done - before) / (now - began) if now - began > 0.2 else 0.0
        line = Text("⚓ ", style="cyan")
        for label, value, style in (
            ("per second", f"{rate:,.0f}", "bold"),
            ("running", f"{shown.running:,}", "blue"),
            ("due", due(), "cyan"),
            ("done", f"{shown.done:,}", "green"),
            ("failed", f"{shown.failed:,}", "bold red" if shown.failed else "bright_black"),
        ):
            line += Text(f"{value} ", style=style) + Text(f"{label}   ", style="bright_black")
        if shown.processes > 1:
            line += Text(f"{shown.processes} processes", style="bright_black")
        return line

    return Live(get_renderable=render, console=console, refresh_per_second=4, transient=True)


def _value(value: object) -> str:
    text = f"{value:.3g}" if isinstance(value, float) else str(value)
    return msgspec.json.encode(text).decode() if " " in text or '"' in text else text
