"""Finishing: outcomes of the last few milliseconds, written down in one transaction."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence

from sqlalchemy import Connection
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError

from windlass import telemetry
from windlass.clock import Clock
from windlass.core.fetch.handoff import HandOff
from windlass.core.finish.store import finish as store
from windlass.core.finish.store.finish import AlertRow, Batch, FailureRow
from windlass.core.finish.store.history import MINUTE
from windlass.core.limit.breaker import Breakers, Move
from windlass.core.loop import Loop
from windlass.core.run.in_flight import InFlight
from windlass.core.run.ready import Run
from windlass.core.run.runner import failure
from windlass.core.task.kind import Kind
from windlass.database.database import Database
from windlass.database.dialect.base import Count
from windlass.database.number import Numbers
from windlass.external.engine.submission import refuse_submissions, write_submissions
from windlass.flow.model.graph import How
from windlass.value.outcome import (
    SUCCESS,
    Cancelled,
    Expanded,
    Failed,
    Outcome,
    Retried,
    Snoozed,
    Submitted,
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
CALLBACK_TRIES = 3
LOCKED_PAUSE = 0.2
OUTCOME_ERRORS = (DataError, IntegrityError, UnicodeError, TypeError)


class CallbackFailed(Exception):
    """An `on_finish` callback raised; its transaction is undone."""


class Finish(Loop):
    """The group commit."""

    name = "finish"

    def __init__(
        self,
        database: Database,
        in_flight: InFlight,
        clock: Clock,
        numbers: Numbers,
        *,
        breakers: Breakers,
    ) -> None:
        super().__init__()
        self._database = database
        self._in_flight = in_flight
        self._clock = clock
        self._numbers = numbers
        self._breakers = breakers
        self.done = 0
        self.failed = 0
        # What becomes of nodes that the end of others makes due.
        self.hand_off = HandOff(database, in_flight, clock)
        in_flight.on_ended = self.wake

    def tick(self) -> float:
        in_flight = self._in_flight
        if not in_flight.ended:
            return 1.0
        if len(in_flight.ended) < MOST_AT_ONCE and in_flight.running:
            # Others are about to end too: one commit serves all of them.
            time.sleep(WINDOW_SECONDS)
        self.flush()
        if not in_flight.ended:
            return 1.0
        return LOCKED_PAUSE if all(run.is_locked for run in list(in_flight.ended)) else 0.0

    def flush(self) -> None:
        """Write down what has ended by now; what cannot be written stays, and raises."""
        runs = self._in_flight.take_ended(MOST_AT_ONCE)
        try:
            with self._in_flight.desk:
                self._write(runs)
        finally:
            # What was written has no outcome left to write.
            self._in_flight.written([run for run in runs if run.outcome is None])
            self._in_flight.put_back([run for run in runs if run.outcome is not None])

    def fail_as_poison(self, tasks: list[Claimed], connection: Connection) -> Batch:
        """What to write, by `connection`, of rows that are poison: they fail without being run."""
        runs = []
        for task in tasks:
            run = Run(task, self._in_flight.loads[task.kind])
            text = (
                f"poison: its worker died {run.kind.max_lost} times in a row while it ran, "
                "so it is not tried again"
            )
            run.is_poison, run.outcome = True, Failed(text, text)
            runs.append(run)
        return self._batch(runs, self._clock.now(), inside=connection)

    def _write(self, runs: Sequence[Run]) -> None:
        for alike in _by_way(runs):
            together, apart = alike, []
            if any(run.on_finish for run in alike):
                apart = [run for run in alike if _has_callbacks(run)]
                together = [run for run in alike if not _has_callbacks(run)]
            for part in _parts(together):
                self._write_together(part)
            for run in apart:
                self._write_with_callbacks(run)

    def _write_together(self, runs: Sequence[Run]) -> None:
        if not runs:
            return
        if any(run.is_locked for run in runs):
            runs = self._free(runs)
        try:
            if runs:
                self._store(runs)
        except OUTCOME_ERRORS as problem:
            # Anything else is the database's trouble, and passes: outcomes wait for it.
            self._write_apart(runs, problem)
        except DBAPIError as problem:
            if not self._database.dialect.is_locked(problem):
                raise
            # Somebody else, maybe a trigger in a user's transaction, holds some of the rows.
            free = self._free(runs)
            if free:
                self._store(free)

    def _free(self, runs: Sequence[Run]) -> list[Run]:
        """The runs whose rows can be had now; the others wait, and are told by `is_locked`."""
        flows = {run.task.flow_id for run in runs if run.task.flow_id is not None}
        held = store.held_by_others(self._database, flows | {run.task.id for run in runs})
        for run in runs:
            run.is_locked = run.task.id in held or run.task.flow_id in held
        return [run for run in runs if not run.is_locked]

    def _write_apart(self, runs: Sequence[Run], problem: Exception) -> None:
        """One outcome cannot be stored: find it, and record that instead of it."""
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

    def _write_with_callbacks(self, run: Run) -> None:
        """A run with `on_finish` is a transaction of its own, which its callbacks may undo."""
        callbacks = run.on_finish or []

        def on_accepted(connection: Connection) -> None:
            run.callback_tries += 1
            try:
                with self._database.dialect.lent(connection):
                    for callback in callbacks:
                        callback(connection)
            except BaseException as error:
                if isinstance(error, Exception) and self._database.can_retry(error):
                    raise
                raise CallbackFailed from error

        before = run.callback_tries
        try:
            self._store([run], on_accepted=on_accepted)
        except (CallbackFailed, *OUTCOME_ERRORS) as failed:
            self._fail_callback(run, failed.__cause__ or failed)
        except Exception as problem:
            # It came as far as the callbacks, and again and again no further.
            if run.callback_tries == before or run.callback_tries < CALLBACK_TRIES:
                raise
            self._fail_callback(run, problem)

    def _fail_callback(self, run: Run, error: BaseException) -> None:
        run.on_finish = None
        run.outcome = failure(run, error)
        self._write_together([run])

    def _store(
        self, runs: Sequence[Run], *, on_accepted: Callable[[Connection], None] | None = None
    ) -> None:
        now = self._clock.now()
        batch = self._batch(runs, now)
        moves: list[Move] = []

        def note(connection: Connection, accepted: set[int]) -> None:
            statistics = _counts(runs, accepted, now)
            if statistics:
                self._database.dialect.count(connection, statistics)
            moves[:] = self._breakers.note(connection, runs, accepted, now=now)
            write_submissions(connection, runs, accepted)

        hand = self.hand_off.begin(batch) if batch.nodes else None
        accepted = store.finish(
            self._database, batch, note, on_accepted=on_accepted, on_filled=hand, tries=2
        )
        self._breakers.tell(moves)
        if hand is not None:
            hand.over()
        accepted = accepted or set()
        refuse_submissions(self._database, runs, accepted, now=now)
        self.done += len(accepted)
        for run in runs:
            outcome, run.outcome = run.outcome, None
            assert outcome is not None
            if run.task.id not in accepted:
                telemetry.emit("task.refused", task=run.task.id, kind=run.kind.name)
            elif outcome is not SUCCESS:
                self._tell(run, outcome)

    def _batch(self, runs: Sequence[Run], now: int, *, inside: Connection | None = None) -> Batch:
        batch = Batch(worker=runs[0].task.worker, is_read=runs[0].task.is_read, now=now)
        plain = [run.task for run in runs if run.outcome is SUCCESS and run.leaves_nothing]
        batch.removals = {task.id: task.fence for task in plain}
        if len(plain) < len(runs):
            others = [run for run in runs if run.task.id not in batch.removals]
            visits = [run for run in others if run.outcome is SUCCESS and run.is_visit]
            if visits:
                others = [run for run in others if not (run.outcome is SUCCESS and run.is_visit)]
                batch.visits = _visits(visits, now)
            self._settle(others, batch, now, inside=inside)
        return batch

    def _settle(
        self, runs: Sequence[Run], batch: Batch, now: int, *, inside: Connection | None
    ) -> None:
        wrong = [run for run in runs if isinstance(run.outcome, Failed | Retried)]
        numbers = iter(self._numbers.take(2 * len(wrong), inside=inside) if wrong else ())
        for run in runs:
            task, outcome = run.task, run.outcome
            assert outcome is not None
            change = settle(task, outcome, run.kind.terms, now=now, turns=run.turns)
            if change is None:
                batch.removals[task.id] = task.fence
            else:
                batch.changes.append(change)
            if task.flow_id is not None:
                _note_node(batch, task.id, task.flow_id, outcome)
            if isinstance(outcome, Failed | Retried):
                batch.failures.append(_failure_row(run, outcome, next(numbers), now))
            if run.is_poison and isinstance(outcome, Failed):
                batch.alerts.append(_alert_row(run, outcome, next(numbers), now))
        batch.changes.sort(key=lambda change: change.id)

    def _tell(self, run: Run, outcome: Outcome) -> None:
        facts: dict[str, object] = {"task": run.task.id, "kind": run.kind.name}
        match outcome:
            case Retried():
                facts |= {"error": outcome.error, "attempt": run.task.attempt}
                telemetry.emit("task.retried", **facts, again_in_seconds=outcome.delay / 1e6)
            case Failed():
                self.failed += 1
                facts |= {"error": outcome.error, "attempt": run.task.attempt}
                telemetry.emit("task.failed", **facts)
            case Cancelled():
                telemetry.emit("task.cancelled", **facts, reason=outcome.reason)
            case Snoozed():
                telemetry.emit("task.snoozed", **facts, seconds=outcome.delay / 1e6)


def _visits(runs: Sequence[Run], now: int) -> list[Visits]:
    """What becomes of items that were visited, those of which the same becomes together."""
    alike: dict[tuple[Kind, bool], list[Claimed]] = {}
    for run in runs:
        alike.setdefault((run.kind, run.task.priority == HURRIED), []).append(run.task)
    return [
        settle_visits(rows, kind.terms, now=now, is_hurried=is_hurried)
        for (kind, is_hurried), rows in alike.items()
    ]


def _note_node(batch: Batch, number: int, run: int, outcome: Outcome) -> None:
    match outcome:
        case Succeeded():
            how = How.SUCCEEDED
        case Cancelled() if outcome.is_skipped:
            how = How.SKIPPED
        case Failed() | Cancelled():
            how = How.FAILED
        case _:
            batch.runs.add(run)
            batch.going[number] = run
            return
    batch.runs.add(run)
    batch.nodes[number] = (run, how)


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


def _alert_row(run: Run, outcome: Failed, number: int, now: int) -> AlertRow:
    return AlertRow(
        id=number,
        what="poison",
        kind=run.kind.name,
        task_id=run.task.id,
        raised_at=now,
        text=f"task {run.task.id} of kind {run.kind.name!r} failed as {outcome.error}",
    )


def _by_way(runs: Sequence[Run]) -> Iterator[Sequence[Run]]:
    """The runs of one worker that were all read, or all claimed: they are written the same way."""
    ways = {(run.task.worker, run.task.batch is None) for run in runs}
    for worker, is_read in ways:
        if len(ways) == 1:
            yield runs
        else:
            yield [run for run in runs if run.task.worker == worker and run.task.is_read is is_read]


def _parts(runs: Sequence[Run]) -> Iterator[Sequence[Run]]:
    """The runs in parts whose outcomes fit into one statement of every database."""
    begin = size = 0
    for index, run in enumerate(runs):
        if run.outcome is SUCCESS:
            continue
        match run.outcome:
            case Succeeded():
                size += len(run.outcome.result or "")
            case Failed() | Retried():
                size += len(run.outcome.error) + len(run.outcome.trace)
        if size > LARGEST_PART:
            yield runs[begin : index + 1]
            begin, size = index + 1, 0
    if begin < len(runs):
        yield runs[begin:]


def _has_callbacks(run: Run) -> bool:
    return bool(run.on_finish) and isinstance(run.outcome, Succeeded | Expanded | Submitted)


def _counts(runs: Sequence[Run], accepted: set[int], now: int) -> list[Count]:
    counts: dict[str, Count] = {}
    spent: dict[str, float] = {}
    minute = now // MINUTE
    for run in runs:
        if run.task.id not in accepted or isinstance(run.outcome, Snoozed):
            continue
        name = run.kind.name
        count = counts.get(name)
        if count is None:
            count = counts[name] = Count(minute, name, run.task.worker)
        spent[name] = spent.get(name, 0.0) + run.milliseconds
        if isinstance(run.outcome, Failed):
            count.failed += 1
        elif isinstance(run.outcome, Retried):
            count.retried += 1
        else:
            count.done += 1
    for name, count in counts.items():
        count.milliseconds = round(spent[name])
    return sorted(counts.values(), key=lambda count: count.kind)
