"""`windlass rolling list|show|add|remove|visit|mirror|follow|unfollow`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Annotated, Any

import typer
from rich.text import Text

from windlass.app import App
from windlass.cli.load import MOST_TOLD, AppOption, JsonOption, audit_log, load_app
from windlass.cli.output import (
    console,
    counted,
    moment_text,
    plain,
    print_fitting,
    print_json,
    refuse,
    report,
    say,
    status_text,
    table,
    warn_missing,
)
from windlass.clock import SECOND
from windlass.errors import ItemNotFound, NotPossible
from windlass.rolling.model import Freshness, Item, RollingView
from windlass.rolling.operate import freshness
from windlass.rolling.operate.handle import Rolling
from windlass.rolling.operate.source import table_of
from windlass.value.duration import format_duration
from windlass.value.rate import rate_text
from windlass.value.status import Status
from windlass.view.action import Action

NUMBERS = ("items", "never", "due", "overdue", "oldest", "needed", "actual")
WHOLE_NAMES = {"never": "never visited", "needed": "needed rate", "actual": "actual rate"}

cli = typer.Typer()

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
    loaded.prepare()
    found = freshness.views(loaded.fleet, loaded.clock, loaded.registry)
    missing = {name for rolling in found for name in rolling.missing}
    warn_missing(tuple(sorted(missing)))
    if as_json:
        print_json([_json(rolling) for rolling in found])
        return
    if not found:
        say("No rolling kind is declared; declare one with @app.rolling.")
        return
    whole = table("kind", "every", *NUMBERS, "forecast", right=NUMBERS, wrap=("forecast",))
    forecasts = table("kind", "every", "forecast", wrap=("forecast",))
    counts = table("kind", *NUMBERS, right=NUMBERS)
    for rolling in found:
        name, cells = Text(rolling.kind, style="bold"), _cells(rolling)
        forecast = _forecast(rolling)
        whole.add_row(name, rolling.every, *cells, forecast)
        forecasts.add_row(name, rolling.every, forecast)
        counts.add_row(name, *cells)
    print_fitting(whole, forecasts, counts)


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
    loaded, handle = _load(app, kind)
    if code is not None:
        item = handle.item(code)
        if item is None:
            raise ItemNotFound(kind, code)
        _show_item(loaded, item, as_json=as_json)
        return
    rolling = freshness.view(loaded.fleet, loaded.clock, loaded.registry.get(kind))
    warn_missing(rolling.missing)
    if as_json:
        print_json(_json(rolling))
        return
    shown = table("rolling", kind, wrap=(kind,))
    shown.add_row("every", rolling.every)
    for name, cell in zip(NUMBERS, _cells(rolling), strict=True):
        shown.add_row(WHOLE_NAMES.get(name, name), cell)
    shown.add_row("forecast", _forecast(rolling))
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
        Action.ROLLING_ADD, kind, now=now, **_detail(codes, file)
    ) as entry:
        added = rolling.add(_codes(codes, file), now=now)
        message = entry.says(f"added {counted(added, 'item')} to {kind}")
    report(message, {"added": added}, as_json=as_json)


@cli.command()
def remove(
    kind: KindArgument,
    codes: CodesArgument = None,
    app: AppOption = None,
    file: FileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Remove items; a visit that is running goes on to its end."""
    loaded, rolling = _load(app, kind)
    with audit_log(loaded).record(Action.ROLLING_REMOVE, kind, **_detail(codes, file)) as entry:
        removed = rolling.remove(_codes(codes, file))
        message = entry.says(f"removed {counted(removed, 'item')} from {kind}")
    report(message, {"removed": removed}, as_json=as_json)


@cli.command()
def visit(
    kind: KindArgument,
    code: Annotated[str, typer.Argument(metavar="CODE", help="The code of the item.")],
    app: AppOption = None,
    fresh: Annotated[
        str | None,
        typer.Option("--fresh", help="Do nothing if visited at most this long ago (10m)."),
    ] = None,
    timeout: Annotated[str, typer.Option("--timeout", help="Wait at most this long.")] = "30s",
    soon: Annotated[
        bool, typer.Option("--soon", help="Let a worker visit it soon; do not wait.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Visit one item now and wait for it. Exits with 1 if the visit failed."""
    loaded, rolling = _load(app, kind)
    if soon:
        with audit_log(loaded).record(Action.ROLLING_VISIT, kind, code=code, soon=True) as entry:
            asked = rolling.visit_soon(code, fresh=fresh)
            message = entry.says(f"visit of {code}: {asked}")
        report(message, {"visit": asked}, as_json=as_json)
        return
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
    keys = table_of(loaded.database, source, table, key=key)
    if dry_run:
        result = rolling.mirror(keys, dry_run=True)
        text = f"{kind}: would add {result.added:,}, would remove {result.removed:,}"
    else:
        with audit_log(loaded).record(Action.ROLLING_MIRROR, kind, table=table, key=key) as entry:
            result = rolling.mirror(keys)
            text = entry.says(f"{kind}: added {result.added:,}, removed {result.removed:,}")
    report(text, plain(result), as_json=as_json)


@cli.command()
def follow(
    kind: KindArgument,
    table: TableOption,
    key: KeyOption,
    source: SourceOption = None,
    app: AppOption = None,
    as_json: JsonOption = False,
) -> None:
    """Create triggers that add and remove items as rows of a table come and go."""
    loaded, rolling = _load(app, kind)
    with audit_log(loaded).record(Action.ROLLING_FOLLOW, kind, table=table, key=key) as entry:
        rolling.follow(table_of(loaded.database, source, table, key=key))
        message = entry.says(f"{kind} follows {table}; now mirror it once")
    report(message, {"following": table}, as_json=as_json)


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
        if not rolling.unfollow(table_of(loaded.database, source, table, key=key)):
            raise NotPossible(f"{kind} does not follow {table}")
        message = entry.says(f"{kind} no longer follows {table}")
    report(message, {"following": None}, as_json=as_json)


def _load(app: str | None, name: str) -> tuple[App, Rolling[..., Any]]:
    loaded = load_app(app)
    kind = loaded.registry.of_face(name, "rolling", what="rolling")
    loaded.prepare()
    return loaded, Rolling(loaded.rolling_tools, kind)


def _codes(codes: list[str] | None, file: str | None) -> Iterator[str]:
    if bool(codes) == (file is not None):
        refuse("give codes, or --file with one code a line")
    if file is None:
        return iter(codes or [])
    return _lines(file)


def _detail(codes: list[str] | None, file: str | None) -> dict[str, Any]:
    return {"file": file} if file is not None else {"codes": (codes or [])[:MOST_TOLD]}


def _lines(file: str) -> Iterator[str]:
    try:
        # Spreadsheets begin a file with a byte order mark.
        with nullcontext(sys.stdin) if file == "-" else open(file, encoding="utf-8-sig") as lines:
            yield from (line.rstrip("\r\n") for line in lines if line.strip("\r\n"))
    except OSError as problem:
        refuse(f"--file {file}: {problem.strerror}", code=1)
    except UnicodeDecodeError as problem:
        refuse(f"--file {file}: not UTF-8 text ({problem.reason}); convert it first", code=1)


def _cells(rolling: Freshness) -> list[Text]:
    oldest = rolling.oldest_age.total_seconds() * SECOND
    return [
        Text(f"{rolling.total:,}"),
        Text(f"{rolling.never_visited:,}"),
        Text(f"{rolling.due:,}"),
        Text(f"{rolling.overdue:,}", style="red" if rolling.overdue else ""),
        Text(format_duration(oldest) if oldest else "-"),
        Text(_rate(rolling.needed_rate)),
        Text(_rate(rolling.actual_rate)),
    ]


def _rate(per_second: float) -> str:
    return rate_text(per_second) if per_second else "0"


def _forecast(rolling: Freshness) -> Text:
    holds = rolling.head_room is not None
    return Text(rolling.forecast, style="green" if holds else "yellow")


def _show_item(loaded: App, item: Item, *, as_json: bool) -> None:
    if as_json:
        print_json(plain(item, without=("code",)))
        return
    now = loaded.clock.now()
    shown = table("item", item.code, wrap=(item.code,))
    shown.add_row("status", status_text(item.status))
    for name in ("started_at", "finished_at", "due_at"):
        moment = getattr(item, name)
        if moment is not None:
            shown.add_row(name.removesuffix("_at"), moment_text(moment, now=now))
    if item.remark is not None:
        shown.add_row("remark", Text(item.remark))
    console.print(shown)


def _json(rolling: RollingView) -> Any:
    return plain(rolling, without=("every_seconds",))
