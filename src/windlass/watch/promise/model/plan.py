"""A plan: what a change of workers or limits would do to the ring, to rounds and to promises."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from windlass.errors import BadInput
from windlass.ring import assign
from windlass.value.bucket import BUCKETS
from windlass.value.rate import rate_text
from windlass.watch.promise.model.pace import KindPace
from windlass.watch.promise.model.promise import PromiseState

MOST_WORKERS = 10_000
WORKERS = re.compile(r"([+-]?)([0-9]{1,6})")

# What no forecast knows; a plan always says it.
UNKNOWNS = (
    "Workers are taken to be alike: twice as many do twice as much, if the database keeps up.",
    "What will be enqueued is not known: only rows and items that are there count.",
    "A new worker gets its place on the ring when it joins: which buckets move is an example.",
)


@dataclass(frozen=True)
class PlannedChange:
    """What would be changed. A rate of 0 stands for no rate."""

    workers: str | None = None
    rates: Mapping[str, float] = field(default_factory=dict)
    concurrency: Mapping[str, int] = field(default_factory=dict)
    ranges: Mapping[str, int] = field(default_factory=dict)

    def workers_after(self, now: int) -> int:
        """How many workers there would be of `now`."""
        return now if self.workers is None else wanted_workers(self.workers, now)

    def pace(self, kind: str, before: KindPace, *, more: int) -> KindPace:
        """The pace of a kind after the change, with `more` workers, or fewer."""
        return before.changed(
            workers=max(0, before.workers + more),
            rate=self.rates.get(kind),
            concurrency=self.concurrency.get(kind),
            ranges=self.ranges.get(kind),
        )


@dataclass(frozen=True)
class RingPlan:
    """The ring of one database before and after, with the most buckets that a worker owns.

    `moving` is how many buckets change hands.
    """

    database: str
    workers_before: int
    workers_after: int
    buckets_before: int
    buckets_after: int
    moving: int


@dataclass(frozen=True)
class KindPlan:
    """A kind before and after. Rates are per second and what is possible; null is unknown.

    `ends_before` and `ends_after` are when the round of a sweep ends. `basis` says what the
    forecast is made from.
    """

    kind: str
    face: str
    workers_before: int
    workers_after: int
    rate_before: float | None
    rate_after: float | None
    needed_rate: float | None
    ends_before: datetime | None
    ends_after: datetime | None
    promise: str | None
    state_before: PromiseState | None
    state_after: PromiseState | None
    forecast_before: str
    forecast_after: str
    cure: str | None
    basis: str


@dataclass(frozen=True)
class ChangePlan:
    """What a change would do. Nothing is changed. `unknown` is what no forecast knows."""

    change: list[str]
    rings: list[RingPlan]
    kinds: list[KindPlan]
    unknown: list[str]
    missing: tuple[str, ...] = ()


def read_workers(given: str) -> tuple[str, int]:
    """The sign and the number of "+2", "-1" or "4"."""
    found = WORKERS.fullmatch(given.strip())
    if found is None:
        raise BadInput(f"workers: cannot read {given!r}; write +2, -1 or 4")
    return found[1], int(found[2])


def wanted_workers(given: str, now: int) -> int:
    """The number of workers that "+2", "-1" or "4" makes of `now`."""
    sign, number = read_workers(given)
    wanted = now + number if sign == "+" else now - number if sign == "-" else number
    if wanted < 0:
        raise BadInput(f"workers: {given} of {now} leaves {wanted}; there cannot be fewer than 0")
    if wanted > MOST_WORKERS:
        raise BadInput(f"workers: {wanted:,} are too many; give at most {MOST_WORKERS:,}")
    return wanted


def plan_ring(database: str, members: Sequence[int], wanted: int) -> RingPlan:
    """The ring with `wanted` workers. Workers that joined last leave first."""
    before = assign(members)
    staying = sorted(members)[:wanted]
    joining = [f"new worker {number}" for number in range(1, wanted - len(staying) + 1)]
    after = assign(list[int | str]([*staying, *joining]))
    owner = {bucket: member for member, run in before.items() for bucket in run}
    moving = sum(
        owner[bucket] != member for member, run in after.items() for bucket in run if owner
    )
    if not owner or not after:
        moving = BUCKETS if bool(owner) != bool(after) else 0
    return RingPlan(
        database=database,
        workers_before=len(before),
        workers_after=len(after),
        buckets_before=max((len(run) for run in before.values()), default=0),
        buckets_after=max((len(run) for run in after.values()), default=0),
        moving=moving,
    )


def possible_rate(pace: KindPace) -> float | None:
    """What a kind can reach on average over a week; None if unknown."""
    speed = pace.speed
    return None if speed is None else speed * pace.share


def basis_of(pace: KindPace) -> str:
    """What a forecast is made from."""
    parts = []
    seconds = pace.seconds_a_run
    if seconds is None:
        parts.append("no run in the last 10 minutes, so its speed is not known")
    else:
        parts.append(f"{_duration(seconds)} a run, {rate_text(pace.measured)} in the last minutes")
    workers = "1 worker" if pace.workers == 1 else f"{pace.workers} workers"
    parts.append(f"{workers}, each runs up to {pace.at_once} at once")
    if pace.most_workers is not None:
        parts.append(f"{pace.most_workers} open ranges")
    if pace.setting.rate is not None:
        parts.append(f"rate {rate_text(pace.setting.rate)}")
    if pace.setting.window is not None:
        parts.append(f"window {pace.setting.window}")
    return "; ".join(parts)


def _duration(seconds: float) -> str:
    return f"{seconds:,.1f} s" if seconds >= 1 else f"{max(1.0, seconds * 1_000):.0f} ms"
