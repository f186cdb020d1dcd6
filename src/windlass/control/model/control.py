"""The control table's rules: a named run happens once at a time and remembers its steps.

Each function takes the row as it was found, under lock, and says what becomes of it: a `Move` with
the reply, the row after it, and the try that ended by it, if one did. A reply that refuses changes
nothing. The fence is `batch`, a fresh number for each start: who was taken over holds an old one.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import IntEnum
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET

from windlass.clock import SECOND, from_datetime, to_datetime
from windlass.control.model import step as rule
from windlass.control.model.step import LONGEST_NAME, Step, StepName, Steps, StepView, step_view
from windlass.errors import BadDuration, BadKey, NotSerializable, PastTime, PayloadTooLarge
from windlass.value.duration import Duration, parse_duration
from windlass.value.payload import LARGEST_PAYLOAD, encode_value
from windlass.value.task import is_storable

DONE = 0
SKIP = 2
RUNNING = 8
REFUSED = 451

EXPIRED = "expired"
INTERRUPTED = "interrupted"


class RunStatus(IntEnum):
    """The states of a named run."""

    FAILED = -1
    SUCCEEDED = 0
    RUNNING = 8
    READY = 9

    def __str__(self) -> str:
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to a plain call.

    The code is 0 done, 2 step already done, 8 running, 451 refused.
    """

    code: int
    msg: str
    data: dict[str, Any] = field(default_factory=dict)


class Place(NamedTuple):
    """Which run: its name and its partition."""

    name: str
    partition: str = ""

    def __str__(self) -> str:
        return f"{self.name!r} ({self.partition!r})" if self.partition else repr(self.name)


class Progress(msgspec.Struct, frozen=True):
    """How far a loop has come; the total may be unknown."""

    done: int
    total: int | None


@dataclass(frozen=True)
class Control:
    """A row of the control table. Times are microseconds."""

    name: str
    partition: str = ""
    status: RunStatus = RunStatus.READY
    stat_date: str | None = None
    step: StepName | None = None
    steps: Steps = ()
    first_time: int | None = None
    start_time: int | None = None
    expire_time: int | None = None
    end_time: int | None = None
    run_seconds: float | None = None
    error: str | None = None
    data: Any = None
    batch: int | None = None
    tries: int = 0
    who: str | None = None
    progress: Progress | None = None

    @property
    def place(self) -> Place:
        return Place(self.name, self.partition)

    @property
    def since(self) -> datetime | None:
        return None if self.start_time is None else to_datetime(self.start_time)

    def is_held(self, now: int) -> bool:
        """Whether it runs, and nobody may take it over yet."""
        return self.status is RunStatus.RUNNING and not self.is_expired(now)

    def is_expired(self, now: int) -> bool:
        """Whether it runs, but longer than it may."""
        is_over = self.expire_time is not None and self.expire_time <= now
        return self.status is RunStatus.RUNNING and is_over


class RunView(msgspec.Struct, frozen=True):
    """A named run as people see it; `progress` is how far a tracked loop has come."""

    name: str
    partition: str
    status: RunStatus
    expired: bool
    stat_date: str | None
    step: StepName | None
    steps: tuple[StepView, ...]
    first_time: datetime | None
    start_time: datetime | None
    expire_time: datetime | None
    end_time: datetime | None
    run_seconds: float | None
    error: str | None
    data: Any
    batch: int | None
    tries: int
    who: str | None
    progress: Progress | None


def view(run: Control, *, now: int) -> RunView:
    """The row of a run, or of a try that ended, for people."""
    running = run.tries if run.status is RunStatus.RUNNING else None
    return RunView(
        name=run.name,
        partition=run.partition,
        status=run.status,
        expired=run.is_expired(now),
        stat_date=run.stat_date,
        step=run.step,
        steps=tuple(step_view(step, running=running, ended_at=run.end_time) for step in run.steps),
        first_time=_moment(run.first_time),
        start_time=_moment(run.start_time),
        expire_time=_moment(run.expire_time),
        end_time=_moment(run.end_time),
        run_seconds=run.run_seconds,
        error=run.error,
        data=run.data,
        batch=run.batch,
        tries=run.tries,
        who=run.who,
        progress=run.progress,
    )


def _moment(microseconds: int | None) -> datetime | None:
    return None if microseconds is None else to_datetime(microseconds)


class Expires(NamedTuple):
    """When a run may be taken over: so long after its start, or at a moment."""

    lasting: int = 0
    at: int | None = None

    def moment(self, now: int) -> int:
        if self.at is None:
            return now + self.lasting
        if self.at <= now:
            raise PastTime(
                f"expires={to_datetime(self.at).isoformat()} has passed (it is "
                f"{to_datetime(now).isoformat(timespec='seconds')}); give a later moment, or a "
                'duration such as "2h"'
            )
        return self.at


Expiry = Duration | datetime


def parse_expires(given: Expiry | None) -> Expires | None:
    """`given`, a duration or a moment, if it is one."""
    if given is None:
        return None
    if not isinstance(given, datetime):
        return Expires(lasting=parse_duration(given, what="expires"))
    if given.tzinfo is None:
        raise BadDuration(
            f"expires={given.isoformat()} has no time zone; give an aware datetime, such as "
            "datetime.now(UTC) + timedelta(hours=2)"
        )
    return Expires(at=from_datetime(given))


class Move(NamedTuple):
    """What becomes of a row: `after` None changes nothing, `ended` goes into the history."""

    reply: Reply
    after: Control | None = None
    ended: Control | None = None


@dataclass(frozen=True, slots=True)
class Start:
    """Who starts, when, under which number, for how long, and with which data."""

    batch: int
    now: int
    who: str
    expire_time: int | None = None
    data: Any = None


def check_place(name: object, partition: object) -> Place:
    """Which run is meant, if it can be one."""
    if not name or (isinstance(name, str) and not name.strip()):
        raise BadKey("control: the run has no name; give one of 1 to 255 characters")
    return Place(_checked(name, "name"), _checked(partition, "partition"))


def check_data(data: object, *, place: Place, what: str = "data", largest: int) -> Any:
    """`data` as it will be read back, if it is JSON."""
    try:
        encoded = encode_value(data)
    except (TypeError, ValueError, OverflowError, RecursionError) as problem:
        raise NotSerializable(
            f"control {place}: {what} cannot be kept as JSON: {problem}",
            kind=place.name,
            argument=what,
            given=data,
        ) from problem
    if len(encoded) > largest:
        raise PayloadTooLarge(
            f"control {place}: {what} is {len(encoded):,} bytes as JSON, over the limit of "
            f"{largest:,}; store it and keep its key",
            kind=place.name,
            argument=what,
        )
    return msgspec.json.decode(encoded)


def _checked(given: object, what: str) -> str:
    if not isinstance(given, str):
        raise BadKey(f"control: {what} {given!r} is not text; write it as a string")
    if len(given) > LONGEST_NAME:
        raise BadKey(
            f"control: the {what} {given[:40]!r}... has {len(given)} characters; "
            f"at most {LONGEST_NAME} fit"
        )
    if not is_storable(given):
        raise BadKey(f"control: {what} {given!r} has characters that databases cannot store")
    return given


def start(found: Control, asked: Start) -> Move:
    """Start it, unless somebody runs it. What an earlier try of the same run has done is kept."""
    if found.is_held(asked.now):
        return Move(_running(found))
    is_expired = found.status is RunStatus.RUNNING
    is_again = is_expired or found.status is RunStatus.FAILED
    data = found.data if is_again and asked.data is None else asked.data
    after = Control(
        name=found.name,
        partition=found.partition,
        status=RunStatus.RUNNING,
        stat_date=to_datetime(asked.now).date().isoformat(),
        steps=found.steps if is_again else (),
        first_time=found.first_time if is_again else asked.now,
        start_time=asked.now,
        expire_time=asked.expire_time,
        data=data,
        # Numbers come in blocks: that of another process may be smaller than one used before it.
        batch=max(asked.batch, (found.batch or 0) + 1),
        tries=found.tries + 1 if is_again else 1,
        who=asked.who,
    )
    ended = None
    if is_expired:
        ended = end(found, now=_last_sign(found, asked.now), error=EXPIRED)
    return Move(_started(after), after, ended)


def step(
    found: Control | None,
    asked: StepName,
    *,
    batch: int | None,
    now: int,
    called: bool = False,
    in_block: bool = False,
) -> Move:
    """Begin a step, or skip it if it is done. BadStep if it is out of order.

    In a block, also if this very try has done it: the code of a block does not repeat a call as
    somebody does who lost an answer.
    """
    ours = _ours(found, batch)
    if isinstance(ours, Reply):
        return Move(ours)
    what = f"control {ours.place}"
    known = rule.find(ours.steps, asked)
    if in_block:
        rule.check_number(ours.steps, asked, tries=ours.tries, what=what)
        rule.check_once(known, tries=ours.tries, what=what)
    if known is not None and known.is_done:
        steps = rule.ask(ours.steps, asked, tries=ours.tries, what=what)
        return Move(_skipped(known), replace(ours, steps=steps))
    reply = Reply(DONE, f"step {asked!r} has begun", {"step": asked, "batch": ours.batch})
    if (
        known is not None
        and rule.is_under_way(known, tries=ours.tries)
        and (ours.step, known.called) == (asked, called)
    ):
        return Move(reply)
    steps = rule.begin(ours.steps, asked, tries=ours.tries, now=now, called=called, what=what)
    return Move(reply, replace(ours, step=asked, steps=steps))


def complete(
    found: Control | None, asked: StepName, *, batch: int | None, now: int, result: object
) -> Move:
    """The function of a step has returned: the step is done, and its result is kept."""
    ours = _ours(found, batch)
    if isinstance(ours, Reply):
        return Move(ours)
    steps = rule.complete(ours.steps, asked, now=now, result=result)
    return Move(Reply(DONE, f"step {asked!r} is done"), replace(ours, steps=steps))


def finish(
    found: Control | None,
    *,
    batch: int | None,
    now: int,
    data: object = None,
    progress: Progress | None = None,
) -> Move:
    """End it as succeeded."""
    ours = _ours(found, batch)
    if isinstance(ours, Reply):
        return Move(ours)
    steps = rule.finish(ours.steps, tries=ours.tries, now=now)
    noted = _noted(replace(ours, steps=steps), data, progress)
    after = end(noted, now=now, error=None)
    reply = Reply(DONE, "finished", {"batch": after.batch, "run_seconds": after.run_seconds})
    return Move(reply, after, after)


def fail(
    found: Control | None,
    *,
    batch: int | None,
    now: int,
    error: str,
    data: object = None,
    progress: Progress | None = None,
) -> Move:
    """End it as failed; its steps are kept for the next try."""
    ours = _ours(found, batch)
    if isinstance(ours, Reply):
        return Move(ours)
    after = end(_noted(ours, data, progress), now=now, error=error)
    reply = Reply(DONE, "recorded as failed", {"batch": after.batch, "step": after.step})
    return Move(reply, after, after)


def note(
    found: Control | None,
    *,
    batch: int | None,
    data: object = None,
    progress: Progress | None = None,
    expire_time: int | None = None,
) -> Move:
    """Keep what a run says of itself, and that it is alive."""
    ours = _ours(found, batch)
    if isinstance(ours, Reply):
        return Move(ours)
    after = _noted(ours, data, progress)
    if expire_time is not None:
        after = replace(after, expire_time=expire_time)
    return Move(Reply(DONE, "noted", {"data": after.data}), after)


def release(found: Control | None, *, now: int, who: str, batch: int | None = None) -> Move:
    """Take it from whoever holds it: that one is fenced off, and anyone may start it."""
    ours = _ours(found, batch)
    if isinstance(ours, Reply):
        return Move(ours)
    after = end(ours, now=now, error=f"released by {who}")
    return Move(Reply(DONE, "released", {"batch": after.batch, "who": ours.who}), after, after)


def reset(found: Control | None, *, batch: int | None = None) -> Move:
    """Forget what the tries of a failed run have done: the next one starts over."""
    if found is None or found.status is not RunStatus.FAILED or batch not in {None, found.batch}:
        status = "not started" if found is None else str(found.status)
        return Move(_refuse(f"only a run that failed can be reset; it is {status}", found))
    return Move(Reply(DONE, "reset"), Control(*found.place, batch=found.batch))


def end(found: Control, *, now: int, error: str | None) -> Control:
    """The row of a run that ended at `now`, with an error if it failed."""
    began = found.start_time if found.start_time is not None else now
    return replace(
        found,
        status=RunStatus.SUCCEEDED if error is None else RunStatus.FAILED,
        end_time=now,
        run_seconds=max(0, now - began) / SECOND,
        error=error,
    )


def _last_sign(expired: Control, now: int) -> int:
    """When an expired run ended: at its expiry, unless it was heard of after that."""
    began = (step.began_at for step in expired.steps)
    return max((expired.expire_time or now, *began))


def _ours(found: Control | None, batch: int | None) -> Control | Reply:
    """The running row that a call is about, or why there is none.

    It is about the run with that batch; without one, about the run of now.
    """
    if found is None or found.status is RunStatus.READY:
        return _refuse("it was not started")
    if batch is not None and found.batch != batch:
        return _refuse(f"it is no longer yours: {found.who} has started it since", found)
    if found.status is not RunStatus.RUNNING:
        return _refuse(f"it is not running: it has {found.status}", found)
    return found


def _refuse(why: str, found: Control | None = None) -> Reply:
    facts = {} if found is None else {"status": int(found.status), "batch": found.batch}
    return Reply(REFUSED, why, facts)


def _started(found: Control) -> Reply:
    facts = {
        "batch": found.batch,
        "tries": found.tries,
        "data": found.data,
        "done": [step.step for step in found.steps if step.is_done],
    }
    return Reply(DONE, "started", facts)


def _running(found: Control) -> Reply:
    since = None if found.since is None else found.since.isoformat()
    facts = {"who": found.who, "since": since, "step": found.step, "batch": found.batch}
    at = "" if found.step is None else f", at step {found.step!r}"
    return Reply(RUNNING, f"{found.who} has been running it since {since}{at}", facts)


def _skipped(known: Step) -> Reply:
    facts: dict[str, Any] = {"step": known.step}
    if known.result is not UNSET:
        facts["result"] = known.result
    return Reply(SKIP, f"step {known.step!r} is done already", facts)


def _noted(found: Control, data: object, progress: Progress | None) -> Control:
    """Objects are merged, anything else replaces what was there."""
    if isinstance(data, dict) and isinstance(found.data, dict):
        data = check_data(found.data | data, place=found.place, largest=LARGEST_PAYLOAD)
    return replace(
        found,
        data=found.data if data is None else data,
        progress=found.progress if progress is None else progress,
    )
