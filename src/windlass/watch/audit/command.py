"""`windlass audit`: who did what, from the console, the API or a terminal."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.text import Text

from windlass.cli.load import AppOption, JsonOption, load_app
from windlass.cli.output import (
    console,
    plain,
    print_json,
    say,
    table,
    visible,
    warn_missing,
    when,
)
from windlass.watch.audit import operate
from windlass.watch.audit.model import Deed


def register(cli: typer.Typer) -> None:
    """Add the command."""
    cli.command()(audit)


def audit(
    app: AppOption = None,
    who: Annotated[str | None, typer.Option("--who", help="Only what this one did.")] = None,
    about: Annotated[
        str | None, typer.Option("--about", help="Only what was done to this kind, task or run.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=1000, help="At most so many.")] = 20,
    as_json: JsonOption = False,
) -> None:
    """List what operators did, newest first: who, by which means, what, and what came of it."""
    loaded = load_app(app, needs_kinds=False)
    loaded.prepare()
    found = operate.listing(loaded.fleet, limit=limit, who=who, about=about)
    warn_missing(found.missing)
    if as_json:
        print_json(plain(found))
        return
    if not found:
        say("Nothing was done by hand yet." if who is about is None else "No deed matches.")
        return
    now = loaded.clock.now()
    shown = table("when", "who", "via", "action", "about", "outcome", wrap=("outcome",))
    for deed in found:
        shown.add_row(
            when(deed.acted_at, now=now),
            visible(deed.who),
            deed.via,
            Text(deed.action, style="bold"),
            visible(deed.about or "-"),
            _outcome(deed),
        )
    console.print(shown)


def _outcome(deed: Deed) -> Text:
    if deed.ok is None:
        return Text("never came to an end", style="yellow")
    return Text(visible(deed.outcome or ""), style="" if deed.ok else "red")
