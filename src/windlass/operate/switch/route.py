"""Switches: pause and resume kinds, and set what holds for them while they run."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter
from pydantic import Field

from windlass.core.limit.store.switch import Switch
from windlass.core.limit.switch import setting_of
from windlass.operate import fan_out as gather
from windlass.operate.switch.operate import UNSET
from windlass.watch.audit.model import Action
from windlass.watch.status.operate import held_back, rate_text
from windlass.web.problem import problems
from windlass.web.request import Console, KindName, ReadyConsole, RequestLog
from windlass.web.view import Body, Moment, Reason, View

router = APIRouter(tags=["switches"])

Text = Annotated[str, Field(min_length=1, max_length=200)]


class SettingOut(View):
    """What holds now: what is set, or else what the kind declares; null is no limit."""

    rate: str | None
    window: str | None
    concurrency: int | None
    problem: str | None


class SwitchOut(View):
    """What is set for a kind; null is as it declares. `held_back` says why it may not run."""

    kind: str
    off: bool
    reason: str | None
    who: str | None
    since: Moment | None
    window: str | None
    rate: str | None
    concurrency: int | None
    breaker: str
    has_breaker: bool
    errors_in_a_row: int
    opened_at: Moment | None
    probe_at: Moment | None
    held_back: str | None
    holds: SettingOut


class Pause(Body):
    """Why, for those who look."""

    reason: Reason = ""


class Set(Body):
    """What to set; a field that is left out stays, null goes back to what the kind declares.

    "none" takes the rate or the window away.
    """

    rate: Text | None = Field(default=None, examples=["300/s"])
    window: Text | None = Field(default=None, examples=["01:00-07:00"])
    concurrency: Annotated[int, Field(ge=1, le=100_000)] | None = None


@router.get("/switches")
def switches(console: ReadyConsole) -> list[SwitchOut]:
    """The switches of all declared kinds."""
    found = gather.switches(console.app.fleet)
    return [_view(console, found, name) for name in sorted(console.app.registry.kinds)]


@router.get("/switches/{kind}", responses=problems(404))
def switch(kind: KindName, console: ReadyConsole) -> SwitchOut:
    """The switch of one kind."""
    return _view(console, gather.switches(console.app.fleet), console.app.registry.get(kind).name)


@router.post("/switches/{kind}/pause", responses=problems(404))
def pause(kind: KindName, body: Pause, console: ReadyConsole, log: RequestLog) -> SwitchOut:
    """Let nothing of a kind start until it is resumed; what runs goes on to its end."""
    with log.record(Action.SWITCH_PAUSE, kind, reason=body.reason) as entry:
        console.app.pause(kind, reason=body.reason, who=log.who)
        entry.says(f"{kind} is paused")
    return switch(kind, console)


@router.post("/switches/{kind}/resume", responses=problems(404))
def resume(kind: KindName, console: ReadyConsole, log: RequestLog) -> SwitchOut:
    """Let a kind run again, and close its breaker if that is open."""
    with log.record(Action.SWITCH_RESUME, kind) as entry:
        console.app.resume(kind, who=log.who)
        entry.says(f"{kind} is resumed")
    return switch(kind, console)


@router.post("/switches/{kind}/close-breaker", responses=problems(404))
def close_breaker(kind: KindName, console: ReadyConsole, log: RequestLog) -> SwitchOut:
    """Close the breaker of a kind; whether it is paused stays as it is."""
    with log.record(Action.SWITCH_CLOSE_BREAKER, kind) as entry:
        console.app.close_breaker(kind, who=log.who)
        entry.says(f"the breaker of {kind} is closed")
    return switch(kind, console)


@router.post("/switches/{kind}/set", responses=problems(404))
def set_(kind: KindName, body: Set, console: ReadyConsole, log: RequestLog) -> SwitchOut:
    """Change the rate, window or concurrency of a kind while it runs."""
    given = body.model_dump(exclude_unset=True)
    with log.record(Action.SWITCH_SET, kind, **given) as entry:
        console.app.set(
            kind,
            rate=given.get("rate", UNSET),
            window=given.get("window", UNSET),
            concurrency=given.get("concurrency", UNSET),
        )
        entry.says(f"{kind} is set")
    return switch(kind, console)


def _view(console: Console, found: dict[str, Switch], name: str) -> SwitchOut:
    kind, row = console.app.registry.get(name), found.get(name, Switch(name))
    setting = setting_of(kind, row)
    breaker = row.breaker
    return SwitchOut.model_validate(
        {
            **vars(row),
            "breaker": str(breaker.state),
            "has_breaker": kind.breaker is not None,
            "errors_in_a_row": breaker.errors_in_a_row,
            "opened_at": breaker.opened_at,
            "probe_at": breaker.probe_at,
            "held_back": held_back(kind, row, now=console.app.clock.now()),
            "holds": SettingOut(
                rate=None if setting.rate is None else rate_text(setting.rate),
                window=None if setting.window is None else setting.window.text,
                concurrency=setting.concurrency,
                problem=setting.problem,
            ),
        }
    )
