"""What people see of rolling kinds: an item, a mirror, how fresh all items are."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

import msgspec

from windlass.core.task.kind import optional_duration, positive
from windlass.core.task.many import ManyOptions
from windlass.core.task.option import CommonOptions, IsolateOptions, SpeedOptions
from windlass.errors import BadArgument, BadDeclaration
from windlass.value.duration import Duration, parse_duration
from windlass.value.payload import Arguments
from windlass.value.period import Period, parse_tick
from windlass.value.status import Status
from windlass.view.field import exposed

# Options of other kinds, and what to write instead.
NO_WITHIN = {"within": "what a rolling kind promises is its period: give every="}


class Item(msgspec.Struct, frozen=True):
    """One item. `status` is how its last visit ended, or that it is running."""

    code: str
    status: Status
    started_at: datetime | None
    finished_at: datetime | None
    due_at: datetime | None
    remark: str | None

    @property
    @exposed
    def key(self) -> str:
        """The code, under the name that the API and `--json` give it."""
        return self.code


@dataclass(frozen=True)
class Mirror:
    """What a mirror changed, or would change."""

    added: int
    removed: int
    dry_run: bool = False


@dataclass(frozen=True)
class Freshness:
    """How fresh the items of a rolling kind are. Counts are exact below 10,000, rates per second.

    `overdue` items were last visited, or added, more than a period ago. `oldest_age` is the time
    since the oldest of those moments. `forecast` says in words whether the promise will hold;
    `breaks_at` is when it will break, and `head_room` the possible speed divided by the needed.
    `missing` names the shards that do not answer: their items are not counted.
    """

    total: int
    never_visited: int
    due: int
    overdue: int
    oldest_age: timedelta
    needed_rate: float
    actual_rate: float
    forecast: str
    breaks_at: datetime | None = None
    head_room: float | None = None
    missing: tuple[str, ...] = ()


@dataclass(frozen=True)
class RollingKind:
    """A rolling kind and its period."""

    kind: str
    every: str
    every_seconds: float


@dataclass(frozen=True)
class RollingView(Freshness, RollingKind):
    """How fresh the items of a kind are. Counts are exact below 10,000, rates per second."""


@dataclass(frozen=True)
class Bar:
    """How many items were last visited this long ago; the last bar has no end."""

    from_seconds: float
    to_seconds: float | None
    count: int
    is_late: bool


@dataclass(frozen=True)
class Histogram:
    """The ages of all items: the time since the last visit, counted up to 20,000 items.

    `promise_seconds` is the age that no item should exceed. Items that were never visited are
    counted apart; an estimate puts them where their due time is.
    """

    bars: list[Bar]
    never_visited: int
    promise_seconds: float
    is_estimate: bool


@dataclass(frozen=True)
class RollingDetail:
    """A rolling kind, and the ages of its items."""

    freshness: RollingView
    histogram: Histogram


class RollingOptions(CommonOptions, SpeedOptions, ManyOptions, IsolateOptions, total=False):
    """The options of a rolling kind, beside its period."""

    priority: int
    finish_timeout: Duration
    logs: int


def make_period(
    every: Duration, *, batch: int, tick: Duration | None, retry_after: Duration | None
) -> Period:
    """How often items are visited, or an error that names the option that is wrong."""
    return Period(
        every=parse_duration(every, what="rolling: every"),
        retry_after=optional_duration(retry_after, "rolling: retry_after", zero=True),
        tick=None if tick is None else parse_tick(tick, what="rolling: tick"),
        batch=positive(batch, "rolling: batch") or 1,
    )


def check_takes_a_code(name: str, arguments: Arguments) -> None:
    """Refuse a handler that cannot be called with the code of an item."""
    try:
        arguments.encode(("code",), {}, largest=1_000)
    except BadArgument as problem:
        raise BadDeclaration(
            f"rolling {name!r}: its handler is called with one argument, the code of an item as "
            f"text; write def {name}(code: str), or with many= def {name}(codes: list[str])"
        ) from problem
