"""The group commit: writes the outcomes of the last few milliseconds in one transaction."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence

from windlass import telemetry
from windlass.core.face import Ended, Ending, Site
from windlass.core.finish.group import make_group, write_group, write_inside
from windlass.core.finish.store import finish as store
from windlass.core.finish.store.history import MINUTE
from windlass.core.limit.breaker import Breakers, Move
from windlass.core.loop import Loop
from windlass.core.run.in_flight import InFlight
from windlass.core.run.ready import Run
from windlass.core.run.runner import failure
from windlass.database.connection import Connection
from windlass.database.database import BAD_VALUES, DatabaseError
from windlass.database.dialect.base import Count
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
)
from windlass.value.task import Claimed

MOST_AT_ONCE = 1_000
WINDOW_SECONDS = 0.003
LARGEST_PART = 2 * 1024 * 1024
CALLBACK_TRIES = 3
LOCKED_PAUSE = 0.2


class CallbackFailed(Exception):
    """An `on_finish` callback raised; its transaction was rolled back."""


class Finish(Loop):
    """Writes the outcomes of one worker."""

    name = "finish"

    def __init__(self, site: Site, in_flight: InFlight, *, breakers: Breakers) -> None:
        super().__init__()
        self._site = site
        self._database = site.database
        self._in_flight = in_flight
        self._breakers = breakers
        self.done = 0
        self.failed = 0

    def tick(self) -> float:
        in_flight = self._in_flight
        if not in_flight.ended:
            return 1.0
        if len(in_flight.ended) < MOST_AT_ONCE and in_flight.running:
            # Wait for runs that are about to end: one commit serves all.
            time.sleep(WINDOW_SECONDS)
        self.flush()
        if not in_flight.ended:
            return 1.0
        return LOCKED_PAUSE if all(run.is_locked for run in list(in_flight.ended)) else 0.0

    def flush(self) -> None:
        """Write ended runs. Raises on an error; outcomes that were not written stay."""
        runs = self._in_flight.take_ended(MOST_AT_ONCE)
        try:
            with self._in_flight.writing:
                self._write(runs)
        finally:
            # A written run has no outcome any more.
            self._in_flight.written([run for run in runs if run.outcome is None])
            self._in_flight.put_back([run for run in runs if run.outcome is not None])

    def flush_all(self) -> None:
        while self._in_flight.ended:
            self.flush()

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
            runs = self._unlocked(runs)
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
            free = self._unlocked(runs)
            if free:
                self._store(free)

    def _unlocked(self, runs: Sequence[Run]) -> list[Run]:
        """The runs whose rows are not locked. Marks the others `is_locked`; they wait."""
        flows = {run.task.flow_id for run in runs if run.task.flow_id is not None}
        wanted = flows | {run.task.id for run in runs}
        dialect = self._database.dialect
        held = self._database.write(
            lambda connection: store.locked_by_others(connection, dialect, wanted), tries=2
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

    def _write_with_callbacks(self, run: Run) -> None:
        """Write a run with `on_finish` in its own transaction, which its callbacks may undo."""
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
        except (CallbackFailed, *BAD_VALUES) as failed:
            self._fail_callback(run, failed.__cause__ or failed)
        except Exception as problem:
            # The callbacks ran several times, but the transaction never committed.
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
        now = self._site.clock.now()
        group = make_group(runs, self._site)
        endings = self._endings(runs)
        moves: list[Move] = []

        def beside(connection: Connection, accepted: set[int]) -> None:
            statistics = _counts(runs, accepted, now)
            if statistics:
                self._database.dialect.count(connection, statistics)
            moves[:] = self._breakers.note(connection, runs, accepted, now=now)

        written = write_group(self._site, group, endings, beside=beside, on_accepted=on_accepted)
        accepted = written or set()
        self._breakers.tell(moves)
        for ending in endings:
            ending.committed(accepted)
        self._report(runs, accepted)

    def _endings(self, runs: Sequence[Run]) -> list[Ending]:
        concerned = [
            Ended(run.task, run.outcome, run.kept)
            for run in runs
            if (run.task.flow_id is not None or run.kept is not None) and run.outcome is not None
        ]
        site = self._site
        return site.faces.endings(site, concerned, worker=runs[0].task.worker)

    def _report(self, runs: Sequence[Run], accepted: set[int]) -> None:
        self.done += len(accepted)
        for run in runs:
            outcome, run.outcome = run.outcome, None
            assert outcome is not None
            if run.task.id not in accepted:
                telemetry.emit("task.refused", task=run.task.id, kind=run.kind.name)
            elif outcome is not SUCCESS:
                self._emit(run, outcome)

    def _emit(self, run: Run, outcome: Outcome) -> None:
        facts: dict[str, object] = {"task": run.task.id, "kind": run.kind.name}
        if isinstance(outcome, Failed | Retried):
            facts |= {"error": outcome.error, "attempt": run.task.attempt}
        match outcome:
            case Retried():
                telemetry.emit("task.retried", **facts, again_in_seconds=outcome.delay / 1e6)
            case Failed():
                self.failed += 1
                telemetry.emit("task.failed", **facts)
            case Cancelled():
                telemetry.emit("task.cancelled", **facts, reason=outcome.reason)
            case Snoozed():
                telemetry.emit("task.snoozed", **facts, seconds=outcome.delay / 1e6)


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
        if size > LARGEST_PART:
            yield runs[begin : index + 1]
            begin, size = index + 1, 0
    if begin < len(runs):
        yield runs[begin:]


def _has_callbacks(run: Run) -> bool:
    return bool(run.on_finish) and isinstance(run.outcome, Succeeded | Expanded | Submitted)


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
