"""The owner's read of lanes: rows of one lane run in order, at most `per_lane` of them at once.

Who is the authority? The owner of the lane's bucket: it alone takes rows of the lane that wait, so
it needs no lock. A row occupies its lane

* in the memory of the owner, from its read until its outcome is committed, and
* in the database, while it is running by a written claim, whoever has the claim.

So when a bucket changes hands, the new owner learns from the database what still runs: an owner
that gives up a bucket writes the claims of everything it has started. When an owner dies, what it
had read and started is due before `careful_to` and is the first of its lane again; what it had
claimed stays a written claim until another worker has taken it over and it has ended.

A row that was tried and will be tried again holds its lane (`on_failure="hold"`): its place in the
index is before all others of the lane, so nothing else of the lane starts before it ends. The same
place has a row that was claimed and returned to the queue with another due time.

Each time that a lane is free, its first row is read again. So a row that was committed late goes
before later ones that were there already.

Rows of lanes are never offered to other workers, and never handed off.

If the owner of a bucket does not serve a kind, other workers claim the first rows of its lanes.
They lock the bucket, so that only one of them at a time decides what comes next.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

from windlass.core.ring import store as ring_store
from windlass.core.ring.ring import Share
from windlass.core.run.in_flight import InFlight
from windlass.core.task.kind import Kind
from windlass.database.connection import Connection
from windlass.database.database import Database
from windlass.database.dialect.base import Dialect, Stamp, stamped
from windlass.value.bucket import (
    bucket_of_lane,
    is_holding,
    lane_at,
    numbers_in,
    owned_with,
)
from windlass.value.status import Status
from windlass.value.task import Claimed

# How many lanes one step looks at, at least and at most.
FEWEST_LANES = 32
MOST_LANES = 1_000
# How many steps may find nothing to start before the reader waits for its next look.
MOST_IN_VAIN = 4
# Of how many lanes the last turn is known.
MOST_TURNS = 20_000


class LaneRow(NamedTuple):
    """A waiting row of a lane, with what decides whether it may start."""

    columns: Sequence[Any]
    lost_in_a_row: int
    batch: int | None
    place: int

    @property
    def id(self) -> int:
        return int(self.columns[0])

    @property
    def due_at(self) -> int:
        return int(self.columns[4])

    @property
    def lane(self) -> int:
        return lane_at(self.place)


class LaneState(NamedTuple):
    """The first waiting rows of a lane in order, and the ids of those that run by a claim."""

    waiting: list[LaneRow]
    running: set[int]


def read_lanes(
    connection: Connection,
    dialect: Dialect,
    kind: Kind,
    lanes: Collection[int],
) -> dict[int, LaneState]:
    """What is in each of these lanes, without lanes that are full or empty."""
    most = kind.lanes.per_lane
    if most == 1:
        ids = dialect.heads(connection, kind.name, lanes)
        rows = _rows(dialect.laned(connection, ids))
        return {row.lane: LaneState([row], set()) for row in rows}
    found: dict[int, LaneState] = {}
    for lane in lanes:
        running = dialect.lane_rows(connection, kind.name, lane, status=Status.RUNNING, limit=most)
        # As many may be in flight, with nothing written.
        ids = dialect.lane_rows(connection, kind.name, lane, status=Status.WAITING, limit=2 * most)
        if ids and len(running) < most:
            order = {number: index for index, number in enumerate(ids)}
            rows = sorted(_rows(dialect.laned(connection, ids)), key=lambda row: order[row.id])
            found[lane] = LaneState(rows, set(running))
    return found


def _rows(found: Iterable[Sequence[Any]]) -> list[LaneRow]:
    return [LaneRow(columns, lost, batch, place) for *columns, lost, batch, place in found]


class LaneRules(NamedTuple):
    """Which rows of a kind's lanes may start now."""

    kind: Kind
    due_until: int
    # Rows that were lost as often in a row may start.
    lost: range

    def next_of(self, state: LaneState, held: Collection[int]) -> NextRows:
        """The rows of a lane that may start; those in `held` are in flight."""
        free = self.kind.lanes.per_lane - len(state.running | set(held))
        chosen: list[LaneRow] = []
        due_at: int | None = None
        some_alone = False
        for row in state.waiting:
            if free < 1:
                break
            if row.id in held:
                continue
            if row.due_at > self.due_until:
                due_at = row.due_at if due_at is None else min(due_at, row.due_at)
                if not is_holding(row.place):
                    # The others are due later.
                    break
            elif row.lost_in_a_row not in self.lost:
                some_alone = True
            elif row.batch is None:
                chosen.append(row)
            # Otherwise it moves to another shard.
            free -= 1
        return NextRows(chosen, due_at, some_alone)


class NextRows(NamedTuple):
    """The rows of a lane that may start, when others become due, and whether one must run alone."""

    rows: list[LaneRow]
    due_at: int | None
    some_alone: bool


class LanesOfKind:
    """What a worker knows of the lanes of one kind."""

    def __init__(self) -> None:
        # The rows of each lane that were read and are in flight.
        self.held: dict[int, set[int]] = {}
        # Lanes that may have a row to start, in the order in which they are looked at.
        self.again: dict[int, None] = {}
        # The number of the lane where the next step begins.
        self.cursor = 0
        # Steps in a row that found no row, and whether there is none behind the cursor.
        self.in_vain = 0
        self.is_done = False
        self.found_some = False
        # When each lane had its last turn, counted in turns.
        self.turns: dict[int, int] = {}
        self.turn = 0

    def refresh(self, known: set[int], *, fair: bool) -> None:
        """Forget rows that are no longer in flight: their lanes may start another."""
        freed = [lane for lane, ids in self.held.items() if not ids <= known]
        for lane in freed:
            self.held[lane] &= known
            if not self.held[lane]:
                del self.held[lane]
            if not fair:
                self.again[lane] = None
        if freed and fair:
            # Its next turn is when the others had theirs.
            self.look_again()

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


class LaneReader:
    """Reads the first rows of the lanes in a worker's own buckets."""

    def __init__(self, database: Database, in_flight: InFlight) -> None:
        self._database = database
        self._dialect = database.dialect
        self._in_flight = in_flight
        self._lanes: defaultdict[str, LanesOfKind] = defaultdict(LanesOfKind)
        # When the first of the rows that lanes were seen to wait for becomes due.
        self.next_due: int | None = None
        # Whether a lane waits for a row that must run alone.
        self.some_alone = False

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

    def take(self, rules: LaneRules, limit: int, share: Share, *, thorough: bool) -> list[LaneRow]:
        """Up to `limit` rows that may start; nothing is written.

        `thorough`: look at all lanes, however many have nothing to start.
        """
        kind = rules.kind
        lanes, fair = self._lanes[kind.name], kind.lanes.fair
        lanes.refresh(self._in_flight.rows.ids, fair=fair)
        taken: list[LaneRow] = []
        while lanes.again and len(taken) < limit:
            some = list(islice(lanes.again, MOST_LANES))
            for lane in some:
                del lanes.again[lane]
            ours = [lane for lane in some if _is_in(share, lane)]
            taken += self._start(rules, lanes, ours, limit - len(taken))
            if len(some) < MOST_LANES:
                break
        while len(taken) < limit and not lanes.is_done:
            if not thorough and lanes.in_vain >= MOST_IN_VAIN:
                break
            step = self._next_lanes(kind, lanes, limit - len(taken), share)
            most = kind.lanes.per_lane
            free = [lane for lane in step if len(lanes.held.get(lane, ())) < most]
            found = self._start(rules, lanes, free, limit - len(taken))
            taken += found
            lanes.found_some |= bool(found)
            lanes.in_vain = 0 if found else lanes.in_vain + 1
        return taken

    def _next_lanes(self, kind: Kind, lanes: LanesOfKind, wanted: int, share: Share) -> list[int]:
        """The next lanes with waiting rows, from where the last step ended."""
        limit = min(MOST_LANES, max(FEWEST_LANES, 2 * wanted))
        for buckets in share.runs:
            numbers = numbers_in(buckets)
            if lanes.cursor >= numbers.stop:
                continue
            places = range(2 * max(lanes.cursor, numbers.start), 2 * numbers.stop)
            found, are_all = self._database.read(
                partial(self._dialect.lanes, kind=kind.name, places=places, limit=limit)
            )
            some = list(dict.fromkeys(map(lane_at, found)))
            lanes.cursor = numbers.stop if are_all else some[-1] + 1
            if some:
                return some
        lanes.wrapped(fair=kind.lanes.fair)
        return []

    def _start(
        self, rules: LaneRules, lanes: LanesOfKind, looked: Sequence[int], limit: int
    ) -> list[LaneRow]:
        """The first rows of these lanes that may start, at most `limit`."""
        if not looked:
            return []
        kind = rules.kind
        self._in_flight.rows.begin_read()
        states = self._database.read(
            lambda connection: read_lanes(connection, self._dialect, kind, looked)
        )
        known, let_go = self._in_flight.rows.ids, self._in_flight.rows.let_go()
        chosen: list[LaneRow] = []
        for lane, state in states.items():
            held = lanes.held.get(lane, set()) | {
                row.id for row in state.waiting if row.id in known
            }
            found = rules.next_of(state, held)
            self._note(found)
            rows = [row for row in found.rows if row.id not in let_go]
            if len(rows) < len(found.rows):
                # The read saw the old state of a row that has ended: look once more.
                lanes.again[lane] = None
            chosen += rows
        if kind.lanes.fair:
            lanes.in_turn(chosen, limit)
        else:
            chosen.sort(key=lambda row: (row.due_at, row.id))
        for row in chosen[:limit]:
            lanes.held.setdefault(row.lane, set()).add(row.id)
        lanes.again.update((row.lane, None) for row in chosen[limit:])
        return chosen[:limit]

    def _note(self, found: NextRows) -> None:
        self.some_alone |= found.some_alone
        if found.due_at is not None:
            self.next_due = min(found.due_at, self.next_due or found.due_at)


def _is_in(share: Share, lane: int) -> bool:
    bucket = owned_with(bucket_of_lane(lane))
    return any(bucket in run for run in share.runs)


def claim_rows(
    connection: Connection, dialect: Dialect, rows: Sequence[LaneRow], stamp: Stamp
) -> list[Claimed]:
    """Write the claims of rows that were just read, unless they have changed since."""
    seen = {row.id: row for row in rows}
    same = [
        row
        for row in _rows(dialect.laned(connection, list(seen), is_locked=True))
        if row.due_at == seen[row.id].due_at and row.batch is None
    ]
    if same:
        dialect.stamp(connection, [row.id for row in same], stamp)
    return [stamped(row.columns, stamp) for row in same]


def claim_foreign(
    connection: Connection,
    dialect: Dialect,
    rules: LaneRules,
    *,
    stamp: Stamp,
    owners: Collection[int],
    limit: int,
    after: int,
) -> tuple[list[Claimed], int]:
    """Claim the first rows of lanes whose owners do not serve the kind; and the lane to go on from.

    The buckets stay locked: no other worker decides about these lanes, and none that serves the
    kind can acquire one.
    """
    buckets = ring_store.keep_alone(connection, owners)
    kind = rules.kind
    for run in ring_store.runs_of(buckets):
        numbers = numbers_in(run)
        places = range(2 * max(after, numbers.start), 2 * numbers.stop)
        found, _ = dialect.lanes(connection, kind.name, places, limit=max(FEWEST_LANES, limit))
        lanes = list(dict.fromkeys(map(lane_at, found)))
        if lanes:
            states = read_lanes(connection, dialect, kind, lanes)
            chosen = [row for state in states.values() for row in rules.next_of(state, ()).rows]
            chosen.sort(key=lambda row: (row.due_at, row.id))
            return claim_rows(connection, dialect, chosen[:limit], stamp), lanes[-1] + 1
    return [], 0
