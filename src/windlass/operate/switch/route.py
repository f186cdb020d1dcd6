"""Switches: pause and resume kinds, groups and everything, and set what holds for kinds."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter
from pydantic import Field

from windlass.operate.switch import operate
from windlass.operate.switch.operate import PauseView, SwitchView
from windlass.value.task import EVERYTHING, GROUP
from windlass.view.action import Action
from windlass.web.problem import problems
from windlass.web.request import KindName, ReadyConsole, RequestLog
from windlass.web.view import Reason, RequestBody, answer

router = APIRouter(tags=["switches"])

SWITCH = answer(SwitchView)
Text = Annotated[str, Field(min_length=1, max_length=200)]


Group = Annotated[str, Field(min_length=1, max_length=100)]
Until = Annotated[str, Field(min_length=1, max_length=100)]


class PauseKind(RequestBody):
    """Why, for the people who read it later, and when it resumes by itself."""

    reason: Reason = ""
    until: Until | None = Field(default=None, examples=["06:00", "2h"])


class PauseAll(PauseKind):
    """The group whose kinds to pause; without it, everything."""

    group: Group | None = Field(default=None, examples=["sale"])


class ResumeAll(RequestBody):
    """The group whose pause to end; without it, the pause of everything."""

    group: Group | None = Field(default=None, examples=["sale"])


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


@router.get("/pauses", response_model=answer(list[PauseView]))
def pauses(console: ReadyConsole) -> list[PauseView]:
    """Whether everything is paused, and each group."""
    return operate.pauses(console.app.fleet, console.app.registry, console.app.clock)


@router.post("/pause", responses=problems(404), response_model=answer(list[PauseView]))
def pause_all(body: PauseAll, console: ReadyConsole, log: RequestLog) -> list[PauseView]:
    """Let nothing of a group, or of everything, start until it is resumed."""
    row, shown = _named(body.group)
    with log.record(Action.SWITCH_PAUSE, row, **_told(body)) as entry:
        console.app.pause(group=body.group, until=body.until, reason=body.reason, who=log.who)
        entry.says(f"{shown} is paused")
    return pauses(console)


@router.post("/resume", responses=problems(404), response_model=answer(list[PauseView]))
def resume_all(body: ResumeAll, console: ReadyConsole, log: RequestLog) -> list[PauseView]:
    """End the pause of a group, or of everything. Kinds that are paused themselves stay so."""
    row, shown = _named(body.group)
    with log.record(Action.SWITCH_RESUME, row) as entry:
        console.app.resume(group=body.group, who=log.who)
        entry.says(f"{shown} is resumed")
    return pauses(console)


@router.get("/switches/{kind}", responses=problems(404), response_model=SWITCH)
def switch(kind: KindName, console: ReadyConsole) -> SwitchView:
    """The switch of one kind."""
    app = console.app
    return operate.show(app.fleet, app.registry, app.clock, kind=kind)


@router.post("/switches/{kind}/pause", responses=problems(404), response_model=SWITCH)
def pause(kind: KindName, body: PauseKind, console: ReadyConsole, log: RequestLog) -> SwitchView:
    """Let nothing of a kind start until it is resumed; what runs goes on to its end."""
    with log.record(Action.SWITCH_PAUSE, kind, **_told(body)) as entry:
        console.app.pause(kind, until=body.until, reason=body.reason, who=log.who)
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


def _named(group: str | None) -> tuple[str, str]:
    """The row of a group or of everything, and what people call it."""
    return (EVERYTHING, "everything") if group is None else (GROUP + group, f"group {group}")


def _told(body: PauseKind) -> dict[str, str]:
    """What the audit log tells of a pause."""
    told = {"reason": body.reason}
    return told if body.until is None else {**told, "until": body.until}
