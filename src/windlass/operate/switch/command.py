"""`windlass pause|resume|set KIND`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from windlass.cli.load import AppOption, JsonOption, audit_log, load_app
from windlass.cli.output import done, plain, print_json, refuse
from windlass.view.action import Action

if TYPE_CHECKING:
    from windlass.app import App
    from windlass.operate.switch.operate import SwitchView

DEFAULT = "default"

KindArgument = Annotated[str, typer.Argument(metavar="KIND", help="The kind, or the downstream.")]


def pause(
    kind: KindArgument,
    app: AppOption = None,
    reason: Annotated[
        str, typer.Option("--reason", help="Why, for the people who read it later.")
    ] = "",
    who: Annotated[str | None, typer.Option("--who", help="Who; default: user@host.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Let nothing of a kind, or of all kinds of a downstream, start until it is resumed."""
    loaded = load_app(app)
    with audit_log(loaded, who).record(Action.SWITCH_PAUSE, kind, reason=reason) as entry:
        loaded.pause(kind, reason=reason, who=who)
        message = entry.says(f"{kind} is paused")
    _report(loaded, kind, message, as_json=as_json)


def resume(kind: KindArgument, app: AppOption = None, as_json: JsonOption = False) -> None:
    """Let a kind or a downstream run again, and close its breaker if that is open."""
    loaded = load_app(app)
    with audit_log(loaded).record(Action.SWITCH_RESUME, kind) as entry:
        loaded.resume(kind)
        message = entry.says(f"{kind} is resumed")
    _report(loaded, kind, message, as_json=as_json)


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
        typer.Option(
            "--concurrency",
            help='At once in each worker, of a downstream in all; "default" as declared.',
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Change the rate, window or concurrency of a kind or a downstream while it runs."""
    loaded = load_app(app)
    options = {"rate": rate, "window": window, "concurrency": concurrency}
    given = {name: _value(name, text) for name, text in options.items() if text is not None}
    if not given:
        refuse("nothing to set; give --rate, --window or --concurrency")
    with audit_log(loaded).record(Action.SWITCH_SET, kind, **given) as entry:
        loaded.set(kind, **given)
        entry.says(f"{kind} is set")
    _report(loaded, kind, f"{kind} is set: {_switch(loaded, kind).holds}", as_json=as_json)


def _value(name: str, text: str) -> Any:
    if text == DEFAULT:
        return None
    if name != "concurrency":
        return text
    if not text.isdecimal() or int(text) < 1:
        refuse(f'--concurrency {text!r} is neither a number from 1 on nor "default"')
    return int(text)


def _report(loaded: App, kind: str, message: str, *, as_json: bool) -> None:
    found = _switch(loaded, kind)
    if as_json:
        print_json(plain(found, without=("has_breaker", "held_back", "holds")))
    elif found.held_back is None or found.off:
        done(message)
    else:
        done(f"{message}; {found.held_back}")


def _switch(loaded: App, kind: str) -> SwitchView:
    from windlass.operate.switch.operate import show

    return show(loaded.fleet, loaded.registry, loaded.clock, kind=kind)
