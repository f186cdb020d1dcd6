"""`windlass control list|show|release`."""

from __future__ import annotations

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
    iso,
    print_json,
    say,
    table,
    timestamp,
    warn_missing,
    when,
)
from windlass.clock import SECOND
from windlass.model.control import DONE, Control, Place, RunStatus, check_place
from windlass.model.duration import format_duration
from windlass.operate import control as operate
from windlass.operate import gather
from windlass.operate.control import StepState, StepView

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
    found, now = gather.controls(loaded.fleet), loaded.clock.now()
    warn_missing(found.missing)
    if as_json:
        print_json([_for_programs(run, now=now) for run in found])
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
            _status(run, now),
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
    run, now = _find(loaded, check_place(name, partition)), loaded.clock.now()
    tries = gather.control_history(loaded.fleet, run.place, limit=TRIES_SHOWN)
    if as_json:
        earlier = [_for_programs(ended, now=now) for ended in tries]
        print_json(_for_programs(run, now=now) | {"history": earlier})
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
    reply = operate.release_in(loaded.fleet, place)
    if reply.code != DONE:
        complain(f"control {place}: {reply.msg}")
        raise typer.Exit(1)
    if as_json:
        print_json(_for_programs(_find(loaded, place), now=now))
    else:
        done(f"{place} is released; {reply.data['who']} can record nothing more")


def _load(app: str | None) -> App:
    loaded = load_app(app)
    loaded.prepare()
    return loaded


def _find(loaded: App, place: Place) -> Control:
    run = loaded.control.get(*place)
    if run is not None:
        return run
    others = [run.partition for run in gather.controls(loaded.fleet) if run.name == place.name]
    known = f"; its partitions: {', '.join(map(repr, others))}" if others else ""
    complain(f"control {place} was never started{known}")
    raise typer.Exit(1)


def _show_facts(run: Control, now: int) -> None:
    shown = table("run", run.name, wrap=(run.name,))
    if run.partition:
        shown.add_row("partition", run.partition)
    shown.add_row("status", _status(run, now))
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


def _where(run: Control) -> str:
    return {RunStatus.RUNNING: "is at step", RunStatus.FAILED: "stopped at step"}.get(
        run.status, "last step"
    )


def _show_steps(run: Control, now: int) -> None:
    shown = table("step", "state", "began", "took", "result", right=("took",), wrap=("result",))
    for step in operate.steps_of(run, now=now):
        shown.add_row(
            str(step.step),
            Text(step.state.value, style=STEP_COLOURS[step.state]),
            timestamp(step.began_at),
            "-" if step.seconds is None else format_duration(step.seconds * SECOND),
            Text("" if step.result is None else str(step.result)),
        )
    console.print(shown)


def _show_tries(tries: list[Control], now: int) -> None:
    shown = table(
        *("ended", "status", "took", "try", "step", "steps", "who", "error"),
        right=("try",),
        wrap=("error",),
    )
    for run in tries:
        ended = sum(step.is_done for step in run.steps)
        shown.add_row(
            timestamp(run.end_time),
            _status(run, now),
            _took(run, now),
            str(run.tries),
            "-" if run.step is None else str(run.step),
            f"{counted(ended, 'step')} done" if run.steps else "-",
            run.who or "-",
            Text(_first_line(run.error)),
        )
    console.print(shown)


def _status(run: Control, now: int) -> Text:
    if run.is_expired(now):
        return Text("running, expired", style="yellow")
    return Text(str(run.status), style=COLOURS[run.status])


def _progress(run: Control) -> str:
    if run.progress is None:
        return "-"
    total = run.progress.total
    return f"{run.progress.done:,}" + ("" if total is None else f" of {total:,}")


def _took(run: Control, now: int) -> str:
    if run.status is RunStatus.RUNNING and run.start_time is not None:
        return format_duration(max(0, now - run.start_time))
    return "-" if run.run_seconds is None else format_duration(run.run_seconds * SECOND)


def _first_line(error: str | None) -> str:
    return (error or "").partition("\n")[0]


def _for_programs(run: Control, *, now: int) -> dict[str, object]:
    return {
        "name": run.name,
        "partition": run.partition,
        "status": int(run.status),
        "expired": run.is_expired(now),
        "stat_date": run.stat_date,
        "step": run.step,
        "steps": [_step_for_programs(step) for step in operate.steps_of(run, now=now)],
        "first_time": iso(run.first_time),
        "start_time": iso(run.start_time),
        "expire_time": iso(run.expire_time),
        "end_time": iso(run.end_time),
        "run_seconds": run.run_seconds,
        "error": run.error,
        "data": run.data,
        "batch": run.batch,
        "tries": run.tries,
        "who": run.who,
        "progress": None if run.progress is None else run.progress._asdict(),
    }


def _step_for_programs(step: StepView) -> dict[str, object]:
    return {
        "step": step.step,
        "state": step.state.value,
        "began_at": iso(step.began_at),
        "ended_at": iso(step.ended_at),
        "seconds": step.seconds,
        "result": step.result,
    }
