"""The control table's rules: a control run happens once at a time and remembers its steps.

Each rule takes the row as it was found, under lock, and returns a `Decision`: the reply, the row
after it, and the try that ended by it, if one did. A reply that refuses changes nothing. The fence
is `batch`, a new number for each start: after a takeover the earlier holder has an old number.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import wraps
from typing import Annotated, Any, Concatenate, NamedTuple, ParamSpec

import msgspec
from msgspec import UNSET

from windlass.clock import SECOND, to_datetime
from windlass.control.model import step as rule
from windlass.control.model.argument import ControlKey, check_data
from windlass.control.model.step import StepName, Steps, StepText, StepView, step_view
from windlass.value.status import NamedCode
from windlass.view.field import CODE, Json

P = ParamSpec("P")

DONE = 0
SKIP = 2
RUNNING = 8
REFUSED = 451

EXPIRED = "expired"
INTERRUPTED = "interrupted"


class RunStatus(NamedCode):
    """The states of a control run."""

    FAILED = -1
    SUCCEEDED = 0
    RUNNING = 8
    READY = 9


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to a plain call.

    The code is 0 done, 2 done already (a step, or a run that happens once), 8 running, 451 refused.
    `data["status"]` of a start is the status in which it found the run: 9 if it was free to run.
    """

    code: int
    msg: str
    data: dict[str, Any] = field(default_factory=dict)


class LoopProgress(msgspec.Struct, frozen=True):
    """How far a loop has come; the total may be unknown."""

    done: int
    total: int | None


class Noted(NamedTuple):
    """What a run wants kept with it; None leaves what is there."""

    data: Any = None
    progress: LoopProgress | None = None


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
    progress: LoopProgress | None = None

    @property
    def key(self) -> ControlKey:
        return ControlKey(self.name, self.partition)

    def is_held(self, now: int) -> bool:
        """Whether it is running and cannot be taken over yet."""
        return self.status is RunStatus.RUNNING and not self.is_expired(now)

    def is_expired(self, now: int) -> bool:
        """Whether it is running past its expiry, by a time that has gained nothing by steps."""
        is_over = self.expire_time is not None and self.expire_time <= now
        return self.status is RunStatus.RUNNING and is_over


class RunView(msgspec.Struct, frozen=True):
    """A control run, or a try of it that ended, as people see it. `data` is JSON.

    `progress` is how far a tracked loop has come.
    """

    name: str
    partition: str
    # `--json` shows its number, the API its name.
    status: Annotated[RunStatus, CODE]
    expired: bool
    stat_date: str | None
    step: StepText | None
    steps: tuple[StepView, ...]
    first_time: datetime | None
    start_time: datetime | None
    expire_time: datetime | None
    end_time: datetime | None
    run_seconds: float | None
    error: str | None
    data: Json | None
    batch: int | None
    tries: int
    who: str | None
    progress: LoopProgress | None


class ControlRunDetail(msgspec.Struct, frozen=True):
    """A control run, and its tries that ended, newest first."""

    run: RunView
    history: list[RunView]


MOMENTS = ("first_time", "start_time", "expire_time", "end_time")


def view(run: Control, *, now: int) -> RunView:
    """The row of a run, or of a try that ended, for people."""
    running = run.tries if run.status is RunStatus.RUNNING else None
    steps = (step_view(step, running=running, ended_at=run.end_time) for step in run.steps)
    moments = {name: _moment(getattr(run, name)) for name in MOMENTS}
    shown = vars(run) | moments | {"steps": tuple(steps), "expired": run.is_expired(now)}
    return RunView(**shown)


def _moment(microseconds: int | None) -> datetime | None:
    return None if microseconds is None else to_datetime(microseconds)


class Decision(NamedTuple):
    """What becomes of a row: `after` None changes nothing, `ended` goes into the history.

    The event, a name and facts, is emitted after the commit.
    """

    reply: Reply
    after: Control | None = None
    ended: Control | None = None
    event: tuple[str, dict[str, Any]] | None = None


def start(
    found: Control,
    batch: int,
    now: int,
    *,
    who: str,
    expire_time: int | None = None,
    data: Any = None,
    gained: int = 0,
    once: bool = False,
) -> Decision:
    """Start it, unless it is held. What earlier tries of the same run have done is kept.

    `gained` is by how much the clock has stepped forward since the run was started. With `once` it
    never starts again after it has succeeded.
    """
    if found.is_held(now - gained):
        return Decision(_running(found))
    if once and found.status is RunStatus.SUCCEEDED:
        return Decision(_succeeded(found))
    is_expired = found.status is RunStatus.RUNNING
    is_again = is_expired or found.status is RunStatus.FAILED
    after = Control(
        name=found.name,
        partition=found.partition,
        status=RunStatus.RUNNING,
        stat_date=to_datetime(now).date().isoformat(),
        steps=found.steps if is_again else (),
        first_time=found.first_time if is_again else now,
        start_time=now,
        expire_time=expire_time,
        data=found.data if is_again and data is None else data,
        # Numbers come in blocks: another process may have a smaller one than the last start had.
        batch=max(batch, (found.batch or 0) + 1),
        tries=found.tries + 1 if is_again else 1,
        who=who,
    )
    facts = {"batch": after.batch, "tries": after.tries}
    done = [step.step for step in after.steps if step.is_done]
    told = {"status": int(RunStatus.READY), **facts, "data": after.data, "done": done}
    reply = Reply(DONE, "started", told)
    ended = None
    if is_expired:
        ended = end(found, now=_last_seen(found, now), error=EXPIRED)
    took_over = found.who if is_expired else None
    return Decision(reply, after, ended, ("control.started", {**facts, "took_over": took_over}))


# What a rule takes: the row, the batch of the try that asks, the time, and what the rule needs.
Rule = Callable[Concatenate[Control | None, int | None, int, P], Decision]


def _about_a_running_row(decide: Callable[Concatenate[Control, int, P], Decision]) -> Rule[P]:
    """Let a rule take any row and a batch; refuse a row that is not running under that batch.

    Without a batch the call is about the current try.
    """

    @wraps(decide)
    def checked(
        found: Control | None, batch: int | None, now: int, /, *args: P.args, **kwargs: P.kwargs
    ) -> Decision:
        if found is None or found.status is RunStatus.READY:
            return Decision(_refuse("it was not started"))
        if batch is not None and found.batch != batch:
            why = f"it is no longer yours: {found.who} has started it since"
            return Decision(_refuse(why, found))
        if found.status is not RunStatus.RUNNING:
            return Decision(_refuse(f"it is not running: it has {found.status}", found))
        return decide(found, now, *args, **kwargs)

    return checked


@_about_a_running_row
def step(
    run: Control,
    now: int,
    asked: StepName,
    *,
    data: object = None,
    called: bool = False,
    in_block: bool = False,
) -> Decision:
    """Begin a step and keep `data` with it, or skip it if it is done. BadStep if out of order.

    A plain call may be repeated after a lost answer. The code of a block never repeats a call, so
    there BadStep is also raised for a step that this try has done.
    """
    what = f"control {run.key}"
    known = rule.find(run.steps, asked)
    if in_block:
        rule.check_number(run.steps, asked, tries=run.tries, what=what)
        rule.check_once(known, tries=run.tries, what=what)
    if known is not None and known.is_done:
        steps = rule.ask(run.steps, asked, tries=run.tries, what=what)
        facts = {"step": asked, **_kept(known)}
        reply = Reply(SKIP, f"step {asked!r} is done already", facts)
        return Decision(reply, replace(run, steps=steps))
    steps = run.steps
    if (
        known is None
        or not rule.is_under_way(known, tries=run.tries)
        or (run.step, known.called) != (asked, called)
    ):
        steps = rule.begin(steps, asked, tries=run.tries, now=now, called=called, what=what)
    if data is not None:
        steps = rule.keep(steps, asked, data)
    begun = rule.find(steps, asked)
    facts = {"step": asked, "batch": run.batch, **({} if begun is None else _kept(begun))}
    reply = Reply(DONE, f"step {asked!r} has begun", facts)
    return Decision(reply, replace(run, step=asked, steps=steps))


@_about_a_running_row
def complete(run: Control, now: int, asked: StepName, *, result: object) -> Decision:
    """The function of a step has returned: the step is done, and its result is kept."""
    steps = rule.complete(run.steps, asked, now=now, result=result)
    return Decision(Reply(DONE, f"step {asked!r} is done"), replace(run, steps=steps))


@_about_a_running_row
def finish(run: Control, now: int, noted: Noted) -> Decision:
    """End it as succeeded."""
    steps = rule.finish(run.steps, tries=run.tries, now=now)
    after = end(_with(noted, replace(run, steps=steps)), now=now, error=None)
    took = {"run_seconds": after.run_seconds}
    reply = Reply(DONE, "finished", {"batch": after.batch, **took})
    return Decision(reply, after, after, ("control.finished", took))


@_about_a_running_row
def fail(run: Control, now: int, noted: Noted, *, error: str) -> Decision:
    """End it as failed; its steps are kept for the next try."""
    after = end(_with(noted, run), now=now, error=error)
    reply = Reply(DONE, "recorded as failed", {"batch": after.batch, "step": after.step})
    facts = {"step": after.step, "error": error.splitlines()[0]}
    return Decision(reply, after, after, ("control.failed", facts))


@_about_a_running_row
def note(run: Control, now: int, noted: Noted, *, lease: int | None = None) -> Decision:
    """Keep what a run says about itself; with a lease, hold the run that long from now on."""
    after = _with(noted, run)
    if lease is not None:
        after = replace(after, expire_time=now + lease)
    return Decision(Reply(DONE, "noted", {"data": after.data}), after)


@_about_a_running_row
def release(run: Control, now: int, *, who: str) -> Decision:
    """Take it from its holder: the holder is fenced off, and anyone may start it."""
    after = end(run, now=now, error=f"released by {who}")
    reply = Reply(DONE, "released", {"batch": after.batch, "who": run.who})
    event = "control.released", {"who": who, "held_by": run.who}
    return Decision(reply, after, after, event)


def reset(found: Control | None, batch: int | None, _now: int, *, who: str) -> Decision:
    """Forget what the tries of a failed run have done: the next one starts over."""
    if found is None or found.status is not RunStatus.FAILED or batch not in {None, found.batch}:
        status = "not started" if found is None else str(found.status)
        return Decision(_refuse(f"only a run that failed can be reset; it is {status}", found))
    after = Control(*found.key, batch=found.batch)
    return Decision(Reply(DONE, "reset"), after, event=("control.reset", {"who": who}))


def end(run: Control, *, now: int, error: str | None) -> Control:
    """The row of a run that ended at `now`, with an error if it failed."""
    began = run.start_time if run.start_time is not None else now
    return replace(
        run,
        status=RunStatus.SUCCEEDED if error is None else RunStatus.FAILED,
        end_time=now,
        run_seconds=max(0, now - began) / SECOND,
        error=error,
    )


def _last_seen(expired: Control, now: int) -> int:
    """When an expired run ended: at its expiry, or at a step that began after it."""
    began = (step.began_at for step in expired.steps)
    return max((expired.expire_time or now, *began))


def _kept(step: rule.Step) -> dict[str, Any]:
    """What is kept with a step."""
    found = {"result": step.result, "data": step.data}
    return {name: value for name, value in found.items() if value is not UNSET}


def _refuse(why: str, found: Control | None = None) -> Reply:
    facts = {} if found is None else {"status": int(found.status), "batch": found.batch}
    return Reply(REFUSED, why, facts)


def _running(run: Control) -> Reply:
    moment = _moment(run.start_time)
    since = None if moment is None else moment.isoformat()
    told = {"who": run.who, "since": since, "step": run.step, "batch": run.batch}
    facts = {"status": int(RunStatus.RUNNING), **told}
    at = "" if run.step is None else f", at step {run.step!r}"
    return Reply(RUNNING, f"{run.who} has been running it since {since}{at}", facts)


def _succeeded(run: Control) -> Reply:
    moment = _moment(run.end_time)
    at = None if moment is None else moment.isoformat()
    told = {"who": run.who, "at": at, "batch": run.batch, "data": run.data}
    facts = {"status": int(RunStatus.SUCCEEDED), **told}
    return Reply(SKIP, f"it has succeeded already, at {at}", facts)


def _with(noted: Noted, run: Control) -> Control:
    """Objects are merged, anything else replaces what was there."""
    data, progress = noted
    if isinstance(data, dict) and isinstance(run.data, dict):
        data = check_data(run.data | data, run.key)
    return replace(
        run,
        data=run.data if data is None else data,
        progress=run.progress if progress is None else progress,
    )
