"""Switches: pause and resume kinds, and set what holds for them while they run."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter
from pydantic import Field

from windlass.operate.switch import operate
from windlass.operate.switch.operate import SwitchView
from windlass.view.action import Action
from windlass.web.problem import problems
from windlass.web.request import KindName, ReadyConsole, RequestLog
from windlass.web.view import Reason, RequestBody, answer

router = APIRouter(tags=["switches"])

SWITCH = answer(SwitchView)
Text = Annotated[str, Field(min_length=1, max_length=200)]


class PauseKind(RequestBody):
    """Why, for the people who read it later."""

    reason: Reason = ""


class SetKind(RequestBody):
    """What to set; a field that is left out stays, null goes back to what the kind declares.

    "none" takes the rate or the window away.
    """

    rate: Text | None = Field(default=None, examples=["300/s"])
    window: Text | None = Field(default=None, examples=["01:00-07:00"])
    concurrency: Annotated[int, Field(ge=1, le=100_000)] | None = None


@router.get("/switches", response_model=answer(list[SwitchView]))
def switches(console: ReadyConsole) -> list[SwitchView]:
    """The switches of all declared kinds."""
    return operate.listing(console.app.fleet, console.app.registry, console.app.clock)


@router.get("/switches/{kind}", responses=problems(404), response_model=SWITCH)
def switch(kind: KindName, console: ReadyConsole) -> SwitchView:
    """The switch of one kind."""
    app = console.app
    return operate.show(app.fleet, app.registry, app.clock, kind=kind)


@router.post("/switches/{kind}/pause", responses=problems(404), response_model=SWITCH)
def pause(kind: KindName, body: PauseKind, console: ReadyConsole, log: RequestLog) -> SwitchView:
    """Let nothing of a kind start until it is resumed; what runs goes on to its end."""
    with log.record(Action.SWITCH_PAUSE, kind, reason=body.reason) as entry:
        console.app.pause(kind, reason=body.reason, who=log.who)
        entry.says(f"{kind} is paused")
    return switch(kind, console)


@router.post("/switches/{kind}/resume", responses=problems(404), response_model=SWITCH)
def resume(kind: KindName, console: ReadyConsole, log: RequestLog) -> SwitchView:
    """Let a kind run again, and close its breaker if that is open."""
    with log.record(Action.SWITCH_RESUME, kind) as entry:
        console.app.resume(kind, who=log.who)
        entry.says(f"{kind} is resumed")
    return switch(kind, console)


@router.post("/switches/{kind}/close-breaker", responses=problems(404), response_model=SWITCH)
def close_breaker(kind: KindName, console: ReadyConsole, log: RequestLog) -> SwitchView:
    """Close the breaker of a kind; whether it is paused stays as it is."""
    with log.record(Action.SWITCH_CLOSE_BREAKER, kind) as entry:
        console.app.close_breaker(kind, who=log.who)
        entry.says(f"the breaker of {kind} is closed")
    return switch(kind, console)


@router.post("/switches/{kind}/set", responses=problems(404), response_model=SWITCH)
def set_(kind: KindName, body: SetKind, console: ReadyConsole, log: RequestLog) -> SwitchView:
    """Change the rate, window or concurrency of a kind while it runs."""
    given = body.model_dump(exclude_unset=True)
    with log.record(Action.SWITCH_SET, kind, **given) as entry:
        console.app.set(kind, **given)
        entry.says(f"{kind} is set")
    return switch(kind, console)
