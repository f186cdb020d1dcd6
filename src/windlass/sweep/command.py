"""`windlass sweep list|show|runs|split|start|cancel|failures|retry|visit|audit`."""

from __future__ import annotations

import re
from typing import Annotated, Any

import typer
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from windlass.app import App
from windlass.cli.load import AppOption, JsonOption, audit_log, load_app
from windlass.cli.output import (
    check_watch,
    complain,
    console,
    counted,
    done,
    moment_text,
    plain,
    print_json,
    redraw,
    report,
    say,
    table,
    visible,
    when,
)
from windlass.errors import BadInput
from windlass.source.contract import Key, SweepSource, name_of, shown
from windlass.source.given import read_source
from windlass.sweep.model import Progress, RoundView
from windlass.sweep.operate.run import SweepRun, find_sweep
from windlass.sweep.operate.state import SweepState
from windlass.sweep.operate.sweep import Sweep
from windlass.value.duration import format_duration
from windlass.value.rate import rate_text
from windlass.value.status import Status
from windlass.view.action import Action

BAR = 30
NUMBER = re.compile(r"-?\d{1,18}")
ROUNDS_SHOWN = 5
MOST_RANGES_DRAWN = 200
# A UUID is shown whole.
LONGEST_PLACE = 36
NUMBERS = ("round", "done", "failed", "rate", "eta")

cli = typer.Typer()

SweepArgument = Annotated[str, typer.Argument(metavar="SWEEP", help="The sweep.")]
AnyArgument = Annotated[
    str, typer.Argument(metavar="SWEEP", help="The sweep, or a run of it such as import_file@12.")
]
RunArgument = Annotated[
    str, typer.Argument(metavar="SWEEP_RUN", help="The run, such as import_file@12.")
]
WatchOption = Annotated[
    bool, typer.Option("--watch", help="Draw it again every second, until Ctrl-C.")
]


@cli.command("list")
def list_sweeps(app: AppOption = None, as_json: JsonOption = False) -> None:
    """List sweeps and how far they are."""
    loaded = load_app(app)
    found = loaded.sweeps.listing(loaded.registry.kinds.values())
    if as_json:
        print_json(plain(found))
        return
    if not found:
        say("No sweep is declared; declare one with @app.sweep.")
        return
    listed = table("sweep", "", *NUMBERS, "why", right=NUMBERS, wrap=("why",))
    for progress in found:
        listed.add_row(
            Text(progress.sweep, style="bold"),
            _bar(progress.percent),
            str(progress.round or "-"),
            f"{progress.done:,}",
            Text(f"{progress.failed:,}", style="red" if progress.failed else ""),
            _rate(progress.rate),
            _eta(progress),
            Text(progress.why),
        )
    console.print(listed)


@cli.command()
def show(
    sweep: AnyArgument,
    app: AppOption = None,
    watch: WatchOption = False,
    as_json: JsonOption = False,
) -> None:
    """Show how far a sweep is, its ranges as bars, and its last rounds."""
    check_watch(watch, as_json=as_json)
    loaded, handle = _find(app, sweep)
    if watch:
        redraw(lambda: _picture(handle.progress(), loaded.clock.now()))
    elif as_json:
        print_json(plain(handle.progress()))
    else:
        console.print(_picture(handle.progress(), loaded.clock.now()))


@cli.command()
def split(
    sweep: AnyArgument,
    ranges: Annotated[int, typer.Argument(metavar="RANGES", help="How many, from 1 to 4096.")],
    app: AppOption = None,
    as_json: JsonOption = False,
) -> None:
    """Change the number of ranges, also while a round runs."""
    loaded, handle = _find(app, sweep)
    with audit_log(loaded).record(Action.SWEEP_SPLIT, sweep, ranges=ranges) as entry:
        made = handle.split(ranges)
        short = "" if made == ranges else f"; {ranges:,} are not possible now"
        message = entry.says(f"{sweep} has {counted(made, 'range')}{short}")
    report(message, {"ranges": made}, as_json=as_json)


@cli.command()
def start(
    sweep: SweepArgument,
    app: AppOption = None,
    source: Annotated[
        str | None,
        typer.Option("--source", help="Begin a run over this: a path, an address, or JSON."),
    ] = None,
    column: Annotated[
        str | None, typer.Option("--column", help="The column that people know a row by.")
    ] = None,
    key: Annotated[
        str | None, typer.Option("--key", help="A second start with this key is the same run.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Begin a round now, unless one runs; with --source a run over that."""
    loaded, handle = _load(app, sweep)
    if source is not None:
        given = read_source(source, column=column, declared=handle.declared_source)
        _start_run(loaded, handle, given, key=key, as_json=as_json)
        return
    if column is not None or key is not None:
        raise BadInput("--column and --key are of a run over a given source; give --source, too")
    with audit_log(loaded).record(Action.SWEEP_START, sweep) as entry:
        number = handle.start()
        message = entry.says(f"round {number:,} of {sweep} runs")
    report(message, {"round": number}, as_json=as_json)


def _start_run(
    loaded: App, handle: Sweep[..., Any], source: SweepSource, *, key: str | None, as_json: bool
) -> None:
    named = name_of(source)
    with audit_log(loaded).record(Action.SWEEP_START, handle.kind, source=named, key=key) as entry:
        run = handle.start(source=source, key=key)
        is_new = f"{run.name} runs over {named}"
        message = entry.says(is_new if run.created else f"already started as {run.name}")
    found = {"run": run.number, "name": run.name, "created": run.created}
    report(message, found, as_json=as_json)


@cli.command("runs")
def list_runs(
    sweep: SweepArgument,
    app: AppOption = None,
    limit: Annotated[int, typer.Option("--limit", help="How many at most.")] = 20,
    as_json: JsonOption = False,
) -> None:
    """List the runs over given sources, newest first."""
    _loaded, handle = _load(app, sweep)
    found = [run.progress() for run in handle.runs(limit)]
    if as_json:
        print_json(plain(found, without=("ranges", "history")))
        return
    if not found:
        say(f"{sweep} has no runs; begin one: windlass sweep start {sweep} --source PATH")
        return
    listed = table("run", "source", "key", "", "done", "failed", "why", right=("done", "failed"))
    for run in found:
        listed.add_row(
            Text(run.sweep, style="bold"),
            Text(visible(run.source or "")),
            Text(visible(run.key or "-")),
            _bar(run.percent),
            f"{run.done:,}",
            Text(f"{run.failed:,}", style="red" if run.failed else ""),
            Text(run.why, style="red" if run.error else ""),
        )
    console.print(listed)


@cli.command()
def cancel(run: RunArgument, app: AppOption = None, as_json: JsonOption = False) -> None:
    """End a run over a given source; what it did stays done."""
    loaded, found = _find(app, run)
    if not isinstance(found, SweepRun):
        raise BadInput(f"{run!r} is not a run, such as {run}@1; see: windlass sweep runs {run}")
    with audit_log(loaded).record(Action.SWEEP_CANCEL, run) as entry:
        is_new = found.cancel()
        message = entry.says(f"{run} was cancelled" if is_new else f"{run} has ended already")
    report(message, {"cancelled": is_new}, as_json=as_json)


@cli.command()
def failures(
    sweep: AnyArgument,
    app: AppOption = None,
    limit: Annotated[int, typer.Option("--limit", help="How many at most.")] = 100,
    as_json: JsonOption = False,
) -> None:
    """List the failed items, newest first."""
    loaded, handle = _find(app, sweep)
    found = handle.failures(limit=limit)
    if as_json:
        print_json(plain(found, without=("shown",)))
        return
    if not found:
        say(f"{sweep} has no failed items.")
        return
    now = loaded.clock.now()
    listed = table("key", "failed", "round", "tries", "error", right=("round",), wrap=("error",))
    for each in found:
        listed.add_row(
            Text(visible(each.shown)),
            when(each.failed_at, now=now),
            f"{each.round:,}",
            f"{each.tries:,}",
            Text(each.error, style="red"),
        )
    console.print(listed)


@cli.command()
def retry(sweep: AnyArgument, app: AppOption = None, as_json: JsonOption = False) -> None:
    """Retry the failed items."""
    loaded, handle = _find(app, sweep)
    with audit_log(loaded).record(Action.SWEEP_RETRY, sweep) as entry:
        count = handle.retry_failures()
        message = entry.says(f"{counted(count, 'item')} of {sweep} run again")
    report(message, {"retried": count}, as_json=as_json)


@cli.command()
def visit(
    sweep: SweepArgument,
    key: Annotated[str, typer.Argument(metavar="KEY", help="Its key; digits are a number.")],
    app: AppOption = None,
    fresh: Annotated[
        str | None, typer.Option("--fresh", help="Do nothing if done at most this long ago (10m).")
    ] = None,
    timeout: Annotated[str, typer.Option("--timeout", help="Wait at most this long.")] = "30s",
    soon: Annotated[
        bool, typer.Option("--soon", help="Let a worker visit it soon; do not wait.")
    ] = False,
    is_text: Annotated[
        bool, typer.Option("--text", help="The key is text, although it has digits only.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Visit one key now and wait for it. Exits with 1 if the visit failed."""
    loaded, handle = _load(app, sweep)
    known: Key = key if is_text or not NUMBER.fullmatch(key) else int(key)
    with audit_log(loaded).record(Action.SWEEP_VISIT, sweep, key=key, soon=soon) as entry:
        if soon:
            asked = handle.visit_soon(known, fresh=fresh)
            report(entry.says(f"visit of {key}: {asked}"), {"visit": asked}, as_json=as_json)
            return
        found = handle.visit(known, fresh=fresh, timeout=timeout)
        message = entry.says(f"{key} was visited: {found.status}")
    report(message, plain(found), as_json=as_json)
    if found.status is Status.FAILED:
        raise typer.Exit(1)


@cli.command()
def audit(sweep: AnyArgument, app: AppOption = None, as_json: JsonOption = False) -> None:
    """Prove that the ranges cover all keys once; exit code 1 if they do not."""
    _loaded, handle = _find(app, sweep)
    found = handle.audit()
    if as_json:
        print_json(plain(found))
    elif found.ok:
        done(f"the {counted(len(handle.ranges()), 'range')} of {sweep} cover all keys once")
    else:
        for problem in found.problems:
            complain(problem)
    if not found.ok:
        raise typer.Exit(1)


def _load(app: str | None, name: str) -> tuple[App, Sweep[..., Any]]:
    loaded = load_app(app)
    kind = loaded.registry.of_face(name, "sweep", what="a sweep")
    loaded.prepare()
    return loaded, Sweep(loaded.sweeps, kind)


def _find(app: str | None, name: str) -> tuple[App, SweepState]:
    """A sweep or a run by its name."""
    loaded = load_app(app)
    loaded.prepare()
    return loaded, find_sweep(loaded.sweeps, loaded.registry, name)


def _picture(progress: Progress, now: int) -> RenderableType:
    parts: list[RenderableType] = [_head(progress, now)]
    if progress.ranges:
        parts += [Text(), _ranges(progress, now)]
    if progress.history:
        parts += [Text(), _rounds(progress.history[:ROUNDS_SHOWN], now)]
    return Group(*parts)


def _head(progress: Progress, now: int) -> Table:
    title = progress.sweep
    head = table("sweep", title, wrap=(title,))
    if progress.run is None:
        head.add_row("round", f"{progress.round:,}" if progress.round else "-")
    else:
        head.add_row("source", Text(visible(progress.source or "-")))
        head.add_row("key", Text(visible(progress.key or "-")))
    head.add_row("progress", _bar(progress.percent))
    total = " of unknown" if progress.total is None else f" of about {progress.total:,}"
    head.add_row("done", f"{progress.done:,}{total}")
    failed = Text(f"{progress.failed:,}", style="red" if progress.failed else "")
    head.add_row("failed", failed)
    head.add_row("repeated", f"{progress.repeated:,}")
    head.add_row("rate", _rate(progress.rate))
    head.add_row("eta", _eta(progress))
    for name, moment in (("started", progress.started_at), ("next round", progress.next_at)):
        if moment is not None:
            head.add_row(name, moment_text(moment, now=now))
    head.add_row("why", Text(progress.why, style="red" if progress.error else ""))
    return head


def _ranges(progress: Progress, now: int) -> RenderableType:
    numbers = ("range", "done", "failed", "rate", "owner")
    drawn = table("range", "after", "up to", "at", "", *numbers[1:], "saved", right=numbers)
    for each in progress.ranges[:MOST_RANGES_DRAWN]:
        style = "yellow" if each.is_straggler else ""
        drawn.add_row(
            str(each.id),
            _place(each.begin),
            _place(each.end),
            _place(each.breakpoint),
            _bar(each.percent, style=style),
            f"{each.done:,}",
            Text(f"{each.failed:,}", style="red" if each.failed else ""),
            _rate(each.rate),
            Text(f"{each.owner or '-'}{' straggles' if each.is_straggler else ''}", style=style),
            when(each.heartbeat_at, now=now),
        )
    left_out = len(progress.ranges) - MOST_RANGES_DRAWN
    if left_out > 0:
        return Group(drawn, Text(f"and {counted(left_out, 'range')} more; --json shows all"))
    return drawn


def _rounds(history: tuple[RoundView, ...], now: int) -> Table:
    numbers = ("last rounds", "took", "done", "failed", "repeated", "rate")
    listed = table(*numbers, "ended", right=numbers)
    for each in history:
        listed.add_row(
            f"{each.round:,}",
            format_duration(each.duration.total_seconds() * 1e6),
            f"{each.done:,}",
            f"{each.failed:,}",
            f"{each.repeated:,}",
            _rate(each.rate),
            when(each.ended_at, now=now),
        )
    return listed


def _bar(percent: float | None, *, style: str = "") -> Text:
    if percent is None:
        return Text("░" * BAR, style="bright_black") + Text(" unknown")
    is_done = percent >= 100
    filled = BAR if is_done else min(BAR - 1, int(BAR * percent / 100))
    colour = style or ("green" if is_done else "blue")
    bar = Text("█" * filled, style=colour) + Text("░" * (BAR - filled), style="bright_black")
    return bar + Text(f" {percent:5.1f} %")


def _place(key: Key | None) -> Text:
    text = "-" if key is None else visible(shown(key))
    return Text(text if len(text) <= LONGEST_PLACE else f"{text[: LONGEST_PLACE - 1]}…")


def _rate(per_second: float) -> str:
    return rate_text(per_second) if per_second else "-"


def _eta(progress: Progress) -> str:
    if progress.eta is None:
        return "-"
    return format_duration(max(0.0, progress.eta.total_seconds()) * 1e6)
