"""`windlass pause|resume|set KIND`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer
from msgspec import UNSET, UnsetType

from windlass.cli.audit import audit_log
from windlass.cli.load import AppOption, JsonOption, load_app
from windlass.cli.output import complain, done, plain, print_json
from windlass.view.action import Action

if TYPE_CHECKING:
    from windlass.app import App
    from windlass.operate.switch.view import SwitchView

DEFAULT = "default"

KindArgument = Annotated[str, typer.Argument(metavar="KIND", help="The kind.")]


def register(cli: typer.Typer) -> None:
    """Add the commands."""
    cli.command()(pause)
    cli.command()(resume)
    cli.command("set")(set_)


def pause(
    kind: KindArgument,
    app: AppOption = None,
    reason: Annotated[
        str, typer.Option("--reason", help="Why, for the people who read it later.")
    ] = "",
    who: Annotated[str | None, typer.Option("--who", help="Who; default: user@host.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Let nothing of a kind start until it is resumed; what runs goes on to its end."""
    loaded = load_app(app)
    with audit_log(loaded, who).record(Action.SWITCH_PAUSE, kind, reason=reason) as entry:
        loaded.pause(kind, reason=reason, who=who)
        entry.says(f"{kind} is paused")
    _report(loaded, kind, f"{kind} is paused", as_json=as_json)


def resume(kind: KindArgument, app: AppOption = None, as_json: JsonOption = False) -> None:
    """Let a kind run again, and close its breaker if that is open."""
    loaded = load_app(app)
    with audit_log(loaded).record(Action.SWITCH_RESUME, kind) as entry:
        loaded.resume(kind)
        entry.says(f"{kind} is resumed")
    _report(loaded, kind, f"{kind} is resumed", as_json=as_json)


def set_(
    kind: KindArgument,
    app: AppOption = None,
    rate: Annotated[
        str | None, typer.Option("--rate", help='As "300/s"; "none", or "default" as declared.')
    ] = None,
    window: Annotated[
        str | None,
        typer.Option("--window", help='As "01:00-07:00"; "none", or "default" as declared.'),
    ] = None,
    concurrency: Annotated[
        str | None,
        typer.Option("--concurrency", help='At once in each worker; "default" as declared.'),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Change the rate, window or concurrency of a kind while it runs."""
    loaded = load_app(app)
    if rate is None and window is None and concurrency is None:
        complain("nothing to set; give --rate, --window or --concurrency")
        raise typer.Exit(2)
    given: dict[str, Any] = {
        "rate": _given(rate),
        "window": _given(window),
        "concurrency": _number(_given(concurrency)),
    }
    told = {name: value for name, value in given.items() if value is not UNSET}
    with audit_log(loaded).record(Action.SWITCH_SET, kind, **told) as entry:
        loaded.set(kind, **given)
        entry.says(f"{kind} is set")
    _report(loaded, kind, f"{kind} is set: {_switch(loaded, kind).holds}", as_json=as_json)


def _given(option: str | None) -> str | UnsetType | None:
    if option is None:
        return UNSET
    return None if option == DEFAULT else option


def _number(option: str | UnsetType | None) -> int | UnsetType | None:
    if not isinstance(option, str):
        return option
    if option.isdecimal() and int(option) > 0:
        return int(option)
    complain(f'--concurrency {option!r} is neither a number from 1 on nor "default"')
    raise typer.Exit(2)


def _report(loaded: App, kind: str, message: str, *, as_json: bool) -> None:
    found = _switch(loaded, kind)
    if as_json:
        print_json(plain(found, without=("has_breaker", "held_back", "holds")))
    elif found.held_back is None or found.off:
        done(message)
    else:
        done(f"{message}; {found.held_back}")


def _switch(loaded: App, kind: str) -> SwitchView:
    from windlass.operate.switch.view import show

    return show(loaded.fleet, loaded.registry, loaded.clock, kind=kind)
