"""The group commit: writes the outcomes of the last few milliseconds in one transaction."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

import msgspec

from windlass import telemetry
from windlass.core.face import Ended, Ending, Site
from windlass.core.finish import store as finish_store
from windlass.core.finish.callback import Callbacks, has_callbacks
from windlass.core.finish.store import MINUTE, FailureRow, Group, LogRow, OverloadRow, PoisonAlert
from windlass.core.limit.gate import Gate, Move
from windlass.core.loop import Loop
from windlass.core.run.chain import in_order
from windlass.core.run.log import RunLog
from windlass.core.run.ready import Run
from windlass.core.task.kind import Kind
from windlass.core.task.progress import progress_of
from windlass.core.task.store import lane, progress
from windlass.database.connection import Connection
from windlass.database.database import BAD_VALUES, DatabaseError
from windlass.database.dialect.base import Count, lock_runs
from windlass.errors import Retry
from windlass.value.outcome import (
    LOGGED,
    SUCCESS,
    Cancelled,
    Failed,
    Outcome,
    Retried,
    Snoozed,
    Succeeded,
    Visits,
    settle,
    settle_visits,
)
from windlass.value.period import HURRIED
from windlass.value.task import Claimed

MOST_AT_ONCE = 1_000
WINDOW_SECONDS = 0.003
LARGEST_PART = 2 * 1024 * 1024
LOCKED_PAUSE = 0.2


class Finish(Loop):
    """Writes the outcomes of one worker."""

    name = "finish"

    def __init__(self, site: Site, gate: Gate) -> None:
        super().__init__()
        in_flight, self._gate = gate.in_flight, gate
        self._site = site
        self._database = site.database
        self._in_flight = in_flight
        self._breakers = gate.breakers
        self._meter = site.registry.meter
        # Made when the first run has callbacks.
        self._callbacks: Callbacks | None = None
        self._counting = threading.Lock()
        self.done = 0
        self.failed = 0

    def tick(self) -> float:
        in_flight = self._in_flight
        if not in_flight.ended.waiting:
            return 1.0
        linger = in_flight.ended.wait_seconds(time.monotonic())
        if linger > 0 and len(in_flight.ended.waiting) < MOST_AT_ONCE:
            return linger
        if len(in_flight.ended.waiting) < MOST_AT_ONCE and in_flight.running:
            # Wait for runs that are about to end: one commit serves all.
            time.sleep(WINDOW_SECONDS)
        self.flush()
        if not in_flight.ended.waiting:
            return 1.0
        return LOCKED_PAUSE if all(run.is_locked for run in list(in_flight.ended.waiting)) else 0.0

    def flush(self) -> None:
        """Write ended runs, except those with callbacks, which are written on other threads.

        Raises on an error; outcomes that were not written stay.
        """
        runs = self._in_flight.take_ended(MOST_AT_ONCE)
        for run in runs:
            if run.log and run.outcome is SUCCESS:
                run.outcome = LOGGED
        if any(run.on_finish for run in runs):
            self._callbacks = self._callbacks or self._make_callbacks()
            self._callbacks.add([run for run in runs if has_callbacks(run)])
            runs = [run for run in runs if not has_callbacks(run)]
        try:
            with self._in_flight.writing:
                self._write(runs)
        finally:
            # A written run has no outcome any more.
            self._in_flight.written([run for run in runs if run.outcome is None])
            self._in_flight.put_back([run for run in runs if run.outcome is not None])

    def flush_all(self) -> None:
        """Write all ended runs, with their callbacks."""
        self._join_callbacks()
        while self._in_flight.ended.waiting:
            self.flush()
            self._join_callbacks()

    def _make_callbacks(self) -> Callbacks:
        return Callbacks(
            self._database,
            self._in_flight,
            save=lambda run, on_accepted: self._save([run], on_accepted=on_accepted),
            report=lambda run, accepted: self._report([run], accepted),
            on_failed=self.wake,
        )

    def _join_callbacks(self) -> None:
        if self._callbacks is not None:
            self._callbacks.join()

    def fail_as_poison(self, connection: Connection, tasks: list[Claimed]) -> None:
        """Fail rows without a run, in the transaction that rescues them."""
        runs = []
        for task in tasks:
            run = Run(task, self._in_flight.loads[task.kind])
            text = (
                f"poison: its worker died {run.kind.max_lost} times in a row while it ran, "
                "so it is not tried again"
            )
            run.is_poison, run.outcome = True, Failed(text, text)
            runs.append(run)
        group = make_group(runs, self._site, inside=connection)
        write_inside(connection, self._site, group, self._endings(runs))

    def _write(self, runs: Sequence[Run]) -> None:
        for alike in _by_claim(runs):
            for part in _parts(alike):
                self._write_together(part)

    def _write_together(self, runs: Sequence[Run]) -> None:
        runs = _in_order(runs)
        if any(run.is_locked for run in runs):
            runs = _in_order(self._unlocked(runs))
        try:
            if runs:
                self._store(runs)
        except BAD_VALUES as problem:
            # Other errors are temporary problems of the database: the outcomes wait.
            self._write_apart(runs, problem)
        except DatabaseError as problem:
            if not self._database.dialect.is_locked(problem):
                raise
            # Another transaction, for example a trigger's, has locked some of the rows.
            free = _in_order(self._unlocked(runs))
            if free:
                self._store(free)

    def _unlocked(self, runs: Sequence[Run]) -> list[Run]:
        """The runs whose rows are not locked. Marks the others `is_locked`; they wait."""
        flows = {run.task.flow_id for run in runs if run.task.flow_id is not None}
        wanted = flows | {run.task.id for run in runs}
        dialect = self._database.dialect
        held = self._database.write(
            lambda connection: finish_store.locked_by_others(connection, dialect, wanted), tries=2
        )
        for run in runs:
            run.is_locked = run.task.id in held or run.task.flow_id in held
        return [run for run in runs if not run.is_locked]

    def _write_apart(self, runs: Sequence[Run], problem: Exception) -> None:
        """Find the outcome that cannot be stored, and store a failure in its place."""
        if len(runs) > 1:
            middle = len(runs) // 2
            self._write_together(runs[:middle])
            self._write_together(runs[middle:])
            return
        (run,) = runs
        text = f"the outcome could not be stored: {type(problem).__name__}"
        telemetry.log.error("%s", text, exc_info=problem)
        if isinstance(run.outcome, Failed) and run.outcome.error == text:
            raise problem
        run.outcome = Failed(text, text)
        self._write_together(runs)

    def _store(self, runs: Sequence[Run]) -> None:
        self._report(runs, self._save(runs))

    def _save(
        self, runs: Sequence[Run], *, on_accepted: Callable[[Connection], None] | None = None
    ) -> set[int]:
        """Write the outcomes; returns the ids of the accepted ones."""
        # Runs are taken to be written before this: trips of later runs stay.
        now, began = self._site.clock.now(), time.monotonic()
        group = make_group(runs, self._site)
        endings = self._endings(runs)
        moves: list[Move] = []
        statistics: list[Count] = []

        def beside(connection: Connection, accepted: set[int]) -> None:
            statistics[:] = _counts(runs, accepted, now)
            if statistics:
                self._database.dialect.count(connection, statistics)
            kept = [run for run in runs if run.kept is not None and run.task.id in accepted]
            reported = [run.task.id for run in kept if _was_shown(run)]
            if reported:
                progress.forget(connection, reported)
            moves[:] = self._breakers.note(connection, runs, accepted, now=now)
            again = [run for run in runs if _comes_again(run) and run.task.id in accepted]
            if again:
                lane.hold(connection, [run.task.id for run in again if run.kind.lanes.holds])
                lane.let_pass(
                    connection, [run.task.id for run in again if not run.kind.lanes.holds]
                )

        written = write_group(self._site, group, endings, beside=beside, on_accepted=on_accepted)
        accepted = written or set()
        if self._meter is not None:
            seconds, at = time.monotonic() - began, self._site.clock.now()
            self._meter.committed(runs, accepted, statistics, seconds=seconds, now=at)
        self._breakers.tell([*moves, *self._breakers.note_elsewhere(runs, accepted)])
        self._gate.settle_trips(written_since=began)
        for ending in endings:
            ending.committed(accepted)
        return accepted

    def _endings(self, runs: Sequence[Run]) -> list[Ending]:
        concerned = [
            Ended(run.task, run.outcome, run.kept)
            for run in runs
            if (run.task.flow_id is not None or run.kept is not None) and run.outcome is not None
        ]
        site = self._site
        return site.faces.endings(site, concerned, worker=runs[0].task.worker)

    def _report(self, runs: Sequence[Run], accepted: set[int]) -> None:
        with self._counting:
            self.done += len(accepted)
        for run in runs:
            outcome, run.outcome = run.outcome, None
            assert outcome is not None
            if run.task.id not in accepted:
                telemetry.emit("task.refused", task=run.task.id, kind=run.kind.name)
            elif outcome is not SUCCESS:
                self._emit(run, outcome)
                run.error = None

    def _emit(self, run: Run, outcome: Outcome) -> None:
        facts: dict[str, object] = {"task": run.task.id, "kind": run.kind.name}
        # A handler that raised `Retry` has said why.
        cause = None if isinstance(run.error, Retry) else run.error
        if isinstance(outcome, Failed | Retried):
            facts |= {"error": outcome.error, "attempt": run.task.attempt, **_tries(run)}
        match outcome:
            case Retried():
                seconds = outcome.delay / 1e6
                telemetry.emit("task.retried", cause, **facts, again_in_seconds=seconds)
            case Failed():
                self.failed += 1
                telemetry.emit("task.failed", cause, **facts)
            case Cancelled():
                telemetry.emit("task.cancelled", **facts, reason=outcome.reason)
            case Snoozed(overload=str()):
                seconds = outcome.delay / 1e6
                telemetry.emit("task.overloaded", **facts, why=outcome.overload, seconds=seconds)
            case Snoozed():
                telemetry.emit("task.snoozed", **facts, seconds=outcome.delay / 1e6)


def _comes_again(run: Run) -> bool:
    """Whether it failed, will be tried again, and has a lane that is held until then or not."""
    return run.has_lane and isinstance(run.outcome, Retried)


def _was_shown(run: Run) -> bool:
    """Whether the database has how far it was."""
    found = progress_of(run)
    return found is not None and found.saved is not None


def _in_order(runs: Sequence[Run]) -> Sequence[Run]:
    """The runs without those that must wait for the outcome of another one of their lane."""
    return in_order(runs) if any(run.before is not None for run in runs) else runs


def _tries(run: Run) -> dict[str, object]:
    """Which try it was, and how many the kind allows after such an error."""
    if run.error is None:
        return {"tries": run.task.tries}
    return {"tries": run.task.tries, "most_tries": run.kind.terms.retry.most(run.error) + 1}


def _by_claim(runs: Sequence[Run]) -> Iterator[Sequence[Run]]:
    """Groups of runs of one worker, either all read or all claimed."""
    groups = {(run.task.worker, run.task.is_read) for run in runs}
    if len(groups) == 1:
        yield runs
        return
    for group in groups:
        yield [run for run in runs if (run.task.worker, run.task.is_read) == group]


def _parts(runs: Sequence[Run]) -> Iterator[Sequence[Run]]:
    """Parts whose outcomes fit into one statement on every database."""
    begin = size = 0
    for index, run in enumerate(runs):
        if run.outcome is SUCCESS:
            continue
        match run.outcome:
            case Succeeded():
                size += len(run.outcome.result or "")
            case Failed() | Retried():
                size += len(run.outcome.error) + len(run.outcome.trace)
        size += 0 if run.log is None else run.log.size
        if size > LARGEST_PART:
            yield runs[begin : index + 1]
            begin, size = index + 1, 0
    if begin < len(runs):
        yield runs[begin:]


def _counts(runs: Sequence[Run], accepted: set[int], now: int) -> list[Count]:
    counts: dict[str, Count] = {}
    spent: defaultdict[str, float] = defaultdict(float)
    for run in runs:
        if run.task.id not in accepted or isinstance(run.outcome, Snoozed):
            continue
        name = run.kind.name
        count = counts.get(name)
        if count is None:
            count = counts[name] = Count(now // MINUTE, name, run.task.worker)
        spent[name] += run.milliseconds
        if isinstance(run.outcome, Failed):
            count.failed += 1
        elif isinstance(run.outcome, Retried):
            count.retried += 1
        else:
            count.done += 1
    for name, count in counts.items():
        count.milliseconds = round(spent[name])
    return sorted(counts.values(), key=lambda count: count.kind)


def make_group(runs: Sequence[Run], site: Site, *, inside: Connection | None = None) -> Group:
    """The changes of `runs`, which are of one worker, and all read or all claimed.

    Takes numbers for failures `inside` the given transaction, if there is one.
    """
    now = site.clock.now()
    group = Group(runs[0].task.worker, now, is_read=runs[0].task.is_read)
    plain = [run.task for run in runs if run.outcome is SUCCESS and run.leaves_nothing]
    group.removals = {task.id: task.fence for task in plain}
    if len(plain) < len(runs):
        others = [run for run in runs if run.task.id not in group.removals]
        visits = [run for run in others if run.outcome is SUCCESS and run.is_visit]
        if visits:
            others = [run for run in others if not (run.outcome is SUCCESS and run.is_visit)]
            group.visits = _visits(visits, now)
        errors = sum(isinstance(run.outcome, Failed | Retried) for run in others)
        logs = sum(bool(run.log) for run in others)
        needed = 2 * errors + logs
        numbers = site.numbers.take(needed, inside=inside) if needed else ()
        _settle(others, group, now=now, numbers=iter(numbers))
    return group


def write_group(
    site: Site,
    group: Group,
    endings: Sequence[Ending],
    *,
    beside: Callable[[Connection, set[int]], None],
    on_accepted: Callable[[Connection], None] | None = None,
    tries: int = 2,
) -> set[int] | None:
    """Write a group in one transaction; returns the accepted ids, None if the worker has left.

    `beside` writes what follows from the accepted ids. `on_accepted` is called if all were
    accepted; if it raises, the transaction rolls back. Writing a group again changes nothing.
    Without `on_accepted`, raises a driver's error if another transaction keeps a row locked.
    """
    locks, dialect = _locks(endings), site.database.dialect

    def work(connection: Connection, locked: Mapping[int, int]) -> set[int] | None:
        accepted = finish_store.apply(connection, dialect, group)
        if on_accepted is not None and len(accepted) == group.count:
            # Before the statistics: other outcomes of the kind must not wait for their row.
            on_accepted(connection)
        beside(connection, accepted)
        for ending in endings:
            ending.write(connection, accepted, locked)
        return accepted

    if on_accepted is not None and dialect.fence_stops_heartbeat:
        return _write_fenced_last(site, group, locks, work, tries=tries)
    is_patient = on_accepted is not None
    return site.database.write_locked_as(
        group.worker, locks, work, lost=None, tries=tries, patient=is_patient
    )


class _WorkerLeft(Exception):
    """The worker was marked left, so its transaction must not commit."""


def _write_fenced_last(
    site: Site,
    group: Group,
    locks: Collection[int],
    work: Callable[[Connection, Mapping[int, int]], set[int] | None],
    *,
    tries: int,
) -> set[int] | None:
    """`write_locked_as` for a transaction that may last: it locks the worker's row at the end."""

    def fenced(connection: Connection) -> set[int] | None:
        accepted = work(connection, lock_runs(connection, locks) if locks else {})
        if not site.database.dialect.alive(connection, group.worker):
            raise _WorkerLeft
        return accepted

    try:
        return site.database.write(fenced, tries=tries)
    except _WorkerLeft:
        return None


def write_inside(
    connection: Connection, site: Site, group: Group, endings: Sequence[Ending]
) -> None:
    """Write a group in an open transaction of the worker."""
    locked = lock_for(connection, endings)
    accepted = finish_store.apply(connection, site.database.dialect, group)
    for ending in endings:
        ending.write(connection, accepted, locked)


def lock_for(connection: Connection, endings: Sequence[Ending]) -> Mapping[int, int]:
    """Lock the rows that `endings` need, before all others; their open slots by id."""
    locks = _locks(endings)
    return lock_runs(connection, locks) if locks else {}


def _locks(endings: Sequence[Ending]) -> set[int]:
    return {number for ending in endings for number in ending.locks}


def _settle(runs: Sequence[Run], group: Group, *, now: int, numbers: Iterator[int]) -> None:
    for run in runs:
        task, outcome = run.task, run.outcome
        assert outcome is not None
        change = settle(task, outcome, run.load.terms, now=now, turns=run.turns)
        if change is None:
            group.removals[task.id] = task.fence
        else:
            group.changes.append(change)
        if isinstance(outcome, Failed | Retried):
            group.failures.append(_failure_row(run, outcome, next(numbers), now))
        if isinstance(outcome, Snoozed) and outcome.overload is not None:
            group.overloads.append(OverloadRow(task.id, run.kind.name))
        if run.log and change is not None:
            group.logs.append(_log_row(run, run.log, next(numbers), now))
        if run.is_poison and isinstance(outcome, Failed):
            text = f"task {task.id} of kind {run.kind.name!r} failed as {outcome.error}"
            group.alerts.append(PoisonAlert(next(numbers), task.id, run.kind.name, text, now))
    group.changes.sort(key=lambda change: change.id)


def _visits(runs: Sequence[Run], now: int) -> list[Visits]:
    """Plain successes of recurring rows: one entry for all rows with the same change."""
    alike: dict[tuple[Kind, bool], list[Claimed]] = {}
    for run in runs:
        alike.setdefault((run.kind, run.task.priority == HURRIED), []).append(run.task)
    return [
        settle_visits(rows, kind.terms, now=now, is_hurried=is_hurried)
        for (kind, is_hurried), rows in alike.items()
    ]


def _log_row(run: Run, log: RunLog, number: int, now: int) -> LogRow:
    lines, dropped = log.taken()
    return LogRow(
        id=number,
        task_id=run.task.id,
        kind=run.kind.name,
        attempt=run.task.attempt,
        worker=run.task.worker,
        ended_at=now,
        dropped=dropped,
        lines=msgspec.json.encode(lines).decode(),
    )


def _failure_row(run: Run, outcome: Failed | Retried, number: int, now: int) -> FailureRow:
    return FailureRow(
        id=number,
        task_id=run.task.id,
        kind=run.kind.name,
        attempt=run.task.attempt,
        worker=run.task.worker,
        failed_at=now,
        error=outcome.error,
        trace=outcome.trace,
    )
