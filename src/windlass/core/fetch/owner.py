"""The owner's read: reads the rows of a worker's own buckets from a cursor, without a write.

Rows that several workers may take are claimed instead: rows that may have killed the last owner of
their bucket, offered rows, abandoned rows, and rows of kinds that the owner of their bucket does
not serve.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from math import inf

from windlass.clock import SECOND, Clock
from windlass.core.face import Site
from windlass.core.fetch import store as fetch_store
from windlass.core.fetch.claim import (
    TAKE_AT_MOST,
    Claims,
    DueRules,
    FailAsPoison,
    Rows,
    StartMarks,
    Taken,
    Triage,
)
from windlass.core.fetch.help import Offers
from windlass.core.fetch.lane import LaneRules
from windlass.core.fetch.lane_reader import LaneReader
from windlass.core.limit.gate import Allowed, Gate
from windlass.core.ring.ring import Ring, Share
from windlass.core.run.in_flight import InFlight
from windlass.core.run.ready import Room
from windlass.core.task.kind import Kind
from windlass.core.task.store import lane as lane_store
from windlass.database.connection import Connection
from windlass.database.dialect.base import ENDLESS, Most, Stamp, Tier
from windlass.value.task import Claimed

RESCUE_AT_MOST = 500
LOOK_AGAIN_AFTER = 0.25
PROBE_AGAIN_AFTER = 1.0
# Rows of short running tasks still look due, so quarantined rows are not searched each time.
ALONE_AGAIN_AFTER = 0.25
# A row may commit late with an early due time, so all cursors start over this often.
START_OVER_AFTER = 1.0
# For the same reason, a read of rows that became due in the last second repeats its last 100 ms.
JUST_NOW = 1 * SECOND
A_MOMENT = SECOND // 10
# How many held rows a read expects to find again at the due time of its cursor.
BESIDE_CURSOR = 16
# Own rows come before offers, except every fourth time that there are offers.
OFFERS_FIRST = 4
# The priority of all offers, below that of every own row.
OFFERS = -(1 << 15) - 1
# In place of a due time: the tier is all lanes of a kind.
LANES = -1
# Reading past the lanes of a kind to rows without one may take up to this part of the time.
PAST_LANES = 0.05


@dataclass(eq=False)
class BucketReader:
    """Reads rows of a worker's own buckets in due order, each time from where it ended."""

    rows: Rows
    in_flight: InFlight
    clock: Clock
    due: DueRules
    # By kind, priority and bucket: the due time to read from, and whether that is old.
    cursors: dict[tuple[str, int, int], tuple[int, bool]] = field(default_factory=dict)
    started_over_at: float = 0.0

    def start_over(self, *, is_rung: bool) -> bool:
        """Read everything from its beginning if it is time for that, sooner if `is_rung`."""
        now = time.monotonic()
        since = now - self.started_over_at
        # A hurried row may lie before the cursors.
        if since > START_OVER_AFTER or (is_rung and since > LOOK_AGAIN_AFTER):
            self.cursors.clear()
            self.started_over_at = now
            return True
        return False

    def forget(self) -> None:
        """Read everything from its beginning now."""
        self.cursors.clear()

    def has_new_buckets(self) -> None:
        """Rows of new buckets lie before the cursors."""
        self.started_over_at = float("-inf")

    def read(self, tier: Tier, limit: int, share: Share) -> list[Claimed]:
        """Up to `limit` rows of a tier that are not in flight; nothing is written."""
        begin = max(tier.due_at, share.careful_to + 1)
        part = tier._replace(due_at=begin)
        taken: list[Claimed] = []
        for buckets in share.runs:
            if len(taken) < limit:
                now = self.clock.now()
                stamp = Stamp(None, share.worker, now, now)
                taken += self._read_run(part, limit - len(taken), buckets, stamp=stamp)
        return taken

    def _read_run(self, tier: Tier, limit: int, buckets: range, *, stamp: Stamp) -> list[Claimed]:
        place = tier.kind, tier.priority, buckets.start
        begin, is_ahead = self.cursors.get(place, (0, False))
        begin = max(begin, tier.due_at)
        # Unless the cursor is past the held rows, the read finds them again.
        found_again = BESIDE_CURSOR if is_ahead else len(self.in_flight.rows)
        most = self.due.most(tier, limit + found_again, stamp.now, buckets=buckets)
        rows, new = self._read_new(tier._replace(due_at=begin), stamp, most)
        if rows and not new and len(rows) == most.limit:
            # Too many held rows have the due time of the cursor.
            most = most._replace(limit=limit + len(self.in_flight.rows))
            rows, new = self._read_new(tier._replace(due_at=begin), stamp, most)
        taken = new[:limit]
        if rows:
            last = (taken if len(new) > limit else rows)[-1].due_at
            is_ahead = last < stamp.now - JUST_NOW
            self.cursors[place] = last if is_ahead else max(begin, last - A_MOMENT), is_ahead
        return taken

    def _read_new(
        self, tier: Tier, stamp: Stamp, most: Most
    ) -> tuple[list[Claimed], list[Claimed]]:
        """The rows that a read finds, and those of them that are not in flight."""
        self.in_flight.rows.begin_read()
        rows = self.rows.read(tier, stamp, most)
        return rows, self.in_flight.rows.new(rows)


class OwnersRead(Claims):
    """Takes due rows of this worker's buckets, and rows that any worker may take."""

    def __init__(
        self,
        site: Site,
        kinds: Mapping[str, Kind],
        in_flight: InFlight,
        *,
        ring: Ring,
        gate: Gate,
        lease: int,
        dead_after: int,
        fail_as_poison: FailAsPoison,
        on_news: Callable[[], None],
        once: bool = False,
    ) -> None:
        self._site = site
        self._database = site.database
        self._clock = site.clock
        self._kinds = kinds
        self._in_flight = in_flight
        self._ring = ring
        self._gate = gate
        self._lease = lease
        # By then every other worker has sent a heartbeat or was marked dead.
        self._known_at = time.monotonic() + 2 * dead_after / SECOND + 1.0
        self._rows = Rows(site.database)
        self._fail_as_poison = fail_as_poison
        self._on_news = on_news
        self._refused: set[str] = set()
        self._marks = StartMarks(None)
        self._found_none: dict[str, float] = {}
        self._once = once
        self._due = DueRules(kinds, once_since=site.clock.now() if once else None)
        self._reader = BucketReader(self._rows, in_flight, site.clock, self._due)
        self._helper: Offers | None = None
        # The tiers that may have more rows, and all tiers of the last look.
        self._tiers: list[Tier] = []
        self._seen: list[Tier] = []
        self._looked_at = float("-inf")
        self._offered: set[str] = set()
        self._is_rung = False
        self._share = ring.share
        self._asked_for_alone_at = 0.0
        self._offers_seen = 0
        self._lanes: LaneReader | None = None
        # The first tier of each kind with rows in lanes, and when to read its other rows again.
        self._laned: dict[str, Tier] = {}
        self._read_past: dict[str, float] = {}
        self._foreign_lanes: dict[str, int] = {}

    def tend(self) -> bool:
        self._ring.settle()
        if self._share is not self._ring.share:
            # A breaker may be probed with rows of new buckets.
            self._share = self._ring.share
            self._reader.has_new_buckets()
            self._start_lanes_over()
            self._read_past.clear()
            self._looked_at = float("-inf")
            self._found_none.clear()
        return self._ring.is_settled

    def take(self, room: Room) -> Taken:
        if not room.kinds:
            return Taken()
        if self._reader.start_over(is_rung=self._is_rung):
            self._is_rung = False
        if time.monotonic() - self._looked_at < LOOK_AGAIN_AFTER:
            tasks = self._collect(room)
            held_for = self._gate.seconds_until(self._refused)
            if tasks or held_for is not None:
                return self._taken(tasks, held_for)
            if self.has_busy_lanes:
                # The next row of a lane starts when the outcome of the last one is written.
                look_in = self._looked_at + LOOK_AGAIN_AFTER - time.monotonic()
                return Taken(next_due_in=max(0.0, min(look_in, self._lanes_again_in)))
        tiers = self._look()
        tasks = self._collect(room)
        if not tasks and self._once:
            # Before a drain ends: a row that it ran may be due again, before its cursor.
            self._reader.forget()
            self._start_lanes_over()
            self._read_past.clear()
            self._tiers = list(tiers)
            refused = self._refused
            tasks = self._collect(room)
            # This refuses kinds whose probe just found no row, but one may have to run alone.
            self._refused = refused if not tasks else self._refused
        held_for = self._gate.seconds_until(self._refused)
        if tasks:
            return self._taken(tasks, held_for)
        return self._found_nothing([tier for tier in tiers if tier.kind in room.kinds], held_for)

    def _taken(self, tasks: list[Claimed], held_for: float | None) -> Taken:
        next_due_in = self._next_due_in(self._seen)
        return Taken(tasks, next_due_in=next_due_in, held_for=held_for, marks=self._marks)

    def look_again(self) -> None:
        self._looked_at = float("-inf")
        self._is_rung = True

    def take_abandoned(self, kinds: Collection[str], room: Room, *, alone: bool) -> Taken:
        if not kinds:
            return Taken()
        max_lost = {name: self._kinds[name].max_lost for name in kinds}
        rescued = self._rows.rescue(
            self._stamp(),
            Triage(max_lost, alone, self._rest(), {None: room.total, **room.kinds}),
            limit=RESCUE_AT_MOST,
            fail_as_poison=self._fail_as_poison,
        )
        if rescued.put_back:
            self.look_again()
        tasks, self._marks = rescued.again, StartMarks(self._in_flight.plan_version)
        if alone and not tasks:
            tasks = self._claim_alone()
        some, left = rescued.some_quarantined, rescued.left
        return Taken(tasks, rescued.poison, some_quarantined=some, marks=self._marks, left=left)

    def help(self) -> None:
        helper = self._helper_of_others()
        if helper is not None:
            helper.help(self._share, now=self._clock.now())

    @property
    def help_again_in(self) -> float:
        helper = self._helper_of_others()
        return super().help_again_in if helper is None else helper.again_in

    def _helper_of_others(self) -> Offers | None:
        """None without other workers: what it knew of them is old when they are back."""
        if not self._ring.has_others:
            self._helper = None
        elif self._helper is None:
            self._helper = Offers(
                self._database,
                self._rows,
                self._in_flight,
                gate=self._gate,
                due=self._due,
                read_again=self._reader.forget,
            )
        return self._helper

    @property
    def has_busy_lanes(self) -> bool:
        return self._lanes is not None and self._lanes.is_busy

    @property
    def _lanes_again_in(self) -> float:
        return inf if self._lanes is None else self._lanes.again_in

    def _start_lanes_over(self) -> None:
        if self._lanes is not None:
            self._lanes.start_over()

    def _found_nothing(self, tiers: list[Tier], held_for: float | None) -> Taken:
        now = self._clock.now()
        due = [
            tier for tier in tiers if self._due.is_due(tier, now) and tier.kind not in self._refused
        ]
        # A probe that found no row here may find one in the buckets of a dead worker.
        sought = due or [tier for tier in tiers if self._found_none_lately(tier.kind)]
        lanes = self._lanes
        plain = [tier for tier in due if tier.kind not in self._read_past]
        ring = self._ring
        return Taken(
            next_due_in=self._next_due_in(tiers),
            is_settling=bool(sought)
            and not (ring.is_settled and ring.are_others_alive)
            and time.monotonic() < self._known_at,
            some_quarantined=(lanes is not None and lanes.some_alone)
            or (bool(plain) and self._some_wait_to_run_alone(plain, now)),
            held_for=held_for,
            others_have_due=bool(due) and ring.has_others,
        )

    def _next_due_in(self, tiers: list[Tier]) -> float | None:
        """Seconds until the first row of these tiers, or of a lane, that is not due yet."""
        now = self._clock.now()
        waits = [
            self._due.seconds_until(tier, now) for tier in tiers if not self._due.is_due(tier, now)
        ]
        if self._lanes is not None and self._lanes.next_due is not None:
            waits.append(max(0, self._lanes.next_due - now) / 1e6)
        if self._lanes_again_in < inf:
            waits.append(self._lanes_again_in)
        return min(waits, default=None)

    def _some_wait_to_run_alone(self, due: list[Tier], now: int) -> bool:
        asked_at = time.monotonic()
        if not self._once and asked_at - self._asked_for_alone_at < ALONE_AGAIN_AFTER:
            return False
        self._asked_for_alone_at = asked_at
        return self._rows.some_quarantined(
            due, self._due.alone_from, buckets=self._share.runs, now=now
        )

    def _look(self) -> list[Tier]:
        has_lanes = self._database.has_tables(lane_store.TABLES)

        def look(connection: Connection) -> tuple[list[Tier], set[str], set[int]]:
            dialect = self._database.dialect
            tiers = dialect.tiers(connection, self._kinds)
            first = _first_of_each_kind(tiers) if has_lanes else {}
            laned = dialect.laned_kinds(connection, first) if first else ()
            self._laned = {kind: first[kind] for kind in laned}
            return tiers, *fetch_store.offered_and_present(connection)

        self._tiers, self._offered, present = self._database.read(look)
        if self._laned and self._lanes is None:
            self._lanes = LaneReader(self._database, self._in_flight, self._clock)
        if self._lanes is not None:
            self._lanes.look_again()
        self._read_past = {
            kind: until for kind, until in self._read_past.items() if kind in self._laned
        }
        if present != self._ring.present:
            # A worker joined or left: divide the buckets now.
            self._on_news()
        self._looked_at = time.monotonic()
        self._seen = list(self._tiers)
        return self._seen

    def _rest(self) -> dict[str, int]:
        """The kinds whose abandoned rows must wait, and when these become due."""
        now = self._clock.now()
        return {
            name: kind.due_until(now)
            for name, kind in self._kinds.items()
            if not self._gate.is_free(name)
        }

    def _collect(self, room: Room) -> list[Claimed]:
        self._refused, self._marks = set(), StartMarks(self._in_flight.plan_version)
        if self._lanes is not None:
            self._lanes.again_in = inf
        now = self._clock.now()
        left = dict(room.kinds)
        budget = min(TAKE_AT_MOST, room.total)
        tasks: list[Claimed] = []
        due = [tier for tier in self._tiers if tier.kind in left and self._due.is_due(tier, now)]
        lanes = [tier for tier in self._lane_tiers(now) if tier.kind in left]
        due = [tier for tier in due if not self._is_past(tier.kind)]
        more: set[str] = set()
        offered = self._offers(left)
        groups = [*_by_priority([*due, *lanes]), offered]
        if offered:
            self._offers_seen += 1
            if self._offers_seen % OFFERS_FIRST == 0:
                groups = [offered, *groups[:-1]]
        for equals in groups:
            # Kinds of one priority share equally; lower priorities get the rest.
            share = max(1, budget // max(1, len(equals)))
            for tier in equals:
                limit = min(share, left[tier.kind], budget, self._due.batch(tier.kind))
                if limit < 1:
                    more.add(tier.kind)
                    continue
                try:
                    taken = self._through_gate(tier, limit)
                except Exception:
                    if tasks:
                        # Run the rows already taken. The next call meets the error again.
                        return tasks
                    raise
                count = len(taken) + self._behind(taken)
                if count >= limit:
                    more.add(tier.kind)
                left[tier.kind] -= count
                budget -= count
                tasks += taken
        helper = self._helper_of_others()
        if helper is not None:
            helper.fetched(all_of=left.keys() - more, some_of=more)
        return tasks

    def _behind(self, taken: Collection[Claimed]) -> int:
        """How many rows of lanes follow these."""
        chains = self._marks.chains
        return sum([len(chains[row.id]) for row in taken if row.id in chains]) if chains else 0

    def _offers(self, kinds: Collection[str]) -> list[Tier]:
        """A tier for each kind that had offers at the last look."""
        offered, self._offered = self._offered, set()
        return [Tier(kind, OFFERS, 0) for kind in sorted(offered & set(kinds))]

    def _through_gate(self, tier: Tier, limit: int) -> list[Claimed]:
        if self._found_none_lately(tier.kind):
            self._refused.add(tier.kind)
            return []
        allowed = self._gate.allow(tier.kind, limit)
        if allowed.most < 1:
            self._refused.add(tier.kind)
            return []
        taken = self._take_tier(tier, allowed.most)
        self._took(tier.kind, allowed, taken)
        if allowed.is_probe and not taken:
            # The due row may have to run alone, or belong to another worker.
            self._found_none[tier.kind] = time.monotonic()
        return taken

    def _took(self, kind: str, allowed: Allowed, taken: list[Claimed]) -> None:
        self._gate.took(kind, allowed, len(taken))
        self._marks.add(allowed, taken)

    def _found_none_lately(self, kind: str) -> bool:
        return time.monotonic() - self._found_none.get(kind, float("-inf")) < PROBE_AGAIN_AFTER

    def _take_tier(self, tier: Tier, limit: int) -> list[Claimed]:
        if tier.priority == OFFERS:
            return self._rows.claim_offered(tier.kind, self._stamp(), limit=limit)
        if tier.due_at == LANES:
            return self._take_lanes(tier.kind, limit)
        taken: list[Claimed] = []
        began = time.monotonic()
        for take in (self._claim_carefully, self._read, self._claim_from_strangers):
            if len(taken) < limit:
                taken += take(tier, limit - len(taken))
        if len(taken) < limit:
            self._tiers.remove(tier)
        if not taken and tier.kind in self._laned:
            # Each read without a lane passes all due rows with one.
            now = time.monotonic()
            self._read_past[tier.kind] = now + (now - began) / PAST_LANES
        return taken

    def _lane_tiers(self, now: int) -> list[Tier]:
        """A tier for all lanes of each kind that had a due row at the last look."""
        return [
            Tier(kind, self._kinds[kind].priority, LANES)
            for kind, first in self._laned.items()
            if self._due.is_due(first, now)
        ]

    def _is_past(self, kind: str) -> bool:
        return time.monotonic() < self._read_past.get(kind, 0.0)

    def _lane_rules(self, kind: str, *, alone: bool = False) -> LaneRules:
        alone_from = self._due.alone_from(kind)
        lost = range(alone_from, ENDLESS) if alone else range(alone_from)
        return LaneRules(self._kinds[kind], self._due.until(kind, self._clock.now()), lost)

    def _take_lanes(self, kind: str, limit: int, *, alone: bool = False) -> list[Claimed]:
        """The first rows of lanes: read, or claimed if they may have killed their last owner."""
        assert self._lanes is not None
        rules, share = self._lane_rules(kind, alone=alone), self._share
        found = self._lanes.take(rules, limit, share, alone=alone, thorough=self._once or alone)
        taken = found.read
        if found.careful:
            taken = self._rows.claim_lane_rows(found.careful, self._stamp()) + taken
        self._marks.chains |= found.chains
        owners = self._ring.strangers.get(kind)
        if owners and len(taken) < limit:
            taken += self._claim_foreign_lanes(rules, limit - len(taken), owners)
        return taken

    def _claim_foreign_lanes(
        self, rules: LaneRules, limit: int, owners: Collection[int]
    ) -> list[Claimed]:
        """Claim rows of lanes in buckets whose owner does not serve their kind."""
        kind = rules.kind.name
        taken, self._foreign_lanes[kind] = self._rows.claim_foreign_lanes(
            rules,
            self._stamp(),
            owners=owners,
            limit=limit,
            after=self._foreign_lanes.get(kind, 0),
        )
        return taken

    def _claim_carefully(self, tier: Tier, limit: int) -> list[Claimed]:
        """Claim rows that were due when the last owner of their bucket died: they may be poison."""
        careful_to = self._share.careful_to
        if tier.due_at > careful_to:
            return []
        taken: list[Claimed] = []
        for buckets in self._share.runs:
            stamp = self._stamp()
            most = self._due.most(tier, limit - len(taken), stamp.now, buckets=buckets)
            most = most._replace(due_until=min(most.due_until, careful_to))
            if most.limit > 0:
                taken += self._unless_held(self._rows.claim(tier, stamp, most))
        return taken

    def _unless_held(self, claimed: list[Claimed]) -> list[Claimed]:
        """Put back rows that are in flight here: they were changed after they were read."""
        held = [row for row in claimed if row.id in self._in_flight.rows]
        if held:
            self._rows.put_back(held)
        return [row for row in claimed if row not in held]

    def _read(self, tier: Tier, limit: int) -> list[Claimed]:
        return self._reader.read(tier, limit, self._share)

    def _claim_from_strangers(self, tier: Tier, limit: int) -> list[Claimed]:
        """Claim rows of buckets whose owner does not serve their kind, and so never reads them."""
        owners = self._ring.strangers.get(tier.kind)
        if not owners:
            return []
        stamp = self._stamp()
        most = self._due.most(tier, limit, stamp.now)
        return self._rows.claim_foreign(tier, stamp, most, owners=owners)

    def _claim_alone(self) -> list[Claimed]:
        now = self._clock.now()
        tiers = self._rows.tiers(self._kinds)
        for tier in [*tiers, *self._lane_tiers(now)]:
            allowed = self._gate.allow(tier.kind, 1) if self._due.is_due(tier, now) else Allowed(0)
            if allowed.most:
                taken = next(self._alone_in(tier, now), [])
                self._took(tier.kind, allowed, taken)
                if taken:
                    return taken
        return []

    def _alone_in(self, tier: Tier, now: int) -> Iterator[list[Claimed]]:
        """A row that must run alone, of our buckets or of owners that do not serve its kind."""
        if tier.due_at == LANES:
            self._start_lanes_over()
            yield self._take_lanes(tier.kind, 1, alone=True)
            return
        most = Most(
            1, self._due.until(tier.kind, now), range(self._due.alone_from(tier.kind), ENDLESS)
        )
        for buckets in self._share.runs:
            taken = self._rows.claim(tier, self._stamp(), most._replace(buckets=buckets))
            if taken:
                yield taken
        owners = self._ring.strangers.get(tier.kind)
        if owners:
            yield self._rows.claim_foreign(tier, self._stamp(), most, owners=owners)

    def _stamp(self) -> Stamp:
        return self._site.stamp(self._share.worker, self._lease)


def _first_of_each_kind(tiers: list[Tier]) -> dict[str, Tier]:
    """The tier of each kind with the oldest due time."""
    ordered = sorted(tiers, key=lambda tier: tier.due_at, reverse=True)
    return {tier.kind: tier for tier in ordered}


def _by_priority(tiers: list[Tier]) -> list[list[Tier]]:
    """The tiers of each priority, highest first; in each, the oldest due time first."""
    ordered = sorted(tiers, key=lambda tier: (-tier.priority, tier.due_at))
    return [list(equals) for _, equals in groupby(ordered, key=lambda tier: tier.priority)]
