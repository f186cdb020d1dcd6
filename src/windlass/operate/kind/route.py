"""Kinds: what is declared, what holds for it, and how it is doing."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Sequence
from typing import Literal

from fastapi import APIRouter

from windlass.core.task.kind import Kind
from windlass.errors import UnknownKind
from windlass.operate import fan_out as gather
from windlass.value.breaker import Terms
from windlass.value.duration import format_duration
from windlass.watch.status.operate import KindStatus, rate_text
from windlass.watch.status.pace import HOUR, Minute, pace
from windlass.web.problem import problems
from windlass.web.request import Console, KindName, ReadyConsole
from windlass.web.view import Moment, View

router = APIRouter(tags=["kinds"])

Family = Literal["task", "cron", "rolling", "sweep", "flow", "external", "unknown"]


class MinuteOut(View):
    """What was done in one minute."""

    at: Moment
    done: int
    failed: int
    retried: int
    average_milliseconds: float | None


class ArgumentOut(View):
    """An argument of a handler."""

    name: str
    type: str
    required: bool


class DeclaredOut(View):
    """What the code declares; what holds now may have been set otherwise."""

    summary: str
    arguments: list[ArgumentOut]
    retries: int
    timeout: str | None
    rate: str | None
    window: str | None
    concurrency: int | None
    priority: int
    breaker: str | None


class KindOut(View):
    """A kind. Counts are exact up to 10,000; `why` says why it runs or does not."""

    kind: str
    family: Family
    is_declared: bool
    cron: str | None
    every: str | None
    sweep: str | None
    next_due_at: Moment | None
    waiting: int
    due: int
    running: int
    failed: int
    done_last_hour: int
    failed_last_hour: int
    average_milliseconds: float | None
    paused: bool
    reason: str | None
    who: str | None
    since: Moment | None
    opens_at: Moment | None
    probe_at: Moment | None
    rate: str | None
    window: str | None
    concurrency: int | None
    breaker: str
    why: str
    is_held_back: bool
    declared: DeclaredOut | None


class KindDetail(View):
    """A kind, and what was done of it in the last hour, minute by minute."""

    kind: KindOut
    minutes: list[MinuteOut]


@router.get("/kinds")
def kinds(console: ReadyConsole) -> list[KindOut]:
    """All kinds that are declared, or have rows."""
    return kind_views(console, gather.look(console.app.fleet, console.app.registry).kinds)


@router.get("/kinds/{kind}", responses=problems(404))
def kind(kind: KindName, console: ReadyConsole) -> KindDetail:
    """One kind."""
    found = gather.look_at(console.app.fleet, console.app.registry, kind)
    if found is None:
        raise UnknownKind(kind, list(console.app.registry.kinds))
    made = minutes(pace(console.app.fleet, kind=kind, minutes=HOUR))
    return KindDetail(kind=_view(console, found), minutes=made)


def kind_views(console: Console, found: Iterable[KindStatus]) -> list[KindOut]:
    """Kinds as the API shows them."""
    return [_view(console, each) for each in found]


def minutes(found: Sequence[Minute]) -> list[MinuteOut]:
    """Minutes as the API shows them."""
    return [MinuteOut.model_validate(each) for each in found]


def arguments_out(kind: Kind) -> list[ArgumentOut]:
    """The arguments that a handler takes."""
    return [
        ArgumentOut(
            name=name,
            type=_type(parameter.annotation),
            required=parameter.default is parameter.empty,
        )
        for name, parameter in kind.arguments.signature.parameters.items()
    ]


def _view(console: Console, found: KindStatus) -> KindOut:
    declared = console.app.registry.kinds.get(found.kind)
    return KindOut.model_validate(
        {
            **vars(found),
            "family": _family(declared),
            "is_held_back": found.is_held_back,
            "declared": None if declared is None else _declared(declared),
        }
    )


def _family(kind: Kind | None) -> Family:
    if kind is None:
        return "unknown"
    if kind.sweep is not None:
        return "sweep"
    if kind.period is not None:
        return "rolling"
    if kind.draw is not None:
        return "flow"
    if kind.system is not None:
        return "external"
    return "task" if kind.schedule is None else "cron"


def _declared(kind: Kind) -> DeclaredOut:
    return DeclaredOut(
        summary=(inspect.getdoc(kind.function) or "").partition("\n")[0],
        arguments=arguments_out(kind),
        retries=max(kind.terms.retry.retries.values(), default=0),
        timeout=None if kind.timeout is None else format_duration(kind.timeout),
        rate=None if kind.rate is None else rate_text(kind.rate),
        window=None if kind.window is None else kind.window.text,
        concurrency=kind.concurrency,
        priority=kind.priority,
        breaker=None if kind.breaker is None else _breaker(kind.breaker),
    )


def _breaker(terms: Terms) -> str:
    return f"{terms.errors} in a row, {format_duration(terms.pause)}"


def _type(annotation: object) -> str:
    if annotation is inspect.Parameter.empty:
        return "any"
    return annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
