"""`windlass control list|show|release`."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import typer
from rich.text import Text

from windlass.app import App
from windlass.cli.load import AppOption, JsonOption, load_app
from windlass.cli.output import (
    complain,
    console,
    counted,
    done,
    plain,
    print_json,
    say,
    table,
    timestamp,
    when,
)
from windlass.clock import SECOND, from_datetime
from windlass.model.control import DONE, Place, RunStatus, RunView, check_place
from windlass.model.duration import format_duration
from windlass.model.step import StepState
from windlass.operate import control as operate

COLOURS = {
    RunStatus.READY: "cyan",
    RunStatus.RUNNING: "blue",
    RunStatus.SUCCEEDED: "green",
    RunStatus.FAILED: "red",
}
STEP_COLOURS = {
    StepState.DONE: "green",
    StepState.UNDER_WAY: "blue",
    StepState.INTERRUPTED: "red",
}
TRIES_SHOWN = 20

cli = typer.Typer(help="Look at named runs, and free those that are stuck.")

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The name of the run.")]
PartitionOption = Annotated[
    str, typer.Option("--partition", metavar="P", help="Its partition; default: none.")
]


@cli.command("list")
def list_runs(app: AppOption = None, as_json: JsonOption = False) -> None:
    """List named runs: who runs them, or how they ended."""
    loaded = _load(app)
    found, now = operate.listing(loaded.database, loaded.clock), loaded.clock.now()
    if as_json:
        print_json(plain(found))
        return
    if not found:
        say("Nothing was ever started; see app.control and windlass run.")
        return
    shown = table(
        *("name", "partition", "status", "step", "progress", "started", "took", "tries", "who"),
        "error",
        right=("tries",),
        wrap=("error",),
    )
    for run in found:
        shown.add_row(
            Text(run.name, style="bold"),
            run.partition or "-",
            _status(run),
            "-" if run.step is None else str(run.step),
            _progress(run),
            when(run.start_time, now=now),
            _took(run, now),
            str(run.tries),
            run.who or "-",
            Text(_first_line(run.error)),
        )
    console.print(shown)


@cli.command()
def show(
    name: NameArgument,
    partition: PartitionOption = "",
    app: AppOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the steps of a run, where it stopped, its error, and its earlier tries."""
    loaded = _load(app)
    place = check_place(name, partition)
    run, now = _find(loaded, place), loaded.clock.now()
    tries = operate.history(loaded.database, loaded.clock, place, limit=TRIES_SHOWN)
    if as_json:
        print_json(plain(run) | {"history": plain(tries)})
        return
    _show_facts(run, now)
    if run.steps:
        console.print()
        _show_steps(run, now)
    if run.error is not None:
        console.print()
        console.print(Text(run.error.rstrip(), style="red"))
    if tries:
        console.print()
        _show_tries(tries, now)


@cli.command()
def release(
    name: NameArgument,
    partition: PartitionOption = "",
    app: AppOption = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Free a run that is stuck: its holder can record nothing more, and anyone may start it."""
    loaded = _load(app)
    place = check_place(name, partition)
    run, now = _find(loaded, place), loaded.clock.now()
    if run.status is RunStatus.RUNNING and not yes:
        held = f"{run.who} has been running it since {timestamp(run.start_time)}"
        console.print(Text(f"{held} ({when(run.start_time, now=now)})."))
        if not typer.confirm(f"Release {place}?"):
            complain(f"control {place} was not released")
            raise typer.Exit(1)
    reply = operate.release(loaded.database, loaded.clock, place)
    if reply.code != DONE:
        complain(f"control {place}: {reply.msg}")
        raise typer.Exit(1)
    if as_json:
        print_json(plain(_find(loaded, place)))
    else:
        done(f"{place} is released; {reply.data['who']} can record nothing more")


def _load(app: str | None) -> App:
    loaded = load_app(app)
    loaded.prepare()
    return loaded


def _find(loaded: App, place: Place) -> RunView:
    run = operate.get(loaded.database, loaded.clock, place)
    if run is not None:
        return run
    others = operate.partitions_of(loaded.database, place.name)
    known = f"; its partitions: {', '.join(map(repr, others))}" if others else ""
    complain(f"control {place} was never started{known}")
    raise typer.Exit(1)


def _show_facts(run: RunView, now: int) -> None:
    shown = table("run", run.name, wrap=(run.name,))
    if run.partition:
        shown.add_row("partition", run.partition)
    shown.add_row("status", _status(run))
    if run.step is not None:
        shown.add_row(_where(run), str(run.step))
    if run.progress is not None:
        shown.add_row("progress", _progress(run))
    shown.add_row("who", run.who or "-")
    shown.add_row("tries", str(run.tries))
    for label, moment in (
        ("first try", run.first_time),
        ("this try", run.start_time),
        ("expires", run.expire_time if run.status is RunStatus.RUNNING else None),
        ("ended", run.end_time),
    ):
        if moment is not None:
            shown.add_row(label, f"{timestamp(moment)} ({when(moment, now=now)})")
    shown.add_row("took", _took(run, now))
    if run.data is not None:
        shown.add_row("data", Text(str(run.data)))
    console.print(shown)


def _where(run: RunView) -> str:
    return {RunStatus.RUNNING: "is at step", RunStatus.FAILED: "stopped at step"}.get(
        run.status, "last step"
    )


def _show_steps(run: RunView, now: int) -> None:
    shown = table("step", "state", "began", "took", "result", right=("took",), wrap=("result",))
    for step in run.steps:
        shown.add_row(
            str(step.step),
            Text(step.state.value, style=STEP_COLOURS[step.state]),
            timestamp(step.began_at),
            _lasted(step.seconds, step.began_at, now),
            Text("" if step.result is None else str(step.result)),
        )
    console.print(shown)


def _show_tries(tries: list[RunView], now: int) -> None:
    shown = table(
        *("ended", "status", "took", "try", "step", "steps", "who", "error"),
        right=("try",),
        wrap=("error",),
    )
    for run in tries:
        ended = sum(step.is_done for step in run.steps)
        shown.add_row(
            timestamp(run.end_time),
            _status(run),
            _took(run, now),
            str(run.tries),
            "-" if run.step is None else str(run.step),
            f"{counted(ended, 'step')} done" if run.steps else "-",
            run.who or "-",
            Text(_first_line(run.error)),
        )
    console.print(shown)


def _status(run: RunView) -> Text:
    if run.expired:
        return Text("running, expired", style="yellow")
    return Text(str(run.status), style=COLOURS[run.status])


def _progress(run: RunView) -> str:
    if run.progress is None:
        return "-"
    total = run.progress.total
    return f"{run.progress.done:,}" + ("" if total is None else f" of {total:,}")


def _took(run: RunView, now: int) -> str:
    return "-" if run.start_time is None else _lasted(run.run_seconds, run.start_time, now)


def _lasted(seconds: float | None, since: datetime, now: int) -> str:
    """How long it took, or has taken so far."""
    until_now = max(0, now - from_datetime(since))
    return format_duration(until_now if seconds is None else seconds * SECOND)


def _first_line(error: str | None) -> str:
    return (error or "").partition("\n")[0]
