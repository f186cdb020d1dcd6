"""External systems: submit with a stable id, and write down how it ended over there.

While another system executes a task no runner is held: its row waits, due when it is to be asked
for next. Whoever hears the end first, poll or notification, writes it down; who comes later finds
the row ended. Locks are taken in one order everywhere: the runs of flows, then rows by id.
"""

from __future__ import annotations

import random
import secrets
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec
from sqlalchemy import Connection

from windlass import telemetry
from windlass.core.run.ready import Run, State
from windlass.core.task.kind import Kind
from windlass.database.database import Database
from windlass.errors import ExternalFailed, NoContext, Signal
from windlass.external import store
from windlass.external.model import (
    LONGEST_HANDLE,
    MISTAKES,
    Answer,
    Done,
    ExternalTerms,
    Failed,
    Running,
    Submission,
    is_handle,
)
from windlass.external.store import ExternalRow
from windlass.core.face import Site
from windlass.flow.model.graph import How
from windlass.flow.store import slot
from windlass.flow.store.slot import After
from windlass.value.duration import format_duration
from windlass.value.outcome import (
    KEEP_RESULT,
    LONGEST_REMARK,
    Outcome,
    Retried,
    Submitted,
    Succeeded,
    describe,
    judge,
    settle,
    storable,
)
from windlass.value.outcome import Failed as FailedOutcome
from windlass.value.payload import encode_result
from windlass.value.status import Status


class Told(msgspec.Struct, frozen=True):
    """How a task ended, as a notification says."""

    ok: bool
    result: Any = None
    reason: str = ""

    @property
    def answer(self) -> Answer:
        if self.ok:
            return Done(self.result)
        return Failed(self.reason or "the external system says that it failed")


# Submitting


def submit(
    run: Run | None, terms: ExternalTerms, call: Callable[..., object], *args: Any, **kwargs: Any
) -> object:
    """Hand the task of `run` to its system; its handle is written down with the outcome."""
    place = None if run is None else run.load.place
    if run is None or not isinstance(place, Place):
        raise NoContext("an external task is submitted by a worker; enqueue it")
    given = run.submission = _prepare(run, place)
    now = place.clock.now()
    # A probe tells whether the system is back, which its own time-out would not.
    if terms.is_late(given.began_at, now) and not run.is_probe:
        return _give_up(run, given, ExternalFailed(_too_late(terms)))
    try:
        handle = call(*args, **kwargs)
        if not is_handle(handle):
            shown = repr(handle)[:100]
            raise ExternalFailed(
                f"submit returned {shown}; it must return text of up to {LONGEST_HANDLE} characters"
            )
    except Signal:
        raise
    except (ExternalFailed, *MISTAKES) as problem:
        return _give_up(run, given, problem)
    except Exception as problem:
        return _wait(run, terms, problem, left=given.began_at + (terms.timeout or 0) - now)
    run.submission = replace(given, handle=str(handle))
    if run.state is not State.RUNNING:
        # Nobody waits for it any more, so its outcome will not be seen.
        _refuse(place.database, run.submission, now=now)
    telemetry.emit("external.submitted", task=run.task.id, kind=run.kind.name, handle=handle)
    return Submitted(str(handle), terms.every)


def write_submissions(connection: Connection, runs: Sequence[Run], accepted: set[int]) -> None:
    """Write down, with the outcomes that were accepted, what became of their submissions."""
    ours = [run for run in runs if run.submission is not None and run.task.id in accepted]
    if not ours:
        return
    handed = [run.submission for run in ours if isinstance(run.outcome, Submitted)]
    store.record(connection, [each for each in handed if each is not None])
    over = [run.task.id for run in ours if run.submission is not None and run.submission.is_over]
    store.fail(connection, over)


def refuse_submissions(
    database: Database, runs: Sequence[Run], accepted: set[int], *, now: int
) -> None:
    """Have the systems stop what was submitted for tasks that were ended meanwhile."""
    for run in runs:
        given = run.submission
        if given is not None and given.handle is not None and run.task.id not in accepted:
            _refuse(database, given, now=now)


def _prepare(run: Run, place: Place) -> Submission:
    database, number, now = place.database, run.task.id, place.clock.now()
    secret = secrets.token_hex(32)
    return database.write(
        lambda connection: store.prepare(
            connection, database.dialect, number, kind=run.kind.name, secret=secret, now=now
        )
    )


def _refuse(database: Database, given: Submission, *, now: int) -> None:
    database.write(lambda connection: store.refuse(connection, given, now=now), tries=2)


def _give_up(run: Run, given: Submission, problem: Exception) -> Outcome:
    """This submission has failed; another one follows if the kind has retries left."""
    run.submission = replace(given, is_over=True)
    policy, text, trace = run.kind.terms.retry, *describe(problem)
    counted = ExternalFailed()
    if not policy.allows(counted, tries=given.tries):
        return FailedOutcome(text, trace, is_answer=True)
    delay = policy.delay(counted, tries=given.tries, random=random.random())
    return Retried(delay, text, trace, is_answer=True)


def _wait(run: Run, terms: ExternalTerms, problem: Exception, *, left: int) -> Outcome:
    """The system is not there: it is submitted again later, but not after its time is out."""
    judged = judge(problem, run.kind.terms, tries=run.task.tries, random=random.random())
    if isinstance(judged, Retried) and terms.timeout is not None:
        return replace(judged, delay=min(judged.delay, max(0, left) + 1))
    return judged


def _too_late(terms: ExternalTerms) -> str:
    return f"it did not end within {format_duration(terms.timeout or 0)}"


# Ending


def late(terms: ExternalTerms) -> Answer:
    """What is said of a task whose time is out."""
    return Failed(_too_late(terms))


def outcome_of(row: ExternalRow, answer: Answer, kind: Kind) -> Outcome | None:
    """What an answer makes of a task; None if it still runs."""
    match answer:
        case Running():
            return None
        case Done():
            try:
                return Succeeded(encode_result(answer.result))
            except (TypeError, ValueError, OverflowError, RecursionError) as problem:
                text = storable(f"the result cannot be kept: {problem}")[:LONGEST_REMARK]
                return FailedOutcome(text, text)
        case Failed():
            text = storable(str(answer.reason))[:LONGEST_REMARK]
            judged = judge(
                ExternalFailed(text),
                kind.terms,
                tries=row.submission.tries,
                random=random.random(),
            )
            return FailedOutcome(text, text) if isinstance(judged, FailedOutcome) else judged


def lock_ends(
    connection: Connection, ended: Collection[ExternalRow], others: Collection[ExternalRow] = ()
) -> tuple[dict[int, int], set[int]]:
    """Lock rows that are about to be written, and first the runs of those that end.

    How many nodes are left of these runs, and which of the rows are as they were read.
    """
    runs = {row.task.flow_id for row in ended if row.task.flow_id is not None}
    before = slot.lock_runs(connection, runs) if runs else {}
    read = {row.task.id: row.submission.number for row in (*ended, *others)}
    return before, {
        row.task.id
        for row in store.lock(connection, read)
        if row.status is Status.EXTERNAL and row.submission.number == read[row.task.id]
    }


def write_ends(
    connection: Connection,
    database: Database,
    kind: Kind,
    outcomes: Mapping[ExternalRow, Outcome],
    *,
    before: Mapping[int, int],
    now: int,
) -> After:
    """Write how tasks have ended elsewhere, and have those go on that wait for them.

    Their rows are locked, and their runs, of which so many nodes are left `before`.
    """
    if not outcomes:
        return After()
    # It stays for a while whatever came of it: a late notification must find that it has ended.
    terms = kind.terms if kind.terms.keep else replace(kind.terms, keep=KEEP_RESULT)
    settled = [
        settle(row.task, outcome, terms, now=now, turns=False) for row, outcome in outcomes.items()
    ]
    store.end(connection, [change for change in settled if change is not None])
    again = [row.task.id for row, outcome in outcomes.items() if isinstance(outcome, Retried)]
    store.fail(connection, again)
    over = [row.task.id for row in outcomes if row.task.flow_id not in {None, *before}]
    slot.cancel_open(connection, [number for number in again if number in over], now=now)
    ended = {
        row.task.id: (
            row.task.flow_id,
            How.SUCCEEDED if isinstance(outcome, Succeeded) else How.FAILED,
        )
        for row, outcome in outcomes.items()
        if row.task.flow_id is not None and not isinstance(outcome, Retried)
    }
    if not ended:
        return After()
    worker = next(iter(outcomes)).task.worker
    return slot.after_end(
        connection, database.dialect, ended, before=before, worker=worker, now=now
    )
