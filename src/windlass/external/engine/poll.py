"""Polling: one loop for each external system asks, for all due handles in one call.

The owner of a row's bucket asks for it. What was told by a notification needs no asking. A system
that does not answer, or answers nonsense, is asked less and less often and opens its breaker; the
time-outs of its tasks run on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from windlass import telemetry
from windlass.clock import SECOND
from windlass.core.face import Ending, FaceLoop, Workplace
from windlass.core.run.call import Calls
from windlass.core.task.kind import Kind
from windlass.database.connection import Connection
from windlass.database.database import BAD_VALUES
from windlass.database.dialect.base import lock_runs
from windlass.external import store
from windlass.external.engine.submission import (
    Told,
    endings_of,
    late,
    lock_same,
    outcome_of,
    write_ends,
)
from windlass.external.model import Answer, Done, Failed, Running, Submission
from windlass.external.store import ExternalRow
from windlass.value.outcome import Failed as FailedOutcome
from windlass.value.outcome import Outcome

LOOK_SECONDS = 0.25
CANCEL_AT_ONCE = 8

Answers = dict[int, Answer]


class Written(NamedTuple):
    """What was written with some outcomes, and which of them were accepted."""

    endings: Sequence[Ending]
    accepted: set[int]


class Poll(FaceLoop):
    """Asks one external system how its tasks are going, and to stop those that were cancelled."""

    name = "poll"

    def __init__(self, kind: Kind, workplace: Workplace) -> None:
        super().__init__()
        assert kind.system is not None
        self._kind = kind
        self._terms = kind.system
        self._site = workplace.site._replace(hand_off=None)
        self._database = workplace.site.database
        self._clock = workplace.site.clock
        self._in_flight = workplace.in_flight
        self._ring = workplace.ring
        self._breakers = workplace.breakers
        self._look_now = workplace.look_now
        seconds = kind.system.call_timeout / SECOND
        self._asking = Calls(seconds)
        self._stopping_there = Calls(seconds)
        self._errors = 0
        # Which look is wanted, and the last that found nothing to do.
        self._wanted = 1
        self._idle_at = 0

    def tick(self) -> float:
        wanted, count = self._wanted, 0
        if not self._in_flight.is_halted:
            count = self.cancel_some()
            if self._in_flight.loads[self._kind.name].is_open:
                count += self.ask()
        if not count:
            self._idle_at = wanted
        self.is_idle = self._idle_at == self._wanted
        return 0.0 if count else LOOK_SECONDS

    def look_again(self) -> None:
        self._wanted += 1
        self.is_idle = False
        self.wake()

    def ask(self) -> int:
        """Ask once for what is due; of how many tasks something was written."""
        kind, terms, share, now = self._kind, self._terms, self._ring.share, self._clock.now()
        rows = self._database.read(
            lambda connection: store.due(
                connection,
                kind.name,
                now=now,
                buckets=share.runs,
                worker=share.worker,
                limit=terms.batch,
            )
        )
        told = [row for row in rows if row.told is not None]
        if told:
            self._write(told, {row.task.id: _told(row) for row in told}, worker=share.worker)
        asked = [row for row in rows if row.told is None]
        if not asked:
            return len(told)
        is_probe = False
        if self._breakers.is_open(kind.name):
            is_probe = self._breakers.take_probe(kind.name)
            if not is_probe:
                return len(told) + self._hold_back(asked, worker=share.worker)
        self._write(asked, self._answers(asked, is_probe=is_probe), worker=share.worker)
        return len(rows)

    def cancel_some(self) -> int:
        """Ask the system to stop a few of those that were cancelled; how many those were."""
        now, name = self._clock.now(), self._kind.name
        until = now + 2 * self._terms.call_timeout
        if not self._database.read(lambda connection: store.has_stops(connection, name, now=now)):
            return 0
        taken = self._database.write(
            lambda connection: store.take_stops(
                connection, name, now=now, until=until, limit=CANCEL_AT_ONCE
            ),
            tries=2,
        )
        done: list[Submission] = []
        failed: list[Submission] = []
        try:
            handles = [str(each.handle) for each in taken]
            found = self._stopping_there.each(self._terms.system.cancel, handles)
        except TimeoutError as problem:
            found = [problem] * len(taken)
        for each, answer in zip(taken, found, strict=True):
            (failed if isinstance(answer, Exception) else done).append(each)
            if isinstance(answer, Exception):
                telemetry.emit("external.uncancelled", handle=each.handle, error=_line(answer))
        later = self._clock.now() + self._terms.pause_after_error(2)

        def work(connection: Connection) -> None:
            if done:
                store.stopped(connection, done)
            if failed:
                store.put_off_stops(connection, failed, until=later)

        if taken:
            self._database.write(work, tries=2)
        return len(taken)

    def _answers(self, rows: Sequence[ExternalRow], *, is_probe: bool) -> Answers:
        """What the system says of each; those of which it says nothing that can be used are not in.

        One whose time is out has failed, whatever the system says.
        """
        answers: Answers = {}
        wrong = 0
        handles = list({row.submission.handle or "" for row in rows})
        try:
            found: object = self._asking.one(self._terms.system.poll, handles)
            if not isinstance(found, Mapping):
                raise TypeError(f"poll answered {found!r:.100}; it must answer a dict")
            for row in rows:
                answer = found.get(row.submission.handle or "", Running())
                if isinstance(answer, Running | Done | Failed):
                    answers[row.task.id] = answer
                else:
                    wrong += 1
                    self._tell(f"{answer!r:.100} is no answer for {row.submission.handle!r}")
            ok = bool(answers)
        except Exception as problem:
            ok = False
            self._errors += 1
            self._tell(_line(problem))
        if ok:
            self._errors = 0
        elif wrong:
            self._errors += 1
        if self._kind.breaker is not None:
            name = self._kind.name
            self._breakers.count_call(name, self._kind.breaker, ok=ok, is_probe=is_probe)
        return answers

    def _hold_back(self, rows: Sequence[ExternalRow], *, worker: int) -> int:
        """The breaker is open: only time-outs are written; rows behind these get their turn."""
        now = self._clock.now()
        is_more = len(rows) >= self._terms.batch
        over = [row for row in rows if self._terms.is_late(row.submission.began_at, now)]
        concerned = rows if is_more else over
        if concerned:
            self._write(concerned, {}, worker=worker, is_asked=False)
        return len(concerned)

    def _write(
        self,
        rows: Sequence[ExternalRow],
        answers: Mapping[int, Answer],
        *,
        worker: int,
        is_asked: bool = True,
    ) -> None:
        now, terms = self._clock.now(), self._terms
        outcomes: dict[ExternalRow, Outcome] = {}
        later: dict[int, list[ExternalRow]] = {}
        overdue: set[int] = set()
        for row in rows:
            answer = answers.get(row.task.id)
            is_open = answer is None or isinstance(answer, Running)
            if is_open and terms.is_late(row.submission.began_at, now):
                overdue.add(row.task.id)
                answer, is_open = late(terms), False
            outcome = None if answer is None else outcome_of(row, answer, self._kind)
            if outcome is not None:
                outcomes[row] = outcome
            elif answer is None:
                pause = terms.pause_after_error(max(1, self._errors))
                later.setdefault(pause, []).append(row)
            else:
                later.setdefault(terms.pause(row.polls), []).append(row)

        def work(connection: Connection, ends: Mapping[ExternalRow, Outcome]) -> Written:
            endings = endings_of(self._site, ends, worker=worker)
            locks = {number for ending in endings for number in ending.locks}
            locked = lock_runs(connection, locks) if locks else {}
            put_off = [row for those in later.values() for row in those]
            same = lock_same(connection, [*ends, *put_off])
            for pause, those in later.items():
                ids = [row.task.id for row in those if row.task.id in same]
                store.put_off(connection, ids, due_at=now + pause, asked=is_asked)
            ends = {row: outcome for row, outcome in ends.items() if row.task.id in same}
            ids = [row.task.id for row in ends]
            store.stop(connection, [number for number in ids if number in overdue], now=now)
            write_ends(connection, self._kind, ends, now=now)
            for ending in endings:
                ending.write(connection, set(ids), locked)
            return Written(endings, set(ids))

        self._commit(work, outcomes, worker=worker)

    def _commit(
        self,
        work: Callable[[Connection, Mapping[ExternalRow, Outcome]], Written],
        outcomes: Mapping[ExternalRow, Outcome],
        *,
        worker: int,
    ) -> None:
        """Write outcomes together, or, if one of them cannot be stored, each by itself."""
        try:
            written = self._database.write_as(
                worker,
                lambda connection: work(connection, outcomes),
                lost=Written([], set()),
                tries=2,
            )
        except BAD_VALUES as problem:
            if not outcomes:
                raise
            text = f"the outcome could not be stored: {type(problem).__name__}"
            for row, outcome in outcomes.items():
                is_last = len(outcomes) == 1
                if is_last and isinstance(outcome, FailedOutcome) and outcome.error == text:
                    raise
                one = {row: FailedOutcome(text, text) if is_last else outcome}
                self._commit(work, one, worker=worker)
            return
        if [each for each in written.endings if each.committed(written.accepted)]:
            self._look_now()

    def _tell(self, error: str) -> None:
        telemetry.emit(
            "external.silent", kind=self._kind.name, error=error, errors=max(1, self._errors)
        )


def _told(row: ExternalRow) -> Answer:
    assert row.told is not None
    return msgspec.json.decode(row.told, type=Told).answer


def _line(problem: Exception) -> str:
    return f"{type(problem).__name__}: {problem}"[:300]
