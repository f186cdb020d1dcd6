"""The values and rules of sweeps: ranges, rounds, progress.

A range holds the keys after `begin` up to `end`; None is an open end. All keys up to `breakpoint`
are done, all up to `read_to` are reserved. Only the source knows the order of keys, and here they
are compared for equality only: the end of one range is the begin of the next.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import Enum
from hashlib import blake2b
from statistics import median_low
from typing import NamedTuple, Self

from windlass.clock import SECOND, to_datetime
from windlass.core.task.kind import Kind
from windlass.core.task.sweep_run import GivenRun
from windlass.source.contract import Key, SweepSource, decoded, name_of, shown
from windlass.source.given import GivenAtStart
from windlass.value.status import Status
from windlass.view.audit import Audit, found
from windlass.view.field import StoredKey, exposed
from windlass.view.said import Spoken, as_said, say

# The speed of a range counts for this long after its last save.
SPEED_GOOD_FOR = 10 * SECOND
# A straggler needs this many times as long as the median range and as all ranges together, and at
# least these seconds.
STRAGGLES_BY = 2.0
LATER_THAN_ALL = 1.5
STRAGGLES_SECONDS = 10.0
# The shortest time between the starts of two rounds, and the same after a round without rows.
SHORTEST_ROUND = 1 * SECOND
EMPTY_ROUND = 10 * SECOND
# How many keys one statement names at most.
AT_ONCE = 500


class RangeOrder(Enum):
    """Which ranges a worker claims first."""

    ASC = "asc"
    DESC = "desc"
    RANDOM = "random"


@dataclass(frozen=True)
class SweepTerms:
    """What a sweep declares. `redo` is in microseconds; None stops it after one round.

    Without `auto` only `start()` begins a round.
    """

    source: SweepSource
    ranges: int
    redo: int | None
    batch: int
    order: RangeOrder = RangeOrder.ASC
    many: bool = False
    key_only: bool = False
    steal: bool = True
    auto: bool = True
    # The run over a source that was given at its start; None: the sweep itself.
    run: GivenRun | None = None


def hash_of(key: str) -> str:
    """The hash of an encoded key: short enough for an index."""
    return blake2b(key.encode(), digest_size=16).hexdigest()


def is_sweep(kind: Kind | None) -> bool:
    """Whether a kind is a sweep."""
    return kind is not None and isinstance(kind.face_terms, SweepTerms)


def terms_of(kind: Kind) -> SweepTerms:
    """What a sweep declares."""
    assert isinstance(kind.face_terms, SweepTerms)
    return kind.face_terms


def name_of_rows(kind: Kind) -> str:
    """Under which name its rows are: its own, or that of the run which this kind stands for."""
    run = terms_of(kind).run
    return kind.name if run is None else run.name


def has_source(kind: Kind) -> bool:
    """Whether a sweep declares a source, so that it has rounds of its own."""
    return not isinstance(terms_of(kind).source, GivenAtStart)


def for_run(kind: Kind, run: GivenRun, source: SweepSource) -> Kind:
    """The kind as one run of it has it: with the source of the run, and one round."""
    terms = replace(terms_of(kind), source=source, redo=None, auto=False, run=run)
    return replace(kind, face_terms=terms)


def without_rounds(kind: Kind) -> Kind:
    """The kind as a worker has it that begins no round, only what was started."""
    return replace(kind, face_terms=replace(terms_of(kind), redo=None, auto=False))


class SweepRow(NamedTuple):
    """The row of a sweep. Its status is running while a round runs. Times are microseconds."""

    name: str
    status: Status = Status.WAITING
    round: int = 0
    ranges: int = 0
    redo: int | None = None
    rows: int | None = None
    started_at: int | None = None
    ended_at: int | None = None
    due_at: int | None = None
    starter: int | None = None
    stopped_at: int | None = None
    source: str | None = None
    error: str | None = None

    @property
    def is_running(self) -> bool:
        return self.status is Status.RUNNING


class Range(NamedTuple):
    """The row of a range; keys are encoded as text, times are microseconds."""

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
    # About how many rows it has in all; 0 if unknown.
    rows: int
    per_second: float
    lost: int
    lost_at: str | None
    # A worker that died may already have run the items up to here.
    again_to: str | None
    # Whether these items run one at a time, because one of them may have killed its workers.
    is_careful: bool
    saved_at: int | None

    @property
    def is_open(self) -> bool:
        """Whether it is not done."""
        return self.status is not Status.SUCCEEDED

    @property
    def is_free(self) -> bool:
        """Whether a worker may claim it: it waits, or its worker died."""
        return self.is_open and self.batch is None

    @property
    def is_untouched(self) -> bool:
        """Whether no worker ever reserved any of it."""
        is_new = self.begin == self.breakpoint == self.read_to and self.again_to is None
        is_free = self.status is Status.WAITING and self.batch is None
        return is_free and is_new and not self.is_careful

    @property
    def floor(self) -> str | None:
        """The last key that is reserved, or was by a worker that died: it is split after this."""
        return self.read_to if self.again_to is None else self.again_to

    @property
    def left(self) -> int:
        """About how many rows are not done; at least one while it is open."""
        return max(1, self.rows - self.done - self.failed) if self.is_open else 0

    @property
    def is_counted(self) -> bool:
        """Whether its number of rows is known."""
        return self.rows > 0

    def speed(self, now: int) -> float:
        """Items per second; 0 if it was not saved lately."""
        is_recent = self.saved_at is not None and now - self.saved_at < SPEED_GOOD_FOR
        return self.per_second if is_recent and self.status is Status.RUNNING else 0.0


@dataclass(frozen=True)
class RangeView:
    """A range as people see it: the keys after `begin` up to `end`; None is an open end."""

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
    @exposed
    def percent(self) -> float | None:
        """How much of it is done, from the estimate of its rows; None without an estimate."""
        if self.status is Status.SUCCEEDED:
            return 100.0
        if self.rows_estimate is None:
            return None
        return min(99.9, 100 * (self.done + self.failed) / max(1, self.rows_estimate))


@dataclass(frozen=True)
class RoundView:
    """A round that ended."""

    round: int
    started_at: datetime
    ended_at: datetime | None
    duration: timedelta
    done: int
    failed: int
    repeated: int
    ranges: int
    rate: float

    @classmethod
    def of(cls, *, started_at: int, ended_at: int, done: int, failed: int, **others: int) -> Self:
        """The round with these values, as the columns of its row name them."""
        took = ended_at - started_at
        return cls(
            started_at=to_datetime(started_at),
            ended_at=to_datetime(ended_at),
            duration=timedelta(microseconds=took),
            done=done,
            failed=failed,
            rate=(done + failed) * SECOND / max(1, took),
            **others,
        )


@dataclass(frozen=True)
class Progress:
    """How far a sweep is, or one run of it over a source that was given at its start.

    `sweep` is its name, such as `import_file` or, of a run, `import_file@12`; `kind` is the sweep
    in both. `total`, `percent` and `eta`, the time until the round ends, are estimates. They are
    None if the source does not count its rows.
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
    kind: str = ""
    # Of a run: its number, its source for people, and what named it at its start.
    run: int | None = None
    source: str | None = None
    key: str | None = None

    @property
    @exposed
    def says(self) -> Spoken | None:
        """`why`, with its code and values for other languages."""
        return as_said(self.why)


@dataclass(frozen=True)
class SetAside:
    """A failed item: its key, its error, and how often it was tried.

    `known_as` is the key that people know it by, if the source has another one: the value in the
    key column of a CSV file, whose own key is a position. None if the row is not there any more.
    """

    key: StoredKey
    error: str
    round: int
    failed_at: datetime
    tries: int
    known_as: str | None = None

    @property
    @exposed
    def shown(self) -> str:
        """The key for people."""
        return shown(self.key) if self.known_as is None else self.known_as


@dataclass(frozen=True)
class SweepVisit:
    """The result of visiting one key. Unless `is_new`, it is that of an earlier, fresh visit."""

    key: Key
    status: Status
    error: str | None
    visited_at: datetime
    is_new: bool


# Separates the name of a source from the description of its keys.
SEPARATOR = " | "


def described(source: object) -> str:
    """The text about a source in the row of its sweep: its name, and what its keys are.

    A source with other keys cannot use ranges that were cut by the old ones.
    """
    parts = [getattr(source, part, None) for part in ("schema", "table", "key", "key_columns")]
    keys = [str(part) for part in parts if isinstance(part, str | tuple | list)]
    return name_of(source) + SEPARATOR + " ".join([type(source).__name__, *keys])


def has_same_keys(one: str | None, other: str | None) -> bool:
    """Whether two descriptions of sources name the same keys, or one of them names none."""
    texts = [text for text in (one, other) if text is not None and SEPARATOR in text]
    return len({text.rpartition(SEPARATOR)[2] for text in texts}) < 2


class Tile(NamedTuple):
    """The keys of a new range, and about how many rows it has; 0 if unknown."""

    begin: str | None
    end: str | None
    rows: int


def tiles(bounds: Sequence[str], total: int | None) -> list[Tile]:
    """The ranges that `bounds` cut the key space into; the first and the last are open."""
    edges: list[str | None] = [None, *dict.fromkeys(bounds), None]
    rows = -(-(total or 0) // (len(edges) - 1))
    return [Tile(begin, end, rows) for begin, end in itertools.pairwise(edges)]


def in_order(ranges: Iterable[Range]) -> list[Range]:
    """Ranges as they follow each other; those that the chain does not reach come last."""
    by_id = sorted(ranges, key=lambda each: each.id)
    chain = _chain(by_id)
    reached = {each.id for each in chain}
    return chain + [each for each in by_id if each.id not in reached]


def _chain(ranges: Iterable[Range]) -> list[Range]:
    """The range with the open begin, the range that begins where it ends, and so on."""
    by_begin: dict[str | None, list[Range]] = {}
    for each in ranges:
        by_begin.setdefault(each.begin, []).append(each)
    chain: list[Range] = []
    place: str | None = None
    while by_begin.get(place):
        chain.append(by_begin[place].pop(0))
        place = chain[-1].end
        if place is None:
            break
    return chain


def audit(ranges: Iterable[Range]) -> Audit:
    """Whether the ranges of a round tile the key space: no gap, no overlap, nothing left over."""
    all_ranges = list(ranges)
    problems = [problem for each in all_ranges for problem in _problems(each)]
    begins = Counter(each.begin for each in all_ranges)
    ends = Counter(each.end for each in all_ranges)
    for place in sorted({*begins, *ends}, key=lambda text: (text is not None, text)):
        began, ended = begins[place], ends[place]
        if (began, ended) != (1, 1):
            where = "the open end" if place is None else f"key {shown(decoded(place))}"
            problems.append(f"at {where} {began} ranges begin and {ended} end, not one of each")
    if not problems and len(_chain(all_ranges)) != len(all_ranges):
        problems.append("some ranges form a circle that the first key does not lead to")
    return found(problems)


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
    """The open range with the most rows left; `refused` are ranges that could not be cut."""
    refused = set(refused)
    candidates = [each for each in ranges if each.is_open and each.id not in refused]
    return max(candidates, key=lambda each: (each.left, -each.id), default=None)


def next_to_merge(
    ranges: Iterable[Range], *, refused: Iterable[int] = ()
) -> tuple[Range, Range] | None:
    """The two untouched neighbours with the fewest rows; `refused` could not be merged."""
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
    """The ids of running ranges that will end long after the others."""
    speeds = {
        each: speed
        for each in ranges
        if each.status is Status.RUNNING and (speed := each.speed(now)) > 0
    }
    if len(speeds) < 2:
        return set()
    needs = {each.id: each.left / speed for each, speed in speeds.items()}
    # Ranges that get little of a shared rate are slow, but not later than the whole round.
    whole = sum(each.left for each in speeds) / sum(speeds.values())
    late = max(LATER_THAN_ALL * whole, STRAGGLES_BY * median_low(needs.values()))
    return {number for number, seconds in needs.items() if seconds > max(late, STRAGGLES_SECONDS)}


class Estimate(NamedTuple):
    """How far a round is; None where that is unknown."""

    percent: float | None
    eta_seconds: float | None


def estimate(ranges: Sequence[Range], *, total: int | None, rate: float) -> Estimate:
    """How much of the rows is done, and how long the rest takes at `rate`."""
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
    """When the next round is due; None without `redo`."""
    return None if redo is None else ended_at + redo


def may_begin_at(*, started_at: int | None, rows: int) -> int:
    """The earliest moment for the next round, so that short rounds do not follow too fast."""
    if started_at is None:
        return 0
    return started_at + (SHORTEST_ROUND if rows else EMPTY_ROUND)


def sweep_why(
    row: SweepRow | None, found: Iterable[Range], now: int, *, has_source: bool = True
) -> str:
    """Why a sweep does or does not run, in a few words."""
    if not has_source and (row is None or row.stopped_at is None):
        return "start(source=...) begins a run"
    if row is None:
        return say("why.not_found")
    if row.stopped_at is not None:
        return say("why.not_declared")
    if row.error is not None:
        return say("why.source", error=row.error)
    if row.is_running:
        is_owned = any(each.batch is not None for each in found)
        return say("why.running" if is_owned else "why.waits_for_worker")
    if row.due_at is None:
        return say("why.ended" if row.round else "why.not_begun")
    return say("why.round_due" if row.due_at <= now else "why.waits_for_round")


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


@dataclass(frozen=True)
class Loss:
    """What a claim writes into a range whose worker died."""

    lost: int
    lost_at: str | None
    again_to: str | None
    is_careful: bool
    # Whether the item in flight is to blame: it ran alone, and its worker died.
    is_poison: bool = False


def lose(abandoned: Range, *, max_lost: int) -> Loss:
    """What a claim makes of a range whose worker died.

    Losses at the same breakpoint count together. Before the last loss that is allowed, its items
    run one at a time with nothing beside them, up to where the dead worker had read. If that
    worker dies too, the item that ran alone is the poison.
    """
    is_same = abandoned.lost > 0 and abandoned.lost_at == abandoned.breakpoint
    lost = abandoned.lost + 1 if is_same else 1
    was_running = abandoned.read_to != abandoned.breakpoint
    again_to = abandoned.again_to
    if again_to is None and was_running:
        again_to = abandoned.read_to
    if abandoned.is_careful:
        return Loss(lost, abandoned.breakpoint, again_to, True, is_poison=was_running)
    is_careful = again_to is not None and lost >= max(1, max_lost - 1)
    return Loss(lost, abandoned.breakpoint, again_to, is_careful)
