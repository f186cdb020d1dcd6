"""The loop that runs all sweeps of one worker, beside its tasks.

Who is the authority? The row of a range, and in it the batch of its claim. When a worker is marked
left, all its batches are cleared in the same transaction, so what it still writes changes nothing.

Which time is trusted? None, for safety. A range is taken over only when its worker is marked left,
which the clock of the database decides, never because the range was silent. Pauses are measured on
the monotonic clock.

What does each failure do? A worker dies: when it is marked left, its ranges have no owner, and a
worker with room continues from their breakpoints. What ran beyond them runs again, and is counted.
The database is away: nothing is reserved or saved; items that are reserved run. The source is away:
the error is reported, and reading is tried again after a growing pause; the ranges stay unchanged.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Sequence

from windlass import telemetry
from windlass.core.face import FaceLoop, Workplace
from windlass.core.finish.store import MINUTE
from windlass.core.limit.gate import Move
from windlass.core.task.kind import Kind
from windlass.database.connection import Connection
from windlass.database.dialect.base import Count
from windlass.source.contract import encode_key
from windlass.sweep.engine.range_runner import MOST_NOTED, SAVE_EVERY, RangeRunner, Tally
from windlass.sweep.engine.runner import SeenSweep, SweepRunner
from windlass.sweep.engine.served import ServedRuns
from windlass.sweep.model import SweepRow, is_sweep
from windlass.sweep.store import range as ranges
from windlass.sweep.store import sweep as store
from windlass.sweep.store.run import SweepRunRow

# How many threads call the source of the only sweep, and of each of several.
THREADS = 4
FEWEST_THREADS = 2
BUSY_PAUSE = 0.01
IDLE_PAUSE = 0.1
LOOK_SECONDS = 0.5
SOON_SECONDS = 0.1
HAND_BACK_SECONDS = 10.0
STRAGGLER_SECONDS = 10.0
# A worker makes way for a careful range after a random time between these.
WAY_SECONDS = (2.0, 6.0)


def loops(workplace: Workplace) -> Sequence[FaceLoop]:
    """The loop of a worker that serves sweeps whose shard this is."""
    site = workplace.site
    kinds = [kind for kind in workplace.kinds.values() if is_sweep(kind) and site.is_home(kind)]
    return [Sweeper(kinds, workplace)] if kinds else []


class Sweeper(FaceLoop):
    """Runs all sweeps of one worker."""

    name = "sweep"
    begins_runs = True

    def __init__(self, kinds: Sequence[Kind], workplace: Workplace) -> None:
        super().__init__()
        self._workplace = workplace
        self._site = workplace.site
        self._in_flight = workplace.in_flight
        self._meter = workplace.site.registry.meter
        threads = THREADS if len(kinds) == 1 else FEWEST_THREADS
        self._own = [self._runner(kind, threads) for kind in kinds]
        self._runs = ServedRuns({kind.name: kind for kind in kinds}, self._site, self._runner)
        self._turn = 0
        self._me = 0
        self._looked_at = float("-inf")
        self._noted_at = 0.0
        self._handed_back_at = self._checked_stragglers_at = time.monotonic()
        # Sweeps with a range that waits to run alone.
        self._careful: list[SweepRunner] = []
        self._make_way_at: float | None = None

    def _runner(self, kind: Kind, threads: int = FEWEST_THREADS) -> SweepRunner:
        return SweepRunner(kind, self._workplace, threads=threads, wake=self.wake)

    @property
    def runners(self) -> list[SweepRunner]:
        """Those of sweeps, and of runs over given sources."""
        return [*self._own, *self._runs.runners.values()]

    def tick(self) -> float:
        me, is_halted = self._workplace.worker(), self._in_flight.is_halted
        if is_halted or me != self._me:
            for runner in self.runners:
                runner.drop_all()
            self._me = me
        if is_halted:
            return IDLE_PAUSE
        self._look()
        has_careful = any(runner.is_careful for runner in self.runners)
        makes_way = not has_careful and self._makes_way()
        for runner in self._in_turn():
            has_ranges = bool(self._held())
            runner.step(me, may_claim=not has_careful, is_alone=not has_ranges, makes_way=makes_way)
        self.save()
        if makes_way and all(each.is_still for _, each in self._held()):
            self.release()
            self._make_way_at = None
        self._hand_back_unknown(me)
        self._check_stragglers()
        self.is_idle = all(runner.is_idle() for runner in self.runners)
        is_drain = self._workplace.until_idle
        if is_drain:
            problems = (runner.calls.problem for runner in self.runners)
            self.trouble = next(filter(None, problems), None)
        is_busy = any(runner.is_busy for runner in self.runners)
        return BUSY_PAUSE if is_busy or is_drain else IDLE_PAUSE

    def _in_turn(self) -> list[SweepRunner]:
        """Those with a careful range first; the others take turns, as runs of a sweep share it."""
        runners = self.runners
        if self._runs.runners:
            self._turn = (self._turn + 1) % len(runners)
            runners = runners[self._turn :] + runners[: self._turn]
            company = Counter(runner.kind.name for runner in runners if runner.has_items)
            for runner in runners:
                name = runner.kind.name
                runner.company = max(1, company[name])
                company[name] -= runner.has_items
        return sorted(runners, key=lambda runner: runner not in self._careful)

    def look_soon(self) -> None:
        """Something may have changed: read the rows in a moment."""
        self._looked_at = min(self._looked_at, time.monotonic() - LOOK_SECONDS + SOON_SECONDS)
        self.wake()

    def look_again(self) -> None:
        """Be idle only after the rows were read again."""
        self.is_idle = False
        self._looked_at = float("-inf")
        self.wake()

    def save(self, *, all_of_it: bool = False) -> None:
        """Save the ranges for which it is time, or all."""
        now = time.monotonic()
        due: list[tuple[SweepRunner, RangeRunner]] = []
        for runner, each in self._held():
            each.advance()
            if all_of_it or each.wants_save(now):
                due.append((runner, each))
        is_time = all_of_it or now - self._noted_at >= SAVE_EVERY
        tallies = self._in_flight.undisturbed(lambda: self._take_tallies(only_urgent=not is_time))
        if not due and not tallies:
            return
        if is_time:
            self._noted_at = now
        self._write(due, tallies)

    def release(self) -> None:
        """Save all ranges and return them, so that other workers may claim them."""
        for _, each in self._held():
            each.fail_delayed()
        self.save(all_of_it=True)
        now = self._site.clock.now()
        # A range that cannot be saved is returned as it was saved last.
        held = [(runner, each) for runner, each in self._held() if each.problem is None]

        def work(connection: Connection) -> None:
            for runner, each in held:
                again_to = each.again_to_if_released
                save = each.save(iter(()))
                ranges.release(connection, save, sweep=runner.name, again_to=again_to, now=now)

        if held:
            self._site.database.write_as(self._me, work, lost=None)
        for runner in self.runners:
            for each in runner.ranges:
                each.end_spans()
            runner.ranges.clear()

    def close(self) -> None:
        """Let the threads that call sources end; it does not wait for one that hangs."""
        for runner in self.runners:
            runner.calls.close()

    def _held(self) -> list[tuple[SweepRunner, RangeRunner]]:
        return [(runner, each) for runner in self.runners for each in runner.ranges]

    def _look(self) -> None:
        if time.monotonic() - self._looked_at < LOOK_SECONDS:
            return
        now = self._site.clock.now()

        own = [runner.name for runner in self._own]

        def read(connection: Connection) -> tuple[dict[str, SweepRow], dict[str, SeenSweep]]:
            free = ranges.free(connection)
            names = own
            if self._runs.runners or store.has_open_runs(connection):
                runs[:] = self._runs.read(connection, free.abandoned | free.careful)
                names = [*own, *self._runs.names(runs)]
            rows = store.named(connection, names)
            rows |= {run.name: store.as_run(rows[run.name]) for run in runs if run.name in rows}
            due = store.due_retries(connection, names, now=now)
            asked = store.asked_visits(connection, now=now)
            noted = store.wanted_fresh(connection, now=now)
            careful[:] = free.careful
            seen = {
                name: SeenSweep(name in due, name in asked, name in free.abandoned, name in noted)
                for name in names
            }
            return rows, seen

        careful: list[str] = []
        runs: list[SweepRunRow] = []
        rows, seen = self._site.database.read(read, tries=2)
        self._looked_at = time.monotonic()
        if self._runs.runners or runs:
            self._runs.see(runs, rows)
        for runner in self.runners:
            runner.see(rows.get(runner.name), seen[runner.name])
        self._careful = [runner for runner in self.runners if runner.name in careful]

    def _makes_way(self) -> bool:
        """Whether to release everything, so that a careful range can run alone here.

        An idle worker claims it at once. If there is none for some seconds, a busy one makes way;
        the random time keeps all workers from doing it together.
        """
        is_wanted = any(runner.may_claim for runner in self._careful)
        if not is_wanted or not self._held():
            self._make_way_at = None
            return False
        if self._make_way_at is None:
            self._make_way_at = time.monotonic() + random.uniform(*WAY_SECONDS)
        return time.monotonic() >= self._make_way_at

    def _take_tallies(self, *, only_urgent: bool) -> list[tuple[SweepRunner, Tally]]:
        return [
            (runner, tally)
            for runner in self.runners
            for tally in runner.take_tallies(only_urgent=only_urgent)
        ]

    def _write(
        self,
        due: list[tuple[SweepRunner, RangeRunner]],
        tallies: list[tuple[SweepRunner, Tally]],
    ) -> None:
        numbers = iter(self._site.numbers.take(sum(each.failed_rows for _, each in due)))
        made = [(runner, each, runner.prepare_save(each, numbers)) for runner, each in due]
        saves = [(runner, each, save) for runner, each, save in made if save is not None]
        now, began = self._site.clock.now(), time.monotonic()
        did, dialect = _did(tallies), self._site.database.dialect
        lost: set[int] = set()
        moves: list[Move] = []

        def work(connection: Connection) -> bool:
            lost.clear()
            for runner, _, save in sorted(saves, key=lambda made: made[2].id):
                if not ranges.save(connection, save, sweep=runner.name, now=now):
                    lost.add(save.id)
            moves[:] = self._note(connection, tallies, now)
            for name, (keys, at) in did.items():
                store.note_done(connection, dialect, name, keys, at=at)
            return True

        try:
            is_alive = self._site.database.write_as(self._me, work, lost=False, tries=2)
        except BaseException:
            for runner, tally in tallies:
                runner.unsaved_tallies.append(tally)
            raise
        self._obey(moves if is_alive else [], tallies if is_alive else [])
        self._workplace.gate.settle_trips(written_since=began)
        if is_alive:
            self._measure(tallies, now)
        _report_overloads(tallies)
        self.failed += sum(tally.failed for _, tally in tallies)
        self.done += sum(tally.done + tally.failed for _, tally in tallies)
        for runner, each, save in saves:
            if is_alive and save.id not in lost:
                runner.saved(each, save)
            else:
                runner.drop(each)

    def _note(
        self, connection: Connection, tallies: list[tuple[SweepRunner, Tally]], now: int
    ) -> list[Move]:
        """Count what has ended and inform the breakers; those that opened or closed."""
        counts = _counts(tallies, self._me, now)
        if counts:
            self._site.database.dialect.count(connection, counts)
        moves: list[Move] = []
        for _, tally in tallies:
            every = {run.task.id for run in tally.outcomes}
            moves += self._workplace.gate.breakers.note(connection, tally.outcomes, every, now=now)
        return moves

    def _measure(self, tallies: list[tuple[SweepRunner, Tally]], now: int) -> None:
        """Count what has ended for metrics, if they are asked for."""
        meter = self._meter
        if meter is None or not tallies:
            return
        durations: dict[str, list[float]] = {}
        for runner, tally in tallies:
            durations.setdefault(runner.kind.name, []).extend(tally.durations)
            if tally.overloaded:
                meter.overload(runner.load.kind, tally.overloaded)
        meter.swept(_counts(tallies, self._me, now), durations)

    def _obey(self, moves: list[Move], tallies: list[tuple[SweepRunner, Tally]]) -> None:
        """Take back the queued items of a sweep whose breaker has just opened."""
        breakers = self._workplace.gate.breakers
        for _, tally in tallies:
            every = {run.task.id for run in tally.outcomes}
            moves = [*moves, *breakers.note_elsewhere(tally.outcomes, every)]
        breakers.tell(moves)
        opened = {move.kind for move in moves if move.opened}
        for runner in self.runners:
            if opened.intersection(runner.load.names):
                self._in_flight.take_back(runner.kind.name)
        self._in_flight.undisturbed(self._reset_trips)

    def _reset_trips(self) -> None:
        """The errors that trip a breaker are saved, except those that came since."""
        for runner in self.runners:
            runner.load.is_tripped = any(each.tally.opens_breaker for each in runner.ranges)

    def _check_stragglers(self) -> None:
        if time.monotonic() - self._checked_stragglers_at >= STRAGGLER_SECONDS:
            self._checked_stragglers_at = time.monotonic()
            for runner in self.runners:
                runner.alert_of_stragglers()

    def _hand_back_unknown(self, me: int) -> None:
        """Return claims that this worker does not know, because the answer to them was lost."""
        if time.monotonic() - self._handed_back_at < HAND_BACK_SECONDS:
            return
        self._handed_back_at = time.monotonic()
        database = self._site.database
        known = {each.batch for _, each in self._held()}
        known.update(*(runner.asked_batches for runner in self.runners))
        held = database.read(lambda connection: ranges.held(connection, me), tries=2)
        if held <= known:
            return
        database.write_as(
            me,
            lambda connection: ranges.hand_back(connection, me, unless=known or [0]),
            lost=0,
            tries=2,
        )


def _report_overloads(tallies: list[tuple[SweepRunner, Tally]]) -> None:
    items = Counter[str]()
    for runner, tally in tallies:
        items[runner.name] += tally.overloaded
    for name, count in (+items).items():
        telemetry.emit("sweep.overloaded", sweep=name, items=count)


def _did(tallies: list[tuple[SweepRunner, Tally]]) -> dict[str, tuple[list[str], int]]:
    """The encoded keys that were done, by sweep, and a moment before all of them."""
    found: dict[str, tuple[list[str], int]] = {}
    for runner, tally in tallies:
        # Visits are of the sweep's own source.
        if tally.did and not runner.is_run:
            keys, at = found.get(runner.name, ([], tally.did_since))
            keys += [encode_key(key) for key in tally.did[: MOST_NOTED - len(keys)]]
            found[runner.name] = keys, min(at, tally.did_since)
    return found


def _counts(tallies: list[tuple[SweepRunner, Tally]], worker: int, now: int) -> list[Count]:
    counts: dict[str, Count] = {}
    for runner, tally in tallies:
        if not (tally.done or tally.failed or tally.retried):
            continue
        name = runner.kind.name
        count = counts.setdefault(name, Count(now // MINUTE, name, worker))
        count.done += tally.done
        count.failed += tally.failed
        count.retried += tally.retried
        count.milliseconds += round(tally.milliseconds)
    return sorted(counts.values(), key=lambda count: count.kind)
