"""One sweep in one worker: it claims ranges, keeps them supplied with rows, and ends them.

All of it happens on the thread of the sweeper, but what asks the source: that may take long, so it
is done by a few threads, and what it brought is taken in when it is there.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection

from windlass import telemetry
from windlass.clock import Clock
from windlass.core.limit.gate import Gate
from windlass.core.run.in_flight import InFlight
from windlass.core.task.kind import Kind
from windlass.database.database import Database
from windlass.database.number import Numbers
from windlass.errors import BadKey
from windlass.source.ask import CheckedSource, SourceFailed
from windlass.sweep.engine.item import ItemRun
from windlass.sweep.engine.range_runner import Part
from windlass.sweep.engine.reader import Reading, name_of, read_more
from windlass.sweep.engine.retry import Again
from windlass.sweep.engine.round import (
    alert_of_failures,
    note_trouble,
    open_round,
    take_over,
    tell_straggler,
)
from windlass.sweep.engine.split import cut
from windlass.sweep.model import (
    described,
    has_same_keys,
    may_begin_at,
    next_to_split,
    stragglers,
)
from windlass.sweep.store import range as ranges
from windlass.sweep.store import sweep as store
from windlass.sweep.store.range import Completed, Save, Wish
from windlass.sweep.store.sweep import SweepRow

# How many ranges a worker has of one sweep: the rest is for others, and for later.
MOST_PARTS = 4
# And so many at most if others die.
MOST_RESCUED = 64
CLAIM_AGAIN_AFTER = 0.25
STEAL_AGAIN_AFTER = 0.5
# What will be over by itself that soon is not worth a cut.
NOT_WORTH_SECONDS = 2.0
FIRST_PAUSE = 1.0
LONGEST_PAUSE = 60.0
# When a sweep is taken over whose source was declared otherwise, and that nobody walks.
OTHERS_SECONDS = 60.0


@dataclass(frozen=True)
class Tools:
    """What the walks of a worker share."""

    database: Database
    clock: Clock
    numbers: Numbers
    in_flight: InFlight
    gate: Gate
    wake: Callable[[], None]
    # Whether nothing new may begin, as a row is to run alone.
    is_quiet: Callable[[], bool]
    # Whether it ends when nothing is due, and then begins each round once at most.
    once: bool
    only_retries: bool
    # How many threads ask one source. Each has its own: one that hangs must not hold up others.
    threads: int


class Walk:
    """A sweep as this worker walks it."""

    def __init__(self, kind: Kind, tools: Tools) -> None:
        assert kind.sweep is not None
        assert kind.source is not None
        self.kind = kind
        self.terms = kind.sweep
        self.source = CheckedSource(kind.source)
        self._tools = tools
        self._threads = ThreadPoolExecutor(tools.threads, thread_name_prefix="windlass-source")
        self.load = tools.in_flight.loads[kind.name]
        self.parts: list[Part] = []
        self.again = Again(kind, self.load, tools.clock, tools.wake)
        self.row: SweepRow | None = None
        self._described = described(kind.source, name_of(kind.source))
        self._others_since: float | None = None
        self._readings: dict[Future[Reading], Part] = {}
        self._starting: Future[int | None] | None = None
        self._stealing: Future[bool] | None = None
        self._start_at = 0.0
        self._pause = FIRST_PAUSE
        self._claim_at = 0.0
        self._steal_at = 0.0
        self._found_none = False
        self._has_fallen = False
        self._begun = False
        self.problem: Exception | None = None

    @property
    def name(self) -> str:
        return self.kind.name

    @property
    def may_claim(self) -> bool:
        """Whether a round runs, and nothing keeps it from going on."""
        row = self.row
        is_on = row is not None and row.is_running and row.stopped_at is None and self._is_ours
        return is_on and self.load.is_open and not self._tools.only_retries

    @property
    def _is_ours(self) -> bool:
        """Whether the sweep walks the source that is declared here, and not one with other keys."""
        return self.row is None or has_same_keys(self.row.source, self._described)

    @property
    def is_careful(self) -> bool:
        """Whether it has a range whose items run alone."""
        return any(part.is_careful or part.stored_careful for part in self.parts)

    @property
    def is_busy(self) -> bool:
        """Whether it holds something, or is about to."""
        futures = self._starting or self._stealing
        return bool(self.parts or self._readings or futures or self.again.is_busy)

    def is_idle(self) -> bool:
        """Whether nothing is to be done now that could be."""
        if self.again.is_busy or self.again.is_asked:
            return self._is_held_back
        if self._tools.only_retries or self._is_held_back or not self._is_ours:
            return True
        if self.is_busy or self.row is None:
            return False
        return self._found_none if self.row.is_running else not self._is_due

    @property
    def _is_held_back(self) -> bool:
        is_running = self.load.running or self.load.queued
        return self._tools.gate.is_held(self.name) and not is_running

    @property
    def _is_due(self) -> bool:
        row = self.row
        if row is None or row.is_running or row.due_at is None or row.stopped_at is not None:
            return False
        if (self._tools.once and self._begun) or not self._is_ours:
            return False
        now = self._tools.clock.now()
        if row.due_at > now:
            return False
        return (
            self._tools.once or may_begin_at(started_at=row.started_at, rows=row.rows or 0) <= now
        )

    def see(self, row: SweepRow | None, *, is_asked: bool, has_fallen: bool) -> None:
        """Know the row of the sweep, and what waits: items to be tried again, abandoned ranges."""
        if self.row is not None and row is not None and row.round != self.row.round:
            self._claim_at = 0.0
            self._found_none = False
        self.row = row
        if row is not None and row.is_running:
            # One that ends when nothing is due takes part in one round only.
            self._begun = True
        self.again.is_asked = is_asked
        self._has_fallen = has_fallen

    def step(
        self, worker: int, *, may_claim: bool, is_alone: bool, makes_way: bool = False
    ) -> None:
        """Do what can be done now. One that `makes_way` lets nothing new begin."""
        self._take_in()
        if makes_way:
            return
        self.again.step(self._tools, worker, self.source, self._threads)
        if self.row is None or self._tools.only_retries:
            self._fill()
            return
        is_open = self.load.is_open and self.row.stopped_at is None
        self._mind_others()
        if is_open and self._is_due:
            self._begin(worker)
        if self.may_claim and may_claim:
            self._claim(worker, is_alone=is_alone)
            self._steal()
        if is_open:
            self._read()
        self._fill()
        if self._tools.once:
            self._wait_for_nothing()
        for part in [part for part in self.parts if part.is_finished and part.problem is None]:
            self._complete(part)

    def _wait_for_nothing(self) -> None:
        """One that ends when nothing is due leaves later tries to others."""
        for part in self.parts:
            if not (self.load.running or self.load.queued) and part.only_waits:
                part.set_waiting_aside()
                part.advance()

    def drop(self, part: Part) -> None:
        """A range is not ours any more: forget it, and stop what runs of it."""
        part.is_lost = True
        if part in self.parts:
            self.parts.remove(part)
        self._tools.in_flight.drop_kept(part)

    def drop_all(self) -> None:
        """That heartbeat is over: nothing is ours."""
        for part in list(self.parts):
            self.drop(part)
        self.again.drop()
        self._claim_at = 0.0

    def close(self) -> None:
        """Let the threads go that ask the source; one that hangs is left behind."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    # Rounds

    def _mind_others(self) -> None:
        """Take a sweep over that walks a source with other keys, once nobody does that any more.

        While workers with two declarations live beside each other they must not take it from each
        other all the time.
        """
        now = time.monotonic()
        if self._is_ours:
            self._others_since = None
        elif self._others_since is None:
            self._others_since = now
        elif now - self._others_since >= OTHERS_SECONDS:
            self._others_since = now
            tools = self._tools
            found = tools.database.read(lambda connection: ranges.listing(connection, self.name))
            if all(each.batch is None for each in found):
                take_over(tools.database, tools.numbers, tools.clock, self.kind)

    def _begin(self, worker: int) -> None:
        if self._starting is None and time.monotonic() >= self._start_at:
            self._starting = self._threads.submit(self._open_round, worker)

    def _open_round(self, worker: int) -> int | None:
        tools = self._tools
        now = tools.clock.now()

        def take(connection: Connection) -> SweepRow | None:
            if not tools.database.dialect.alive(connection, worker):
                return None
            return store.take_start(connection, self.name, worker=worker, now=now)

        before = tools.database.write(take)
        if before is None:
            return None
        try:
            return open_round(
                tools.database,
                tools.numbers,
                tools.clock,
                before,
                self.source,
                source_text=self._described,
                worker=worker,
            )
        except Exception:
            tools.database.write(
                lambda connection: store.give_up_start(connection, self.name, worker=worker)
            )
            raise

    # Ranges

    def _claim(self, worker: int, *, is_alone: bool) -> None:
        most = min(MOST_PARTS, self.load.limit)
        while self._wants_part(most) and time.monotonic() >= self._claim_at:
            has_enough = len(self.parts) >= most
            found = self._claim_one(worker, is_alone=is_alone, only_fallen=has_enough)
            self._found_none = found is None
            if found is None:
                self._has_fallen = False
                self._claim_at = time.monotonic() + CLAIM_AGAIN_AFTER
                return
            self._tell(found)
            clock, wake = self._tools.clock, self._tools.wake
            self.parts.append(Part(found.range, self.load, self.terms, clock, wake))
            if found.range.is_careful:
                return
            is_alone = False

    def _wants_part(self, most: int) -> bool:
        held = len(self.parts)
        return held < most or (self._has_fallen and held < MOST_RESCUED)

    def _claim_one(self, worker: int, *, is_alone: bool, only_fallen: bool) -> ranges.Claim | None:
        tools = self._tools
        batch, *numbers = tools.numbers.take(3)
        wish = Wish(
            self.name,
            self.terms.order,
            max_lost=self.kind.max_lost,
            is_alone=is_alone,
            only_fallen=only_fallen,
        )

        def work(connection: Connection) -> ranges.Claim | None:
            return ranges.claim(
                connection,
                tools.database.dialect,
                wish,
                batch=batch,
                worker=worker,
                now=tools.clock.now(),
                numbers=numbers,
            )

        return tools.database.write(work)

    def _tell(self, found: ranges.Claim) -> None:
        facts = {"sweep": self.name, "range": found.range.id}
        if found.range.lost:
            telemetry.emit("range.rescued", **facts, lost=found.range.lost)
        if found.poison is not None:
            telemetry.emit("range.poison", **facts, key=found.poison)

    def _read(self) -> None:
        for part in self.parts:
            if part.wants_rows:
                part.begin_reading()
                future = self._threads.submit(read_more, self._tools.database, self.source, part)
                self._readings[future] = part
                future.add_done_callback(lambda _future: self._tools.wake())

    def _take_in(self) -> None:
        """Have what the threads have brought."""
        for future in [future for future in self._readings if future.done()]:
            part = self._readings.pop(future)
            part.is_reading = False
            reading = self._result(future)
            if reading is None:
                part.read_again_at = self._start_at
            elif not part.is_lost:
                self._have(part, reading)
        if self._starting is not None and self._starting.done():
            started, self._starting = self._starting, None
            if self._result(started) is not None:
                self._begun = True
                self._claim_at = 0.0
                self._found_none = False
                self.row = self._tools.database.read(
                    lambda connection: store.get(connection, self.name)
                )
        if self._stealing is not None and self._stealing.done():
            stolen, self._stealing = self._stealing, None
            if self._result(stolen):
                self._claim_at = 0.0
                self._found_none = False

    def _result(self, future: Future[Any]) -> Any:
        """What a thread brought; trouble with the source is told, and waited out.

        Any other trouble is that of our own database: the loop tells it, and tries again.
        """
        try:
            found = future.result()
        except (SourceFailed, BadKey) as failed:
            problem = failed.__cause__ if isinstance(failed, SourceFailed) else failed
            assert isinstance(problem, Exception)
            tools = self._tools
            note_trouble(tools.database, tools.numbers, tools.clock, self.name, problem)
            self.problem = problem
            self._wait_out()
            return None
        if self.problem is not None and not any(part.problem for part in self.parts):
            self.problem, self._pause = None, FIRST_PAUSE
            self._tools.database.write(
                lambda connection: store.note_error(connection, self.name, None)
            )
        return found

    def _wait_out(self) -> None:
        """Ask the source again after a pause, which grows with each try, not with each range."""
        now = time.monotonic()
        if now >= self._start_at:
            self._start_at = now + self._pause
            self._pause = min(2 * self._pause, LONGEST_PAUSE)

    def _have(self, part: Part, reading: Reading) -> None:
        if reading.is_lost:
            self.drop(part)
            return
        if reading.end != part.end:
            part.end, part.is_exhausted = reading.end, False
            return
        if reading.again_is_over:
            part.again_to, part.is_careful = None, False
            return
        part.read_to = reading.read_to
        part.is_exhausted = reading.is_exhausted
        for page in reading.pages:
            part.extend(page, is_again=part.again_to is not None)
        if reading.has_reserved and not part.in_flight:
            # The rows that were there when it was asked how far they go are gone.
            part.pass_to(reading.read_to)

    def _fill(self) -> None:
        """Have as many items begin as may."""
        tools = self._tools
        room = 0 if tools.is_quiet() else tools.in_flight.item_room(self.name)
        every: list[Part | Again] = [self.again, *self.parts]
        sources = [each for each in every if each.has_some]
        if not room or not sources or self.load.is_tripped:
            return
        allowed = tools.gate.allow(self.name, room)
        runs: list[ItemRun] = []
        for place, each in enumerate(sources):
            share = -(-(allowed.most - len(runs)) // (len(sources) - place))
            runs += each.issue(share)
        if runs:
            runs[0].is_probe = allowed.is_probe
            tools.in_flight.add_items(runs)
        tools.gate.took(self.name, allowed, len(runs))

    def _complete(self, part: Part) -> None:
        tools = self._tools
        part.advance()
        if not part.is_finished:
            return
        part.pass_to(part.read_to)
        numbers = tools.numbers.take(part.failed_rows) if part.failures else []
        save = self.made(part, iter(numbers))
        if save is None:
            return
        now = tools.clock.now()

        def work(connection: Connection) -> Completed:
            if not tools.database.dialect.alive(connection, part.worker):
                return Completed(False)
            ended = ranges.complete(connection, save, sweep=self.name, end=part.end, now=now)
            if ended.over is not None:
                alert_of_failures(connection, tools.numbers, self.name, ended.over, now=now)
            return ended

        completed = tools.database.write(work)
        if completed.is_done:
            self._completed(part, save, completed)
            return
        found = tools.database.read(lambda connection: ranges.look(connection, part.range.id))
        if found is None or found.batch != part.batch:
            self.drop(part)
        else:
            self.saved(part, save)
            part.end, part.is_exhausted = found.end, False

    def made(self, part: Part, numbers: Iterator[int]) -> Save | None:
        """How a range is now, to be written down; what keeps it from that is told.

        That is the trouble of this range alone: the others, and other sweeps, go on.
        """
        tools = self._tools
        try:
            save = part.save(numbers)
        except Exception as problem:
            is_new = part.problem is None
            part.not_saved(problem)
            self.problem = problem
            if is_new:
                telemetry.log.exception("range %s cannot be saved", part.range.id)
                note_trouble(tools.database, tools.numbers, tools.clock, self.name, problem)
            return None
        part.problem = None
        return save

    def saved(self, part: Part, save: Save) -> None:
        """What was saved is so; tell what was set aside with it."""
        part.saved(save)
        if save.failures:
            telemetry.emit(
                "range.set_aside",
                sweep=self.name,
                range=save.id,
                items=len(save.failures),
                key=save.failures[0].key,
                error=save.failures[0].error,
            )

    def _completed(self, part: Part, save: Save, completed: Completed) -> None:
        self.saved(part, save)
        self.parts.remove(part)
        self.again.tallies.append(part.tally)
        self._claim_at = 0.0
        self._found_none = False
        telemetry.emit("range.done", sweep=self.name, range=part.range.id, done=part.done)
        if completed.over is not None:
            over = completed.over
            telemetry.emit(
                "sweep.ended",
                sweep=self.name,
                round=over.round,
                done=over.done,
                failed=over.failed,
                repeated=over.repeated,
            )
            self.row = self._tools.database.read(
                lambda connection: store.get(connection, self.name)
            )

    # Stragglers

    def mind_stragglers(self) -> None:
        """Tell which ranges here straggle, each once, if they did when it was looked last, too."""
        if not self.parts:
            return
        tools = self._tools
        found = tools.database.read(lambda connection: ranges.listing(connection, self.name))
        straggling = stragglers(found, tools.clock.now())
        for part in self.parts:
            is_straggler = part.range.id in straggling
            if is_straggler and part.straggles and not part.is_told:
                part.is_told = True
                tell_straggler(tools.database, tools.numbers, tools.clock, part.range)
            part.straggles = is_straggler

    def _steal(self) -> None:
        """Cut the range that will take longest in two, if there is nothing else to do here."""
        is_idle = self._found_none and not self.parts and self._stealing is None
        if not (self.terms.steal and is_idle) or time.monotonic() < self._steal_at:
            return
        self._steal_at = time.monotonic() + STEAL_AGAIN_AFTER
        self._stealing = self._threads.submit(self._cut_longest)

    def _cut_longest(self) -> bool:
        tools = self._tools
        found = tools.database.read(lambda connection: ranges.listing(connection, self.name))
        now = tools.clock.now()
        worth = [
            each
            for each in found
            if each.batch is not None and not each.is_careful
            if not each.is_counted or each.left > each.speed(now) * NOT_WORTH_SECONDS
        ]
        # Of those whose rows nobody has counted, any may be the longest.
        uncounted = [each for each in worth if not each.is_counted]
        longest = random.choice(uncounted) if uncounted else next_to_split(worth)
        if longest is None or not cut(tools.database, tools.numbers, self.source, longest):
            return False
        telemetry.emit("range.stolen", sweep=self.name, range=longest.id)
        return True
