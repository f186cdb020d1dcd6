"""Terminal output: tables for people, JSON for programs."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import sys
import time
from collections.abc import Callable, Collection, Mapping
from datetime import datetime, timedelta
from enum import Enum, IntEnum
from typing import Any, NoReturn

import msgspec
import typer
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from windlass.clock import SECOND, from_datetime, to_datetime
from windlass.errors import DatabaseUnavailable
from windlass.value.duration import format_duration
from windlass.value.status import Status
from windlass.value.task import COUNTED_EXACTLY
from windlass.view.field import (
    CODE,
    JSON_TEXT,
    KEY,
    MOMENT,
    STORED_KEY,
    below,
    is_marked,
    view_fields,
)
from windlass.view.said import SPOKEN, Said

COLOURS = {
    Status.WAITING: "cyan",
    Status.RUNNING: "blue",
    Status.SUCCEEDED: "green",
    Status.FAILED: "red",
    Status.BLOCKED: "yellow",
    Status.EXTERNAL: "magenta",
    Status.CANCELLED: "bright_black",
}

# In a file or a pipe, when neither $COLUMNS nor a terminal says how wide lines may be.
PIPE_WIDTH = 200
# Text that may wrap should have at least this many columns.
READABLE = 40


def _width() -> int | None:
    """How wide lines may be; None if the console finds it out by itself."""
    if sys.stdout.isatty():
        return None
    given = os.environ.get("COLUMNS", "")
    if given.isdecimal() and int(given) > 0:
        return int(given)
    for stream in (sys.__stderr__, sys.__stdin__):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            if stream is not None and stream.isatty():
                return os.get_terminal_size(stream.fileno()).columns
    return PIPE_WIDTH


# Keys and names are printed unchanged, even brackets and :words:.
console = Console(
    highlight=False,
    markup=False,
    emoji=False,
    width=_width(),
)

# Characters that move the cursor, end the line or change the direction of writing.
UNSEEN = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")


def complain(message: str) -> None:
    """Print an error on standard error."""
    _to_stderr("error: ", "bold red", message)


def refuse(message: str, *, code: int = 2) -> NoReturn:
    """Print an error on standard error, and end the command; code 2 is a usage error."""
    complain(message)
    raise typer.Exit(code)


def note(message: str) -> None:
    """Print a note on standard error."""
    _to_stderr("note: ", "bold", message)


def warn_missing(missing: tuple[str, ...]) -> None:
    """Print a warning on standard error for each shard that did not answer."""
    for name in missing:
        message = f"shard {name} does not answer; what it has is not shown"
        _to_stderr("warning: ", "bold yellow", message)


def _to_stderr(label: str, style: str, message: str) -> None:
    line = Text(label, style=style) + Text(message)
    Console(stderr=True, highlight=False).print(line, soft_wrap=True)


def check_watch(watch: bool, *, as_json: bool) -> None:
    """Refuse --watch with --json or without a terminal."""
    if watch and (as_json or not console.is_terminal):
        refuse(
            "--json prints one value; leave --watch out"
            if as_json
            else "--watch draws on a terminal; leave it out, or ask for --json"
        )


def print_json(value: Any) -> None:
    """Print one JSON value on standard output. Bytes are in hexadecimal."""
    plain = _without_bytes(msgspec.to_builtins(value, builtin_types=(bytes,), str_keys=True))
    sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(plain), indent=2) + b"\n")
    sys.stdout.buffer.flush()


def _without_bytes(value: Any) -> Any:
    match value:
        case bytes():
            return value.hex()
        case list() | tuple():
            return [_without_bytes(each) for each in value]
        case dict():
            return {name: _without_bytes(each) for name, each in value.items()}
    return value


def say(message: str) -> None:
    """Print a plain line."""
    console.print(Text(message), soft_wrap=not console.is_terminal)


def done(message: str) -> None:
    """Print a line about what was done."""
    done = Text("✓ ", style="bold green") + Text(message)
    console.print(done, soft_wrap=not console.is_terminal)


def report(message: str, facts: Mapping[str, object], *, as_json: bool) -> None:
    """Print what a command did: facts for programs, or a line for people."""
    if as_json:
        print_json(facts)
    else:
        done(message)


def table(
    *columns: str,
    right: tuple[str, ...] = (),
    wrap: tuple[str, ...] = (),
    cut: tuple[str, ...] = (),
    most: Mapping[str, int] | None = None,
) -> Table:
    """An empty table in the style of all commands.

    Only `wrap` columns may break. A `cut` column takes the remaining width and is cut to one line.
    `most` is the greatest width of a column.
    """
    made = Table(
        box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0), expand=bool(cut)
    )
    for column in columns:
        made.add_column(
            column,
            justify="right" if column in right else "left",
            no_wrap=column not in wrap,
            overflow="fold" if column in wrap else "ellipsis",
            max_width=(most or {}).get(column),
            min_width=len(column) if column in cut else None,
            ratio=1 if column in cut else None,
        )
    return made


def visible(text: str) -> str:
    """`text` on one line, with control characters escaped."""
    return UNSEEN.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def counted(number: int, noun: str) -> str:
    """A number with its noun, singular or plural."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def count_text(number: int) -> str:
    """A count of rows: exact up to a limit, then with a plus."""
    return f"{COUNTED_EXACTLY:,}+" if number > COUNTED_EXACTLY else f"{number:,}"


def status_text(status: Status) -> Text:
    """A status in its colour."""
    return Text(str(status), style=COLOURS[status])


def when(moment: int | datetime | None, *, now: int) -> str:
    """A moment for people, relative to `now`."""
    if moment is None:
        return "-"
    away = (from_datetime(moment) if isinstance(moment, datetime) else moment) - now
    if abs(away) < SECOND:
        return "now"
    if abs(away) > 2 * 86_400 * SECOND:
        return timestamp(moment)
    return f"in {format_duration(away)}" if away > 0 else f"{format_duration(-away)} ago"


def timestamp(moment: int | datetime | None) -> str:
    """A moment in UTC, to the second."""
    if moment is None:
        return "-"
    shown = moment if isinstance(moment, datetime) else to_datetime(moment)
    return shown.strftime("%Y-%m-%d %H:%M:%SZ")


def moment_text(moment: int | datetime, *, now: int) -> str:
    """A moment in UTC, and relative to `now`."""
    shown, away = timestamp(moment), when(moment, now=now)
    return shown if shown == away else f"{shown} ({away})"


def iso(moment: int | datetime | None) -> str | None:
    """A moment for programs, in ISO 8601."""
    if moment is None:
        return None
    return (moment if isinstance(moment, datetime) else to_datetime(moment)).isoformat()


def plain(view: Any, *, without: Collection[str] = ()) -> Any:
    """A view, or a list of views, as `--json` prints it.

    Leaves out the fields in `without`; "members.idle" is a field of a nested view.
    """
    match view:
        case datetime():
            return iso(view)
        case timedelta():
            return view.total_seconds()
        case IntEnum():
            return str(view)
        case Enum():
            return view.value
        case range():
            return [view[0], view[-1]]
        case Said():
            return str(view)
        case dict():
            return {name: plain(each) for name, each in view.items()}
    kind: type = type(view)
    hints = view_fields(kind)
    if hints:
        return {
            name: _plain_field(getattr(view, name), hint, below(name, without))
            for name, hint in hints.items()
            if name not in without and not is_marked(hint, SPOKEN)
        }
    if isinstance(view, list | tuple):
        return [plain(each, without=without) for each in view]
    return view


def _plain_field(value: Any, hint: Any, without: Collection[str]) -> Any:
    if value is None:
        return None
    if is_marked(hint, KEY) or is_marked(hint, STORED_KEY):
        key = msgspec.to_builtins(value, builtin_types=(bytes,))
        return list(key) if isinstance(key, tuple) else key
    if is_marked(hint, MOMENT):
        return [*map(iso, value)] if isinstance(value, list) else iso(value)
    if is_marked(hint, CODE):
        return int(value)
    if is_marked(hint, JSON_TEXT):
        return msgspec.json.decode(value)
    return plain(value, without=without)


def fits(shown: Table) -> bool:
    """Whether a table fits in the terminal, with readable columns of text."""
    text = [column for column in shown.columns if not column.no_wrap or column.flexible]
    before = [column.max_width for column in text]
    for column in text:
        column.max_width = min(column.max_width or READABLE, READABLE)
    needed = console.measure(shown, options=console.options.update(width=10_000)).maximum
    for column, width in zip(text, before, strict=True):
        column.max_width = width
    return needed <= console.width


def print_fitting(whole: Table, *parts: Table) -> None:
    """Print `whole` if it fits in the terminal, otherwise its parts, one below the other."""
    for number, shown in enumerate([whole] if fits(whole) else parts):
        if number:
            console.print()
        console.print(shown)


def parse_json(text: str, what: str) -> Any:
    """The value of JSON that a person typed."""
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError as problem:
        refuse(f"{what} is not JSON: {problem}")


def parse_status(name: str | None) -> Status | None:
    """The status that a person typed."""
    if name is None:
        return None
    try:
        return Status.named(name)
    except KeyError:
        refuse(f"--status {name} is not one of {', '.join(map(str, Status))}")


REDRAW_SECONDS = 1.0


def redraw(draw: Callable[[], RenderableType], *, until: Callable[[], bool] | None = None) -> None:
    """Draw on the alternate screen until Ctrl-C, or until `until` is true; keep the last picture.

    While the database does not answer, show the error above the last picture.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    last = shown = draw()
    try:
        with Live(console=console, screen=True, auto_refresh=False) as live:
            while True:
                live.update(shown, refresh=True)
                if until is not None and until():
                    break
                time.sleep(REDRAW_SECONDS)
                try:
                    last = shown = draw()
                except DatabaseUnavailable as away:
                    shown = Group(Text(str(away), style="red"), last)
    except KeyboardInterrupt:
        pass
    console.print(last)
