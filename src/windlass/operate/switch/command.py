"""`windlass pause|resume|set`: kinds, groups and everything."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from windlass.cli.load import AppOption, JsonOption, audit_log, load_app
from windlass.cli.output import done, plain, print_json, refuse
from windlass.value.task import EVERYTHING, GROUP
from windlass.view.action import Action

if TYPE_CHECKING:
    from windlass.app import App
    from windlass.operate.switch.operate import SwitchView

DEFAULT = "default"

KindArgument = Annotated[str, typer.Argument(metavar="KIND", help="The kind, or the downstream.")]
KindOrAll = Annotated[
    str | None,
    typer.Argument(metavar="[KIND]", help="The kind or the downstream; without it, everything."),
]
GroupOption = Annotated[
    str | None, typer.Option("--group", metavar="GROUP", help="The kinds of this group instead.")
]


def pause(
    kind: KindOrAll = None,
    app: AppOption = None,
    group: GroupOption = None,
    until: Annotated[
        str | None,
        typer.Option(
            "--until",
            help='Resume by itself: the next "06:00", "2026-11-12 04:00 Europe/Berlin", or "2h".',
        ),
    ] = None,
    reason: Annotated[
        str, typer.Option("--reason", help="Why, for the people who read it later.")
    ] = "",
    who: Annotated[str | None, typer.Option("--who", help="Who; default: user@host.")] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Pause everything without asking.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Let nothing of a kind, a downstream, a group or of everything start until it is resumed."""
    loaded = load_app(app)
    row, shown = _named(kind, group)
    if row == EVERYTHING and not yes:
        question = f"Pause everything ({len(loaded.registry.kinds)} kinds)?"
        if not typer.confirm(question, err=True):
            refuse("nothing was paused", code=1)
    told: dict[str, Any] = {"reason": reason}
    if until is not None:
        told["until"] = until
    with audit_log(loaded, who).record(Action.SWITCH_PAUSE, row, **told) as entry:
        loaded.pause(kind, group=group, until=until, reason=reason, who=who)
        message = entry.says(f"{shown} is paused{_until(loaded, row)}")
    _report(loaded, row, message, as_json=as_json)


def resume(
    kind: KindOrAll = None,
    app: AppOption = None,
    group: GroupOption = None,
    as_json: JsonOption = False,
) -> None:
    """End the pause of a kind, a downstream, a group or of everything; its breaker closes, too."""
    loaded = load_app(app)
    row, shown = _named(kind, group)
    with audit_log(loaded).record(Action.SWITCH_RESUME, row) as entry:
        loaded.resume(kind, group=group)
        message = entry.says(f"{shown} is resumed")
    _report(loaded, row, message, as_json=as_json)


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


def _named(kind: str | None, group: str | None) -> tuple[str, str]:
    """The row of a kind, of a group or of everything, and what people call it."""
    if kind is not None and group is not None:
        refuse(f"give the kind {kind!r} or --group {group!r}, not both")
    if group is not None:
        return GROUP + group, f"group {group}"
    return (EVERYTHING, "everything") if kind is None else (kind, kind)


def _until(loaded: App, row: str) -> str:
    from windlass.operate.switch.operate import paused_until

    until = paused_until(loaded.fleet, loaded.clock, row)
    return "" if until is None else f" until {until}"


def _report(loaded: App, row: str, message: str, *, as_json: bool) -> None:
    if row == EVERYTHING or row.startswith(GROUP):
        _report_pause(loaded, row, message, as_json=as_json)
        return
    found = _switch(loaded, row)
    if as_json:
        print_json(plain(found, without=("has_breaker", "held_back", "holds", "ahead")))
    elif found.held_back is None or found.off:
        done(message)
    else:
        done(f"{message}; {found.held_back}")


def _report_pause(loaded: App, row: str, message: str, *, as_json: bool) -> None:
    from windlass.operate.switch.operate import pauses, still_paused

    found = next(
        (each for each in pauses(loaded.fleet, loaded.registry, loaded.clock) if each.name == row),
        None,
    )
    if as_json:
        print_json(None if found is None else plain(found))
    elif found is not None and found.off:
        done(message)
    else:
        others = still_paused(loaded.fleet, loaded.clock)
        done(f"{message}; still paused: {', '.join(others)}" if others else message)


def _switch(loaded: App, kind: str) -> SwitchView:
    from windlass.operate.switch.operate import show

    return show(loaded.fleet, loaded.registry, loaded.clock, kind=kind)
