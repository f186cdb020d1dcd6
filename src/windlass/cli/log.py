"""The output of a worker: a live line on a terminal, structured lines elsewhere."""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

import msgspec
from rich.console import Console
from rich.live import Live
from rich.text import Text

from windlass.telemetry import Event

LEVEL_STYLE = {"error": "bold red", "warning": "yellow", "info": "", "debug": "bright_black"}


class LineFormatter(logging.Formatter):
    """`time level message key=value ...`, or the same as JSON."""

    def __init__(self, *, as_json: bool) -> None:
        super().__init__()
        self._as_json = as_json

    def format(self, record: logging.LogRecord) -> str:
        event = getattr(record, "windlass", None)
        fields = dict(event.fields) if isinstance(event, Event) else {}
        moment = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        if self._as_json:
            shown = {
                "time": moment,
                "level": record.levelname.lower(),
                "event": event.name if isinstance(event, Event) else "log",
                "message": record.getMessage(),
                **fields,
            }
            return msgspec.json.encode(shown, enc_hook=str).decode()
        facts = " ".join(f"{name}={_value(value)}" for name, value in fields.items())
        line = f"{moment} {record.levelname.lower():7} {record.getMessage()} {facts}".rstrip()
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


class ConsoleHandler(logging.Handler):
    """Prints events above the live line, in colour."""

    def __init__(self, console: Console) -> None:
        super().__init__()
        self._console = console

    def emit(self, record: logging.LogRecord) -> None:
        event = getattr(record, "windlass", None)
        fields = event.fields if isinstance(event, Event) else {}
        level = record.levelname.lower()
        line = Text(time.strftime("%H:%M:%S "), style="bright_black")
        line += Text(record.getMessage(), style=LEVEL_STYLE.get(level, ""))
        for name, value in fields.items():
            line += Text(f"  {name}=", style="bright_black") + Text(_value(value))
        self._console.print(line)


def set_up_logs(*, as_json: bool, console: Console | None) -> None:
    """Log Windlass's events, and warnings of all other modules, to standard error."""
    handler: logging.Handler
    if console is not None:
        handler = ConsoleHandler(console)
    else:
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(LineFormatter(as_json=as_json))
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    level = os.environ.get("WINDLASS_LOG", "info").upper()
    logging.getLogger("windlass").setLevel(level if level in logging.getLevelNamesMapping() else 20)


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
