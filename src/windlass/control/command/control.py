"""`windlass control list|show|release|reset`."""

from __future__ import annotations

import sys
from datetime import datetime
from typing import Annotated, Any, NoReturn

import msgspec
import typer
from rich.text import Text

from windlass.app import App
from windlass.cli.load import AppOption, JsonOption, audit_log, load_app
from windlass.cli.output import (
    complain,
    console,
    counted,
    moment_text,
    plain,
    print_fitting,
    print_json,
    report,
    say,
    table,
    timestamp,
    visible,
    warn_missing,
    when,
)
from windlass.clock import SECOND, from_datetime
from windlass.control import operate
from windlass.control.command.run import NameArgument, PartitionOption
from windlass.control.model.argument import ControlKey, check_key
from windlass.control.model.control import DONE, RunStatus, RunView
from windlass.control.model.step import StepName, StepState
from windlass.errors import NotPossible
from windlass.value.duration import format_duration
from windlass.view.action import Action

COLOURS = {
    RunStatus.READY: "cyan",
    RunStatus.RUNNING: "blue",
    RunStatus.SUCCEEDED: "green",
    RunStatus.FAILED: "red",
}
AT_STEP = {RunStatus.RUNNING: "is at step", RunStatus.FAILED: "stopped at step"}
STEP_COLOURS = {
    StepState.DONE: "green",
    StepState.UNDER_WAY: "blue",
    StepState.NOT_FINISHED: "yellow",
}
WIDE = {"name": 40, "partition": 30, "step": 24, "who": 40}
NARROW = {"name": 24, "partition": 16, "step": 16, "who": 24}
WIDE_STEP, NARROW_STEP = {"step": 40}, {"step": 24}
LONGEST_JSON = 1_000

cli = typer.Typer()

YesOption = Annotated[bool, typer.Option("--yes", help="Do not ask.")]


@cli.command("list")
def list_runs(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="Only the partitions of this run.")
    ] = None,
    running: Annotated[bool, typer.Option("--running", help="Only what is running.")] = False,
    failed: Annotated[bool, typer.Option("--failed", help="Only what failed.")] = False,
    app: AppOption = None,
    as_json: JsonOption = False,
) -> None:
    """List control runs: who runs them, or how they ended."""
    loaded = _load(app)
    wanted = [RunStatus.RUNNING] * running + [RunStatus.FAILED] * failed
    found = operate.listing(loaded.fleet, name=name, statuses=wanted or tuple(RunStatus))
    warn_missing(found.missing)
    if as_json:
        print_json(plain(found))
    elif found:
        _show_list(found, loaded.clock.now())
    elif wanted or name is not None:
        say("No such run.")
    else:
        say("Nothing was ever started; see app.control and windlass run.")


@cli.command()
def show(
    name: NameArgument,
    partition: PartitionOption = "",
    app: AppOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the steps of a run, where it stopped, its error, and its earlier tries."""
    loaded, key, run, now = _look(app, name, partition)
    tries = operate.history(loaded.fleet, key)
    if as_json:
        print_json(plain(run) | {"history": plain(tries)})
        return
    _show_facts(run, now)
    if run.steps:
        console.print()
        _show_steps(run, now)
    if run.error is not None:
        console.print()
        lines = map(visible, run.error.expandtabs().splitlines())
        console.print(Text("\n".join(lines), style="red"), soft_wrap=True)
    if earlier := [each for each in tries if each.batch != run.batch]:
        console.print()
        _show_tries(earlier, now)


@cli.command()
def release(
    name: NameArgument,
    partition: PartitionOption = "",
    app: AppOption = None,
    yes: YesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Release a run that is stuck: its holder can record nothing more, and anyone may start it."""
    loaded, key, run, now = _look(app, name, partition)
    if run.status is not RunStatus.RUNNING:
        _refuse(key, f"there is nothing to release: {_past(run, now)}")
    if not yes:
        _ask(f"{_holding(run, key, now)}\nRelease it?", f"control {key} was not released")
    asked = None if yes else run.batch
    with audit_log(loaded).record(Action.CONTROL_RELEASE, str(key), batch=run.batch) as entry:
        reply = operate.release(loaded.fleet, key, batch=asked)
        if reply.code != DONE:
            latest = _find(loaded, key)
            state = f"{latest.who} runs it now" if latest.batch != run.batch else "it is free"
            _refuse(key, f"it has ended meanwhile; {state}")
        entry.says(f"{key} is released")
    told = f"{key} is released; {reply.data['who']} can record nothing more"
    report(told, plain(_find(loaded, key)) if as_json else {}, as_json=as_json)


@cli.command()
def reset(
    name: NameArgument,
    partition: PartitionOption = "",
    app: AppOption = None,
    yes: YesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Make a run that failed start over: forget which steps are done, their results, its data."""
    loaded, key, run, now = _look(app, name, partition)
    if run.status is RunStatus.RUNNING:
        _refuse(key, f"{run.who} is running it; release it first")
    if run.status is not RunStatus.FAILED:
        _refuse(key, f"there is nothing to reset: {_past(run, now)}")
    if not yes:
        _ask(
            f"{key} failed {when(run.end_time, now=now)} with {_steps_done(run)}. They are "
            "forgotten, and the next try starts over.\nReset it?",
            f"control {key} was not reset",
        )
    with audit_log(loaded).record(Action.CONTROL_RESET, str(key), batch=run.batch) as entry:
        if operate.reset(loaded.fleet, key, batch=run.batch).code != DONE:
            _refuse(key, "it was started meanwhile")
        entry.says(f"{key} starts over")
    told = f"{key} is reset; its next try begins with its first step"
    report(told, plain(_find(loaded, key)) if as_json else {}, as_json=as_json)


def _load(app: str | None) -> App:
    loaded = load_app(app, needs_kinds=False)
    loaded.prepare()
    return loaded


def _look(app: str | None, name: str, partition: str) -> tuple[App, ControlKey, RunView, int]:
    loaded, key = _load(app), check_key(name, partition)
    return loaded, key, _find(loaded, key), loaded.clock.now()


def _find(loaded: App, key: ControlKey) -> RunView:
    run = loaded.control.get(*key)
    if run is not None:
        return run
    others = [each.partition for each in operate.listing(loaded.fleet, name=key.name)]
    hint = f"; try --partition {others[-1]!r}" if others else ""
    if others == [""]:
        hint = "; it was started without a partition"
    complain(f"control {key} was never started{hint}")
    raise typer.Exit(1)


def _refuse(key: ControlKey, why: str) -> NoReturn:
    raise NotPossible(f"control {key}: {why}")


def _ask(question: str, refusal: str) -> None:
    """Go on only if a person says yes. Asks on standard error, which is for people."""
    typer.echo(f"{question} [y/N]: ", nl=False, err=True)
    answer = sys.stdin.readline()
    if answer.strip().lower() in {"y", "yes"}:
        return
    if not answer:
        typer.echo(err=True)
        refusal = "nobody answers; use --yes"
    complain(refusal)
    raise typer.Exit(1)


def _holding(run: RunView, key: ControlKey, now: int) -> str:
    """Who would lose the run, and what that does not do."""
    began = f"{timestamp(run.start_time)} ({when(run.start_time, now=now)})"
    at = "" if run.step is None else f", at step {run.step!r}"
    until = "it never expires"
    if run.expire_time is not None:
        until = f"it {'expired' if run.expired else 'expires'} {when(run.expire_time, now=now)}"
    return (
        f"{run.who} has been running {key} since {began}{at}; {until}.\n"
        "Releasing does not stop it: if it still lives, two may run at once."
    )


def _past(run: RunView, now: int) -> str:
    if run.status is RunStatus.READY:
        return "its next try starts over"
    return f"it {run.status} {when(run.end_time, now=now)}"


def _show_list(found: list[RunView], now: int) -> None:
    """All in one table, or in two if that is too wide."""
    whole = table(
        *("name", "partition", "status", "step", "started", "progress", "took", "tries"),
        *("who", "error"),
        right=("tries",),
        wrap=("name", "partition"),
        cut=("error",),
        most=WIDE,
    )
    key = ["name", "partition"] if any(run.partition for run in found) else ["name"]
    progress = ["progress"] if any(run.progress for run in found) else []
    states = table(
        *(*key, "status", "step", "started", *progress),
        wrap=("name", "partition"),
        most=NARROW,
    )
    ends = table(*key, "who", "error", cut=("error",), most=NARROW)
    for run in found:
        names = [Text(visible(run.name), style="bold"), Text(visible(run.partition) or "-")]
        state = [_status(run), Text(_step(run.step)), Text(when(run.start_time, now=now))]
        far, end = Text(_progress(run)), [Text(visible(run.who or "-")), _first_line(run.error)]
        whole.add_row(*names, *state, far, _took(run, now), str(run.tries), *end)
        states.add_row(*names[: len(key)], *state, *[far][: len(progress)])
        ends.add_row(*names[: len(key)], *end)
    print_fitting(whole, states, ends)


def _show_facts(run: RunView, now: int) -> None:
    name, is_running = visible(run.name), run.status is RunStatus.RUNNING
    moments = {
        "first try": run.first_time,
        "this try": run.start_time,
        "expired" if run.expired else "expires": run.expire_time if is_running else None,
        "ended": run.end_time,
    }
    facts = {
        "partition": visible(run.partition) or None,
        "status": _status(run),
        AT_STEP.get(run.status, "last step"): None if run.step is None else _step(run.step),
        "progress": None if run.progress is None else _progress(run),
        "who": visible(run.who or "-"),
        "tries": str(run.tries),
        **{label: moment_text(at, now=now) for label, at in moments.items() if at is not None},
        "running for" if is_running else "took": _took(run, now),
        "data": None if run.data is None else _json(run.data),
    }
    shown = table("run", name, wrap=(name,))
    for label, fact in facts.items():
        if fact is not None:
            shown.add_row(label, fact)
    console.print(shown)


def _show_steps(run: RunView, now: int) -> None:
    data = ("data",) if any(step.data is not None for step in run.steps) else ()
    columns, cut = ("step", "state", "began", "took", "result", *data), ("result", *data)
    whole = table(*columns, wrap=("step",), cut=cut, most=WIDE_STEP)
    narrow = table(*columns[:2], *columns[3:], wrap=("step",), cut=cut, most=NARROW_STEP)
    for step in run.steps:
        state = Text(step.state.value, style=STEP_COLOURS[step.state])
        took = _lasted(step.seconds, step.began_at, now)
        result = "" if step.result is None else _json(step.result)
        more = [result] if not data else [result, "" if step.data is None else _json(step.data)]
        whole.add_row(_step(step.step), state, timestamp(step.began_at), took, *more)
        narrow.add_row(_step(step.step), state, took, *more)
    print_fitting(whole, narrow)


def _show_tries(tries: list[RunView], now: int) -> None:
    columns = ("earlier tries", "status", "took", "try", "step")
    whole = table(*columns, "steps", "who", "error", right=("try",), cut=("error",), most=WIDE)
    narrow = table(*columns, "error", right=("try",), cut=("error",), most=NARROW)
    for run in tries:
        cells = [Text(timestamp(run.end_time)), _status(run), Text(_took(run, now))]
        cells += [Text(str(run.tries)), Text(_step(run.step))]
        error = _first_line(run.error)
        steps = _steps_done(run) if run.steps else "-"
        whole.add_row(*cells, steps, visible(run.who or "-"), error)
        narrow.add_row(*cells, error)
    print_fitting(whole, narrow)


def _steps_done(run: RunView) -> str:
    return f"{counted(sum(step.is_done for step in run.steps), 'step')} done"


def _status(run: RunView) -> Text:
    if run.expired:
        return Text("running, expired", style="yellow")
    return Text(str(run.status), style=COLOURS[run.status])


def _step(step: StepName | None) -> str:
    """A step as people write it: the name "1" differs from the number 1."""
    if isinstance(step, str):
        return f'"{step}"' if step.isdigit() else visible(step)
    return "-" if step is None else str(step)


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


def _json(value: Any) -> str:
    """A value as JSON on one line, cut if it is long."""
    text = visible(msgspec.json.format(msgspec.json.encode(value), indent=0).decode())
    return text if len(text) <= LONGEST_JSON else f"{text[:LONGEST_JSON]}…"


def _first_line(error: str | None) -> Text:
    return Text(visible((error or "").partition("\n")[0]))
