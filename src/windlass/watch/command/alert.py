"""`windlass alert list|show|acknowledge|test`, and `alerts` and `acknowledge` for short."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from windlass.cli.load import AppOption, JsonOption, audit_log, load_app
from windlass.cli.output import (
    console,
    counted,
    done,
    plain,
    print_json,
    refuse,
    say,
    table,
    timestamp,
    visible,
    warn_missing,
    when,
)
from windlass.value.duration import format_duration, parse_duration

if TYPE_CHECKING:
    from windlass.watch.model import AlertView

cli = typer.Typer()
SEVERITY_STYLE = {"info": "cyan", "warning": "yellow", "critical": "bold red"}


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
        _print_alerts(found, loaded.clock.now())


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
        refuse("give --for or --undo, not both")
    loaded = load_app(app, needs_kinds=False)
    from windlass.watch.operate import alert as operate

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


cli.command("list")(alerts)
cli.command("acknowledge")(acknowledge)


@cli.command()
def show(
    alert: Annotated[int, typer.Argument(metavar="ALERT", help="The id of the alert.")],
    app: AppOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show an alert, and its deliveries to channels."""
    loaded = load_app(app, needs_kinds=False)
    from windlass.watch.operate import alert as operate

    found = operate.show(loaded.fleet, alert)
    if as_json:
        print_json(plain(found))
        return
    now, it = loaded.clock.now(), found.alert
    style = SEVERITY_STYLE[it.severity] if it.is_open else "bright_black"
    console.print(Text(f"{it.severity}  {it.trouble}", style=style))
    console.print(Text(it.text))
    times = counted(it.times, "report")
    console.print(
        f"raised {when(it.raised_at, now=now)}, {times}, last {when(it.last_at, now=now)}"
    )
    if it.resolved_at is not None:
        after = format_duration(max(1_000_000, it.resolved_at - it.raised_at))
        console.print(f"resolved after {after}: {visible(it.resolution or '')}")
    if it.seen_by is not None:
        console.print(f"acknowledged by {_seen(it, now)}")
    if not found.deliveries:
        say("It was not delivered to any channel.")
        return
    shown = table("task", "channel", "stage", "status", "attempts", "when", right=("task",))
    for each in found.deliveries:
        at = each.finished_at or each.created_at
        row = (str(each.task_id), each.channel, each.stage, each.status, str(each.attempts))
        shown.add_row(*row, when(at, now=now))
    console.print(shown)


@cli.command("test")
def try_channel(
    channel: Annotated[
        str | None, typer.Argument(metavar="CHANNEL", help="The name of the channel.")
    ] = None,
    app: AppOption = None,
    as_json: JsonOption = False,
) -> None:
    """Send a test message to a channel now; without a name, list the channels."""
    loaded = load_app(app, needs_kinds=False)
    from windlass.watch.operate import channel as operate

    if channel is None:
        channels = operate.listing(loaded.channels)
        if as_json:
            print_json(plain(channels))
        elif not channels:
            say("No channel is declared; declare one: app.alert_to(...)")
        else:
            shown = table("channel", "to", "severity", "kinds", "repeats", "quiet", "fallback")
            for each in channels:
                kinds = "all" if each.kinds is None else ", ".join(each.kinds)
                row = (each.name, each.scheme, each.severity, kinds, each.every or "-")
                shown.add_row(*row, each.quiet or "-", each.fallback or "-")
            console.print(shown)
        return
    message = operate.try_out(loaded.channels, audit_log(loaded, None), channel)
    print_json({"channel": channel, "ok": True}) if as_json else done(message)


def _print_alerts(found: list[AlertView], now: int) -> None:
    columns = ("id", "raised", "what", "kind", "times", "text", "state")
    shown = table(*columns, right=("id", "times"), wrap=("text", "state"))
    for alert in found:
        shown.add_row(
            str(alert.id),
            when(alert.raised_at, now=now),
            Text(alert.what, style=SEVERITY_STYLE[alert.severity] if alert.is_open else "dim"),
            Text(alert.kind or "-"),
            f"{alert.times:,}",
            Text(alert.text, style="" if alert.is_open else "bright_black"),
            Text(_state(alert, now), style="bright_black"),
        )
    console.print(shown)


def _state(alert: AlertView, now: int) -> str:
    if alert.resolved_at is not None:
        return f"resolved {when(alert.resolved_at, now=now)}"
    return _seen(alert, now)


def _seen(alert: AlertView, now: int) -> str:
    if alert.seen_by is None or alert.seen_at is None:
        return "-"
    text = f"{visible(alert.seen_by)}, {when(alert.seen_at, now=now)}"
    return text if alert.quiet_until is None else f"{text}; until {timestamp(alert.quiet_until)}"
