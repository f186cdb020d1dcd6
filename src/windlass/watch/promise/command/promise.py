"""`windlass promise list|show`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from windlass.cli.load import AppOption, JsonOption, load_app
from windlass.cli.output import (
    console,
    plain,
    print_fitting,
    print_json,
    say,
    table,
    visible,
    warn_missing,
    when,
)

if TYPE_CHECKING:
    from windlass.watch.promise.model.promise import Promise

cli = typer.Typer()
STATE_STYLE = {"kept": "green", "at risk": "yellow", "broken": "bold red", "unknown": "dim"}


@cli.command("list")
def list_promises(app: AppOption = None, as_json: JsonOption = False) -> None:
    """List what kinds promise, how it stands, the forecast and the cure; the worst first."""
    loaded = load_app(app)
    found = loaded.promises()
    warn_missing(found.missing)
    if as_json:
        print_json(plain(found))
    elif not found:
        say("No kind promises anything; declare within=, or every= for a rolling kind.")
    else:
        _print_promises(found)


@cli.command()
def show(
    kind: Annotated[str, typer.Argument(metavar="KIND", help="The kind.")],
    app: AppOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the promise of one kind."""
    loaded = load_app(app)
    from windlass.watch.promise.operate import promise as operate

    loaded.prepare()
    found = operate.show(loaded.fleet, loaded.clock, loaded.registry, kind)
    warn_missing(found.missing)
    if as_json:
        print_json(plain(found))
        return
    now = loaded.clock.now()
    console.print(Text(found.state, style=STATE_STYLE[found.state]) + Text(f"  {found.kind}"))
    facts = [
        ("promise", found.promise),
        ("standing", found.standing),
        ("forecast", found.forecast),
        ("cure", found.cure),
        ("held back", found.held_back),
        ("breaks", None if found.breaks_at is None else when(found.breaks_at, now=now)),
        ("ends", None if found.ends_at is None else when(found.ends_at, now=now)),
    ]
    for name, text in facts:
        if text is not None:
            console.print(Text(f"{name:10}", style="bright_black") + Text(visible(text)))


def _print_promises(found: list[Promise]) -> None:
    columns = ("state", "kind", "promise", "standing", "forecast", "cure")
    whole = table(*columns, wrap=("standing", "forecast", "cure"))
    states = table("state", "kind", "promise", "standing", wrap=("standing",))
    futures = table("kind", "forecast", "cure", wrap=("forecast", "cure"))
    for each in found:
        state = Text(each.state, style=STATE_STYLE[each.state])
        kind, cure = Text(each.kind, style="bold"), Text(each.cure or "-")
        cells = state, kind, Text(each.promise), Text(each.standing)
        whole.add_row(*cells, Text(each.forecast), cure)
        states.add_row(*cells)
        futures.add_row(kind, Text(each.forecast), cure)
    print_fitting(whole, states, futures)
