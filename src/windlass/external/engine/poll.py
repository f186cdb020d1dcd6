"""Polls external systems: one loop for each system, and one call for all due handles.

The owner of a row's bucket polls for it. A task with a notification needs no poll. A system that
does not answer, or gives a wrong answer, is polled less and less often and opens its breaker; the
time-outs of its tasks still count.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from windlass import telemetry
from windlass.clock import SECOND
from windlass.core.face import Ending, FaceLoop, Workplace
from windlass.core.finish.group import lock_for
from windlass.core.run.call import Calls
from windlass.core.task.kind import Kind
from windlass.database.connection import Connection
from windlass.database.database import BAD_VALUES
from windlass.external import store
from windlass.external.engine.stop import StopCalls, first_characters
from windlass.external.engine.submission import (
    Notification,
    endings_of,
    late,
    lock_same,
    outcome_of,
    write_ends,
)
from windlass.external.model import Answer, Done, Failed, Running, terms_of
from windlass.external.store import ExternalRow
from windlass.value.outcome import Failed as FailedOutcome
from windlass.value.outcome import Outcome

LOOK_SECONDS = 0.25

Answers = dict[int, Answer]


class PollWritten(NamedTuple):
    """What faces wrote with some outcomes, and which outcomes were accepted."""

    endings: Sequence[Ending]
    accepted: set[int]


class Poll(FaceLoop):
    """Polls one external system for its tasks, and lets it stop tasks that were cancelled."""

    name = "poll"

    def __init__(self, kind: Kind, workplace: Workplace) -> None:
        super().__init__()
        self._kind = kind
        self._terms = terms_of(kind)
        self._site = workplace.site._replace(hand_off=None)
        self._database = workplace.site.database
        self._clock = workplace.site.clock
        self._in_flight = workplace.in_flight
        self._ring = workplace.ring
        self._breakers = workplace.breakers
        self._look_now = workplace.look_now
        self._calls = Calls(terms_of(kind).call_timeout / SECOND)
        self._stops = StopCalls(kind, workplace.site)
        self._errors = 0
        # The number of the last tick that was asked for, and of the last that found nothing.
        self._wanted = 1
        self._idle_at = 0

    def tick(self) -> float:
        wanted, count = self._wanted, 0
        if not self._in_flight.is_halted:
            count = self._stops.call_some()
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
        """Poll once for due tasks; for how many of them something was written."""
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
            self._write(told, {row.task.id: _notified(row) for row in told}, worker=share.worker)
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

    def _answers(self, rows: Sequence[ExternalRow], *, is_probe: bool) -> Answers:
        """The answer for each task; a task without a usable answer is left out."""
        answers: Answers = {}
        errors: list[str] = []
        handles = list({row.submission.handle or "" for row in rows})
        try:
            found: object = self._calls.one(self._terms.system.poll, handles)
            if not isinstance(found, Mapping):
                raise TypeError(f"poll answered {found!r:.100}; it must answer a dict")
            for row in rows:
                answer = found.get(row.submission.handle or "", Running())
                if isinstance(answer, Running | Done | Failed):
                    answers[row.task.id] = answer
                else:
                    errors.append(f"{answer!r:.100} is not an answer for {row.submission.handle!r}")
        except Exception as problem:
            errors.append(first_characters(problem))
        self._errors = 0 if answers else self._errors + 1
        kind = self._kind
        for error in errors:
            telemetry.emit(
                "external.silent", kind=kind.name, error=error, errors=max(1, self._errors)
            )
        if kind.breaker is not None:
            ok = bool(answers)
            self._breakers.count_call(kind.name, kind.breaker, ok=ok, is_probe=is_probe)
        return answers

    def _hold_back(self, rows: Sequence[ExternalRow], *, worker: int) -> int:
        """The breaker is open: write only time-outs, and put off a full page for the next rows."""
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

        def work(connection: Connection, ends: Mapping[ExternalRow, Outcome]) -> PollWritten:
            endings = endings_of(self._site, ends, worker=worker)
            locked = lock_for(connection, endings)
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
            return PollWritten(endings, set(ids))

        self._commit(work, outcomes, worker=worker)

    def _commit(
        self,
        work: Callable[[Connection, Mapping[ExternalRow, Outcome]], PollWritten],
        outcomes: Mapping[ExternalRow, Outcome],
        *,
        worker: int,
    ) -> None:
        """Write outcomes together, or one by one if one of them cannot be stored."""
        try:
            written = self._database.write_as(
                worker,
                lambda connection: work(connection, outcomes),
                lost=PollWritten([], set()),
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


def _notified(row: ExternalRow) -> Answer:
    assert row.told is not None
    return msgspec.json.decode(row.told, type=Notification).answer
