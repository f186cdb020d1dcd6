"""How the terminal shows things: tables for people, JSON for programs."""

from __future__ import annotations

import re
import sys
from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from enum import Enum, IntEnum
from typing import Any

import msgspec
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from windlass.clock import SECOND, from_datetime, to_datetime
from windlass.value.duration import format_duration
from windlass.value.status import Status
from windlass.value.view import JSON_TEXT, MOMENT, is_marked, view_fields

COLOURS = {
    Status.WAITING: "cyan",
    Status.RUNNING: "blue",
    Status.SUCCEEDED: "green",
    Status.FAILED: "red",
    Status.BLOCKED: "yellow",
    Status.EXTERNAL: "magenta",
    Status.CANCELLED: "bright_black",
}

# Into a file or a pipe, lines may be long: programs and `less -S` cut them better than we do.
PIPE_WIDTH = 200
# Text that may wrap should have so many columns.
READABLE = 40

# Keys and names are shown as they are, brackets and :words: too.
console = Console(
    highlight=False,
    markup=False,
    emoji=False,
    width=None if sys.stdout.isatty() else PIPE_WIDTH,
)

# What moves the cursor, ends the line or turns the direction of writing.
UNSEEN = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")


def complain(message: str) -> None:
    """One line on standard error."""
    line = Text("error: ", style="bold red") + Text(message)
    Console(stderr=True, highlight=False).print(line, soft_wrap=True)


def note(message: str) -> None:
    """One line on standard error that is no error: what is shown stays as it is."""
    line = Text("note: ", style="bold") + Text(message)
    Console(stderr=True, highlight=False).print(line, soft_wrap=True)


def check_watch(watch: bool, *, as_json: bool) -> None:
    """Refuse to draw where nobody looks."""
    if watch and (as_json or not console.is_terminal):
        complain(
            "--json prints one value; leave --watch out"
            if as_json
            else "--watch draws on a terminal; leave it out, or ask for --json"
        )
        raise typer.Exit(2)


def warn_missing(missing: tuple[str, ...]) -> None:
    """A line on standard error for each shard that is not in what is shown."""
    for name in missing:
        line = Text("warning: ", style="bold yellow")
        line += Text(f"shard {name} does not answer; what it has is not shown")
        Console(stderr=True, highlight=False).print(line, soft_wrap=True)


def print_json(value: Any) -> None:
    """One JSON value on standard output. Bytes are in hexadecimal, as people see them."""
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
    """A plain line."""
    console.print(Text(message))


def done(message: str) -> None:
    """A line that says that something was done."""
    console.print(Text("✓ ", style="bold green") + Text(message))


def table(
    *columns: str,
    right: tuple[str, ...] = (),
    wrap: tuple[str, ...] = (),
    cut: tuple[str, ...] = (),
    most: Mapping[str, int] | None = None,
) -> Table:
    """An empty table in the one style that all commands share.

    Only `wrap` columns may break. A `cut` column is one line in whatever room is left. `most` is
    how wide a column may be.
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
    """`text` on one line, with what a terminal would obey written out."""
    return UNSEEN.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def counted(number: int, noun: str) -> str:
    """A number with its noun, in the right form."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def status_text(status: Status) -> Text:
    """A status in its colour."""
    return Text(str(status), style=COLOURS[status])


def when(moment: int | datetime | None, *, now: int) -> str:
    """A moment as people say it: how long ago, or in how long."""
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


def iso(moment: int | datetime | None) -> str | None:
    """A moment for programs."""
    if moment is None:
        return None
    return (moment if isinstance(moment, datetime) else to_datetime(moment)).isoformat()


def plain(view: Any, *, without: Collection[str] = ()) -> Any:
    """A view, or a list of views, as `--json` prints it; `without` names fields to leave out."""
    match view:
        case datetime():
            return iso(view)
        case timedelta():
            return view.total_seconds()
        case IntEnum():
            return str(view)
        case Enum():
            return view.value
        case Mapping():
            return {name: plain(each) for name, each in view.items()}
    kind: type = type(view)
    hints = view_fields(kind)
    if hints:
        return {
            name: _plain_field(getattr(view, name), hint)
            for name, hint in hints.items()
            if name not in without
        }
    if isinstance(view, list | tuple):
        return [plain(each, without=without) for each in view]
    return view


def _plain_field(value: Any, hint: Any) -> Any:
    if value is None:
        return None
    if is_marked(hint, MOMENT):
        return iso(value)
    return msgspec.json.decode(value) if is_marked(hint, JSON_TEXT) else plain(value)


def fits(shown: Table) -> bool:
    """Whether a table has room in the terminal, with enough for the text in it that may give."""
    text = [column for column in shown.columns if not column.no_wrap or column.flexible]
    before = [column.max_width for column in text]
    for column in text:
        column.max_width = min(column.max_width or READABLE, READABLE)
    needed = console.measure(shown, options=console.options.update(width=10_000)).maximum
    for column, width in zip(text, before, strict=True):
        column.max_width = width
    return needed <= console.width


def parse_json(text: str, what: str) -> Any:
    """JSON that a person typed."""
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError as problem:
        complain(f"{what} is not JSON: {problem}")
        raise typer.Exit(2) from None
