"""Submits tasks to external systems, and writes how they ended.

While another system executes a task, it holds no runner: its row waits, and is due at the next
poll. A poll or a notification, whichever comes first, writes the end; the other finds the task
ended. Locks are always taken in one order: the rows that other faces lock, then task rows by id.
"""

from __future__ import annotations

import random
import secrets
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from windlass import telemetry
from windlass.core.face import Ended, Ending, Site
from windlass.core.run.ready import Run, State
from windlass.core.task.kind import Kind
from windlass.database.connection import Connection
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
from windlass.value import report
from windlass.value.duration import format_duration
from windlass.value.outcome import (
    KEEP_RESULT,
    Outcome,
    Retried,
    Submitted,
    describe,
    judge,
    settle,
)
from windlass.value.outcome import Failed as FailedOutcome
from windlass.value.status import Status


class Notification(msgspec.Struct, frozen=True):
    """How a task ended, as the external system says."""

    ok: bool
    result: Any = None
    reason: str = ""

    @property
    def answer(self) -> Answer:
        """The same, as the answer to a poll."""
        if self.ok:
            return Done(self.result)
        return Failed(self.reason) if self.reason else Failed()


def submit(
    run: Run | None, terms: ExternalTerms, call: Callable[..., object], *args: Any, **kwargs: Any
) -> object:
    """Submit the task of `run` to its system; the handle is written with the outcome."""
    site = None if run is None else run.load.site
    if run is None or site is None:
        raise NoContext("an external task is submitted by a worker; enqueue it")
    given = _prepare(run, site)
    run.keep(given)
    now = site.clock.now()
    # A probe must call the system, even for a task that has timed out.
    if terms.is_late(given.began_at, now) and not run.is_probe:
        return _give_up(run, given, ExternalFailed(late(terms).reason))
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
    submitted = replace(given, handle=str(handle))
    run.keep(submitted)
    if run.state is not State.RUNNING:
        # The run was stopped meanwhile, so its outcome will not be written.
        _refuse(site.database, submitted, now=now)
    telemetry.emit("external.submitted", task=run.task.id, kind=run.kind.name, handle=handle)
    return Submitted(str(handle), terms.every)


def submission_of(run: Run) -> Submission:
    """The submission that a run makes."""
    found = (run.kept or {}).get(Submission)
    if not isinstance(found, Submission):
        raise NoContext("this belongs to submit() of an external system")
    return found


def ending(site: Site, ended: Sequence[Ended], worker: int) -> SubmissionsEnding | None:
    """What to write with the outcomes of runs that submitted their tasks."""
    del worker
    given = [
        (each, each.kept[Submission]) for each in ended if each.kept and Submission in each.kept
    ]
    return SubmissionsEnding(site, given) if given else None


@dataclass(frozen=True)
class SubmissionsEnding:
    """Writes the handles of accepted outcomes; stops submissions whose outcome was refused."""

    site: Site
    given: Sequence[tuple[Ended, Submission]]
    locks: Collection[int] = ()

    def write(self, connection: Connection, accepted: set[int], locked: Mapping[int, int]) -> None:
        ours = [(each, given) for each, given in self.given if each.task.id in accepted]
        handed = [given for each, given in ours if isinstance(each.outcome, Submitted)]
        store.record(connection, handed)
        store.fail(connection, [given.task_id for _, given in ours if given.is_over])

    def committed(self, accepted: set[int]) -> bool:
        now = self.site.clock.now()
        for each, given in self.given:
            if given.handle is not None and each.task.id not in accepted:
                _refuse(self.site.database, given, now=now)
        return False


def _prepare(run: Run, site: Site) -> Submission:
    database, number, now = site.database, run.task.id, site.clock.now()
    secret = secrets.token_hex(32)
    return database.write(
        lambda connection: store.prepare(
            connection, database.dialect, number, kind=run.kind.name, secret=secret, now=now
        )
    )


def _refuse(database: Database, given: Submission, *, now: int) -> None:
    database.write(lambda connection: store.refuse(connection, given, now=now), tries=2)


def _give_up(run: Run, given: Submission, problem: Exception) -> Outcome:
    """Fail this submission; a new one follows if the kind has retries left."""
    run.keep(replace(given, is_over=True))
    return report.failed(
        *describe(problem),
        run.kind.terms.retry,
        tries=given.tries,
        as_error=ExternalFailed(),
        is_answer=True,
    )


def _wait(run: Run, terms: ExternalTerms, problem: Exception, *, left: int) -> Outcome:
    """The system does not answer: submit again later, but not after the time-out."""
    judged = judge(problem, run.kind.terms, tries=run.task.tries, random=random.random())
    if isinstance(judged, Retried) and terms.timeout is not None:
        return replace(judged, delay=min(judged.delay, max(0, left) + 1))
    return judged


def late(terms: ExternalTerms) -> Failed:
    """The answer for a task that has timed out."""
    return Failed(f"it did not end within {format_duration(terms.timeout or 0)}")


def outcome_of(row: ExternalRow, answer: Answer, kind: Kind) -> Outcome | None:
    """The outcome that follows from an answer; None if the task is still running."""
    match answer:
        case Running():
            return None
        case Done():
            return report.done(answer.result)
        case Failed():
            text = report.text_of(answer.reason)
            tries, chance = row.submission.tries, random.random()
            judged = judge(ExternalFailed(text), kind.terms, tries=tries, random=chance)
            return FailedOutcome(text, text) if isinstance(judged, FailedOutcome) else judged


def lock_same(connection: Connection, rows: Collection[ExternalRow]) -> set[int]:
    """Lock rows; the ids of those that have not changed since they were read."""
    read = {row.task.id: row.submission.number for row in rows}
    return {
        row.task.id
        for row in store.lock(connection, read)
        if row.status is Status.EXTERNAL and row.submission.number == read[row.task.id]
    }


def write_ends(
    connection: Connection, kind: Kind, outcomes: Mapping[ExternalRow, Outcome], *, now: int
) -> None:
    """Write how locked tasks have ended in their system."""
    if not outcomes:
        return
    # The rows are kept for a while: a late notification must find that the task has ended.
    terms = kind.terms if kind.terms.keep else replace(kind.terms, keep=KEEP_RESULT)
    settled = [
        settle(row.task, outcome, terms, now=now, turns=False) for row, outcome in outcomes.items()
    ]
    store.end(connection, [change for change in settled if change is not None])
    again = [row.task.id for row, outcome in outcomes.items() if isinstance(outcome, Retried)]
    store.fail(connection, again)


def endings_of(site: Site, outcomes: Mapping[ExternalRow, Outcome], *, worker: int) -> list[Ending]:
    """What other faces write with these outcomes."""
    ended = [
        Ended(row.task, outcome)
        for row, outcome in outcomes.items()
        if row.task.flow_id is not None
    ]
    return site.faces.endings(site, ended, worker=worker)
