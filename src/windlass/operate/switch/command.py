"""`windlass pause|resume|set KIND`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from windlass.app import App
from windlass.cli.audit import audit_log
from windlass.cli.load import AppOption, JsonOption, load_app
from windlass.cli.output import complain, done, iso, print_json
from windlass.core.limit.store.switch import Switch
from windlass.core.limit.switch import Setting, setting_of
from windlass.operate import fan_out as gather
from windlass.operate.switch.operate import UNSET, Unset
from windlass.watch.audit.model import Action
from windlass.watch.status.operate import held_back, rate_text

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
    reason: Annotated[str, typer.Option("--reason", help="Why, for those who look.")] = "",
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
    found = gather.switches(loaded.fleet).get(kind, Switch(kind))
    holds = _holding(setting_of(loaded.registry.get(kind), found))
    _report(loaded, kind, f"{kind} is set: {holds}", as_json=as_json)


def _given(option: str | None) -> str | Unset | None:
    if option is None:
        return UNSET
    return None if option == DEFAULT else option


def _number(option: str | Unset | None) -> int | Unset | None:
    if not isinstance(option, str):
        return option
    if option.isdecimal() and int(option) > 0:
        return int(option)
    complain(f'--concurrency {option!r} is neither a number from 1 on nor "default"')
    raise typer.Exit(2)


def _holding(setting: Setting) -> str:
    rate = "no rate" if setting.rate is None else f"rate {rate_text(setting.rate)}"
    window = "no window" if setting.window is None else f"window {setting.window.text}"
    at_once = setting.concurrency
    return f"{rate}, {window}, " + ("no limit" if at_once is None else f"{at_once:,} at once")


def _report(loaded: App, kind: str, message: str, *, as_json: bool) -> None:
    found = gather.switches(loaded.fleet).get(kind, Switch(kind))
    if as_json:
        print_json(for_programs(found))
        return
    held = held_back(loaded.registry.get(kind), found, now=loaded.clock.now())
    done(message if held is None or found.off else f"{message}; {held}")


def for_programs(found: Switch) -> dict[str, object]:
    """A switch as --json shows it."""
    breaker = found.breaker
    return {
        "kind": found.kind,
        "off": found.off,
        "reason": found.reason,
        "who": found.who,
        "since": iso(found.since),
        "window": found.window,
        "rate": found.rate,
        "concurrency": found.concurrency,
        "breaker": str(breaker.state),
        "errors_in_a_row": breaker.errors_in_a_row,
        "opened_at": iso(breaker.opened_at),
        "probe_at": iso(breaker.probe_at),
    }
