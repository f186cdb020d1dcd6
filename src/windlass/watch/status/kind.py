"""Kinds: what is declared, what holds for it, and how it is doing."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, cast

from windlass.core.shard.fleet import Fleet
from windlass.core.task.kind import Kind, Registry
from windlass.errors import UnknownKind
from windlass.value.duration import format_duration
from windlass.value.payload import ArgumentView, argument_views
from windlass.value.rate import rate_text
from windlass.watch.status import operate as status
from windlass.watch.status.model import KindStatus
from windlass.watch.status.pace import HOUR, Minute, pace

Family = Literal["task", "cron", "rolling", "sweep", "flow", "external", "unknown"]


@dataclass(frozen=True)
class DeclaredView:
    """What the code declares; an operator may have set other values."""

    summary: str
    arguments: list[ArgumentView]
    retries: int
    timeout: str | None
    rate: str | None
    window: str | None
    concurrency: int | None
    priority: int
    breaker: str | None


@dataclass(frozen=True)
class KindView(KindStatus):
    """A kind. Counts are exact up to 10,000; `why` says why it runs or does not."""

    family: Family
    declared: DeclaredView | None


@dataclass(frozen=True)
class KindDetail:
    """A kind, and what was done of it in the last hour, minute by minute."""

    kind: KindView
    minutes: list[Minute]


def listing(fleet: Fleet, registry: Registry) -> list[KindView]:
    """All kinds that are declared, or have rows."""
    return kind_views(status.look(fleet, registry).kinds, registry)


def show(fleet: Fleet, registry: Registry, name: str) -> KindDetail:
    """One kind."""
    found = status.look_at(fleet, registry, name)
    if found is None:
        raise UnknownKind(name, list(registry.kinds))
    (kind,) = kind_views([found], registry)
    return KindDetail(kind, pace(fleet, kind=name, minutes=HOUR))


def kind_views(found: Iterable[KindStatus], registry: Registry) -> list[KindView]:
    """How kinds are doing, with what the code declares of them."""
    return [_view(each, registry.kinds.get(each.kind)) for each in found]


def _view(found: KindStatus, kind: Kind | None) -> KindView:
    declared = None if kind is None else _declared(kind)
    return KindView(**vars(found), family=_family(kind), declared=declared)


def _family(kind: Kind | None) -> Family:
    if kind is None:
        return "unknown"
    if kind.face == "task":
        return "task" if kind.schedule is None else "cron"
    return cast(Family, kind.face)


def _declared(kind: Kind) -> DeclaredView:
    terms = kind.breaker
    breaker = None
    if terms is not None:
        breaker = f"{terms.errors} in a row, {format_duration(terms.pause)}"
    return DeclaredView(
        summary=(inspect.getdoc(kind.function) or "").partition("\n")[0],
        arguments=argument_views(kind.arguments.signature),
        retries=max(kind.terms.retry.retries.values(), default=0),
        timeout=None if kind.timeout is None else format_duration(kind.timeout),
        rate=None if kind.rate is None else rate_text(kind.rate),
        window=None if kind.window is None else kind.window.text,
        concurrency=kind.concurrency,
        priority=kind.priority,
        breaker=breaker,
    )
