"""Downstreams: their limits as they are now, who has their permits, and what each kind takes."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from windlass.clock import Clock
from windlass.core.finish import store as finish_store
from windlass.core.finish.store import MINUTE, Work
from windlass.core.limit import store as limit_store
from windlass.core.limit.adapt import store as adapt_store
from windlass.core.limit.permit import store as permit_store
from windlass.core.limit.permit.share import Holding
from windlass.core.limit.permit.store import LimitNow
from windlass.core.limit.store import SwitchRows
from windlass.core.limit.switch import LimitRows, held_back, setting_of
from windlass.core.shard.fleet import Fleet
from windlass.core.shard.home import limit_home
from windlass.core.shard.shard import OUTAGES, Answers, Shard
from windlass.core.task.downstream import Downstream
from windlass.core.task.kind import Registry
from windlass.database.connection import Connection
from windlass.errors import Unknown
from windlass.value.load.adapt import AdaptPoint
from windlass.value.rate import rate_text
from windlass.view.field import Moment, exposed
from windlass.view.listing import Listing
from windlass.view.said import Spoken, as_said

# Speeds are averages over this many whole minutes.
MINUTES = 5


@dataclass(frozen=True)
class PermitView:
    """The permits of one worker, and how many it could use."""

    worker: int
    held: int
    wanted: int
    waits_since: Moment | None


@dataclass(frozen=True)
class TakeView:
    """What one kind takes of a downstream: averages of the last minutes."""

    kind: str
    starts_per_minute: float
    errors_per_minute: float
    mean_milliseconds: float | None
    held_back: str | None

    @property
    @exposed
    def held(self) -> Spoken | None:
        """`held_back`, with its code and values for other languages."""
        return as_said(self.held_back)


@dataclass(frozen=True)
class LimitView:
    """The limits of a downstream; None is no limit."""

    rate: str | None
    concurrency: int | None
    window: str | None


@dataclass(frozen=True)
class AdaptView:
    """The limits of a downstream that adapts at a moment, and how it answered then."""

    at: Moment
    rate: float | None
    concurrency: int | None
    succeeded_per_second: float
    overloaded_per_second: float
    mean_milliseconds: float | None


@dataclass(frozen=True)
class DownstreamView:
    """A downstream: what it declares, what holds now, and who uses it."""

    name: str
    adapt: bool
    declared: LimitView
    holds: LimitView
    problem: str | None
    off: bool
    breaker: str
    has_breaker: bool
    errors_in_a_row: int
    probe_at: Moment | None
    held_back: str | None
    # The shard that has its rate, its permits and its breaker.
    home: str
    permits_held: int
    permits_wanted: int
    permits: list[PermitView]
    kinds: list[TakeView]
    # How its limits went, oldest first, if it adapts.
    history: list[AdaptView]
    missing: tuple[str, ...]

    @property
    @exposed
    def held(self) -> Spoken | None:
        """`held_back`, with its code and values for other languages."""
        return as_said(self.held_back)


class Gauges(NamedTuple):
    """The numbers of a downstream for metrics: its limits as they are now, and its use."""

    name: str
    rate: float | None
    concurrency: int | None
    in_use: int
    is_held_back: bool


class _Found(NamedTuple):
    """What one shard knows."""

    switches: SwitchRows
    lowered: dict[str, LimitNow]
    holdings: dict[str, list[Holding]]
    work: dict[str, Work]
    history: dict[str, list[AdaptPoint]]


def listing(fleet: Fleet, registry: Registry, clock: Clock) -> Listing[DownstreamView]:
    """All declared downstreams, by name."""
    # A list has the limits as they are; only one of them is shown with its history.
    answers, now = _read(fleet, clock, []), clock.now()
    declared = sorted(registry.downstreams.items())
    views = [_view(fleet, registry, each, answers, now) for _, each in declared]
    return Listing(views, answers.missing)


def gauges(fleet: Fleet, registry: Registry, clock: Clock) -> list[Gauges]:
    """The numbers of all declared downstreams, by name."""
    answers, now = _read(fleet, clock, []), clock.now()
    made = []
    for name, each in sorted(registry.downstreams.items()):
        there = _at_home(_home(fleet, name), answers)
        holds = LimitRows(there.switches, there.lowered).of(each, at=now)
        in_use = sum(holding.held for holding in there.holdings.get(name, []))
        is_held_back = held_back(each, there.switches.alone(name), now=now) is not None
        made.append(Gauges(name, holds.rate, holds.concurrency, in_use, is_held_back))
    return made


def show(fleet: Fleet, registry: Registry, clock: Clock, *, name: str) -> DownstreamView:
    """One downstream."""
    found = registry.downstreams.get(name)
    if found is None:
        known = ", ".join(sorted(registry.downstreams)) or "none"
        raise Unknown(f"{name!r} is not a downstream of this app; declared: {known}")
    return _view(
        fleet, registry, found, _read(fleet, clock, [name] if found.adapt else []), clock.now()
    )


def _read(fleet: Fleet, clock: Clock, adapting: Collection[str]) -> Answers[_Found]:
    since = clock.now() // MINUTE - MINUTES

    def look(shard: Shard) -> _Found:
        has_permits = shard.database.schema.has(permit_store.MIGRATION)

        def read(connection: Connection) -> _Found:
            # The minute that is not over would make every average too low.
            until = since + MINUTES
            return _Found(
                limit_store.switches(connection),
                permit_store.lowered(connection) if has_permits else {},
                permit_store.all_holdings(connection) if has_permits else {},
                finish_store.work_between(connection, since=since, until=until),
                {name: adapt_store.history(connection, name) for name in adapting},
            )

        return shard.database.read(read)

    fleet.prepare()
    return fleet.ask(look)


def _view(
    fleet: Fleet, registry: Registry, downstream: Downstream, answers: Answers[_Found], now: int
) -> DownstreamView:
    name = downstream.name
    home = _home(fleet, name)
    there = _at_home(home, answers)
    row = there.switches.alone(name)
    holds = LimitRows(there.switches, there.lowered).of(downstream, at=now)
    holdings = there.holdings.get(name, [])
    return DownstreamView(
        name=name,
        adapt=downstream.adapt,
        declared=_limits(downstream.rate, downstream.concurrency, downstream.window),
        holds=_limits(holds.rate, holds.concurrency, holds.window),
        problem=setting_of(downstream, row, now=now).problem,
        off=row.is_off(now),
        breaker=str(row.breaker.state),
        has_breaker=downstream.breaker is not None,
        errors_in_a_row=row.breaker.errors_in_a_row,
        probe_at=row.breaker.probe_at,
        held_back=held_back(downstream, row, now=now),
        home=home.name if home is not None else "unknown: its shard does not answer",
        permits_held=sum(each.held for each in holdings),
        permits_wanted=sum(each.wanted for each in holdings),
        permits=[PermitView(each.worker, *each[1:4]) for each in holdings if each.wanted],
        kinds=_takes(registry, downstream, answers.values, there, now),
        history=[
            AdaptView(*msgspec.structs.astuple(point)) for point in there.history.get(name, [])
        ],
        missing=answers.missing,
    )


def _at_home(home: Shard | None, answers: Answers[_Found]) -> _Found:
    """What its home knows of a downstream; without an answer, what all shards know."""
    found = next((found for shard, found in answers.found if shard is home), None)
    return found or answers.values[0]._replace(lowered={}, holdings={}, history={})


def _home(fleet: Fleet, name: str) -> Shard | None:
    try:
        return limit_home(fleet, name)
    except OUTAGES:
        return None


def _limits(rate: float | None, concurrency: int | None, window: object) -> LimitView:
    text = getattr(window, "text", None)
    return LimitView(None if rate is None else rate_text(rate), concurrency, text)


def _takes(
    registry: Registry, downstream: Downstream, found: list[_Found], there: _Found, now: int
) -> list[TakeView]:
    takes = []
    for name, kind in sorted(registry.kinds.items()):
        if downstream not in kind.downstreams:
            continue
        work = [each.work[name] for each in found if name in each.work]
        errors = sum(each.failed + each.retried for each in work)
        ended = errors + sum(each.done for each in work)
        spent = sum(each.milliseconds for each in work)
        row = there.switches.of(name, kind.group)
        takes.append(
            TakeView(
                kind=name,
                starts_per_minute=ended / MINUTES,
                errors_per_minute=errors / MINUTES,
                mean_milliseconds=spent / ended if ended else None,
                held_back=held_back(kind, row, now=now, others=there.switches),
            )
        )
    return takes
