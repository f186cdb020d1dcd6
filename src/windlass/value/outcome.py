"""How a run ended, and how its row changes.

`judge` turns what a handler raised into an outcome; `settle` turns an outcome into the change of
the row. Both are pure: every rule about retries, retention and turns is here.
"""

from __future__ import annotations

import contextlib
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, assert_never

import msgspec
from msgspec.structs import replace

from windlass.errors import Cancel, Overloaded, Retry, Snooze
from windlass.frame import users_frames
from windlass.value.cron import Schedule, read_turn
from windlass.value.duration import Duration, parse_duration
from windlass.value.load.overload import delay_after, overload_in
from windlass.value.period import HURRIED, Period, remark_of
from windlass.value.status import Status, may_become
from windlass.value.task import Claimed, Terms

LONGEST_REMARK = 1_000
LONGEST_TRACEBACK = 16_000
KEEP_RESULT = parse_duration("1d")
# How long a row whose arguments do not fit waits before it is tried again.
MISFIT_DELAY = parse_duration("1m")


class Skip(Exception):
    """The task must not run: its condition is false."""


class Misfit(Exception):
    """The stored arguments do not fit the handler; other versions of the code may take them."""


@dataclass(frozen=True, slots=True)
class Succeeded:
    """The handler returned; `result` is its JSON, or None."""

    status: ClassVar = Status.SUCCEEDED
    result: str | None = None
    # Whether the log of the run is kept: then the row is kept like one with a result.
    has_log: bool = False


SUCCESS = Succeeded()
LOGGED = Succeeded(has_log=True)


@dataclass(frozen=True, slots=True)
class Retried:
    """The handler failed and will be tried again after `delay` microseconds."""

    delay: int
    error: str
    trace: str
    # Another system reported the failure: it is up, so its breaker need not open.
    is_answer: bool = False


@dataclass(frozen=True, slots=True)
class Failed:
    """The handler failed and no retry is left."""

    status: ClassVar = Status.FAILED
    error: str
    trace: str
    is_answer: bool = False


@dataclass(frozen=True, slots=True)
class Cancelled:
    """The handler cancelled its task, or was not called because a condition was false."""

    status: ClassVar = Status.CANCELLED
    reason: str
    is_skipped: bool = False


@dataclass(frozen=True, slots=True)
class Snoozed:
    """The handler postponed its task by `delay` microseconds."""

    delay: int
    # What the handler calls is overloaded, and says why.
    overload: str | None = None


@dataclass(frozen=True, slots=True)
class Expanded:
    """A nested flow wrote its nodes; it ends when all of them have ended."""


@dataclass(frozen=True, slots=True)
class Submitted:
    """Another system executes the task; poll it after `delay` microseconds."""

    handle: str
    delay: int


End = Succeeded | Failed | Cancelled
Outcome = End | Retried | Snoozed | Expanded | Submitted


class Change(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The new values of a row, written only if the row has not changed since it was taken."""

    id: int
    fence: int
    status: int
    due_at: int | None
    attempt: int
    lost: int
    started_at: int
    finished_at: int | None = None
    prune_at: int | None = None
    last_status: int | None = None
    result: str | None = None
    remark: str | None = None
    payload: str | None = None
    priority: int | None = None


class Visits(NamedTuple):
    """Visited items of one kind whose handlers returned None: all change in the same way."""

    rows: Sequence[Claimed]
    due_at: int
    finished_at: int
    # Restored in rows that were hurried.
    priority: int | None

    @property
    def changes(self) -> list[Change]:
        """The change of each row, as `settle` would make it."""
        return [
            Change(
                id=row.id,
                fence=row.fence,
                status=Status.WAITING,
                due_at=self.due_at,
                attempt=0,
                lost=0,
                started_at=row.started_at,
                finished_at=self.finished_at,
                last_status=Status.SUCCEEDED,
                priority=self.priority,
            )
            for row in self.rows
        ]


def judge(error: BaseException, terms: Terms, *, tries: int, random: float) -> Outcome:
    """The outcome of try number `tries`, which raised `error`."""
    match error:
        case Snooze():
            return Snoozed(parse_duration(error.after, what="Snooze", zero=True))
        case Cancel():
            return Cancelled(str(error))
        case Skip():
            return Cancelled(str(error), is_skipped=True)
        case Misfit():
            # Not the fault of what the handler calls, so its breaker need not open.
            return Retried(MISFIT_DELAY, *describe(error), is_answer=True)
        case Overloaded():
            return _overloaded(error, error.retry_after, random)
    if terms.heeds_http and (overload := overload_in(error)) is not None:
        return _overloaded(error, overload.retry_after, random)
    text, trace = describe(error)
    if not terms.retry.allows(error, tries=tries):
        if isinstance(error, Retry):
            text = f"no retry was left: {error}"
        return Failed(text, trace)
    if isinstance(error, Retry) and error.after is not None:
        return Retried(parse_duration(error.after, what="Retry", zero=True), text, trace)
    return Retried(terms.retry.delay(error, tries=tries, random=random), text, trace)


def _overloaded(error: BaseException, retry_after: Duration | None, random: float) -> Snoozed:
    delay = delay_after(retry_after, random=random)
    return Snoozed(delay, overload=describe(error)[0])


def describe(error: BaseException) -> tuple[str, str]:
    """An error as one bounded line, and its bounded traceback."""
    message = ""
    with contextlib.suppress(Exception):
        message = str(error).strip()
    text = f"{type(error).__name__}: {message}" if message else type(error).__name__
    trace = "".join(traceback.format_exception(type(error), error, users_frames(error)))
    return storable(text)[:LONGEST_REMARK], storable(trace)[-LONGEST_TRACEBACK:]


def storable(text: str) -> str:
    """`text` without characters that some database cannot store."""
    return text.replace("\x00", "\\x00").encode("utf-8", "backslashreplace").decode()


def settle(
    task: Claimed, outcome: Outcome, terms: Terms, *, now: int, turns: bool
) -> Change | None:
    """The change of `task` after `outcome` at `now`; None deletes the row.

    With `turns`, the row is the standing row of a schedule or an item of a rolling kind: it waits
    for its next turn instead of ending.
    """
    change = _settled(task, outcome, terms, now=now, turns=turns)
    assert change is None or may_become(Status.RUNNING, Status(change.status))
    return change


def _settled(
    task: Claimed, outcome: Outcome, terms: Terms, *, now: int, turns: bool
) -> Change | None:
    match outcome:
        case Succeeded(result=None, has_log=False) if _is_forgotten(task, terms) and not turns:
            return None
        case Expanded():
            return _unfinished(task, None, status=Status.RUNNING)
        case Submitted():
            return _unfinished(task, now + outcome.delay, now=now, status=Status.EXTERNAL)
        case Retried():
            change = _unfinished(task, now + outcome.delay, now=now, remark=outcome.error)
            # Operators see a failed visit as failed, although it is retried.
            is_visit = turns and terms.period is not None
            return replace(change, last_status=Status.FAILED) if is_visit else change
        case Snoozed():
            # A row that has turns keeps the remark of its last one.
            change = _unfinished(task, now + outcome.delay)
            if outcome.overload is not None and not turns:
                change = replace(change, finished_at=now, remark=outcome.overload)
            # The run ended normally: workers that were lost before no longer count.
            return replace(change, attempt=task.attempt - 1 - task.lost, lost=0)
        case Succeeded() | Failed() | Cancelled():
            if turns and terms.schedule is not None:
                return _next_turn(task, outcome, terms.schedule, now=now)
            if turns and terms.period is not None:
                visited = _next_visit(task, outcome, terms.period, now=now)
                is_hurried = task.priority == HURRIED
                return replace(visited, priority=terms.priority) if is_hurried else visited
            return _ended(task, outcome, terms, now=now)
    assert_never(outcome)


def settle_visits(rows: Sequence[Claimed], terms: Terms, *, now: int, is_hurried: bool) -> Visits:
    """`settle` for many items of one kind whose handlers returned None."""
    assert terms.period is not None
    due_at = terms.period.next_due(now, failed=False)
    return Visits(rows, due_at, now, terms.priority if is_hurried else None)


def _unfinished(
    task: Claimed,
    due_at: int | None,
    *,
    now: int | None = None,
    remark: str | None = None,
    status: Status = Status.WAITING,
) -> Change:
    return Change(
        id=task.id,
        fence=task.fence,
        started_at=task.started_at,
        status=status,
        due_at=due_at,
        attempt=task.attempt,
        lost=task.lost,
        finished_at=now,
        remark=remark,
    )


def _next_turn(task: Claimed, outcome: End, schedule: Schedule, *, now: int) -> Change:
    # A retry or a rescue moves `due_at`, so the payload keeps the turn.
    turn = read_turn(task.payload) or task.due_at
    due_at, payload = schedule.following(task.payload, ran=turn, now=now)
    return replace(
        _again(task, outcome, due_at, now=now, remark=_remark_of(outcome)),
        payload=payload,
        result=_result_of(outcome),
    )


def _next_visit(task: Claimed, outcome: End, period: Period, *, now: int) -> Change:
    remark = _remark_of(outcome)
    if isinstance(outcome, Succeeded):
        remark = (remark_of(outcome.result) or "")[:LONGEST_REMARK] or None
    due_at = period.next_due(now, failed=isinstance(outcome, Failed))
    remark = None if remark is None else storable(remark)
    return _again(task, outcome, due_at, now=now, remark=remark)


def _again(task: Claimed, outcome: End, due_at: int, *, now: int, remark: str | None) -> Change:
    """Let a row wait for its next turn, and remember how this one ended."""
    return Change(
        id=task.id,
        fence=task.fence,
        started_at=task.started_at,
        status=Status.WAITING,
        due_at=due_at,
        attempt=0,
        lost=0,
        finished_at=now,
        last_status=outcome.status,
        remark=remark,
    )


def _is_forgotten(task: Claimed, terms: Terms) -> bool:
    # A node stays as long as its flow run.
    if task.flow_id is not None:
        return False
    return not terms.keep if task.task_key is None else terms.keep == 0


def _ended(task: Claimed, outcome: End, terms: Terms, *, now: int) -> Change | None:
    keep = terms.keep_failed
    is_skipped = isinstance(outcome, Cancelled) and outcome.is_skipped
    if isinstance(outcome, Succeeded):
        keep = KEEP_RESULT if terms.keep is None else terms.keep
        if not keep and task.flow_id is None:
            return None
    return Change(
        id=task.id,
        fence=task.fence,
        started_at=task.started_at,
        status=outcome.status,
        due_at=None,
        attempt=task.attempt,
        lost=task.lost,
        finished_at=now,
        prune_at=now + keep if task.flow_id is None else None,
        last_status=Status.WAITING if is_skipped else None,
        result=_result_of(outcome),
        remark=_remark_of(outcome),
    )


def _result_of(outcome: End) -> str | None:
    return outcome.result if isinstance(outcome, Succeeded) else None


def _remark_of(outcome: End) -> str | None:
    match outcome:
        case Succeeded():
            return None
        case Failed():
            return outcome.error
        case Cancelled():
            return storable(outcome.reason)[:LONGEST_REMARK]
    assert_never(outcome)
