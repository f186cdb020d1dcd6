"""`windlass shard list|drain|move`."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.text import Text

from windlass.app import App
from windlass.cli.load import AppOption, JsonOption, audit_log, load_app
from windlass.cli.output import (
    complain,
    console,
    count_text,
    counted,
    done,
    print_json,
    refuse,
    say,
    table,
    warn_missing,
)
from windlass.operate.shard import operate
from windlass.operate.shard.operate import ShardView
from windlass.view.action import Action

NUMBERS = ("place", "waiting", "running", "ended", "workers")

cli = typer.Typer()

NameArgument = Annotated[
    str, typer.Argument(metavar="NAME", help="The shard: its number in the list, or its database.")
]


@cli.command("list")
def list_shards(app: AppOption = None, as_json: JsonOption = False) -> None:
    """List the shards: which are up, and what they have."""
    loaded = _load(app)
    found = operate.listing(loaded.fleet)
    if as_json:
        print_json([vars(shard) for shard in found])
        return
    shown = table("shard", "database", *NUMBERS, "state", right=("shard", *NUMBERS))
    for shard in found:
        cells = (shard.place, shard.waiting, shard.running, shard.ended, shard.workers)
        shown.add_row(
            str(shard.number),
            Text(shard.database, style="bold"),
            *("-" if count is None else count_text(count) for count in cells),
            _state(shard),
        )
    console.print(shown)


@cli.command()
def drain(
    name: NameArgument,
    app: AppOption = None,
    undo: Annotated[bool, typer.Option("--undo", help="Let it take new rows again.")] = False,
    lost: Annotated[
        bool,
        typer.Option("--lost", help="It will never answer again: go on without what it has."),
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Have a shard take no new rows. What it has goes on there until it is moved."""
    loaded = _load(app)
    shard = loaded.fleet.named(name)
    if lost and not yes and not typer.confirm(f"Give up {shard.name} and everything it has?"):
        refuse(f"{shard.name} was not given up", code=1)
    with audit_log(loaded).record(Action.SHARD_DRAIN, shard.name, undo=undo, lost=lost) as entry:
        operate.drain(loaded.fleet, name, undo=undo, lost=lost)
        if lost:
            entry.says(f"{shard.name} is given up; take it out of App(...)")
        elif undo:
            entry.says(f"{shard.name} takes new rows again")
        else:
            entry.says(f"{shard.name} takes no new rows; next: windlass shard move {name}")
    view = next(each for each in operate.listing(loaded.fleet) if each.number == shard.index)
    if as_json:
        print_json(vars(view))
    else:
        done(entry.outcome)


@cli.command()
def move(
    name: NameArgument,
    app: AppOption = None,
    now: Annotated[
        bool,
        typer.Option("--now", help="Also rows that are due and that none of its workers reads."),
    ] = False,
    no_wait: Annotated[
        bool, typer.Option("--no-wait", help="Do not wait for rows that are running.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Move the rows of a shard to where they belong; of one that is drained, all of them.

    It can be broken off at any time, and goes on where it was. Exits with 1 if rows are left.
    """
    loaded = _load(app)
    shard = loaded.fleet.named(name)
    with audit_log(loaded).record(
        Action.SHARD_MOVE, shard.name, now=now, wait=not no_wait
    ) as entry:
        result = operate.move(
            loaded.fleet,
            name,
            dead_after=loaded.settings.dead_after,
            due=now,
            wait=not no_wait,
            tell=(lambda _line: None) if as_json else say,
        )
        moved = f"moved {counted(result.moved, 'row')}"
        left = entry.says(f"{moved}; {counted(result.busy + len(result.stuck), 'row')} left")
    if as_json:
        print_json({**vars(result), "done": result.is_done})
    elif result.is_done:
        done(f"{shard.name}: {moved}; all is where it belongs")
    else:
        for key in result.stuck[:10]:
            complain(f"{key} was not moved: where it belongs another task has its key")
        complain(f"{shard.name}: {left}")
    if result.sweeps and not as_json:
        say(
            f"{', '.join(result.sweeps)}: a sweep is not moved; it goes on here, and when "
            f"{shard.name} is out of App(...) it begins a new round in another shard"
        )
    if not result.is_done:
        raise typer.Exit(1)


def _load(app: str | None) -> App:
    loaded = load_app(app)
    loaded.prepare()
    warn_missing(tuple(shard.name for shard in loaded.fleet.shards if not shard.is_up))
    return loaded


def _state(shard: ShardView) -> Text:
    if not shard.up:
        return Text("does not answer", style="bold red")
    words = []
    if shard.moving:
        words.append(f"{counted(shard.moving, 'row')} on their way; run: windlass shard move")
    if shard.draining:
        words.append("draining" if shard.unmoved else "drained and empty")
    elif shard.unmoved:
        words.append("has rows that belong to others; run: windlass shard move")
    return Text(", ".join(words) or "up", style="yellow" if words else "green")
