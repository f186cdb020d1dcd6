"""`windlass alerts` and `windlass acknowledge`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from windlass.cli.audit import audit_log
from windlass.cli.load import AppOption, JsonOption, load_app
from windlass.cli.output import (
    complain,
    console,
    done,
    plain,
    print_json,
    say,
    table,
    timestamp,
    visible,
    warn_missing,
    when,
)
from windlass.value.duration import parse_duration

if TYPE_CHECKING:
    from windlass.watch.alert.model import AlertView


def register(cli: typer.Typer) -> None:
    """Add the commands."""
    cli.command()(alerts)
    cli.command()(acknowledge)


def alerts(
    app: AppOption = None,
    only_open: Annotated[
        bool, typer.Option("--open", help="Only those that are not acknowledged.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """List the last alerts, newest first, and who acknowledged them."""
    loaded = load_app(app)
    listed = loaded.alerts()
    warn_missing(listed.missing)
    found = [alert for alert in listed if alert.is_open or not only_open]
    if as_json:
        print_json(plain(found))
    elif not found:
        say("No alert is open." if only_open else "No alerts.")
    else:
        _show(found, loaded.clock.now())


def acknowledge(
    alert: Annotated[int, typer.Argument(metavar="ALERT", help="The id of the alert.")],
    app: AppOption = None,
    quiet: Annotated[
        str | None,
        typer.Option("--for", metavar="DURATION", help="Stay quiet this long (1h)."),
    ] = None,
    undo: Annotated[bool, typer.Option("--undo", help="Mark as unread.")] = False,
    who: Annotated[str | None, typer.Option("--who", help="Who; default: user@host.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Acknowledge an alert, and all of its sort and kind; a new one is open again."""
    if undo and quiet is not None:
        complain("give --for or --undo, not both")
        raise typer.Exit(2)
    loaded = load_app(app, needs_kinds=False)
    from windlass.watch.alert import operate

    log = audit_log(loaded, who)
    if undo:
        message = operate.recall(loaded.fleet, log, alert)
    else:
        length = None if quiet is None else parse_duration(quiet, what="--for")
        message = operate.acknowledge(loaded.fleet, log, alert, quiet=length)
    if as_json:
        print_json(plain(operate.get(loaded.fleet, alert)))
    else:
        done(message)


def _show(found: list[AlertView], now: int) -> None:
    columns = ("id", "raised", "what", "kind", "task", "text", "seen")
    shown = table(*columns, right=("id", "task"), wrap=("text", "seen"))
    for alert in found:
        shown.add_row(
            str(alert.id),
            when(alert.raised_at, now=now),
            Text(alert.what, style="bold red" if alert.is_open else "bright_black"),
            Text(alert.kind or "-"),
            str(alert.task_id or "-"),
            Text(alert.text, style="" if alert.is_open else "bright_black"),
            Text(_seen(alert, now), style="bright_black"),
        )
    console.print(shown)


def _seen(alert: AlertView, now: int) -> str:
    if alert.seen_by is None or alert.seen_at is None:
        return "-"
    text = f"{visible(alert.seen_by)}, {when(alert.seen_at, now=now)}"
    return text if alert.quiet_until is None else f"{text}; until {timestamp(alert.quiet_until)}"
