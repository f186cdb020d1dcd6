"""The owner's read of lanes: rows of one lane run in order, at most `per_lane` of them at once.

Who is the authority? The owner of the lane's bucket: it alone takes rows of the lane that wait, so
it needs no lock. A row occupies its lane

* in the memory of the owner, from its read until its outcome is committed, and
* in the database, while it is running by a written claim, in any worker.

So when a bucket changes hands, the new owner learns from the database what still runs: an owner
that gives up a bucket writes the claims of everything it has started. When an owner dies, what it
had read and started is due before `careful_to` and is the first of its lane again; what it had
claimed stays a written claim until another worker has taken it over and it has ended.

A row that was tried and will be tried again holds its lane (`on_failure="hold"`): its place in the
index is before all others of the lane, so nothing else of the lane starts before it ends. The same
place has a row that was claimed and returned to the queue with another due time.

Each time that a lane is free, its first rows are read again, unless it was read to its end a moment
ago and nothing new was seen. So a row that was committed late goes before later ones that were
there already. Quick rows behind the first one may follow it in a chain (`core/run/chain.py`) before
its outcome is committed.

Rows of lanes are never offered to other workers, and never handed off.

If the owner of a bucket does not serve a kind, other workers claim the first rows of its lanes.
They lock the bucket, so that only one of them at a time decides what comes next.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

from windlass.core.ring import store as ring_store
from windlass.core.task.kind import Kind
from windlass.database.connection import Connection
from windlass.database.dialect.base import Dialect, Stamp, stamped
from windlass.value.bucket import is_holding, lane_at, numbers_in
from windlass.value.status import Status
from windlass.value.task import Claimed

# Where some of the LANE_COLUMNS are.
ID, DUE_AT, FLOW_ID, LOST_IN_A_ROW, BATCH, PLACE = 0, 4, 10, 11, 12, 13
# The place, the due time and the id of a row.
ORDER = itemgetter(PLACE, DUE_AT, ID)
# How many lanes one step looks at, at least.
FEWEST_LANES = 32


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


# A row of a lane as it was read: its LANE_COLUMNS.
ReadRow = Sequence[Any]


def lane_row(read: ReadRow) -> LaneRow:
    """A row that was read, with names."""
    *columns, lost, batch, place = read
    return LaneRow(columns, lost, batch, place)


class LaneState(NamedTuple):
    """The first waiting rows of a lane in order, and the ids of those that run by a claim."""

    waiting: list[ReadRow]
    running: Collection[int] = ()


def read_lanes(
    connection: Connection,
    dialect: Dialect,
    kind: Kind,
    lanes: Collection[int],
    *,
    longest: int = 1,
) -> dict[int, LaneState]:
    """What is in each of these lanes, without lanes that are full or empty.

    Up to `longest` rows of each lane in which one runs at a time.
    """
    most = kind.lanes.per_lane
    if most == 1:
        return _in_lanes(dialect.chains(connection, kind.name, lanes, most=longest))
    found: dict[int, LaneState] = {}
    for lane in lanes:
        running = dialect.lane_rows(connection, kind.name, lane, status=Status.RUNNING, limit=most)
        # As many may be in flight, with nothing written.
        ids = dialect.lane_rows(connection, kind.name, lane, status=Status.WAITING, limit=2 * most)
        if ids and len(running) < most:
            order = {number: index for index, number in enumerate(ids)}
            rows = sorted(dialect.laned(connection, ids), key=lambda row: order[row[ID]])
            found[lane] = LaneState(rows, set(running))
    return found


def _in_lanes(rows: Iterable[ReadRow]) -> dict[int, LaneState]:
    """The rows by their lanes, in order."""
    found: dict[int, list[ReadRow]] = {}
    for row in rows:
        lane = lane_at(row[PLACE])
        if lane in found:
            found[lane].append(row)
        else:
            found[lane] = [row]
    for some in found.values():
        some.sort(key=ORDER)
    return {lane: LaneState(some) for lane, some in found.items()}


class LaneRules(NamedTuple):
    """Which rows of a kind's lanes may start now."""

    kind: Kind
    due_until: int
    # Rows that were lost as often in a row may start.
    lost: range

    def next_of(self, state: LaneState, held: Collection[int]) -> NextRows:
        """The rows of a lane that may start; those in `held` are in flight."""
        free = self.kind.lanes.per_lane - len({*state.running, *held})
        chosen: list[LaneRow] = []
        due_at: int | None = None
        some_alone = False
        for row in map(lane_row, state.waiting):
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

    def behind(self, first: LaneRow, rows: Iterable[ReadRow]) -> Iterator[ReadRow]:
        """Those of the next rows of a lane, in order, that may follow its `first` at once."""
        if is_holding(first.place) or first.lost_in_a_row:
            return
        due_until = self.due_until
        for row in rows:
            if row[BATCH] is not None or row[LOST_IN_A_ROW] or row[FLOW_ID] is not None:
                return
            if row[DUE_AT] > due_until:
                return
            yield row


class NextRows(NamedTuple):
    """The rows of a lane that may start, when others become due, and whether one must run alone."""

    rows: list[LaneRow]
    due_at: int | None
    some_alone: bool


def claim_rows(
    connection: Connection, dialect: Dialect, rows: Sequence[LaneRow], stamp: Stamp
) -> list[Claimed]:
    """Write the claims of rows that were just read, in this order, unless they have changed."""
    ids = [row.id for row in rows]
    rows_now = map(lane_row, dialect.laned(connection, ids, is_locked=True))
    found = {row.id: row for row in rows_now}
    seen = [(row, found[row.id]) for row in rows if row.id in found]
    same = [now for row, now in seen if now.due_at == row.due_at and now.batch is None]
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
