"""The rules of sweeps: ranges and how they lie beside each other, rounds, progress.

A range is (begin, end]; None is an open end. `breakpoint` is the last key up to which all is done,
`read_to` the last one that is reserved. Keys are compared for equality only, so the order of ranges
is how they follow each other: the end of one is the begin of the next.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from statistics import median_low
from typing import NamedTuple, TypeGuard

from windlass.clock import SECOND, to_datetime
from windlass.errors import BadDeclaration, BadInput
from windlass.value.audit import Audit, found
from windlass.value.key import Key, decoded, shown
from windlass.value.status import Status

MOST_RANGES = 4_096
# What has not been heard of for so long has no speed.
SPEED_GOOD_FOR = 10 * SECOND
# A range is a straggler if it needs so many times as long as the others, and longer than that.
STRAGGLES_BY = 2.0
LATER_THAN_ALL = 1.5
STRAGGLES_SECONDS = 10.0
# A worker begins no round earlier than that after the one before, and after one without a row.
SHORTEST_ROUND = 1 * SECOND
EMPTY_ROUND = 10 * SECOND


class Order(Enum):
    """Which ranges are begun first."""

    ASC = "asc"
    DESC = "desc"
    RANDOM = "random"


@dataclass(frozen=True)
class SweepTerms:
    """What the declaration of a sweep says. `redo` is in microseconds; None stops after a round."""

    ranges: int
    redo: int | None
    batch: int
    order: Order = Order.ASC
    many: bool = False
    key_only: bool = False
    steal: bool = True


class Range(NamedTuple):
    """A range as its row has it; keys are their texts, times microseconds."""

    id: int
    sweep: str
    round: int
    begin: str | None
    end: str | None
    breakpoint: str | None
    read_to: str | None
    status: Status
    batch: int | None
    worker: int | None
    done: int
    failed: int
    repeated: int
    # About how many rows it has in all; 0 if nobody knows.
    rows: int
    per_second: float
    lost: int
    lost_at: str | None
    # Up to here items may have been run before, by a worker that died.
    again_to: str | None
    # Whether they run one by one, as one of them may have killed its workers.
    is_careful: bool
    saved_at: int | None

    @property
    def is_open(self) -> bool:
        """Whether some of it is still to be done."""
        return self.status is not Status.SUCCEEDED

    @property
    def is_free(self) -> bool:
        """Whether a worker may claim it: it waits, or it fell with its worker."""
        return self.is_open and self.batch is None

    @property
    def is_untouched(self) -> bool:
        """Whether nothing of it was ever reserved, also by one who did not get past its begin."""
        is_new = self.begin == self.breakpoint == self.read_to and self.again_to is None
        is_free = self.status is Status.WAITING and self.batch is None
        return is_free and is_new and not self.is_careful

    @property
    def floor(self) -> str | None:
        """Where a split may begin: after what is reserved, or was by a worker that died."""
        return self.read_to if self.again_to is None else self.again_to

    @property
    def left(self) -> int:
        """About how many rows are still to be done; at least one while it is open."""
        return max(1, self.rows - self.done - self.failed) if self.is_open else 0

    @property
    def is_counted(self) -> bool:
        """Whether anybody knows about how many rows it has."""
        return self.rows > 0

    def speed(self, now: int) -> float:
        """Items a second, if it was heard of lately."""
        is_heard = self.saved_at is not None and now - self.saved_at < SPEED_GOOD_FOR
        return self.per_second if is_heard and self.status is Status.RUNNING else 0.0


@dataclass(frozen=True)
class RangeView:
    """A range as people see it: it holds the keys after `begin` up to `end`; None is open."""

    id: int
    begin: Key | None
    end: Key | None
    breakpoint: Key | None
    read_to: Key | None
    status: Status
    done: int
    failed: int
    repeated: int
    rows_estimate: int | None
    rate: float
    owner: int | None
    heartbeat_at: datetime | None
    is_straggler: bool

    @property
    def percent(self) -> float | None:
        """How much of it is done, by the estimate of its rows; None if there is none."""
        if self.status is Status.SUCCEEDED:
            return 100.0
        if self.rows_estimate is None:
            return None
        return min(99.9, 100 * (self.done + self.failed) / max(1, self.rows_estimate))


class Round(NamedTuple):
    """A round that ended, or the one that runs. Times are microseconds."""

    round: int
    started_at: int
    ended_at: int | None
    done: int
    failed: int
    repeated: int
    ranges: int


@dataclass(frozen=True)
class RoundView:
    """A round as people see it."""

    round: int
    started_at: datetime
    ended_at: datetime | None
    duration: timedelta
    done: int
    failed: int
    repeated: int
    ranges: int
    rate: float


@dataclass(frozen=True)
class Progress:
    """How far a sweep is. `total` is an estimate, and so are `percent` and `eta`.

    `eta` is how long the round will take from now on. All three are None if nobody knows: if the
    source does not count its rows.
    """

    sweep: str
    round: int
    is_running: bool
    percent: float | None
    done: int
    failed: int
    repeated: int
    total: int | None
    rate: float
    eta: timedelta | None
    started_at: datetime | None
    ended_at: datetime | None
    next_at: datetime | None
    error: str | None
    why: str
    ranges: tuple[RangeView, ...] = ()
    history: tuple[RoundView, ...] = ()


@dataclass(frozen=True)
class SetAside:
    """An item that failed, and how."""

    key: Key
    error: str
    round: int
    failed_at: datetime
    tries: int

    @property
    def shown(self) -> str:
        """The key for people."""
        return shown(self.key)


@dataclass(frozen=True)
class SweepVisit:
    """What came of visiting one key; not `is_new` if its last visit was fresh enough."""

    key: Key
    status: Status
    error: str | None
    visited_at: datetime
    is_new: bool


# Between what people know a source by and what its keys are.
BESIDE = " | "


def described(source: object, name: str) -> str:
    """What a row says of a source: its name, and what the keys of its rows are.

    Ranges that were cut by keys of one kind mean nothing to a source with keys of another.
    """
    parts = [getattr(source, part, None) for part in ("schema", "table", "key", "key_columns")]
    told = [str(part) for part in parts if isinstance(part, str | tuple | list)]
    return name + BESIDE + " ".join([type(source).__name__, *told])


def has_same_keys(one: str | None, other: str | None) -> bool:
    """Whether two descriptions tell of the same keys, as far as they tell of any."""
    texts = [text for text in (one, other) if text is not None and BESIDE in text]
    return len({text.rpartition(BESIDE)[2] for text in texts}) < 2


def check_ranges(sweep: str, count: object) -> int:
    """`count`, if a sweep can be cut into so many ranges."""
    if not _is_ranges(count):
        raise BadInput(
            f"sweep {sweep!r}: cannot split into {count!r} ranges; "
            f"give a number from 1 to {MOST_RANGES}"
        )
    return count


def declared_ranges(count: object) -> int:
    """`count`, if a sweep can be declared with so many ranges."""
    if not _is_ranges(count):
        raise BadDeclaration(f"sweep: ranges={count!r} is not a number from 1 to {MOST_RANGES}")
    return count


def _is_ranges(count: object) -> TypeGuard[int]:
    if isinstance(count, bool) or not isinstance(count, int):
        return False
    return 1 <= count <= MOST_RANGES


def check_limit(limit: object) -> int:
    """`limit`, if so many things can be listed."""
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
        raise BadInput(f"limit={limit!r} is not a number from 1 on")
    return limit


def check_order(order: object) -> Order:
    """The order that `order` names."""
    try:
        return Order(order)
    except ValueError:
        names = ", ".join(repr(each.value) for each in Order)
        raise BadDeclaration(f"sweep: order={order!r} is not one of {names}") from None


class Tile(NamedTuple):
    """What a new range holds, and about how many rows; 0 if nobody knows."""

    begin: str | None
    end: str | None
    rows: int


def tiles(bounds: Sequence[str], total: int | None) -> list[Tile]:
    """The ranges that `bounds` cut the key space into; the first and the last are open."""
    edges: list[str | None] = [None, *dict.fromkeys(bounds), None]
    rows = -(-(total or 0) // (len(edges) - 1))
    return [Tile(begin, end, rows) for begin, end in itertools.pairwise(edges)]


def in_order(ranges: Iterable[Range]) -> list[Range]:
    """Ranges as they follow each other; what cannot be reached from the first comes last."""
    rest = sorted(ranges, key=lambda each: each.id)
    by_begin: dict[str | None, list[Range]] = {}
    for each in rest:
        by_begin.setdefault(each.begin, []).append(each)
    ordered: list[Range] = []
    place: str | None = None
    while by_begin.get(place):
        following = by_begin[place].pop(0)
        ordered.append(following)
        place = following.end
        if place is None:
            break
    return ordered + [each for each in rest if each not in ordered]


def audit(ranges: Iterable[Range]) -> Audit:
    """Whether the ranges of a round tile the key space: no gap, no overlap, nothing left over."""
    all_ranges = list(ranges)
    problems = [problem for each in all_ranges for problem in _problems(each)]
    begins: dict[str | None, int] = {}
    ends: dict[str | None, int] = {}
    for each in all_ranges:
        for counts, place in ((begins, each.begin), (ends, each.end)):
            counts[place] = counts.get(place, 0) + 1
    for place in sorted({*begins, *ends}, key=lambda text: (text is not None, text)):
        began, ended = begins.get(place, 0), ends.get(place, 0)
        where = "the open end" if place is None else f"key {shown(decoded(place))}"
        if all_ranges and (began, ended) != (1, 1):
            problems.append(f"at {where} {began} ranges begin and {ended} end, not one of each")
    if not problems and all_ranges and len(_reached(all_ranges)) != len(all_ranges):
        problems.append("some ranges lie in a circle that cannot be reached from the first key")
    return found(problems)


def _reached(ranges: Sequence[Range]) -> list[Range]:
    by_begin = {each.begin: each for each in ranges}
    reached: list[Range] = []
    place: str | None = None
    while place in by_begin and len(reached) < len(ranges):
        reached.append(by_begin[place])
        place = reached[-1].end
        if place is None:
            break
    return reached


def _problems(each: Range) -> list[str]:
    problems = []
    if each.begin is not None and each.begin == each.end:
        problems.append(f"range {each.id} is empty: it begins and ends at {each.begin}")
    if each.status is Status.SUCCEEDED:
        if each.breakpoint != each.read_to:
            problems.append(f"range {each.id} is done, but its breakpoint is not all it read")
        if each.end is not None and each.breakpoint != each.end:
            problems.append(f"range {each.id} is done, but its breakpoint is not its end")
    return problems


def next_to_split(ranges: Iterable[Range], *, refused: Iterable[int] = ()) -> Range | None:
    """The open range with the most rows left, of those that are not known to have one key left."""
    refused = set(refused)
    candidates = [each for each in ranges if each.is_open and each.id not in refused]
    return max(candidates, key=lambda each: (each.left, -each.id), default=None)


def next_to_merge(
    ranges: Iterable[Range], *, refused: Iterable[int] = ()
) -> tuple[Range, Range] | None:
    """Two untouched neighbours with the fewest rows together."""
    refused = set(refused)
    ordered = in_order(ranges)
    pairs = [
        (one, other)
        for one, other in itertools.pairwise(ordered)
        if one.end is not None and one.end == other.begin
        if one.is_untouched and other.is_untouched and one.id not in refused
    ]
    return min(pairs, key=lambda pair: pair[0].left + pair[1].left, default=None)


def stragglers(ranges: Iterable[Range], now: int) -> set[int]:
    """Running ranges that will end long after the others; with nobody to compare, none."""
    speeds = {
        each: speed
        for each in ranges
        if each.status is Status.RUNNING and (speed := each.speed(now)) > 0
    }
    if len(speeds) < 2:
        return set()
    needs = {each.id: each.left / speed for each, speed in speeds.items()}
    # Where a rate is shared unevenly some are slow, but not later than all of it will be.
    whole = sum(each.left for each in speeds) / sum(speeds.values())
    late = max(LATER_THAN_ALL * whole, STRAGGLES_BY * median_low(needs.values()))
    return {number for number, seconds in needs.items() if seconds > max(late, STRAGGLES_SECONDS)}


class Estimate(NamedTuple):
    """How far a round is, as far as that can be known."""

    percent: float | None
    eta_seconds: float | None


def estimate(ranges: Sequence[Range], *, total: int | None, rate: float) -> Estimate:
    """How much of the rows is done, and how long the rest takes at that rate."""
    if ranges and not any(each.is_open for each in ranges):
        return Estimate(100.0, 0.0)
    done = sum(each.done + each.failed for each in ranges)
    known = sum(each.rows for each in ranges) if total is None else total
    if ranges and total is None and not known:
        return Estimate(None, None)
    left = max(known - done, sum(1 for each in ranges if each.is_open))
    percent = min(99.9, 100 * done / max(1, done + left)) if ranges else 0.0
    return Estimate(percent, left / rate if rate > 0 else None)


def next_round_at(*, ended_at: int, redo: int | None) -> int | None:
    """When the next round is due; None if nobody asked for one."""
    return None if redo is None else ended_at + redo


def may_begin_at(*, started_at: int | None, rows: int) -> int:
    """The first moment at which a worker begins the next round, however short the last one was."""
    if started_at is None:
        return 0
    return started_at + (SHORTEST_ROUND if rows else EMPTY_ROUND)


def range_view(each: Range, now: int, straggling: set[int]) -> RangeView:
    """A range for people."""
    return RangeView(
        id=each.id,
        begin=decoded(each.begin),
        end=decoded(each.end),
        breakpoint=decoded(each.breakpoint),
        read_to=decoded(each.read_to),
        status=each.status,
        done=each.done,
        failed=each.failed,
        repeated=each.repeated,
        rows_estimate=each.rows if each.is_counted else None,
        rate=each.speed(now),
        owner=each.worker if each.status is Status.RUNNING and each.batch is not None else None,
        heartbeat_at=None if each.saved_at is None else to_datetime(each.saved_at),
        is_straggler=each.id in straggling,
    )


def round_view(each: Round, now: int) -> RoundView:
    """A round for people."""
    took = (each.ended_at or now) - each.started_at
    return RoundView(
        round=each.round,
        started_at=to_datetime(each.started_at),
        ended_at=None if each.ended_at is None else to_datetime(each.ended_at),
        duration=timedelta(microseconds=took),
        done=each.done,
        failed=each.failed,
        repeated=each.repeated,
        ranges=each.ranges,
        rate=(each.done + each.failed) * SECOND / max(1, took),
    )


@dataclass(frozen=True)
class Loss:
    """What a claim makes of a range that fell with its worker."""

    lost: int
    lost_at: str | None
    again_to: str | None
    is_careful: bool
    # Whether the one item in flight is to blame: it ran alone, and its worker died again.
    is_poison: bool = False


def lose(abandoned: Range, *, max_lost: int) -> Loss:
    """What is known of a range whose worker has just been found dead.

    Losses at one breakpoint count together. With one life left its items run one by one, each with
    nothing beside it, up to where the last heartbeat had read; whatever is in flight when that worker
    dies too is what kills them.
    """
    is_same = abandoned.lost > 0 and abandoned.lost_at == abandoned.breakpoint
    lost = abandoned.lost + 1 if is_same else 1
    has_flown = abandoned.read_to != abandoned.breakpoint
    again_to = abandoned.again_to
    if again_to is None and has_flown:
        again_to = abandoned.read_to
    if abandoned.is_careful:
        return Loss(lost, abandoned.breakpoint, again_to, True, is_poison=has_flown)
    is_careful = again_to is not None and lost >= max(1, max_lost - 1)
    return Loss(lost, abandoned.breakpoint, again_to, is_careful)
