"""The sweeper: walks over large sources, range by range, beside the tasks of a worker.

Who is the authority? The row of a range, and in it the batch of its claim: a worker that was marked
left has lost all batches in the same transaction, so what it still writes changes nothing.

Which time is trusted? None, for safety: a range is taken over when its worker is marked left, which
is decided by the database's clock, and never because it has been silent. Pauses are measured on the
monotonic clock.

What does each failure do? A worker dies: its ranges fall when it is marked left, and whoever has
room goes on from their breakpoints; what ran beyond them runs again, and is counted. The database
is away: nothing is reserved and nothing saved, items that were reserved go on. The source is away:
its error is told, reading is tried again after a growing pause, and the ranges stay where they are.
"""

from __future__ import annotations

import random
import time
from collections.abc import Mapping

from sqlalchemy import Connection

from windlass.core.face import FaceLoop, Workplace
from windlass.core.finish.store.history import MINUTE
from windlass.core.limit.breaker import Move
from windlass.core.task.kind import Kind
from windlass.database.dialect.base import Count
from windlass.sweep.engine.range_runner import SAVE_EVERY, Part, Tally
from windlass.sweep.engine.runner import Tools, Walk
from windlass.sweep.store import failed_item as aside
from windlass.sweep.store import range as ranges
from windlass.sweep.store import sweep as store
from windlass.sweep.store.sweep import SweepRow

# How many threads ask the source of the only sweep, and of each one of several.
THREADS = 4
FEWEST_THREADS = 2
BUSY_PAUSE = 0.01
IDLE_PAUSE = 0.1
LOOK_SECONDS = 0.5
SOON_SECONDS = 0.1
HAND_BACK_SECONDS = 10.0
MIND_SECONDS = 10.0
WAY_SECONDS = (2.0, 6.0)


class Sweeper(FaceLoop):
    """Moves all sweeps of one worker."""

    name = "sweep"
    begins_runs = True

    def __init__(self, kinds: Mapping[str, Kind], workplace: Workplace) -> None:
        super().__init__()
        site = workplace.site
        self._database = site.database
        self._clock = site.clock
        self._numbers = site.numbers
        self._in_flight = workplace.in_flight
        self._breakers = workplace.breakers
        self._worker = workplace.worker
        self._once = workplace.until_idle
        swept = [kind for kind in kinds.values() if kind.sweep is not None]
        tools = Tools(
            database=site.database,
            clock=site.clock,
            numbers=site.numbers,
            in_flight=workplace.in_flight,
            gate=workplace.gate,
            wake=self.wake,
            is_quiet=workplace.is_quiet,
            once=workplace.until_idle,
            only_retries=workplace.only_asked,
            threads=THREADS if len(swept) == 1 else FEWEST_THREADS,
        )
        self.walks = [Walk(kind, tools) for kind in swept]
        self._me = 0
        self._looked_at = float("-inf")
        self._noted_at = 0.0
        self._handed_back_at = self._minded_at = time.monotonic()
        self._suspects: list[Walk] = []
        self._way_at: float | None = None

    def tick(self) -> float:
        me = self._worker()
        if self._in_flight.is_halted or me != self._me:
            for walk in self.walks:
                walk.drop_all()
            self._me = me
        if self._in_flight.is_halted:
            return IDLE_PAUSE
        self._look()
        careful = [walk for walk in self.walks if walk.is_careful]
        makes_way = not careful and self._makes_way()
        for walk in sorted(self.walks, key=lambda walk: walk not in self._suspects):
            others = any(other.parts for other in self.walks)
            walk.step(me, may_claim=not careful, is_alone=not others, makes_way=makes_way)
        self.save()
        if makes_way and all(part.is_still for walk in self.walks for part in walk.parts):
            self.release()
            self._way_at = None
        self._hand_back_unknown(me)
        self._mind_stragglers()
        self.is_idle = all(walk.is_idle() for walk in self.walks)
        if self._once:
            self.trouble = next((walk.problem for walk in self.walks if walk.problem), None)
        is_busy = any(walk.is_busy for walk in self.walks)
        return BUSY_PAUSE if is_busy or self._once else IDLE_PAUSE

    def look_soon(self) -> None:
        """Something may have changed: look at the rows in a moment."""
        self._looked_at = min(self._looked_at, time.monotonic() - LOOK_SECONDS + SOON_SECONDS)
        self.wake()

    def look_again(self) -> None:
        """Be idle only after another look at the rows."""
        self.is_idle = False
        self._looked_at = float("-inf")
        self.wake()

    def save(self, *, all_of_it: bool = False) -> None:
        """Write down how far the ranges are, of those for which it is time."""
        now = time.monotonic()
        due: list[tuple[Walk, Part]] = []
        for walk in self.walks:
            for part in walk.parts:
                part.advance()
                if all_of_it or part.wants_save(now):
                    due.append((walk, part))
        is_time = all_of_it or now - self._noted_at >= SAVE_EVERY
        tallies = self._tallies(only_urgent=not is_time)
        if not due and not tallies:
            return
        if is_time:
            self._noted_at = now
        self._write(due, tallies)

    def release(self) -> None:
        """Save everything, and let the ranges wait for others."""
        for walk in self.walks:
            for part in walk.parts:
                part.set_waiting_aside()
        self.save(all_of_it=True)
        now, me = self._clock.now(), self._me
        every = [(walk, part) for walk in self.walks for part in walk.parts]
        # One that cannot be saved is handed back as it was.
        parts = [(walk, part) for walk, part in every if part.problem is None]

        def work(connection: Connection) -> None:
            if not self._database.dialect.alive(connection, me):
                return
            for walk, part in parts:
                again_to = part.again_to
                if again_to is None and part.has_begun_beyond:
                    again_to = part.read_to
                save = part.save(iter(()))
                ranges.release(connection, save, sweep=walk.name, again_to=again_to, now=now)

        if parts:
            self._database.write(work)
        for walk in self.walks:
            walk.parts.clear()

    def close(self) -> None:
        """Let the threads go that ask sources; one that hangs is left behind."""
        for walk in self.walks:
            walk.close()

    def _look(self) -> None:
        if time.monotonic() - self._looked_at < LOOK_SECONDS:
            return
        names, now = [walk.name for walk in self.walks], self._clock.now()

        def read(connection: Connection) -> tuple[dict[str, SweepRow], set[str], ranges.Free]:
            rows = {row.name: row for row in store.listing(connection)}
            asked = {name for name in names if aside.is_asked(connection, name, now=now)}
            return rows, asked, ranges.free(connection)

        rows, asked, free = self._database.read(read, tries=2)
        self._looked_at = time.monotonic()
        for walk in self.walks:
            name = walk.name
            walk.see(rows.get(name), is_asked=name in asked, has_fallen=name in free.abandoned)
        self._suspects = [walk for walk in self.walks if walk.name in free.careful]

    def _makes_way(self) -> bool:
        """Whether to let go of everything, so that a range with a suspect in it can run alone.

        Whoever has nothing to do takes it at once. If nobody does for some seconds, somebody who
        has makes way for it; not all at the same time.
        """
        is_wanted = any(walk.may_claim for walk in self._suspects)
        if not is_wanted or not any(walk.parts for walk in self.walks):
            self._way_at = None
            return False
        if self._way_at is None:
            self._way_at = time.monotonic() + random.uniform(*WAY_SECONDS)
        return time.monotonic() >= self._way_at

    def _tallies(self, *, only_urgent: bool) -> list[tuple[Kind, Tally]]:
        """What has ended since the last time, of those for which it is time."""

        def swap() -> list[tuple[Kind, Tally]]:
            taken: list[tuple[Kind, Tally]] = []
            for walk in self.walks:
                owners = [part.tally for part in walk.parts]
                found = [*walk.again.tallies, *owners]
                if only_urgent and not any(tally.is_urgent for tally in found):
                    continue
                taken += [(walk.kind, tally) for tally in found if not tally.is_empty]
                walk.again.tallies = [Tally()]
                for part in walk.parts:
                    part.tally = part.tally.successor()
            return taken

        return self._in_flight.undisturbed(swap)

    def _write(self, due: list[tuple[Walk, Part]], tallies: list[tuple[Kind, Tally]]) -> None:
        failed = sum(part.failed_rows for _, part in due)
        numbers = iter(self._numbers.take(failed) if failed else ())
        made = [(walk, part, walk.made(part, numbers)) for walk, part in due]
        saves = [(walk, part, save) for walk, part, save in made if save is not None]
        now, me = self._clock.now(), self._me
        lost: list[tuple[Walk, Part]] = []
        moves: list[Move] = []

        def work(connection: Connection) -> None:
            lost.clear()
            moves.clear()
            if not self._database.dialect.alive(connection, me):
                lost.extend(due)
                return
            for walk, part, save in sorted(saves, key=lambda each: each[2].id):
                if not ranges.save(connection, save, sweep=walk.name, now=now):
                    lost.append((walk, part))
            moves.extend(self._note(connection, tallies, now))

        try:
            self._database.write(work, tries=2)
        except Exception:
            # What ended is told with the next save.
            for walk in self.walks:
                walk.again.tallies += [tally for kind, tally in tallies if kind is walk.kind]
            raise
        self._obey(moves)
        self.failed += sum(tally.failed for _, tally in tallies)
        self.done += sum(tally.done + tally.failed for _, tally in tallies)
        for walk, part, save in saves:
            if (walk, part) in lost:
                walk.drop(part)
            else:
                walk.saved(part, save)

    def _note(
        self, connection: Connection, tallies: list[tuple[Kind, Tally]], now: int
    ) -> list[Move]:
        """Count what has ended, and tell the breakers; those that moved."""
        counts = _counts(tallies, self._me, now)
        if counts:
            self._database.dialect.count(connection, counts)
        moves: list[Move] = []
        for _, tally in tallies:
            every = {run.task.id for run in tally.outcomes}
            moves += self._breakers.note(connection, tally.outcomes, every, now=now)
        return moves

    def _obey(self, moves: list[Move]) -> None:
        """What a breaker that has just opened keeps from running is not even queued."""
        self._breakers.tell(moves)
        for move in moves:
            if move.opened:
                self._in_flight.take_back(move.kind)
        self._in_flight.undisturbed(self._reset_trips)

    def _reset_trips(self) -> None:
        """What was enough to open a breaker is written down, unless it has come since."""
        for walk in self.walks:
            walk.load.is_tripped = any(part.tally.opens_breaker for part in walk.parts)

    def _mind_stragglers(self) -> None:
        if time.monotonic() - self._minded_at >= MIND_SECONDS:
            self._minded_at = time.monotonic()
            for walk in self.walks:
                walk.mind_stragglers()

    def _hand_back_unknown(self, me: int) -> None:
        """A claim whose answer was lost is nobody's concern here: let others have it."""
        if time.monotonic() - self._handed_back_at < HAND_BACK_SECONDS:
            return
        self._handed_back_at = time.monotonic()
        known = {part.batch for walk in self.walks for part in walk.parts}
        known |= {walk.again.batch for walk in self.walks if walk.again.batch is not None}
        held = self._database.read(lambda connection: ranges.held(connection, me), tries=2)
        if held <= known:
            return

        def work(connection: Connection) -> None:
            if self._database.dialect.alive(connection, me):
                ranges.hand_back(connection, me, unless=known or [0])

        self._database.write(work, tries=2)


def _counts(tallies: list[tuple[Kind, Tally]], worker: int, now: int) -> list[Count]:
    counts: dict[str, Count] = {}
    for kind, tally in tallies:
        if not (tally.done or tally.failed or tally.retried):
            continue
        count = counts.setdefault(kind.name, Count(now // MINUTE, kind.name, worker))
        count.done += tally.done
        count.failed += tally.failed
        count.retried += tally.retried
        count.milliseconds += round(tally.milliseconds)
    return sorted(counts.values(), key=lambda count: count.kind)
