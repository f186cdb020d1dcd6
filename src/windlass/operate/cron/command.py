"""`windlass cron list|show|run|set|reset`."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.text import Text

from windlass.app import App
from windlass.cli.load import AppOption, JsonOption, audit_log, load_app
from windlass.cli.output import (
    console,
    done,
    moment_text,
    plain,
    print_json,
    refuse,
    report,
    say,
    status_text,
    table,
    timestamp,
    warn_missing,
    when,
)
from windlass.operate.cron import operate
from windlass.operate.cron.operate import CronDetail, CronView, ResultView, ScheduleView
from windlass.value.task import Call
from windlass.view.action import Action

cli = typer.Typer()

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The cron.")]
WhoOption = Annotated[str | None, typer.Option("--who", help="Who; default: user@host.")]
NUMBERS = ("succeeded", "failed", "took")


@cli.command("list")
def list_crons(app: AppOption = None, as_json: JsonOption = False) -> None:
    """List crons: when they run, their next turn and their last one."""
    loaded = load_app(app)
    found = operate.listing(loaded.fleet, loaded.registry)
    warn_missing(found.missing)
    if as_json:
        print_json(plain(list(found)))
        return
    if not found:
        say('No cron is declared; declare one with @app.cron("0 3 * * *").')
        return
    now = loaded.clock.now()
    shown = table("cron", "runs", "next", "last", "took", right=("took",), wrap=("runs", "last"))
    for each in found:
        upcoming = each.held_back or (when(each.next[0], now=now) if each.next else "stopped")
        shown.add_row(
            Text(each.kind, style="bold"),
            _words(each.schedule) + (" (set by hand)" if each.changed else ""),
            Text(upcoming, style="yellow" if each.held_back or not each.next else ""),
            _last(each, now),
            "-" if each.last is None or each.last.seconds is None else f"{each.last.seconds:,.1f}s",
        )
    console.print(shown)


@cli.command()
def show(name: NameArgument, app: AppOption = None, as_json: JsonOption = False) -> None:
    """Show a cron: its schedule, its next turns and its last results."""
    loaded = load_app(app)
    found = operate.show(loaded.fleet, loaded.registry, name)
    warn_missing(found.missing)
    if as_json:
        print_json(plain(found))
    else:
        _print(found, loaded.clock.now())


@cli.command()
def run(name: NameArgument, app: AppOption = None, as_json: JsonOption = False) -> None:
    """Run a cron once more, now; its next turn stays."""
    loaded = load_app(app)
    kind = operate.kind_of(loaded.registry, name)
    with audit_log(loaded).record(Action.CRON_RUN, name) as entry:
        ref = loaded.submit(kind, [Call((), {}, None)], operate.NOW)[0]
        message = entry.says(f"{name} runs now, as task {ref.id}")
    report(message, {"id": ref.id}, as_json=as_json)


@cli.command("set")
def set_(
    name: NameArgument,
    app: AppOption = None,
    cron: Annotated[
        str | None, typer.Option("--cron", metavar="EXPRESSION", help='As "0 4 * * *".')
    ] = None,
    every: Annotated[
        str | None, typer.Option("--every", metavar="DURATION", help="As 30s, in place of --cron.")
    ] = None,
    tz: Annotated[
        str | None, typer.Option("--tz", help="The time zone; default: the declared one.")
    ] = None,
    who: WhoOption = None,
    as_json: JsonOption = False,
) -> None:
    """Change the schedule of a cron while workers run, until it is reset or declared anew."""
    loaded = load_app(app)
    if (cron is None) == (every is None):
        refuse('give --cron "0 4 * * *" or --every 30s, and not both')
    wanted = operate.wanted(loaded.registry, name, cron=cron, every=every, tz=tz)
    told = operate.told(wanted)
    old = operate.current(loaded.fleet, loaded.registry, name)
    log = audit_log(loaded, who)
    with log.record(Action.CRON_SET, name, old=old, new=told) as entry:
        operate.set_(loaded.fleet, loaded.registry, name, wanted, who=log.who)
        message = entry.says(f"{name} runs by {told}")
    _report(loaded, name, message, as_json=as_json)


@cli.command()
def reset(
    name: NameArgument,
    app: AppOption = None,
    who: WhoOption = None,
    as_json: JsonOption = False,
) -> None:
    """Let a cron run as it is declared."""
    loaded = load_app(app)
    old = operate.current(loaded.fleet, loaded.registry, name)
    new = operate.declared(loaded.registry, name)
    log = audit_log(loaded, who)
    with log.record(Action.CRON_RESET, name, old=old, new=new) as entry:
        operate.reset(loaded.fleet, loaded.registry, name)
        message = entry.says(f"{name} runs as declared: {new}")
    _report(loaded, name, message, as_json=as_json)


def _report(loaded: App, name: str, message: str, *, as_json: bool) -> None:
    found = operate.show(loaded.fleet, loaded.registry, name).cron
    if as_json:
        print_json(plain(found))
    else:
        following = f"; next {when(found.next[0], now=loaded.clock.now())}" if found.next else ""
        done(message + following)


def _print(found: CronDetail, now: int) -> None:
    cron = found.cron
    shown = table("cron", cron.kind, wrap=(cron.kind,))
    shown.add_row("runs", _words(cron.schedule))
    shown.add_row("schedule", f"{cron.schedule.cron} ({cron.schedule.zone})")
    if cron.changed is not None:
        by = f"{cron.changed.who}, {moment_text(cron.changed.since, now=now)}"
        shown.add_row("set by", Text(by, style="yellow"))
        shown.add_row("declared", f"{cron.declared.cron} ({cron.declared.zone})")
    shown.add_row("missed turns", "each is run" if cron.catchup else "run once")
    if cron.task is not None and cron.status is not None:
        shown.add_row("task", Text(f"{cron.task} ") + status_text(cron.status))
    if cron.held_back is not None:
        shown.add_row("held back", Text(cron.held_back, style="yellow"))
    for number, turn in enumerate(cron.next):
        shown.add_row("" if number else "next", moment_text(turn, now=now))
    shown.add_row("last", _last(cron, now))
    console.print(shown)
    if found.results:
        console.print()
        results = table("ended", *NUMBERS, right=NUMBERS)
        for each in found.results:
            results.add_row(timestamp(each.at)[:16] + "Z", *_numbers(each))
        console.print(results)


def _numbers(each: ResultView) -> tuple[str, Text, str]:
    failed = Text(f"{each.failed:,}", style="red" if each.failed else "")
    return f"{each.succeeded:,}", failed, f"{each.milliseconds / 1_000:,.1f}s"


def _words(schedule: ScheduleView) -> str:
    is_zoned = not schedule.cron.startswith("@every") and schedule.zone != "UTC"
    return f"{schedule.words} ({schedule.zone})" if is_zoned else str(schedule.words)


def _last(cron: CronView, now: int) -> Text:
    if cron.last is None:
        return Text("not yet")
    shown = status_text(cron.last.status) + Text(f" {when(cron.last.ended_at, now=now)}")
    error = (cron.last.error or "").splitlines()
    return shown + Text(f": {error[0]}" if error else "")
