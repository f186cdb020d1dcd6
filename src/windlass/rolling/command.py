"""`windlass rolling list|show|add|remove|visit|mirror|follow|unfollow`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import nullcontext
from datetime import datetime
from typing import Annotated, Any

import typer
from rich.text import Text

from windlass.app import App
from windlass.cli.audit import MOST_TOLD, audit_log
from windlass.cli.load import AppOption, JsonOption, load_app
from windlass.cli.output import (
    complain,
    console,
    done,
    fits,
    iso,
    print_json,
    say,
    status_text,
    table,
    timestamp,
    warn_missing,
    when,
)
from windlass.core.task.kind import Kind
from windlass.errors import ItemNotFound, NotPossible
from windlass.rolling.declare import Rolling
from windlass.rolling.model import Freshness, Item
from windlass.source.store.table import Table
from windlass.value.duration import format_duration
from windlass.value.status import Status
from windlass.watch.audit.model import Action
from windlass.watch.status.operate import rate_text

NUMBERS = ("items", "never", "due", "overdue", "oldest", "needed", "actual")
WHOLE_NAMES = {"never": "never visited", "needed": "needed rate", "actual": "actual rate"}

cli = typer.Typer(help="Look at rolling kinds and their items, and act on them.")

KindArgument = Annotated[str, typer.Argument(metavar="KIND", help="The rolling kind.")]
CodesArgument = Annotated[
    list[str] | None, typer.Argument(metavar="CODE", help="The codes of the items.")
]
FileOption = Annotated[
    str | None, typer.Option("--file", help="Read codes from a file, one a line; - for stdin.")
]
TableOption = Annotated[
    str, typer.Option("--table", metavar="TABLE", help="The table, or schema.table.")
]
KeyOption = Annotated[
    str, typer.Option("--key", metavar="COLUMN", help="The column with the codes.")
]
SourceOption = Annotated[
    str | None,
    typer.Option("--source", metavar="URL", help="Its database; default: that of the app."),
]


@cli.command("list")
def list_kinds(app: AppOption = None, as_json: JsonOption = False) -> None:
    """List rolling kinds and how fresh their items are."""
    loaded = load_app(app)
    found = {
        kind.name: (kind, loaded.freshness_of(kind))
        for _name, kind in sorted(loaded.registry.kinds.items())
        if kind.period is not None
    }
    missing = {name for _, freshness in found.values() for name in freshness.missing}
    warn_missing(tuple(sorted(missing)))
    if as_json:
        print_json([_for_programs(kind, freshness) for kind, freshness in found.values()])
        return
    if not found:
        say("No rolling kind is declared; declare one with @app.rolling.")
        return
    whole = table("kind", "every", *NUMBERS, "forecast", right=NUMBERS, wrap=("forecast",))
    forecasts = table("kind", "every", "forecast", wrap=("forecast",))
    counts = table("kind", *NUMBERS, right=NUMBERS)
    for kind, freshness in found.values():
        name, cells, forecast = Text(kind.name, style="bold"), _cells(freshness), _told(freshness)
        whole.add_row(name, _every(kind), *cells, forecast)
        forecasts.add_row(name, _every(kind), forecast)
        counts.add_row(name, *cells)
    if fits(whole):
        console.print(whole)
    else:
        console.print(forecasts)
        console.print()
        console.print(counts)


@cli.command()
def show(
    kind: KindArgument,
    code: Annotated[
        str | None, typer.Argument(metavar="CODE", help="One item instead of the kind.")
    ] = None,
    app: AppOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show how fresh a rolling kind is, or one of its items."""
    loaded, rolling = _load(app, kind)
    if code is not None:
        item = rolling.item(code)
        if item is None:
            raise ItemNotFound(kind, code)
        _show_item(loaded, item, as_json=as_json)
        return
    declared, freshness = loaded.registry.get(kind), rolling.freshness()
    warn_missing(freshness.missing)
    if as_json:
        print_json(_for_programs(declared, freshness))
        return
    title = kind
    shown = table("rolling", title, wrap=(title,))
    shown.add_row("every", _every(declared))
    for name, cell in zip(NUMBERS, _cells(freshness), strict=True):
        shown.add_row(WHOLE_NAMES.get(name, name), cell)
    shown.add_row("forecast", _told(freshness))
    console.print(shown)


@cli.command()
def add(
    kind: KindArgument,
    codes: CodesArgument = None,
    app: AppOption = None,
    now: Annotated[bool, typer.Option("--now", help="Visit them at once.")] = False,
    file: FileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Add items."""
    loaded, rolling = _load(app, kind)
    with audit_log(loaded).record(
        Action.ROLLING_ADD, kind, now=now, **_which(codes, file)
    ) as entry:
        added = rolling.add(_codes(codes, file), now=now)
        message = entry.says(f"added {_items(added)} to {kind}")
    _report(as_json, {"added": added}, message)


@cli.command()
def remove(
    kind: KindArgument,
    codes: CodesArgument = None,
    app: AppOption = None,
    file: FileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Remove items; one that is being visited goes when its visit ends."""
    loaded, rolling = _load(app, kind)
    with audit_log(loaded).record(Action.ROLLING_REMOVE, kind, **_which(codes, file)) as entry:
        removed = rolling.remove(_codes(codes, file))
        message = entry.says(f"removed {_items(removed)} from {kind}")
    _report(as_json, {"removed": removed}, message)


@cli.command()
def visit(
    kind: KindArgument,
    code: Annotated[str, typer.Argument(metavar="CODE", help="The code of the item.")],
    app: AppOption = None,
    fresh: Annotated[
        str | None, typer.Option("--fresh", help="Do nothing if visited so recently, as 10m.")
    ] = None,
    timeout: Annotated[str, typer.Option("--timeout", help="Wait so long at most.")] = "30s",
    as_json: JsonOption = False,
) -> None:
    """Have one item visited now, and wait for it. Exits with 1 if the visit failed."""
    loaded, rolling = _load(app, kind)
    with audit_log(loaded).record(Action.ROLLING_VISIT, kind, code=code) as entry:
        item = rolling.visit(code, fresh=fresh, timeout=timeout)
        entry.says(f"{code} was visited: {item.status}")
    _show_item(loaded, item, as_json=as_json)
    if item.status is Status.FAILED:
        raise typer.Exit(1)


@cli.command()
def mirror(
    kind: KindArgument,
    table: TableOption,
    key: KeyOption,
    source: SourceOption = None,
    app: AppOption = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Make the items equal to the keys of a table."""
    loaded, rolling = _load(app, kind)
    keys = _table(loaded, source, table, key)
    if dry_run:
        result = rolling.mirror(keys, dry_run=True)
        text = f"{kind}: would add {result.added:,}, would remove {result.removed:,}"
    else:
        with audit_log(loaded).record(Action.ROLLING_MIRROR, kind, table=table, key=key) as entry:
            result = rolling.mirror(keys)
            text = entry.says(f"{kind}: added {result.added:,}, removed {result.removed:,}")
    _report(as_json, {**vars(result)}, text)


@cli.command()
def follow(
    kind: KindArgument,
    table: TableOption,
    key: KeyOption,
    source: SourceOption = None,
    app: AppOption = None,
    as_json: JsonOption = False,
) -> None:
    """Install triggers that add and remove items as rows of a table come and go."""
    loaded, rolling = _load(app, kind)
    with audit_log(loaded).record(Action.ROLLING_FOLLOW, kind, table=table, key=key) as entry:
        rolling.follow(_table(loaded, source, table, key))
        message = entry.says(f"{kind} follows {table}; now mirror it once")
    _report(as_json, {"following": table}, message)


@cli.command()
def unfollow(
    kind: KindArgument,
    table: TableOption,
    key: KeyOption,
    source: SourceOption = None,
    app: AppOption = None,
    as_json: JsonOption = False,
) -> None:
    """Remove the triggers of `follow`."""
    loaded, rolling = _load(app, kind)
    with audit_log(loaded).record(Action.ROLLING_UNFOLLOW, kind, table=table, key=key) as entry:
        if not rolling.unfollow(_table(loaded, source, table, key)):
            raise NotPossible(f"{kind} does not follow {table}")
        message = entry.says(f"{kind} no longer follows {table}")
    _report(as_json, {"following": None}, message)


def _load(app: str | None, name: str) -> tuple[App, Rolling[..., Any]]:
    loaded = load_app(app)
    kind = loaded.registry.get(name)
    if kind.period is None:
        complain(f"kind {name!r} is not rolling; rolling kinds: {_rolling_names(loaded)}")
        raise typer.Exit(1)
    loaded.prepare()
    return loaded, Rolling(loaded, kind)


def _rolling_names(loaded: App) -> str:
    kinds = loaded.registry.kinds.values()
    return ", ".join(sorted(kind.name for kind in kinds if kind.period is not None)) or "none"


def _codes(codes: list[str] | None, file: str | None) -> Iterator[str]:
    if bool(codes) == (file is not None):
        complain("give codes, or --file with one code a line")
        raise typer.Exit(2)
    if file is None:
        return iter(codes or [])
    return _lines(file)


def _which(codes: list[str] | None, file: str | None) -> dict[str, Any]:
    """Which items, for the log."""
    return {"file": file} if file is not None else {"codes": (codes or [])[:MOST_TOLD]}


def _lines(file: str) -> Iterator[str]:
    try:
        # Spreadsheets begin a file with a mark, which is no part of the first code.
        with nullcontext(sys.stdin) if file == "-" else open(file, encoding="utf-8-sig") as lines:
            yield from (line.rstrip("\r\n") for line in lines if line.strip("\r\n"))
    except OSError as problem:
        complain(f"--file {file}: {problem.strerror}")
        raise typer.Exit(1) from None
    except UnicodeDecodeError as problem:
        complain(f"--file {file}: not UTF-8 text ({problem.reason}); convert it first")
        raise typer.Exit(1) from None


def _table(loaded: App, source: str | None, name: str, key: str) -> Table:
    return Table(loaded.database.url if source is None else source, name, key=key)


def _every(kind: Kind) -> str:
    return "-" if kind.period is None else format_duration(kind.period.every)


def _cells(freshness: Freshness) -> list[Text]:
    oldest = freshness.oldest_age.total_seconds() * 1e6
    return [
        Text(f"{freshness.total:,}"),
        Text(f"{freshness.never_visited:,}"),
        Text(f"{freshness.due:,}"),
        Text(f"{freshness.overdue:,}", style="red" if freshness.overdue else ""),
        Text(format_duration(oldest) if oldest else "-"),
        Text(_rate(freshness.needed_rate)),
        Text(_rate(freshness.actual_rate)),
    ]


def _rate(per_second: float) -> str:
    return rate_text(per_second) if per_second else "0"


def _told(freshness: Freshness) -> Text:
    is_well = freshness.head_room is not None
    return Text(freshness.forecast, style="green" if is_well else "yellow")


def _show_item(loaded: App, item: Item, *, as_json: bool) -> None:
    if as_json:
        print_json(_item_for_programs(item))
        return
    now = loaded.clock.now()
    title = item.code
    shown = table("item", title, wrap=(title,))
    shown.add_row("status", status_text(item.status))
    for name in ("started_at", "finished_at", "due_at"):
        moment = getattr(item, name)
        if moment is not None:
            shown.add_row(name.removesuffix("_at"), _moment(moment, now))
    if item.remark is not None:
        shown.add_row("remark", Text(item.remark))
    console.print(shown)


def _item_for_programs(item: Item) -> dict[str, object]:
    return {
        "key": item.code,
        "status": str(item.status),
        "started_at": iso(item.started_at),
        "finished_at": iso(item.finished_at),
        "due_at": iso(item.due_at),
        "remark": item.remark,
    }


def _moment(moment: datetime, now: int) -> str:
    return f"{timestamp(moment)} ({when(moment, now=now)})"


def _for_programs(kind: Kind, freshness: Freshness) -> dict[str, object]:
    return {
        "kind": kind.name,
        "every": _every(kind),
        **vars(freshness),
        "oldest_age": freshness.oldest_age.total_seconds(),
        "breaks_at": iso(freshness.breaks_at),
    }


def _items(count: int) -> str:
    return "1 item" if count == 1 else f"{count:,} items"


def _report(as_json: bool, facts: dict[str, object], message: str) -> None:
    if as_json:
        print_json(facts)
    else:
        done(message)
