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

COLOURS = {
    Status.WAITING: "cyan",
    Status.RUNNING: "blue",
    Status.SUCCEEDED: "green",
    Status.FAILED: "red",
    Status.BLOCKED: "yellow",
    Status.EXTERNAL: "magenta",
    Status.CANCELLED: "bright_black",
}

# In a file or a pipe, lines may be long: programs and `less -S` cut them.
PIPE_WIDTH = 200
# Text that may wrap should have at least this many columns.
READABLE = 40

# Keys and names are printed as they are, also brackets and :words:.
console = Console(
    highlight=False,
    markup=False,
    emoji=False,
    width=None if sys.stdout.isatty() else PIPE_WIDTH,
)

# Characters that move the cursor, end the line or change the direction of writing.
UNSEEN = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")


def complain(message: str) -> None:
    """One line on standard error."""
    line = Text("error: ", style="bold red") + Text(message)
    Console(stderr=True, highlight=False).print(line, soft_wrap=True)


def note(message: str) -> None:
    """A note on standard error."""
    line = Text("note: ", style="bold") + Text(message)
    Console(stderr=True, highlight=False).print(line, soft_wrap=True)


def check_watch(watch: bool, *, as_json: bool) -> None:
    """Refuse to draw if the output is not a terminal."""
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


def report(message: str, facts: Mapping[str, object], *, as_json: bool) -> None:
    """What a command has done: facts for programs, or a line for people."""
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
    """An empty table in the one style that all commands share.

    Only `wrap` columns may break. A `cut` column is one line in the room that is left. `most` is
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
    """`text` on one line, with control characters written out."""
    return UNSEEN.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def counted(number: int, noun: str) -> str:
    """A number with its noun, in the right form."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def count_text(number: int) -> str:
    """A count of rows: exact up to a bound, then with a plus."""
    return f"{COUNTED_EXACTLY:,}+" if number > COUNTED_EXACTLY else f"{number:,}"


def status_text(status: Status) -> Text:
    """A status in its colour."""
    return Text(str(status), style=COLOURS[status])


def when(moment: int | datetime | None, *, now: int) -> str:
    """A moment for people: how long ago, or in how long."""
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


def moment_text(moment: datetime, *, now: int) -> str:
    """A moment in UTC, and how far away it is."""
    shown, away = timestamp(moment), when(moment, now=now)
    return shown if shown == away else f"{shown} ({away})"


def iso(moment: int | datetime | None) -> str | None:
    """A moment for programs."""
    if moment is None:
        return None
    return (moment if isinstance(moment, datetime) else to_datetime(moment)).isoformat()


def plain(view: Any, *, without: Collection[str] = ()) -> Any:
    """A view, or a list of views, as `--json` prints it.

    It leaves out the fields `without`; "members.idle" is a field of a nested view.
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
        case dict():
            return {name: plain(each) for name, each in view.items()}
    kind: type = type(view)
    hints = view_fields(kind)
    if hints:
        return {
            name: _plain_field(getattr(view, name), hint, below(name, without))
            for name, hint in hints.items()
            if name not in without
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
        return iso(value)
    if is_marked(hint, CODE):
        return int(value)
    if is_marked(hint, JSON_TEXT):
        return msgspec.json.decode(value)
    return plain(value, without=without)


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


def print_fitting(whole: Table, *parts: Table) -> None:
    """Print `whole` if it fits in the terminal, otherwise its parts, one below the other."""
    for number, shown in enumerate([whole] if fits(whole) else parts):
        if number:
            console.print()
        console.print(shown)


def parse_json(text: str, what: str) -> Any:
    """JSON that a person typed."""
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError as problem:
        complain(f"{what} is not JSON: {problem}")
        raise typer.Exit(2) from None


def parse_status(name: str | None) -> Status | None:
    """The status that a person typed."""
    if name is None:
        return None
    try:
        return Status.named(name)
    except KeyError:
        complain(f"--status {name} is not one of {', '.join(map(str, Status))}")
        raise typer.Exit(2) from None
