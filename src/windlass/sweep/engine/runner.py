"""One sweep in one worker: claims ranges, keeps them supplied with rows, and completes them.

Everything happens on the thread of the sweeper, except calls to the source: they may take long, so
other threads make them, and their results are collected here.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import NamedTuple

from windlass import telemetry
from windlass.core.alert.model import Trouble
from windlass.core.face import Workplace
from windlass.core.task.kind import Kind
from windlass.database.connection import Connection
from windlass.sweep.engine.range_runner import ItemRun, RangeRunner, Tally
from windlass.sweep.engine.reader import Reading, SourceCalls, read_more
from windlass.sweep.engine.retry import RetryRunner
from windlass.sweep.engine.round import RoundStarter
from windlass.sweep.engine.soon import SoonRunner
from windlass.sweep.engine.split import cut_longest
from windlass.sweep.model import (
    Range,
    RoundView,
    SweepRow,
    name_of_rows,
    stragglers,
    terms_of,
)
from windlass.sweep.store import range as store
from windlass.sweep.store import sweep as sweep_store
from windlass.sweep.store.range import Claim, ClaimRequest, Completed, Save

# How many ranges of one sweep a worker has; the rest is for other workers, and for later.
MOST_RANGES = 4
# How many it has at most when other workers die.
MOST_RESCUED = 64
CLAIM_AGAIN_AFTER = 0.25
STEAL_AGAIN_AFTER = 0.5


class SeenSweep(NamedTuple):
    """What the rows of a sweep say, beside its own."""

    is_retry_due: bool = False
    # Whether visits are asked for.
    is_asked: bool = False
    has_abandoned: bool = False
    # Whether visits ask how fresh keys are.
    notes_all: bool = False


class SweepRunner:
    """Runs one sweep in this worker."""

    def __init__(
        self, kind: Kind, workplace: Workplace, *, threads: int, wake: Callable[[], None]
    ) -> None:
        self.kind = kind
        # Under which its rows are; several runs of one sweep run side by side.
        self.name = name_of_rows(kind)
        # How many runners of its kind have items that may begin, itself included.
        self.company = 1
        self.load = workplace.in_flight.loads[kind.name]
        self.ranges: list[RangeRunner] = []
        self.calls = SourceCalls(kind, workplace.site, threads=threads)
        # Made when failed items wait to be retried.
        self.retry: RetryRunner | None = None
        # Made when visits are asked for.
        self.soon: SoonRunner | None = None
        # Whether visits ask how fresh keys are, so that everything that is done is noted.
        self._notes_all = False
        self._rounds = RoundStarter(kind, workplace, self.calls)
        self._workplace = workplace
        self._site = workplace.site
        self._wake = wake
        self._readings: dict[Future[Reading], RangeRunner] = {}
        self._stealing: Future[bool] | None = None
        self._steal_at = 0.0
        self._claim_at = 0.0
        self._found_none = False
        self._has_abandoned = False
        # Of ranges that are completed, and of saves that failed.
        self.unsaved_tallies: list[Tally] = []

    @property
    def _keepers(self) -> list[RangeRunner | RetryRunner | SoonRunner]:
        """Everything that has items; visits and failed items come first."""
        return [*self._asked, *self.ranges]

    @property
    def _asked(self) -> list[RetryRunner | SoonRunner]:
        """What runs because it was asked for, beside the round."""
        return [each for each in (self.soon, self.retry) if each is not None]

    @property
    def is_run(self) -> bool:
        """Whether it runs over a source that was given at start."""
        return terms_of(self.kind).run is not None

    @property
    def has_items(self) -> bool:
        """Whether it has items that may begin."""
        return any(each.has_some for each in self._keepers)

    @property
    def may_go(self) -> bool:
        """Whether nothing of it is here: no item, and no tally that is not written."""
        is_busy = self.is_busy or any(each.is_due for each in self._asked)
        return not is_busy and all(tally.is_empty for tally in self._tallies)

    @property
    def _tallies(self) -> list[Tally]:
        return [*self.unsaved_tallies, *(each.tally for each in self._keepers)]

    @property
    def asked_batches(self) -> set[int]:
        """The batches of what was asked for."""
        return {each.batch for each in self._asked if each.batch is not None}

    @property
    def may_claim(self) -> bool:
        """Whether a round runs and nothing holds it back."""
        row = self._rounds.row
        is_running = row is not None and row.is_running and row.stopped_at is None
        is_ours = is_running and self._rounds.is_declared_here
        return is_ours and self.load.is_open and not self._workplace.only_asked

    @property
    def is_careful(self) -> bool:
        """Whether it has a range whose items run alone."""
        return any(each.is_careful or each.stored_careful for each in self.ranges)

    @property
    def is_busy(self) -> bool:
        """Whether it has work in progress."""
        is_retrying = any(each.is_busy for each in self._asked)
        is_calling = self._rounds.starting is not None or self._stealing is not None
        return bool(self.ranges or self._readings or is_calling or is_retrying)

    def is_idle(self) -> bool:
        """Whether there is nothing that it could do now."""
        if any(each.is_busy or each.is_due for each in self._asked):
            return self._is_held_back
        is_ours = self._rounds.is_declared_here
        if self._workplace.only_asked or self._is_held_back or not is_ours:
            return True
        row = self._rounds.row
        if self.is_busy or row is None:
            return False
        return self._found_none if row.is_running else not self._rounds.is_due

    @property
    def _is_held_back(self) -> bool:
        is_running = self.load.running or self.load.queued
        return self._workplace.gate.is_held(self.kind.name) and not is_running

    def see(self, row: SweepRow | None, seen: SeenSweep) -> None:
        """Learn what the rows of the sweep say now."""
        if self._rounds.see(row):
            self._claim_soon()
        self.calls.is_noted = row is not None and row.error is not None
        if self.retry is not None:
            self.retry.is_due = seen.is_retry_due
        elif seen.is_retry_due:
            self.retry = RetryRunner(self.kind, self.load, self._workplace, self.calls, self._wake)
        if self.soon is not None:
            self.soon.is_due = seen.is_asked
        elif seen.is_asked:
            self.soon = SoonRunner(self.kind, self.load, self._workplace, self.calls, self._wake)
        self._has_abandoned = seen.has_abandoned
        self._notes_all = seen.notes_all
        for each in self.ranges:
            each.notes_all = seen.notes_all

    def step(
        self, worker: int, *, may_claim: bool, is_alone: bool, makes_way: bool = False
    ) -> None:
        """Do what can be done now. While it `makes_way`, nothing new begins."""
        self._collect()
        if makes_way:
            return
        for asked in self._asked:
            asked.step(worker)
        row = self._rounds.row
        if row is None or self._workplace.only_asked:
            self._fill()
            return
        is_open = self.load.is_open and row.stopped_at is None
        self._rounds.take_over_abandoned()
        if is_open and self._rounds.is_due:
            self._rounds.start(worker)
        if self.may_claim and may_claim:
            self._claim(worker, is_alone=is_alone)
            self._steal()
        if is_open:
            self._read()
        self._fill()
        if self._workplace.until_idle:
            self._fail_delayed()
        for each in [each for each in self.ranges if each.is_finished and each.problem is None]:
            self._complete(each)

    def drop(self, lost: RangeRunner) -> None:
        """A range is no longer ours: forget it, and stop what runs of it."""
        lost.is_lost = True
        if lost in self.ranges:
            self.ranges.remove(lost)
        self._workplace.in_flight.drop_kept(lost)
        lost.end_spans()

    def drop_all(self) -> None:
        """The worker was marked left: nothing is ours."""
        for each in list(self.ranges):
            self.drop(each)
        for asked in self._asked:
            asked.drop()
        self._claim_at = 0.0

    def take_tallies(self, *, only_urgent: bool) -> list[Tally]:
        """What has ended since the last time; called under the lock of the rows in flight."""
        found = self._tallies
        if only_urgent and not any(tally.is_urgent for tally in found):
            return []
        self.unsaved_tallies = []
        for each in self.ranges:
            each.tally = each.tally.successor()
        for asked in self._asked:
            asked.tally = Tally()
        return [tally for tally in found if not tally.is_empty]

    def prepare_save(self, each: RangeRunner, numbers: Iterator[int]) -> Save | None:
        """The state of a range, to be written; None if it cannot be saved, which is reported.

        That stops this range only: the others and other sweeps continue.
        """
        try:
            save = each.save(numbers)
        except Exception as problem:
            is_new = each.problem is None
            each.not_saved(problem)
            if is_new:
                telemetry.log.exception("range %s cannot be saved", each.range.id)
                self.calls.report(problem)
            return None
        each.problem = None
        return save

    def saved(self, each: RangeRunner, save: Save) -> None:
        """A range was saved; report its failed items."""
        error = each.first_error
        each.saved(save)
        # One that was put off before its first try ended has not failed.
        failures = [failure for failure in save.failures if failure.tries]
        if failures:
            telemetry.emit(
                "range.set_aside",
                error,
                sweep=self.name,
                range=save.id,
                items=len(failures),
                key=failures[0].item_key,
                error=failures[0].error,
            )

    def alert_of_stragglers(self) -> None:
        """Alert people of each range here that straggles now and did at the last check."""
        if not self.ranges:
            return
        found = self._site.database.read(lambda connection: store.listing(connection, self.name))
        straggling = stragglers(found, self._site.clock.now())
        for each in self.ranges:
            is_straggler = each.range.id in straggling
            if is_straggler and each.straggles and not each.has_alerted:
                each.has_alerted = True
                self._alert_of_straggler(each.range)
            each.straggles = is_straggler

    def _alert_of_straggler(self, found: Range) -> None:
        text = (
            f"range {found.id} of sweep {self.name!r} will end long after the others; idle workers "
            f"take half of it; see: windlass sweep show {self.name}"
        )
        self._site.database.write(
            lambda connection: sweep_store.note(
                connection, self._site, Trouble("straggler", self.name, text)
            )
        )
        telemetry.emit("range.straggles", sweep=self.name, range=found.id)

    def _alert_of_failures(self, connection: Connection, over: RoundView) -> None:
        text = (
            f"round {over.round} of sweep {self.name!r} ended with {over.failed} failed "
            f"items, {over.done} were done; see: windlass sweep failures {self.name}"
        )
        problem = Trouble("failures", self.name, text, times=over.failed)
        sweep_store.raise_alert(connection, self._site, problem)

    def _claim_soon(self) -> None:
        self._claim_at = 0.0
        self._found_none = False

    def _claim(self, worker: int, *, is_alone: bool) -> None:
        most = min(MOST_RANGES, self.load.limit)
        while time.monotonic() >= self._claim_at:
            has_enough = len(self.ranges) >= most
            rescues = self._has_abandoned and len(self.ranges) < MOST_RESCUED
            if has_enough and not rescues:
                return
            found = self._claim_one(worker, is_alone=is_alone, only_abandoned=has_enough)
            self._found_none = found is None
            if found is None:
                self._has_abandoned = False
                self._claim_at = time.monotonic() + CLAIM_AGAIN_AFTER
                return
            facts = {"sweep": self.name, "range": found.range.id}
            if found.range.lost:
                telemetry.emit("range.rescued", **facts, lost=found.range.lost)
            if found.poison is not None:
                telemetry.emit("range.poison", **facts, key=found.poison)
            mine = RangeRunner(
                found.range, self.load, kind=self.kind, clock=self._site.clock, wake=self._wake
            )
            mine.notes_all = self._notes_all
            self.ranges.append(mine)
            if found.range.is_careful:
                return
            is_alone = False

    def _claim_one(self, worker: int, *, is_alone: bool, only_abandoned: bool) -> Claim | None:
        batch, *numbers = self._site.numbers.take(3)
        request = ClaimRequest(
            sweep=self.name,
            order=terms_of(self.kind).order,
            max_lost=self.kind.max_lost,
            is_alone=is_alone,
            batch=batch,
            worker=worker,
            now=self._site.clock.now(),
            numbers=numbers,
            only_abandoned=only_abandoned,
        )
        return self._site.database.write_as(
            worker, lambda connection: store.claim(connection, request), lost=None
        )

    def _steal(self) -> None:
        """Have the longest range cut in two, if this worker found no other."""
        is_idle = self._found_none and not self.ranges and self._stealing is None
        if not (terms_of(self.kind).steal and is_idle) or time.monotonic() < self._steal_at:
            return
        self._steal_at = time.monotonic() + STEAL_AGAIN_AFTER
        self._stealing = self.calls.submit(cut_longest, self._site, self.name, self.calls.source)

    def _read(self) -> None:
        database, source = self._site.database, self.calls.source
        for each in self.ranges:
            if each.wants_rows:
                future = self.calls.submit(read_more, database, source, each.begin_reading())
                self._readings[future] = each
                future.add_done_callback(lambda _future: self._wake())

    def _collect(self) -> None:
        """Take the results of calls to the source that have ended."""
        for future in [future for future in self._readings if future.done()]:
            each = self._readings.pop(future)
            each.is_reading = False
            reading = self.calls.result(future)
            if reading is None:
                each.read_again_at = self.calls.retry_at
            elif reading.is_lost:
                self.drop(each)
            elif not each.is_lost:
                each.receive(reading)
        if self._rounds.collect():
            self._claim_soon()
        if self._stealing is not None and self._stealing.done():
            stolen, self._stealing = self._stealing, None
            if self.calls.result(stolen):
                self._claim_soon()
        if not any(each.problem for each in self.ranges):
            self.calls.report_recovery()

    def _fill(self) -> None:
        """Queue as many items as may begin."""
        gate, in_flight = self._workplace.gate, self._workplace.in_flight
        name = self.kind.name
        room = 0 if self._workplace.is_quiet() else in_flight.capacity.room_for_items(name)
        # Runs side by side have equal parts of what is free.
        room = -(-room // max(1, self.company))
        sources = [each for each in self._keepers if each.has_some]
        is_tripped = self.load.is_tripped or gate.is_tripped(name)
        if not room or not sources or is_tripped:
            return
        version = in_flight.plan_version
        allowed = gate.allow(name, room)
        runs: list[ItemRun] = []
        for place, each in enumerate(sources):
            share = -(-(allowed.most - len(runs)) // (len(sources) - place))
            runs += each.issue(share)
        if runs:
            runs[0].is_probe = allowed.is_probe
            for run, moment in zip(runs, allowed.moments, strict=False):
                run.start_at = moment
            in_flight.add_items(runs, version=version)
        gate.took(name, allowed, len(runs))

    def _fail_delayed(self) -> None:
        """A worker that ends when nothing is due leaves later tries to others."""
        for each in self.ranges:
            if not (self.load.running or self.load.queued) and each.only_waits:
                each.fail_delayed()
                each.advance()

    def _complete(self, each: RangeRunner) -> None:
        site = self._site
        each.advance()
        if not each.is_finished:
            return
        each.pass_all()
        save = self.prepare_save(each, iter(site.numbers.take(each.failed_rows)))
        if save is None:
            return
        now = site.clock.now()

        def work(connection: Connection) -> Completed:
            ended = store.complete(connection, save, sweep=self.name, end=each.end, now=now)
            over = ended.over
            if over is not None and over.failed:
                self._alert_of_failures(connection, over)
            return ended

        completed = site.database.write_as(each.worker, work, lost=Completed(False))
        if completed.is_done:
            self._completed(each, save, completed)
            return
        found = site.database.read(lambda connection: store.get(connection, each.range.id))
        if found is None or found.batch != each.batch:
            self.drop(each)
        else:
            self.saved(each, save)
            each.move_end(found.end)

    def _completed(self, each: RangeRunner, save: Save, completed: Completed) -> None:
        self.saved(each, save)
        self.ranges.remove(each)
        self.unsaved_tallies.append(each.tally)
        self._claim_soon()
        telemetry.emit("range.done", sweep=self.name, range=each.range.id, done=each.done)
        over = completed.over
        if over is not None:
            telemetry.emit(
                "sweep.ended",
                sweep=self.name,
                round=over.round,
                done=over.done,
                failed=over.failed,
                repeated=over.repeated,
            )
            self._rounds.read_row()
