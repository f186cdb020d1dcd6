"""Polls external systems: one loop for each system, and one call for all due handles.

The owner of a row's bucket polls for it. A task with a notification needs no poll. A system that
does not answer, or gives a wrong answer, is polled less and less often and opens its breaker; the
time-outs of its tasks still count.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextvars import copy_context

import msgspec

from windlass import telemetry
from windlass.clock import SECOND
from windlass.core.face import FaceLoop, Workplace
from windlass.core.finish.finish import lock_for
from windlass.core.run.call import Calls
from windlass.core.task.kind import Kind
from windlass.core.trace.provider import recorder
from windlass.database.connection import Connection
from windlass.database.database import BAD_VALUES
from windlass.external import store
from windlass.external.engine.submission import (
    Notification,
    endings_of,
    late,
    lock_same,
    outcome_of,
    write_ends,
)
from windlass.external.model import Answer, Done, Failed, Running, Submission, terms_of
from windlass.external.store import ExternalRow
from windlass.value.outcome import Failed as FailedOutcome
from windlass.value.outcome import Outcome

LOOK_SECONDS = 0.25
STOPS_AT_ONCE = 8

Answers = dict[int, Answer]


class Poll(FaceLoop):
    """Polls one external system for its tasks, and lets it stop tasks that were cancelled."""

    name = "poll"

    def __init__(self, kind: Kind, workplace: Workplace) -> None:
        super().__init__()
        self._kind = kind
        self._terms = terms_of(kind)
        self._workplace = workplace
        self._site = workplace.site._replace(hand_off=None)
        self._database = workplace.site.database
        self._clock = workplace.site.clock
        self._polls, self._stops = (Calls(self._terms.call_timeout / SECOND) for _ in range(2))
        self._errors = 0
        # The number of the last tick that was asked for, and of the last that found nothing.
        self._wanted = 1
        self._idle_at = 0

    def tick(self) -> float:
        wanted, count = self._wanted, 0
        in_flight = self._workplace.in_flight
        if not in_flight.is_halted:
            count = self._stop_some()
            if in_flight.loads[self._kind.name].is_polled:
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
        kind, breakers, now = self._kind.name, self._workplace.gate.breakers, self._clock.now()
        share, limit = self._workplace.ring.share, self._terms.batch
        rows = self._database.read(
            lambda connection: store.due(
                connection, kind, now=now, buckets=share.runs, worker=share.worker, limit=limit
            )
        )
        told = [row for row in rows if row.submission.told is not None]
        if told:
            self._write(told, {row.task.id: _notified(row) for row in told}, worker=share.worker)
        asked = [row for row in rows if row.submission.told is None]
        if not asked:
            return len(told)
        is_open = breakers.is_open(kind)
        is_probe = is_open and breakers.take_probe(kind)
        if is_open and not is_probe:
            return len(told) + self._hold_back(asked, worker=share.worker)
        self._write(asked, self._answers(asked, is_probe=is_probe), worker=share.worker)
        return len(rows)

    def _answers(self, rows: Sequence[ExternalRow], *, is_probe: bool) -> Answers:
        """The answer for each task; a task without a usable answer is left out."""
        answers: Answers = {}
        errors: list[str] = []
        handles = list({row.submission.handle or "" for row in rows})
        try:
            found = self._poll(handles)
            if not isinstance(found, Mapping):
                raise TypeError(f"poll answered {found!r:.100}; it must answer a dict")
            for row in rows:
                answer = found.get(row.submission.handle or "", Running())
                if isinstance(answer, Running | Done | Failed):
                    answers[row.task.id] = answer
                else:
                    errors.append(f"{answer!r:.100} is not an answer for {row.submission.handle!r}")
        except Exception as problem:
            errors.append(_first_characters(problem))
        self._errors = 0 if answers else self._errors + 1
        kind, count = self._kind, max(1, self._errors)
        for error in errors:
            telemetry.emit("external.silent", kind=kind.name, error=error, errors=count)
        if kind.breaker is not None:
            count_call = self._workplace.gate.breakers.count_call
            count_call(kind.name, kind.breaker, ok=bool(answers), is_probe=is_probe)
        return answers

    def _poll(self, handles: list[str]) -> object:
        traced = recorder()
        if traced is None:
            return self._polls.one(self._terms.system.poll, handles)
        with traced.poll(self._kind.name, len(handles)):
            # The call has a thread of its own, which must know the span.
            inside = copy_context()
            return self._polls.one(
                lambda asked: inside.run(self._terms.system.poll, asked), handles
            )

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
                later.setdefault(terms.pause(row.submission.polls), []).append(row)

        def write(connection: Connection, ends: Mapping[ExternalRow, Outcome]) -> set[int]:
            put_off = [row for those in later.values() for row in those]
            same = lock_same(connection, [*ends, *put_off])
            for pause, those in later.items():
                ids = [row.task.id for row in those if row.task.id in same]
                store.put_off(connection, ids, due_at=now + pause, asked=is_asked)
            kept = {row: outcome for row, outcome in ends.items() if row.task.id in same}
            accepted = {row.task.id for row in kept}
            store.stop(connection, overdue & accepted, now)
            write_ends(connection, self._kind, kept, now=now)
            return accepted

        self._commit(write, outcomes, worker=worker)

    def _commit(
        self,
        write: Callable[[Connection, Mapping[ExternalRow, Outcome]], set[int]],
        outcomes: Mapping[ExternalRow, Outcome],
        *,
        worker: int,
    ) -> None:
        """Write outcomes together, or one by one if one of them cannot be stored."""
        endings = endings_of(self._site, outcomes, worker=worker)

        def work(connection: Connection) -> set[int] | None:
            locked = lock_for(connection, endings)
            accepted = write(connection, outcomes)
            for ending in endings:
                ending.write(connection, accepted, locked)
            return accepted

        try:
            accepted = self._database.write_as(worker, work, lost=None, tries=2)
        except BAD_VALUES as problem:
            if not outcomes:
                raise
            text = f"the outcome could not be stored: {type(problem).__name__}"
            for row, outcome in outcomes.items():
                is_last = len(outcomes) == 1
                if is_last and isinstance(outcome, FailedOutcome) and outcome.error == text:
                    raise
                one = {row: FailedOutcome(text, text) if is_last else outcome}
                self._commit(write, one, worker=worker)
            return
        if accepted is not None and [each for each in endings if each.committed(accepted)]:
            self._workplace.look_now()

    def _stop_some(self) -> int:
        """Let the system stop a few tasks that were cancelled, skipped or have timed out."""
        kind, now = self._kind.name, self._clock.now()
        if not self._database.read(lambda connection: store.has_stops(connection, kind, now=now)):
            return 0
        until, limit = now + 2 * self._terms.call_timeout, STOPS_AT_ONCE

        def take(connection: Connection) -> list[Submission]:
            return store.take_stops(connection, kind, now=now, until=until, limit=limit)

        taken = self._database.write(take, tries=2)
        if taken:
            self._stop(taken)
        return len(taken)

    def _stop(self, taken: Sequence[Submission]) -> None:
        try:
            handles = [str(each.handle) for each in taken]
            answers = self._stops.each(self._terms.system.cancel, handles)
        except TimeoutError as problem:
            answers = [problem] * len(taken)
        done: list[Submission] = []
        failed: list[Submission] = []
        for each, answer in zip(taken, answers, strict=True):
            (failed if isinstance(answer, Exception) else done).append(each)
            if isinstance(answer, Exception):
                error = _first_characters(answer)
                telemetry.emit("external.uncancelled", handle=each.handle, error=error)
        later = self._clock.now() + self._terms.pause_after_error(2)

        def work(connection: Connection) -> None:
            store.stopped(connection, done)
            store.put_off_stops(connection, failed, until=later)

        self._database.write(work, tries=2)


def _notified(row: ExternalRow) -> Answer:
    assert row.submission.told is not None
    return msgspec.json.decode(row.submission.told, type=Notification).answer


def _first_characters(problem: Exception) -> str:
    return f"{type(problem).__name__}: {problem}"[:300]
