"""Claims: the ways in which a worker gets due rows.

There are two ways. The *owner's read* takes rows of the worker's own buckets and writes nothing.
The *written claim* stamps rows that any worker may take, before they run. Both give a row to one
living worker at a time, with everything that run and finish need.

A transaction that takes rows first takes the worker's fence. A worker that wants to mark this one
dead waits for it; if this one is marked dead already, the transaction takes nothing.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple

from msgspec.structs import replace

from windlass.core.face import Site
from windlass.core.fetch import lane
from windlass.core.fetch import store as fetch_store
from windlass.core.fetch.lane import LaneRow, LaneRules
from windlass.core.fetch.store import Made
from windlass.core.limit.gate import Allowed, Gate
from windlass.core.ring import store as ring_store
from windlass.core.run.chain import Chain
from windlass.core.run.ready import Room
from windlass.core.task.kind import Kind
from windlass.database.connection import Connection
from windlass.database.database import Database
from windlass.database.dialect.base import Most, Stamp, Tier, stamped
from windlass.value.task import Claimed

TAKE_AT_MOST = 1_000


@dataclass(frozen=True)
class DueRules:
    """Which rows of a worker's kinds may be taken now, and how many of them at once."""

    kinds: Mapping[str, Kind]
    # A drain visits each item at most once after this time, so that it ends.
    once_since: int | None

    def is_due(self, tier: Tier, now: int) -> bool:
        return tier.due_at <= self.until(tier.kind, now)

    def until(self, kind: str, now: int) -> int:
        """Rows of a kind that are due by then may be taken now."""
        until = self.kinds[kind].due_until(now)
        period = self.kinds[kind].period
        if self.once_since is None or period is None:
            return until
        return min(until, self.once_since + period.shortest - 1)

    def seconds_until(self, tier: Tier, now: int) -> float:
        return max(0, self.kinds[tier.kind].taken_at(tier.due_at) - now) / 1e6

    def most(self, tier: Tier, limit: int, now: int, *, buckets: range | None = None) -> Most:
        """Up to `limit` rows of a tier that need not run alone."""
        most = Most(limit, self.until(tier.kind, now), range(self.alone_from(tier.kind)))
        return most if buckets is None else most._replace(buckets=buckets)

    def batch(self, kind: str) -> int:
        """How many rows of a kind are taken at once, at most."""
        period = self.kinds[kind].period
        return TAKE_AT_MOST if period is None else period.batch

    def alone_from(self, kind: str) -> int:
        """Rows that were lost this often in a row run alone."""
        return max(1, self.kinds[kind].max_lost - 1)


@dataclass(frozen=True)
class Taken:
    """Rows to run, and when to ask again if there are none.

    The rows in `poison` have failed already; the fetcher only emits their events.
    """

    tasks: list[Claimed] = field(default_factory=list)
    poison: list[Claimed] = field(default_factory=list)
    next_due_in: float | None = None
    some_quarantined: bool = False
    # Whether rows may be due in buckets that this worker is about to own.
    is_settling: bool = False
    # Seconds until a kind that only its rate holds back may start a row.
    held_for: float | None = None
    # Whether rows of other owners are due, which those may offer at any moment.
    others_have_due: bool = False
    marks: StartMarks = field(default_factory=lambda: StartMarks(None))
    # The kinds that may have more abandoned rows than there was room for.
    left: set[str] = field(default_factory=set)


@dataclass
class StartMarks:
    """How rows start that were taken through the gate."""

    # Counts the changes of rates: the moments are valid until the next one.
    version: int | None
    # The rows that probe an open breaker, and the moments at which rows of rated kinds start.
    probes: set[int] = field(default_factory=set)
    starts: dict[int, int] = field(default_factory=dict)
    # The rows that follow rows of lanes, by the ids of these.
    chains: dict[int, Chain] = field(default_factory=dict)

    def add(self, allowed: Allowed, taken: Sequence[Claimed]) -> None:
        """The gate allowed these rows."""
        self.starts.update(zip((row.id for row in taken), allowed.moments, strict=False))
        if allowed.is_probe:
            self.probes.update(row.id for row in taken)


class Claims:
    """Where a worker's rows come from."""

    def take(self, room: Room) -> Taken:
        """Due rows that fit into `room`, highest priority and then oldest first."""
        raise NotImplementedError

    def tend(self) -> bool:
        """Acquire and release buckets; returns whether the worker has its full share."""
        return True

    def look_again(self) -> None:
        """A task was enqueued: look at the database before the next take."""

    def take_abandoned(self, kinds: Collection[str], room: Room, *, alone: bool) -> Taken:
        """Rows of dead workers that fit into `room`; with `alone`, one row that must run alone."""
        return Taken()

    def help(self) -> None:
        """Offer rows to workers that have time, if this one has no room for them."""

    @property
    def help_again_in(self) -> float:
        """Seconds until `help` has something to do."""
        return float("inf")

    @property
    def has_busy_lanes(self) -> bool:
        """Whether rows may start when an outcome of this worker is written."""
        return False


NOTHING: Mapping[str, int] = MappingProxyType({})


@dataclass
class Rescued:
    again: list[Claimed] = field(default_factory=list)
    poison: list[Claimed] = field(default_factory=list)
    put_back: list[Claimed] = field(default_factory=list)
    some_quarantined: bool = False
    # The kinds that may have more abandoned rows than there was room for.
    left: set[str] = field(default_factory=set)


class Triage(NamedTuple):
    """The rules. A row that was lost `max_lost` times in a row (by kind) is poison.

    A row that would be poison at its next loss is taken only if `alone`, so that no other row is
    lost with it. Rows of kinds in `rest` are held back until the given time. `room` limits how many
    rows are taken: by kind, and in total under None.
    """

    max_lost: Mapping[str, int]
    alone: bool
    rest: Mapping[str, int] = NOTHING
    room: Mapping[Any, int] | None = None

    def sort(self, abandoned: Iterable[Sequence[Any]], stamp: Stamp) -> Rescued:
        """Sort rows; the last value of each is how often it was lost in a row."""
        rescued, free = Rescued(), Counter(self.room)
        for *row, lost_before in abandoned:
            kind, lost, most = row[1], lost_before + 1, self.max_lost[row[1]]
            if lost >= most:
                rescued.poison.append(stamped(row, stamp, attempt=0, lost=1))
            elif kind in self.rest:
                taken = stamped(row, stamp, lost=1)
                rescued.put_back.append(replace(taken, due_at=self.rest[kind]))
            elif lost < max(1, most - 1):
                if self.room is not None and min(free[kind], free[None]) < 1:
                    rescued.left.add(kind)
                    continue
                rescued.again.append(stamped(row, stamp, lost=1))
                free.subtract((kind, None))
            elif self.alone and not rescued.again:
                rescued.again.append(stamped(row, stamp, lost=1))
                break
            else:
                rescued.some_quarantined = True
        return rescued


# Fails rows as poison, in the transaction that takes them.
FailAsPoison = Callable[[Connection, list[Claimed]], None]


class Rows:
    """The task rows of one database."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._dialect = database.dialect

    def tiers(self, kinds: Collection[str]) -> list[Tier]:
        """The tiers of `kinds` that have waiting rows, each with its first due time."""
        return self._database.read(lambda connection: self._dialect.tiers(connection, kinds))

    def read(self, tier: Tier, stamp: Stamp, most: Most) -> list[Claimed]:
        """Due rows of `tier` in buckets of the worker, oldest first; writes nothing."""
        rows = self._database.read(lambda connection: self._dialect.read(connection, tier, most))
        return [stamped(row, stamp) for row in rows]

    def claim(self, tier: Tier, stamp: Stamp, most: Most) -> list[Claimed]:
        """Take due rows of `tier`, oldest first."""
        # The statement contains the fence, so it can be a transaction by itself.
        return self._database.single(
            lambda connection: self._dialect.claim(connection, tier, stamp, most)
        )

    def claim_foreign(
        self, tier: Tier, stamp: Stamp, most: Most, *, owners: Collection[int]
    ) -> list[Claimed]:
        return self._database.write_as(
            stamp.worker,
            lambda connection: fetch_store.claim_foreign(
                connection, self._dialect, tier, stamp=stamp, most=most, owners=owners
            ),
            lost=[],
        )

    def claim_one(
        self, number: int, stamp: Stamp, *, max_lost: int, is_rested: bool
    ) -> list[Claimed]:
        return self._database.write_as(
            stamp.worker,
            lambda connection: fetch_store.claim_one(
                connection, number, stamp, max_lost=max_lost, is_rested=is_rested
            ),
            lost=[],
        )

    def claim_offered(self, kind: str, stamp: Stamp, *, limit: int) -> list[Claimed]:
        return self._database.write_as(
            stamp.worker,
            lambda connection: fetch_store.claim_offered(
                connection, self._dialect, kind, stamp=stamp, limit=limit
            ),
            lost=[],
        )

    def offer(
        self,
        worker: int,
        tier: Tier,
        most: Most,
        *,
        unless: Collection[int],
        spare: int = 0,
        count: int = 1_000,
    ) -> Made:
        return self._database.write_as(
            worker,
            lambda connection: fetch_store.make_offers(
                connection, self._dialect, tier, most, unless=unless, spare=spare, count=count
            ),
            lost=Made([], 0),
        )

    def claim_lane_rows(self, rows: Sequence[LaneRow], stamp: Stamp) -> list[Claimed]:
        """Claim rows of lanes that were just read."""
        return self._database.write_as(
            stamp.worker,
            lambda connection: lane.claim_rows(connection, self._dialect, rows, stamp),
            lost=[],
        )

    def claim_foreign_lanes(
        self, rules: LaneRules, stamp: Stamp, *, owners: Collection[int], limit: int, after: int
    ) -> tuple[list[Claimed], int]:
        nothing: tuple[list[Claimed], int] = [], 0
        return self._database.write_as(
            stamp.worker,
            lambda connection: lane.claim_foreign(
                connection,
                self._dialect,
                rules,
                stamp=stamp,
                owners=owners,
                limit=limit,
                after=after,
            ),
            lost=nothing,
        )

    def put_back(self, rows: Sequence[Claimed]) -> None:
        """Return claimed rows that have not started to the queue."""
        self._database.write(lambda connection: ring_store.put_back(connection, rows))

    def rescue(
        self, stamp: Stamp, triage: Triage, *, limit: int, fail_as_poison: FailAsPoison
    ) -> Rescued:
        """Take over rows of dead workers, and count one more loss for each.

        Poison fails in the same transaction, so no worker ever holds a poison row. Without such
        rows, which is nearly always, it only reads.
        """
        kinds = triage.max_lost.keys()

        def look(connection: Connection) -> bool:
            dialect = self._dialect
            return bool(dialect.abandoned(connection, kinds, now=stamp.now, limit=1, lock=False))

        def work(connection: Connection) -> Rescued:
            abandoned = self._dialect.abandoned(connection, kinds, now=stamp.now, limit=limit)
            if not abandoned:
                return Rescued()
            rescued = triage.sort(abandoned, stamp)
            if len(abandoned) == limit:
                rescued.left.update(kinds)
            for rows, attempt in (
                (rescued.again, 1),
                (rescued.put_back, 1),
                (rescued.poison, 0),
            ):
                if rows:
                    ids = [row.id for row in rows]
                    self._dialect.rescue(connection, ids, stamp, attempt=attempt)
            if rescued.put_back:
                ring_store.put_back(connection, rescued.put_back)
            if rescued.poison:
                fail_as_poison(connection, rescued.poison)
            return rescued

        if not self._database.read(look):
            return Rescued()
        return self._database.write_as(stamp.worker, work, lost=Rescued())

    def some_quarantined(
        self,
        tiers: Iterable[Tier],
        alone_from: Callable[[str], int],
        *,
        buckets: Iterable[range],
        now: int,
    ) -> bool:
        return self._database.read(
            lambda connection: fetch_store.some_quarantined(
                connection, tiers, alone_from, buckets=buckets, now=now
            )
        )


class Only(NamedTuple):
    """The only row that a worker runs, and whether no other worker takes rows of its kind."""

    task: int
    is_rested: bool = False
    # It does not start later than this, on the monotonic clock.
    deadline: float = float("inf")


class OneClaim(Claims):
    """Takes one row, once, by a written claim."""

    def __init__(
        self,
        site: Site,
        only: Only,
        gate: Gate,
        *,
        kind: Kind,
        worker: Callable[[], int],
        lease: int,
    ) -> None:
        self._site = site
        self._only = only
        self._gate = gate
        self._kind = kind
        self._worker = worker
        self._lease = lease
        self._has_tried = False

    def take(self, room: Room) -> Taken:
        if self._has_tried or time.monotonic() > self._only.deadline:
            return Taken()
        name = self._kind.name
        allowed = self._gate.allow(name, 1)
        if not allowed.most:
            # It waits for its moment or its permit; what else holds it back was said before.
            return Taken(held_for=self._gate.seconds_until([name]))
        self._has_tried = True
        stamp = self._site.stamp(self._worker(), self._lease)
        number, is_rested, _ = self._only
        rows = Rows(self._site.database)
        max_lost = self._kind.max_lost
        taken = rows.claim_one(number, stamp, max_lost=max_lost, is_rested=is_rested)
        self._gate.took(name, allowed, len(taken))
        marks = StartMarks(None)
        marks.add(allowed, taken)
        return Taken(taken, marks=marks)
