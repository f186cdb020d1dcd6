"""Moving rows to the shard where they belong, although two databases share no transaction.

Who is the authority? The source shard, until the row is deleted there; from then on the copy. A
batch of rows moves in steps. Each step is a transaction, noted in a journal in the source:

1. Source: the rows are marked, so that no worker takes them, and their ids are in the journal.
2. Target: their copies are written, marked too. No worker runs them.
3. Source: the rows that have not changed since they were copied are deleted, and the journal lists
   them. A user who cancelled, hurried, replaced or removed a row in the meantime has changed the
   real row. That row stays, or is gone, and its copy is useless.
4. Target: the copies of rows that left lose their mark and run; the other copies are deleted.
5. Source: the journal is emptied.

What does each failure do? A mover that dies leaves a journal, and the next mover continues from it:
before step 3 it copies again what is still marked, afterwards it does step 4. Repeating a step
changes nothing. Each step first checks, under a lock, how far the journal has come on its side: the
source has its number, the target the number of the last journal that arrived. So two movers do not
disturb each other, and a mover that was stopped and wakes up late does nothing.

A flow run moves after it has ended, with its nodes: they are copied in step 2 and deleted in step
3. If the run is continued in the meantime, the real row has changed, and the run stays.

To find a row, look in the source before the target.

A row that a worker may have started does not move: a running row and, while the shard has workers,
a row that is due, or will be in a moment. The owner of a bucket may run due rows of it with nothing
written. So even when due rows are asked to move, they move only from buckets without an owner, or
whose owner does not serve their kind, and the bucket is locked while they are marked. If marking
took so long that other rows may have become due, the rows stay.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial

from msgspec.structs import replace

from windlass import telemetry
from windlass.clock import SECOND
from windlass.core.face import Values
from windlass.core.ring import store as ring_store
from windlass.core.ring.heartbeat import mark_dead
from windlass.core.ring.silence import overdue
from windlass.core.shard.fleet import Fleet, Rerouted
from windlass.core.shard.shard import Shard
from windlass.core.shard.store import move as store
from windlass.core.shard.store import shard as shard_store
from windlass.core.shard.store.move import Seen
from windlass.core.shard.store.shard import Journal
from windlass.core.task.store import gone as traces
from windlass.database.connection import Connection
from windlass.value.bucket import home_name
from windlass.value.shard import Roster
from windlass.value.status import Status

PAGE = 1_000
BATCH = 200
SOON = 2 * SECOND
# Rows that were not due by SOON are not due yet if marking took less; half of SOON is for clocks.
MARK_SECONDS = 1.0
EVER = 1 << 62


@dataclass
class Pass:
    """What one pass over all rows of a shard moved, and what it had to leave."""

    moved: int = 0
    # Rows that run, will soon, or were changed while they moved, and flow runs that have not ended.
    busy: int = 0
    runs: int = 0
    # Rows whose key is taken in the target.
    stuck: list[str] = field(default_factory=list)
    # The shards that took rows during the pass.
    layout: tuple[str, ...] = ()

    @property
    def is_clean(self) -> bool:
        return not (self.moved or self.busy or self.stuck)


class Mover:
    """Moves the rows of one shard that belong elsewhere, a batch at a time."""

    def __init__(self, fleet: Fleet, source: Shard, *, dead_after: int, due: bool = False) -> None:
        self._fleet = fleet
        self._source = source
        self._faces = source.faces
        self._dead_after = dead_after
        # Whether due rows move, too, while the shard has workers.
        self._due = due
        self._turn = 0

    def walk(self) -> Pass:
        """Go through all rows once, and move those that can move."""
        self._fleet.reconcile(self._source)
        done = Pass(layout=self._fleet.roster.layout)
        done.moved += self.resume()
        self._mark_dead()
        due_after = self._due_after()
        for page in self._pages():
            groups: dict[Shard, list[Seen]] = {}
            for row in page:
                target = self._target(row)
                if target is None:
                    continue
                if row.could_go(due_after=due_after):
                    groups.setdefault(target, []).append(row)
                else:
                    done.busy += 1
                    done.runs += row.is_run
            for target, rows in groups.items():
                for begin in range(0, len(rows), BATCH):
                    self._move(target, rows[begin : begin + BATCH], done)
        for face in self._faces.all:
            if face.move is not None:
                moved = face.move(self._fleet, self._source)
                done.moved += moved.moved
                done.busy += moved.busy
        return done

    def resume(self) -> int:
        """Finish the journal of a mover that died; how many rows moved."""
        journal = self._source.database.write(shard_store.moving).journal
        return 0 if journal is None else self._finish(journal, Pass())

    def take_back(self) -> None:
        """Let the rows in the journal of a mover that died stay, if they have not left."""
        journal = self._source.database.write(shard_store.moving).journal
        if journal is not None:
            self._finish(self._give_up(journal), Pass())

    def _pages(self) -> Iterator[list[Seen]]:
        last: int | None = None
        while True:
            look = partial(store.after, number=last, limit=PAGE)
            page = self._source.database.read(look)
            yield page
            if len(page) < PAGE:
                return
            last = page[-1].id

    def _target(self, row: Seen) -> Shard | None:
        """The shard where a row belongs, if that is another one."""
        if row.home is not None:
            home = self._fleet.home(row.kind, row.home)
            return None if home is self._source else home
        if not self._fleet.roster.is_draining(self._source.ring):
            return None
        others = [
            shard
            for shard in self._fleet.shards
            if shard.row is not None and not self._fleet.roster.is_draining(shard.ring)
        ]
        up = [shard for shard in others if shard.is_up] or others
        return up[(self._turn // BATCH) % len(up)]

    def _move(self, target: Shard, rows: list[Seen], done: Pass) -> None:
        self._turn += len(rows)
        ids = {row.id: row.id for row in rows}
        # Triggers make negative ids, which are unique only in their own database.
        negative = [number for number in ids if number < 0]
        if negative:
            ids |= zip(negative, target.numbers.take(len(negative)), strict=True)
        began = 0.0

        def begin(connection: Connection) -> tuple[Journal | None, int]:
            nonlocal began
            found = shard_store.moving(connection)
            if found.journal is not None:
                return found.journal, 0
            began, now = time.monotonic(), self._source.clock.now()
            marked = store.mark(connection, rows, now=now, soon=now + SOON)
            if not marked:
                return None, 0
            going = {number: new for number, new in ids.items() if number in marked}
            journal = Journal(found.last + 1, target.ring, going)
            kept = replace(found, last=journal.number, journal=journal)
            shard_store.keep_moving(connection, kept)
            return journal, len(marked)

        journal, marked = self._source.database.write(begin)
        done.busy += len(rows) - marked
        if journal is None:
            return
        if marked and time.monotonic() - began > MARK_SECONDS:
            journal = self._give_up(journal)
            done.busy += marked
        done.moved += self._finish(journal, done)

    def _finish(self, journal: Journal, done: Pass) -> int:
        """Do the remaining steps of a journal; how many rows moved."""
        target = next(
            shard for shard in self._fleet.shards if shard.row and shard.ring == journal.to
        )
        self._fleet.reconcile(target)
        if not journal.has_left:
            try:
                journal = self._copy(target, journal, done)
            except Rerouted:
                done.busy += len(journal.ids)
                journal = self._give_up(journal)
        self._arrive(target, journal)
        self._close(journal)
        target.bell.ring_here()
        if journal.ids:
            telemetry.emit(
                "shard.moved",
                rows=len(journal.ids),
                source=self._source.name,
                target=target.name,
            )
        return len(journal.ids)

    def _copy(self, target: Shard, journal: Journal, done: Pass) -> Journal:
        """Steps 2 and 3; the journal after them."""
        source, ids, roster = self._source.database, journal.ids, self._fleet.roster
        copies = source.read(lambda connection: store.leaving(connection, list(ids)))
        spare = source.read(lambda connection: store.expendable(connection, self._faces))
        check = self._fleet.guard(target, roster.number)
        if not all(_belongs(roster, target, row) for row in copies.values()):
            raise Rerouted(target)
        moved = [{**row, "id": ids[number]} for number, row in copies.items()]

        def put(connection: Connection) -> dict[int, str]:
            if self._has_arrived(connection, journal) or not moved:
                return {}
            check(connection)
            dialect = target.database.dialect
            refused = store.put(connection, dialect, moved, faces=self._faces, kinds=spare)
            going = [row for number, row in copies.items() if ids[number] not in refused]
            store.put_along(connection, dialect, self._faces, read=source.read, rows=going, ids=ids)
            return refused

        refused = target.database.write(put)
        kept = {
            number
            for number, row in copies.items()
            if not self._may_go(row, refused.get(ids[number]), spare, done)
        }
        going = {number: row for number, row in copies.items() if number not in kept}

        def leave(connection: Connection) -> Journal:
            gone = store.release(connection, going, faces=self._faces)
            # Their writer may not know yet that they were written, and may try again here.
            traces.remember(connection, source.dialect, gone, now=self._source.clock.now())
            store.unmark(connection, list(ids.keys() - gone))
            left = {number: new for number, new in ids.items() if number in gone}
            stay = tuple(new for number, new in ids.items() if number not in gone)
            return replace(journal, ids=left, has_left=True, stay=stay)

        after = self._next(journal, leave)
        # Others changed these rows meanwhile. They are still here: this pass is not clean.
        done.busy += len(ids) - len(kept) - len(after.ids)
        return after

    def _next(self, journal: Journal, step: Callable[[Connection], Journal]) -> Journal:
        """Do a step in the source, unless another mover was quicker; the journal after it."""

        def work(connection: Connection) -> Journal:
            found = shard_store.moving(connection)
            if found.journal is None or found.journal.number != journal.number:
                # Another mover has finished it.
                return replace(journal, ids={}, has_left=True, stay=())
            if found.journal.has_left:
                return found.journal
            after = step(connection)
            shard_store.keep_moving(connection, replace(found, journal=after))
            return after

        return self._source.database.write(work)

    def _has_arrived(self, connection: Connection, journal: Journal) -> bool:
        """Whether the target is done with a journal; locked until the transaction ends."""
        arrived = shard_store.moving(connection).arrived
        return arrived.get(self._source.ring, 0) >= journal.number

    def _arrive(self, target: Shard, journal: Journal) -> None:
        """Step 4."""

        def work(connection: Connection) -> None:
            found = shard_store.moving(connection)
            if found.arrived.get(self._source.ring, 0) < journal.number:
                store.arrive(
                    connection, list(journal.ids.values()), journal.stay, faces=self._faces
                )
                arrived = {**found.arrived, self._source.ring: journal.number}
                shard_store.keep_moving(connection, replace(found, arrived=arrived))

        target.database.write(work)

    def _may_go(self, row: Values, refused: str | None, spare: set[str], done: Pass) -> bool:
        """Whether a row may be deleted; `refused` says why its copy could not be written."""
        if refused is None or refused == "here":
            return True
        # The target already has the key: an item or an ended task loses nothing.
        if row["kind"] in spare or Status(row["status"]) in store.ENDED:
            return True
        done.stuck.append(f"{row['kind']} {row['task_key']}")
        return False

    def _give_up(self, journal: Journal) -> Journal:
        """Let the marked rows stay for now."""

        def stay(connection: Connection) -> Journal:
            store.unmark(connection, list(journal.ids))
            return replace(journal, ids={}, has_left=True, stay=tuple(journal.ids.values()))

        return self._next(journal, stay)

    def _close(self, journal: Journal) -> None:
        """Step 5."""

        def work(connection: Connection) -> None:
            found = shard_store.moving(connection)
            if found.journal is not None and found.journal.number == journal.number:
                shard_store.keep_moving(connection, replace(found, journal=None))

        self._source.database.write(work)

    # Which rows workers may have started

    def _due_after(self) -> int:
        now = self._source.clock.now()
        views = self._source.database.read(ring_store.workers)
        # Silent workers were just marked left.
        has_workers = any(view.kinds for view in views)
        return now + SOON if has_workers and not self._due else -EVER

    def _mark_dead(self) -> None:
        """Mark silent workers dead: the shard may have no worker left that does it."""
        database, clock = self._source.database, self._source.clock
        for number, lease in overdue(database, clock, dead_after=self._dead_after).items():
            mark_dead(database, self._faces, number=number, now=clock.now(), lease=lease)


def _belongs(roster: Roster, target: Shard, row: Values) -> bool:
    """Whether a row belongs to `target`, by the roster that its copy is written under."""
    lane = row.get("lane")
    key = row["task_key"] if lane is None else home_name(lane)
    if key is None:
        return not roster.is_draining(target.ring)
    return roster.home(row["kind"], key) == target.ring
