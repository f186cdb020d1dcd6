"""What must hold, whatever happens: watched from the rows and from what the handlers see."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tests.simulation.stage import Stage
from windlass.core.run.ready import Run, State
from windlass.value.outcome import Cancelled, Failed, Retried, Snoozed, Succeeded
from windlass.value.status import Status
from windlass.value.task import Claimed

MAX_LOST = 3
LEFT = "select id from windlass_worker where left_at is not null"
OWNERS = "select bucket, owner from windlass_bucket where owner is not null"
ROWS = "select id, status, due_at, batch, worker, attempt, lost, remark from windlass_task"


class Violation(AssertionError):
    """Something happened that must not. Its first word says what, for shrinking."""


@dataclass
class Row:
    """What is known of a row from outside."""

    kind: str
    is_item: bool = False
    is_poison: bool = False
    # Grows whenever what came before no longer counts.
    cycle: int = 0
    tries: int = 0
    is_ended: bool = False
    is_cancelled: bool = False
    is_removed: bool = False
    # Whether attempts can be compared: a user or a snooze starts their count anew.
    is_counted: bool = True
    kills: int = 0


class Oracle:
    """Knows what was asked for, and compares."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self.rows: dict[int, Row] = {}
        self._taken: dict[Run, int] = {}
        self._excused: set[Run] = set()
        self._begun: dict[int, list[Run]] = {}
        # Deaths that no poison row is to blame for.
        self.accidents = 0
        stage.taken, stage.accepted, stage.poisoned = self.note_taken, self._accept, self._poison

    def open_rows(self) -> list[int]:
        return [number for number, row in self.rows.items() if not self._is_over(row)]

    def note_taken(self, run: Run) -> None:
        """A worker holds a row, as it is now."""
        row = self.rows.get(run.task.id)
        self._taken[run] = -1 if row is None else row.cycle

    def note_begun(self, run: Run) -> None:
        """Its handler begins."""
        self._begun.setdefault(run.task.id, []).append(run)

    def excuse(self, runs: Iterable[Run]) -> None:
        """A user ended their row: they are stopped with the next beat, which may be late."""
        self._excused.update(runs)

    @property
    def left(self) -> set[int]:
        """The workers that are marked left."""
        return {number for (number,) in self._stage.ask(LEFT)}

    def check_runs(self, runs: Iterable[Run]) -> None:
        """No row is run by two workers that are not marked left, nor twice by one."""
        seen: dict[int, Run] = {}
        left: set[int] | None = None
        for run in runs:
            if run.state is not State.RUNNING or run in self._excused:
                continue
            if left is None:
                left = self.left
            if run.task.worker in left:
                continue
            other = seen.setdefault(run.task.id, run)
            if other is not run:
                workers = other.task.worker, run.task.worker
                raise Violation(f"S1 row {run.task.id} is run twice, by the workers {workers}")

    def check_shares(self, shares: Iterable[tuple[int, Sequence[range]]]) -> None:
        """What a worker that is not marked left may read is its own."""
        left = self.left
        owners = dict(self._stage.ask(OWNERS))
        for worker, runs in shares:
            if worker in left:
                continue
            wrong = [number for run in runs for number in run if owners.get(number) != worker]
            if wrong:
                raise Violation(f"S4 worker {worker} reads buckets that are not its own: {wrong}")
        if left & set(owners.values()):
            raise Violation(f"S4 buckets are owned by the dead: {left & set(owners.values())}")

    def _accept(self, runs: Sequence[Run], accepted: set[int]) -> None:
        """Called inside the transaction that writes the outcomes."""
        left = self.left
        for run in runs:
            number = run.task.id
            if number not in accepted:
                continue
            row = self.rows[number]
            if run.task.worker in left:
                raise Violation(f"S2 row {number}: accepted from {run.task.worker}, which has left")
            if row.is_cancelled or row.is_removed:
                raise Violation(f"S7 row {number}: accepted after a user ended it")
            if row.is_ended or self._taken.get(run, row.cycle) != row.cycle:
                raise Violation(f"S2 row {number}: accepted twice, or for what was replaced")
            self._check_alone(row, run, left)
            self._ended(row, run)

    def _check_alone(self, row: Row, run: Run, left: set[int]) -> None:
        """Nobody else who lives has run it too, and waits to say so."""
        for other in self._begun.get(run.task.id, ()):
            is_open = other.state is State.RUNNING or (
                other.state is State.ENDED and other.outcome is not None
            )
            if (
                is_open
                and other is not run
                and self._taken[other] == row.cycle
                and other.task.worker not in left
                and other not in self._excused
            ):
                workers = other.task.worker, run.task.worker
                raise Violation(f"S1 row {run.task.id} was run by the workers {workers}")

    def _ended(self, row: Row, run: Run) -> None:
        row.cycle += 1
        row.tries += 1
        match run.outcome:
            case Snoozed():
                row.is_counted = False
            case Retried():
                pass
            case Succeeded() | Failed() | Cancelled():
                row.is_ended = not row.is_item
                row.is_counted = row.is_counted and not row.is_item

    def _poison(self, tasks: Sequence[Claimed]) -> None:
        for task in tasks:
            row = self.rows[task.id]
            if not row.is_poison and not self.accidents:
                raise Violation(f"S5 row {task.id} is innocent and failed as poison")
            if row.is_ended or row.is_cancelled:
                raise Violation(f"S7 row {task.id} was over and failed as poison")
            row.cycle += 1
            if row.is_item:
                row.is_counted = False
            else:
                row.is_ended = True

    def check_end(self, now: int) -> None:
        """Nothing is left to do, and nothing was lost."""
        found = {row[0]: row[1:] for row in self._stage.ask(ROWS)}
        for number, row in self.rows.items():
            if row.is_removed:
                continue
            if number not in found:
                if row.kind == "quick" and row.is_ended:
                    continue
                raise Violation(f"S3 row {number} of {row} is gone")
            self._check_row(number, row, found[number], now)

    def _check_row(self, number: int, row: Row, values: tuple[object, ...], now: int) -> None:
        status, due_at, _batch, _worker, attempt, lost, _remark = values
        if row.is_cancelled:
            if status != Status.CANCELLED:
                raise Violation(f"S7 row {number} was cancelled and has status {status}")
            return
        if row.is_item:
            if status != Status.WAITING or due_at <= now:
                raise Violation(f"S3 item {number} is not visited: {values}")
            return
        if not row.is_ended or due_at is not None:
            raise Violation(f"S3 row {number} is not run: {values}, {row}")
        if row.kills > 2 * MAX_LOST:
            raise Violation(f"S5 row {number} killed {row.kills} workers")
        if row.is_counted and attempt != row.tries + lost:
            raise Violation(f"S6 row {number}: {attempt} attempts, {row.tries} tries, {lost} lost")

    @staticmethod
    def _is_over(row: Row) -> bool:
        return row.is_ended or row.is_cancelled or row.is_removed
