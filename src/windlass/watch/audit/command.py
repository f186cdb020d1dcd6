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
from windlass.watch.audit.model import AuditEntry


def register(cli: typer.Typer) -> None:
    """Add the command."""
    cli.command()(audit)


def audit(
    app: AppOption = None,
    who: Annotated[str | None, typer.Option("--who", help="Only what this person did.")] = None,
    about: Annotated[
        str | None, typer.Option("--about", help="Only what was done to this kind, task or run.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=1000, help="At most this many.")] = 20,
    as_json: JsonOption = False,
) -> None:
    """List what operators did, newest first: who, by which means, what, and the outcome."""
    loaded = load_app(app, needs_kinds=False)
    from windlass.watch.audit import operate

    loaded.prepare()
    found = operate.listing(loaded.fleet, limit=limit, who=who, about=about)
    warn_missing(found.missing)
    if as_json:
        print_json(plain(found))
        return
    if not found:
        say("No operator has done anything yet." if who is about is None else "No entry matches.")
        return
    now = loaded.clock.now()
    shown = table("when", "who", "via", "action", "about", "outcome", wrap=("outcome",))
    for entry in found:
        shown.add_row(
            when(entry.acted_at, now=now),
            visible(entry.who),
            entry.via,
            Text(entry.action, style="bold"),
            visible(entry.about or "-"),
            _outcome(entry),
        )
    console.print(shown)


def _outcome(entry: AuditEntry) -> Text:
    if entry.ok is None:
        return Text("did not end", style="yellow")
    return Text(visible(entry.outcome or ""), style="" if entry.ok else "red")
