"""Reads the first rows of the lanes in a worker's own buckets.

It goes through the lanes with a cursor, and looks again at those that have become free, except
those that were read to their end. Of a lane in which one row runs at a time it may take several:
the first, and the chain of those behind it. How many follows from what could start while the read
is fresh, and from how many rows lanes had at the last reads. All lanes of a look are in one read,
and the next look comes when half of the rows have started: a small read costs as much as a large
one.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from functools import partial
from itertools import islice, takewhile
from math import inf
from typing import NamedTuple

from windlass.clock import Clock
from windlass.core.fetch.lane import (
    FEWEST_LANES,
    ID,
    LOST_IN_A_ROW,
    LaneRow,
    LaneRules,
    LaneState,
    NextRows,
    ReadRow,
    read_lanes,
)
from windlass.core.ring.ring import Share
from windlass.core.run.chain import Chain, ChainRoom
from windlass.core.run.in_flight import InFlight
from windlass.core.task.kind import Kind
from windlass.database.database import Database
from windlass.database.dialect.base import Stamp, stamped
from windlass.value.bucket import LaneTerms, bucket_of_lane, lane_at, numbers_in, owned_with
from windlass.value.task import Claimed

# How many lanes one step looks at, at most.
MOST_LANES = 1_000
# How many steps may find nothing to start before the reader waits for its next look.
MOST_IN_VAIN = 4
# Of how many lanes the last turn is known.
MOST_TURNS = 20_000
# How many times as many rows of a lane a read asks for as lanes had before.
MORE_THAN_BEFORE = 4
# A look for rows that follow each other ends when no more than this part of them is missing.
ENOUGH = 4
# The least number of rows of a lane that a step expects.
LEAST_DEPTH = 0.05


class LanesOfKind:
    """What a worker knows of the lanes of one kind."""

    def __init__(self) -> None:
        # The rows of each lane that were read and are in flight, or follow one that is.
        self.held: dict[int, Collection[int]] = {}
        # The chains of those lanes of which no other row was seen to wait.
        self.whole: dict[int, Chain] = {}
        # Lanes that may have a row to start, in the order in which they are looked at.
        self.again: dict[int, None] = {}
        # The number of the lane where the next step begins.
        self.cursor = 0
        # Steps in a row that found no row, and whether there is none behind the cursor.
        self.in_vain = 0
        self.is_done = False
        self.found_some = False
        # How many rows to start a lane had at the last reads, up to the length of a chain.
        self.depth = 1.0
        # When each lane had its last turn, counted in turns.
        self.turns: dict[int, int] = {}
        self.turn = 0

    def refresh(self, known: set[int], terms: LaneTerms) -> None:
        """Forget rows that are no longer in flight: their lanes may start another."""
        if terms.per_lane == 1:
            # Of a chain at least one is in flight until it ends.
            freed = [lane for lane, ids in self.held.items() if known.isdisjoint(ids)]
        else:
            freed = [lane for lane, ids in self.held.items() if not known.issuperset(ids)]
        for lane in freed:
            left = known.intersection(self.held.pop(lane))
            if left:
                self.held[lane] = left
            chain = self.whole.pop(lane, None)
            if not terms.fair and (chain is None or not chain.is_over):
                self.again[lane] = None
        if freed and terms.fair:
            # Its next turn is when the others had theirs.
            self.look_again()

    def found(self, rows: int, lanes: int, *, length: int) -> None:
        """A read of up to `length` rows of each of these lanes found as many rows to start."""
        depth = rows / lanes
        if rows == lanes * length:
            # There may be as many again behind them.
            depth *= MORE_THAN_BEFORE
        self.depth = max(LEAST_DEPTH, (self.depth + 3 * depth) / 4)

    def free_of(self, seen: Iterable[int], most: int) -> list[int]:
        """Those of the lanes that were seen to have waiting rows, and are not full."""
        free: list[int] = []
        for lane in seen:
            if len(self.held.get(lane, ())) < most:
                free.append(lane)
            else:
                # What waits may be new.
                self.whole.pop(lane, None)
        return free

    def take_again(self, most: int, share: Share) -> list[int]:
        """Up to `most` lanes of our buckets that have become free."""
        taken: list[int] = []
        while self.again and len(taken) < most:
            some = list(islice(self.again, most - len(taken)))
            for lane in some:
                del self.again[lane]
            taken += [lane for lane in some if _is_in(share, lane)]
        return taken

    def in_turn(self, chosen: list[LaneRow], limit: int) -> None:
        """Sort rows so that lanes whose last turn is longest ago come first, and note the turns."""
        chosen.sort(key=lambda row: self.turns.get(row.lane, 0))
        if len(self.turns) > MOST_TURNS:
            self.turns.clear()
        for row in chosen[:limit]:
            self.turn += 1
            self.turns[row.lane] = self.turn

    def look_again(self) -> None:
        self.in_vain, self.is_done = 0, False

    def start_over(self) -> None:
        self.look_again()
        self.cursor = 0

    def wrapped(self, *, fair: bool) -> None:
        """All lanes were looked at; lanes take turns while there are some to start."""
        self.cursor = 0
        self.is_done = not (fair and self.found_some)
        self.found_some = False


class TakenOfLanes(NamedTuple):
    """Rows that may start: those that must be claimed first, and others; with what follows these.

    The rows that follow are by the id of the first.
    """

    careful: list[LaneRow]
    read: list[Claimed]
    chains: dict[int, Chain]


class TakenOfLane(NamedTuple):
    """Rows of a lane that follow each other."""

    first: LaneRow
    behind: Sequence[ReadRow]
    read_at: float
    # Whether no other row of the lane was seen.
    are_all: bool


class Search:
    """One look for rows of lanes of a kind, as far as it has come."""

    def __init__(
        self,
        rules: LaneRules,
        lanes: LanesOfKind,
        limit: int,
        share: Share,
        room: ChainRoom | None,
    ) -> None:
        self.rules = rules
        self.lanes = lanes
        self.share = share
        self.taken: list[TakenOfLane] = []
        # How many more rows may start; and how many of one lane.
        self.left = limit if room is None else min(limit, room.rows)
        self._longest = 1 if room is None else max(1, min(room.longest, limit // room.abreast))
        self._has_chains = room is not None
        # What is missing then is left to the next look: a small read costs as much as a large one.
        self._enough = 0 if room is None else self.left // ENOUGH

    @property
    def is_over(self) -> bool:
        """Whether enough rows were taken."""
        return self.left <= self._enough

    @property
    def at_once(self) -> int:
        """How many lanes one read looks at: as many as have the rows that are wanted."""
        if self._longest == 1:
            return min(MOST_LANES, max(FEWEST_LANES, 2 * self.left))
        return min(MOST_LANES, 1 + int(self.left / min(self.lanes.depth, self._longest)))

    def length(self, lanes: int) -> int:
        """How many rows of each lane to read: a few times as many as there were before."""
        return max(1, min(self._longest, MORE_THAN_BEFORE * self.left // lanes))

    def behind(
        self, first: LaneRow, rows: Iterable[ReadRow], *, unless: Collection[int]
    ) -> list[ReadRow]:
        """The rows that follow the first one of a lane."""
        behind = islice(self.rules.behind(first, rows), self.left - 1)
        return list(takewhile(lambda row: row[ID] not in unless, behind) if unless else behind)

    def took(
        self, first: LaneRow, behind: Sequence[ReadRow], read_at: float, *, are_all: bool
    ) -> None:
        self.taken.append(TakenOfLane(first, behind, read_at, are_all))
        self.left -= 1 + len(behind)
        ids = [first.id, *(row[ID] for row in behind)]
        held = self.lanes.held.get(first.lane)
        self.lanes.held[first.lane] = ids if held is None else [*held, *ids]

    def result(self, now: int, *, careful_to: float) -> TakenOfLanes:
        """What was taken; nothing follows rows that were due by `careful_to`."""
        stamp = Stamp(None, self.share.worker, now, now)
        careful: list[LaneRow] = []
        read: list[Claimed] = []
        chains: dict[int, Chain] = {}
        for first, behind, read_at, are_all in self.taken:
            if first.due_at <= careful_to:
                careful.append(first)
                continue
            read.append(stamped(first.columns, stamp))
            if self._has_chains:
                rows = [stamped(row[:LOST_IN_A_ROW], stamp) for row in behind]
                chains[first.id] = chain = Chain(rows, read_at=read_at)
                if are_all:
                    self.lanes.whole[first.lane] = chain
        return TakenOfLanes(careful, read, chains)


class LaneReader:
    """Reads the first rows of the lanes in a worker's own buckets."""

    def __init__(self, database: Database, in_flight: InFlight, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._dialect = database.dialect
        self._in_flight = in_flight
        self._lanes: defaultdict[str, LanesOfKind] = defaultdict(LanesOfKind)
        # When the first of the rows that lanes were seen to wait for becomes due.
        self.next_due: int | None = None
        # Whether a lane waits for a row that must run alone.
        self.some_alone = False
        # In how many seconds to look again, as the rows that were taken will have started.
        self.again_in = inf

    @property
    def is_busy(self) -> bool:
        """Whether a lane may be free when an outcome is written."""
        return any(lanes.held for lanes in self._lanes.values())

    def look_again(self) -> None:
        """Go through the lanes again."""
        self.next_due, self.some_alone = None, False
        for lanes in self._lanes.values():
            lanes.look_again()

    def start_over(self) -> None:
        """Go through all lanes, from the first."""
        for lanes in self._lanes.values():
            lanes.start_over()

    def take(
        self, rules: LaneRules, limit: int, share: Share, *, alone: bool, thorough: bool
    ) -> TakenOfLanes:
        """Up to `limit` rows that may start; nothing is written.

        `thorough`: look at all lanes, however many have nothing to start. `alone`: the rows must
        run alone.
        """
        kind = rules.kind
        lanes = self._lanes[kind.name]
        lanes.refresh(self._in_flight.rows.ids, kind.lanes)
        room = None if alone else self._chain_room(kind)
        if room is not None and room.again_in:
            self.again_in = min(self.again_in, room.again_in)
        search = Search(rules, lanes, limit, share, room)
        while not search.is_over and self._look(search, thorough=thorough):
            pass
        return search.result(self._clock.now(), careful_to=inf if alone else share.careful_to)

    def _chain_room(self, kind: Kind) -> ChainRoom | None:
        if kind.lanes.per_lane > 1 or kind.lanes.fair:
            return None
        return self._in_flight.capacity.room_for_chains(kind.name)

    def _look(self, search: Search, *, thorough: bool) -> bool:
        """Start rows of the next lanes; returns whether there may be more.

        Lanes that were not looked at yet get half of the room, the others have become free.
        """
        lanes, at_once = search.lanes, search.at_once
        is_fair = search.rules.kind.lanes.fair
        half = 0 if is_fair else at_once // 2
        some = lanes.take_again(half, search.share)
        ahead = self._look_ahead(search, at_once - len(some), thorough=thorough)
        if not is_fair:
            some += lanes.take_again(at_once - len(some) - len(ahead), search.share)
        if not (some or ahead):
            return False
        # The cursor may have found some of them, too.
        found = self._start(search, list(dict.fromkeys([*some, *ahead])))
        if ahead:
            found_ahead = not found.isdisjoint(ahead)
            lanes.found_some |= found_ahead
            lanes.in_vain = 0 if found_ahead else lanes.in_vain + 1
        return True

    def _look_ahead(self, search: Search, most: int, *, thorough: bool) -> list[int]:
        """Lanes behind the cursor that are not full, as far as looking for them pays."""
        lanes, per_lane = search.lanes, search.rules.kind.lanes.per_lane
        while most > 0 and not lanes.is_done and (thorough or lanes.in_vain < MOST_IN_VAIN):
            free = lanes.free_of(self._next_lanes(search, most), per_lane)
            if free:
                return free
            lanes.in_vain += 1
        return []

    def _next_lanes(self, search: Search, most: int) -> list[int]:
        """Up to `most` next lanes with waiting rows, from where the last step ended."""
        lanes, kind = search.lanes, search.rules.kind
        for buckets in search.share.runs:
            numbers = numbers_in(buckets)
            if lanes.cursor >= numbers.stop:
                continue
            places = range(2 * max(lanes.cursor, numbers.start), 2 * numbers.stop)
            found, are_all = self._database.read(
                partial(self._dialect.lanes, kind=kind.name, places=places, limit=most)
            )
            some = list(dict.fromkeys(map(lane_at, found)))
            lanes.cursor = numbers.stop if are_all else some[-1] + 1
            for lane in some:
                lanes.again.pop(lane, None)
            if some:
                return some
        lanes.wrapped(fair=kind.lanes.fair)
        return []

    def _start(self, search: Search, looked: Sequence[int]) -> set[int]:
        """Take the first rows of these lanes that may start; returns the lanes that have some."""
        kind, length = search.rules.kind, search.length(len(looked))
        self._in_flight.rows.begin_read()
        read_at = time.monotonic()
        states = self._database.read(
            lambda connection: read_lanes(connection, self._dialect, kind, looked, longest=length)
        )
        known, let_go = self._in_flight.rows.ids, self._in_flight.rows.let_go()
        chosen = self._choose(search, states, known, let_go)
        lanes = search.lanes
        waiting = sum([len(states[row.lane].waiting) for row in chosen])
        lanes.found(waiting, len(looked), length=length)
        for first in chosen:
            if search.left > 0:
                rows = states[first.lane].waiting
                behind = search.behind(first, rows[1:], unless=let_go) if length > 1 else []
                are_all = 1 + len(behind) == len(rows) < length
                search.took(first, behind, read_at, are_all=are_all)
            else:
                lanes.again[first.lane] = None
        return {first.lane for first in chosen}

    def _choose(
        self, search: Search, states: dict[int, LaneState], known: set[int], let_go: set[int]
    ) -> list[LaneRow]:
        """The rows of lanes that may start, in the order in which they should."""
        lanes = search.lanes
        chosen: list[LaneRow] = []
        for lane, state in states.items():
            held = known.intersection([row[ID] for row in state.waiting])
            found = search.rules.next_of(state, held.union(lanes.held.get(lane, ())))
            self._note(found)
            rows = list(takewhile(lambda row: row.id not in let_go, found.rows))
            if len(rows) < len(found.rows):
                # The read saw the old state of a row that has ended: look once more.
                lanes.again[lane] = None
            chosen += rows
        if search.rules.kind.lanes.fair:
            lanes.in_turn(chosen, search.left)
        else:
            chosen.sort(key=lambda row: (row.due_at, row.id))
        return chosen

    def _note(self, found: NextRows) -> None:
        self.some_alone |= found.some_alone
        if found.due_at is not None:
            self.next_due = min(found.due_at, self.next_due or found.due_at)


def _is_in(share: Share, lane: int) -> bool:
    bucket = owned_with(bucket_of_lane(lane))
    return any(bucket in run for run in share.runs)
