"""External systems: submit with a stable id, ask in bulk, and believe a notification at once.

While another system executes a task no runner is held: its row waits, due when it is to be asked
for next. The owner of its bucket asks, for all due handles of a system in one call. Whoever hears
the end first, poll or notification, writes it down; who comes later finds the row ended.
"""

from __future__ import annotations

import random
import secrets
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import msgspec
from sqlalchemy import Connection

from windlass import telemetry
from windlass.clock import Clock
from windlass.declare.kind import Kind
from windlass.engine.breaker import Breakers
from windlass.engine.flow import Place
from windlass.engine.hold import Hold
from windlass.engine.loop import Loop
from windlass.engine.ring import Ring
from windlass.engine.shelf import Run
from windlass.errors import ExternalDown, NoContext, Signal
from windlass.model.duration import format_duration
from windlass.model.external import (
    LONGEST_HANDLE,
    Answer,
    Done,
    ExternalFailed,
    ExternalTerms,
    Failed,
    Running,
    is_down,
)
from windlass.model.flow import How
from windlass.model.outcome import (
    KEEP_RESULT,
    Outcome,
    Retried,
    Submitted,
    Succeeded,
    judge,
    settle,
)
from windlass.model.outcome import Failed as FailedOutcome
from windlass.model.payload import encode_result
from windlass.store import external as store
from windlass.store import slot
from windlass.store.database import Database
from windlass.store.external import ExternalRow
from windlass.store.slot import After

LOOK_SECONDS = 0.25
BUSY_SECONDS = 0.01


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


def submit(
    run: Run | None, terms: ExternalTerms, call: Callable[..., object], *args: Any, **kwargs: Any
) -> object:
    """Hand the task of `run` to its system; its handle is written down with the outcome."""
    place = None if run is None else run.load.place
    if run is None or not isinstance(place, Place):
        raise NoContext("an external task is submitted by a worker; enqueue it")
    number, database, clock = run.task.id, place.database, place.clock
    run.external = database.write(
        lambda connection: store.prepare(
            connection, database.dialect, number, kind=run.kind.name, secret=secrets.token_hex(32)
        )
    )
    handle = _call(call, args, kwargs)
    if not isinstance(handle, str) or not handle or len(handle) > LONGEST_HANDLE:
        raise TypeError(f"submit returned {handle!r}; it must return a handle, text of up to 255")
    now = clock.now()

    def record(connection: Connection) -> None:
        store.record(connection, number, handle=handle, now=now)

    run.on_finish = [*(run.on_finish or []), record]
    telemetry.emit("external.submitted", task=number, kind=run.kind.name, handle=handle)
    return Submitted(handle, terms.every)


def _call(
    call: Callable[..., object], args: tuple[object, ...], kwargs: Mapping[str, object]
) -> object:
    """The handle. A system that is down is no fault of the task: that is told apart here."""
    try:
        return call(*args, **kwargs)
    except (Signal, ExternalDown):
        raise
    except Exception as problem:
        if is_down(problem):
            raise ExternalDown(f"{type(problem).__name__}: {problem}") from problem
        raise


def outcome_of(row: ExternalRow, answer: Answer, kind: Kind) -> Outcome | None:
    """What an answer makes of a task; None if it still runs."""
    match answer:
        case Running():
            return None
        case Done():
            try:
                return Succeeded(encode_result(answer.result))
            except (TypeError, ValueError, OverflowError, RecursionError) as problem:
                text = f"the result cannot be kept: {problem}"
                return FailedOutcome(text, text)
        case Failed():
            error = ExternalFailed(str(answer.reason))
            judged = judge(error, kind.terms, tries=row.submission, random=random.random())
            if isinstance(judged, FailedOutcome):
                return FailedOutcome(str(answer.reason), str(answer.reason))
            return judged


def write_ends(
    connection: Connection,
    database: Database,
    kind: Kind,
    outcomes: Mapping[ExternalRow, Outcome],
    *,
    now: int,
) -> After:
    """Write how tasks have ended elsewhere, and have those go on that wait for them."""
    # It stays for a while whatever came of it: a late notification must find that it has ended.
    terms = kind.terms if kind.terms.keep else replace(kind.terms, keep=KEEP_RESULT)
    settled = [
        settle(row.task, outcome, terms, now=now, turns=False) for row, outcome in outcomes.items()
    ]
    accepted = store.end(connection, [change for change in settled if change is not None])
    again = [row.task.id for row, outcome in outcomes.items() if isinstance(outcome, Retried)]
    if again:
        store.submit_again(connection, [number for number in again if number in accepted])
    ended = {
        row.task.id: (
            row.task.flow_id,
            How.SUCCEEDED if isinstance(outcome, Succeeded) else How.FAILED,
        )
        for row, outcome in outcomes.items()
        if row.task.id in accepted
        and row.task.flow_id is not None
        and not isinstance(outcome, Retried)
    }
    if not ended:
        return After()
    before = slot.lock_runs(connection, {run for run, _ in ended.values()})
    return slot.after_end(connection, database.dialect, ended, before=before, now=now)


class Poll(Loop):
    """Asks external systems how their tasks are going, each on a thread of its own."""

    name = "poll"

    def __init__(
        self,
        database: Database,
        kinds: Mapping[str, Kind],
        clock: Clock,
        hold: Hold,
        ring: Ring,
        breakers: Breakers,
        *,
        look_now: Callable[[], None],
    ) -> None:
        super().__init__()
        self._database = database
        self._kinds = {name: kind for name, kind in kinds.items() if kind.system is not None}
        self._clock = clock
        self._hold = hold
        self._ring = ring
        self._breakers = breakers
        self._look_now = look_now
        self._pool = ThreadPoolExecutor(
            max_workers=max(1, len(self._kinds)), thread_name_prefix="windlass-poll"
        )
        self._asking: dict[str, Future[int]] = {}
        self._errors: dict[str, int] = {}

    def tick(self) -> float:
        for name, kind in self._kinds.items():
            asking = self._asking.get(name)
            if asking is not None and not asking.done():
                continue
            if asking is not None and asking.exception() is not None:
                problem = asking.exception()
                telemetry.log.error("polling %s failed", name, exc_info=problem)
            if not self._hold.is_halted and self._hold.loads[name].is_open:
                self._asking[name] = self._pool.submit(self.ask, kind)
            if asking is not None and asking.exception() is not None:
                return LOOK_SECONDS
        return LOOK_SECONDS if self.is_idle else BUSY_SECONDS

    @property
    def is_idle(self) -> bool:
        """Whether all systems were asked and nothing was due."""
        asked = self._asking.values()
        return len(asked) == len(self._kinds) and all(
            each.done() and each.exception() is None and not each.result() for each in asked
        )

    def look_again(self) -> None:
        """Be idle only after another look."""
        self._asking.clear()
        self.wake()

    def stop(self) -> None:
        super().stop()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def ask(self, kind: Kind) -> int:
        """Ask once for what is due of one kind; how many tasks that were."""
        terms, share, now = kind.system, self._ring.share, self._clock.now()
        assert terms is not None
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
        if not rows:
            return 0
        is_probe = False
        if self._breakers.is_open(kind.name):
            is_probe = self._breakers.take_probe(kind.name)
            if not is_probe:
                return 0
        answers = self._answers(kind, terms, rows, is_probe=is_probe)
        self._write(kind, terms, rows, answers, worker=share.worker)
        return len(rows)

    def _answers(
        self, kind: Kind, terms: ExternalTerms, rows: Sequence[ExternalRow], *, is_probe: bool
    ) -> dict[int, Answer]:
        """What the system says of each; none of those are here of which it says nothing."""
        now = self._clock.now()
        answers: dict[int, Answer] = {
            row.task.id: msgspec.json.decode(row.told, type=Told).answer
            for row in rows
            if row.told is not None
        }
        asked = {row.handle: row for row in rows if row.handle and row.task.id not in answers}
        found = self._poll(kind, terms, list(asked), is_probe=is_probe) if asked else {}
        for handle, row in asked.items():
            answer = None if found is None else found.get(handle, Running())
            began = row.submitted_at or now
            is_late = terms.timeout is not None and now - began > terms.timeout
            if is_late and (answer is None or isinstance(answer, Running)):
                answer = Failed(f"it did not end within {format_duration(terms.timeout or 0)}")
                cancel_quietly(terms, handle)
            if answer is not None:
                answers[row.task.id] = answer
        return answers

    def _poll(
        self, kind: Kind, terms: ExternalTerms, handles: list[str], *, is_probe: bool
    ) -> dict[str, Answer] | None:
        """Ask the system; None if it does not answer, or nothing that can be understood."""
        try:
            found = _checked(terms.system.poll(handles))
        except Exception as problem:
            errors = self._errors[kind.name] = self._errors.get(kind.name, 0) + 1
            text = f"{type(problem).__name__}: {problem}"[:300]
            telemetry.emit("external.silent", kind=kind.name, error=text, errors=errors)
            if kind.breaker is not None:
                self._breakers.count_call(kind.name, kind.breaker, ok=False, is_probe=is_probe)
            return None
        self._errors[kind.name] = 0
        if kind.breaker is not None:
            self._breakers.count_call(kind.name, kind.breaker, ok=True, is_probe=is_probe)
        return found

    def _write(
        self,
        kind: Kind,
        terms: ExternalTerms,
        rows: Sequence[ExternalRow],
        answers: Mapping[int, Answer],
        *,
        worker: int,
    ) -> None:
        now = self._clock.now()
        outcomes: dict[ExternalRow, Outcome] = {}
        later: dict[int, list[ExternalRow]] = {}
        for row in rows:
            answer = answers.get(row.task.id)
            outcome = None if answer is None else outcome_of(row, answer, kind)
            if outcome is not None:
                outcomes[row] = outcome
            elif answer is None:
                pause = terms.pause_after_error(self._errors.get(kind.name, 1))
                later.setdefault(pause, []).append(row)
            else:
                later.setdefault(terms.pause(row.polls), []).append(row)

        def work(connection: Connection) -> After:
            if not self._database.dialect.alive(connection, worker):
                return After()
            for pause, those in later.items():
                store.put_off(connection, those, due_at=now + pause)
            if not outcomes:
                return After()
            return write_ends(connection, self._database, kind, outcomes, now=now)

        after = self._database.write(work, tries=2)
        for run, status in after.runs.items():
            telemetry.emit("flow.ended", run=run, status=str(status))
        if after.due:
            self._look_now()


def _checked(found: object) -> dict[str, Answer]:
    """What a poll answered, if it can be understood."""
    if not isinstance(found, dict):
        raise TypeError(f"poll answered {found!r}; it must answer a dict of handles")
    for handle, answer in found.items():
        if not isinstance(answer, Running | Done | Failed):
            raise TypeError(
                f"poll answered {answer!r} for {handle!r}; it must be Running(), Done(...) or "
                "Failed(...)"
            )
    return found


def cancel_quietly(terms: ExternalTerms, handle: str) -> None:
    """Ask a system to stop something; it need not be able to."""
    try:
        terms.system.cancel(handle)
    except Exception as problem:
        text = f"{type(problem).__name__}: {problem}"[:300]
        telemetry.emit("external.uncancelled", handle=handle, error=text)
