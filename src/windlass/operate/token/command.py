"""`windlass token create|list|revoke`."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.text import Text

from windlass.cli.load import AppOption, JsonOption, audit_log, load_app
from windlass.cli.output import (
    console,
    done,
    plain,
    print_json,
    say,
    table,
    timestamp,
    visible,
    warn_missing,
    when,
)
from windlass.operate.token.model import TokenView
from windlass.operate.token.operate import FleetTokens
from windlass.view.action import Action
from windlass.view.role import Role

STATE_STYLE = {"active": "green", "expired": "yellow", "revoked": "bright_black"}

cli = typer.Typer()

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The name of the token.")]
WhoOption = Annotated[str | None, typer.Option("--who", help="Who; default: user@host.")]


@cli.command()
def create(
    name: NameArgument,
    role: Annotated[
        Role,
        typer.Option("--role", help="viewer looks, operator acts, producer enqueues, admin: all."),
    ],
    expires: Annotated[
        str | None,
        typer.Option("--expires", metavar="DURATION", help="Good for this long (90d)."),
    ] = None,
    app: AppOption = None,
    who: WhoOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make a token and print it, once: only its hash is kept."""
    loaded = load_app(app, needs_kinds=False)
    log = audit_log(loaded, who)
    with log.record(Action.TOKEN_CREATE, name, role=role, expires=expires) as entry:
        made = FleetTokens(loaded.fleet).create(name, role, expires=expires, who=log.who)
        entry.says(f"{name} is made: {made.prefix}…")
    if as_json:
        print_json(plain(made))
        return
    until = "" if made.expires_at is None else f" until {timestamp(made.expires_at)}"
    done(f"token {name}: {role}{until}; keep it now, it is not shown again")
    typer.echo(made.token)


@cli.command("list")
def list_tokens(app: AppOption = None, as_json: JsonOption = False) -> None:
    """List the tokens: roles, ends, and when each was last used."""
    loaded = load_app(app, needs_kinds=False)
    found = FleetTokens(loaded.fleet).listing()
    warn_missing(found.missing)
    if as_json:
        print_json(plain(found))
        return
    if not found:
        say("No tokens. Make one: windlass token create NAME --role viewer")
        return
    now = loaded.clock.now()
    shown = table("token", "role", "begins with", "state", "made", "by", "expires", "last used")
    for token in found:
        shown.add_row(
            Text(token.name, style="bold"),
            token.role,
            f"{token.prefix}…",
            Text(token.state, style=STATE_STYLE[token.state]),
            when(token.created_at, now=now),
            visible(token.created_by),
            _until(token, now),
            "never" if token.last_used_at is None else when(token.last_used_at, now=now),
        )
    console.print(shown)


@cli.command()
def revoke(
    name: NameArgument, app: AppOption = None, who: WhoOption = None, as_json: JsonOption = False
) -> None:
    """Have a token open nothing any more; sessions that were begun with it end, too."""
    loaded = load_app(app, needs_kinds=False)
    log = audit_log(loaded, who)
    with log.record(Action.TOKEN_REVOKE, name) as entry:
        revoked = FleetTokens(loaded.fleet).revoke(name, who=log.who)
        entry.says(f"{name} is revoked: {revoked.prefix}…")
    print_json(plain(revoked)) if as_json else done(f"token {name} is revoked")


def _until(token: TokenView, now: int) -> str:
    return "never" if token.expires_at is None else when(token.expires_at, now=now)
