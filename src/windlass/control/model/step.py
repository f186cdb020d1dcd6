"""The steps of a control run: which are done, and what happens when one is asked for.

A step is done when the next one begins, when the run finishes, or when its function has returned
and the result is written. So an interrupted step is repeated, never skipped. Steps with numbers
are ordered by their numbers. Steps with names are in the order in which they were asked for: a
later try that asks for done steps in another order runs other code, and gets a BadStep.
"""

from __future__ import annotations

from datetime import datetime
from enum import Enum
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from windlass.clock import SECOND, to_datetime
from windlass.errors import BadStep
from windlass.value.task import is_storable
from windlass.view.field import TEXT, Json

LONGEST_NAME = 255
LARGEST_NUMBER = 2**53 - 1
LARGEST_STEPS = 4 * 1024 * 1024

StepName = int | str
# A step in a view. The API shows numbers as text, too.
StepText = Annotated[StepName, TEXT]


class Step(msgspec.Struct, frozen=True, omit_defaults=True):
    """One step. `asked` is the try that asked for it last; `called`: it ends with its function.

    A release that does not know `data` leaves it out when it writes the steps of the run.
    """

    step: StepName
    began_at: int
    ended_at: int | None = None
    asked: int = 1
    called: bool = False
    result: Any | UnsetType = UNSET
    data: Any | UnsetType = UNSET

    @property
    def is_done(self) -> bool:
        return self.ended_at is not None


Steps = tuple[Step, ...]


class StepState(Enum):
    """How far a step has come."""

    DONE = "done"
    UNDER_WAY = "under way"
    NOT_FINISHED = "not finished"


class StepView(msgspec.Struct, frozen=True):
    """A step as people see it; `seconds` is how long it took. `result` and `data` are JSON."""

    step: StepText
    state: StepState
    began_at: datetime
    ended_at: datetime | None
    seconds: float | None
    result: Json | None
    data: Json | None

    @property
    def is_done(self) -> bool:
        """Whether it is done."""
        return self.state is StepState.DONE


def step_view(step: Step, *, running: int | None, ended_at: int | None) -> StepView:
    """A step of a run whose try number `running` is under way, or that ended at `ended_at`."""
    state, until = StepState.DONE, step.ended_at
    if until is None:
        is_running = step.asked == running
        state = StepState.UNDER_WAY if is_running else StepState.NOT_FINISHED
        until = None if is_running else ended_at
    return StepView(
        step.step,
        state,
        to_datetime(step.began_at),
        None if step.ended_at is None else to_datetime(step.ended_at),
        None if until is None else max(0, until - step.began_at) / SECOND,
        None if step.result is UNSET else step.result,
        None if step.data is UNSET else step.data,
    )


def check_step(given: object, *, what: str) -> StepName:
    """`given` as a step, a positive number or a name; BadStep if it is neither."""
    if isinstance(given, str):
        if not given or len(given) > LONGEST_NAME:
            raise BadStep(
                f"{what}: a step's name has 1 to {LONGEST_NAME} characters, not {len(given)}"
            )
        if not is_storable(given):
            raise BadStep(f"{what}: step {given!r} has characters that databases cannot store")
        return given
    if isinstance(given, bool) or not isinstance(given, int):
        raise BadStep(f"{what}: step {given!r} is neither a whole number from 1 on nor a name")
    if not 1 <= given <= LARGEST_NUMBER:
        raise BadStep(f"{what}: step {given!r} is not a number from 1 to {LARGEST_NUMBER:,}")
    return given


def find(steps: Steps, asked: StepName) -> Step | None:
    """The step with that name or number; 1 and "1" are different steps."""
    return next((step for step in steps if step.step == asked), None)


def ask(steps: Steps, asked: StepName, *, tries: int, what: str) -> Steps:
    """The steps after `asked` was found done and is skipped in this try."""
    check_name(steps, asked, tries=tries, what=what)
    return tuple(replace(step, asked=tries) if step.step == asked else step for step in steps)


def begin(steps: Steps, asked: StepName, *, tries: int, now: int, called: bool, what: str) -> Steps:
    """The steps after `asked`, which is not done, has begun: the step before it is done.

    What an interrupted try kept with the step stays.
    """
    known = find(steps, asked)
    check_number(steps, asked, tries=tries, what=what)
    check_name(steps, asked, tries=tries, what=what)
    kept = [_ended(step, tries, now) for step in steps if step.step != asked]
    # After the steps that this try has asked for: so the list stays in the order of asking.
    place = 1 + max((at for at, step in enumerate(kept) if step.asked == tries), default=-1)
    data = UNSET if known is None else known.data
    new = Step(asked, now, asked=tries, called=called, data=data)
    return (*kept[:place], new, *kept[place:])


def keep(steps: Steps, asked: StepName, data: object) -> Steps:
    """The steps with `data` kept with `asked`."""
    return tuple(replace(step, data=data) if step.step == asked else step for step in steps)


def check_once(known: Step | None, *, tries: int, what: str) -> None:
    """BadStep if this try has done the step already: asking again would skip it silently."""
    if known is not None and known.is_done and known.asked == tries:
        raise BadStep(
            f"{what}: step {known.step!r} is asked for twice; in a loop, give each turn a step of "
            'its own, such as f"part-{number}"'
        )


def check_number(steps: Steps, asked: StepName, *, tries: int, what: str) -> None:
    """BadStep if this try is already past the number `asked`."""
    if not isinstance(asked, int):
        return
    seen = (step.step for step in steps if isinstance(step.step, int) and step.asked == tries)
    last = max(seen, default=0)
    if asked < last:
        raise BadStep(
            f"{what}: step {asked} goes backwards: this try has come to step {last} already; "
            "number the steps in the order in which they are taken"
        )


def check_name(steps: Steps, asked: StepName, *, tries: int, what: str) -> None:
    """BadStep if an earlier try did a step before `asked` that this try has not asked for."""
    step = find(steps, asked)
    if step is None or not isinstance(asked, str) or step.asked == tries:
        return
    for earlier in steps[: steps.index(step)]:
        if isinstance(earlier.step, str) and earlier.is_done and earlier.asked < tries:
            raise BadStep(
                f"{what}: step {asked!r} has moved: an earlier try did {earlier.step!r} before it; "
                "keep the order of the steps, give those that changed another name, or start over "
                "with: windlass control reset"
            )


def is_under_way(step: Step, *, tries: int) -> bool:
    """Whether this try has begun the step and not ended it."""
    return not step.is_done and step.asked == tries


def complete(steps: Steps, asked: StepName, *, now: int, result: object) -> Steps:
    """The steps after the function of `asked` has returned `result`."""
    return tuple(
        replace(step, ended_at=now, result=result) if step.step == asked else step for step in steps
    )


def finish(steps: Steps, *, tries: int, now: int) -> Steps:
    """The steps after the run has finished."""
    return tuple(_ended(step, tries, now) for step in steps)


def encode_steps(steps: Steps, *, what: str) -> str:
    """The steps as JSON."""
    encoded = msgspec.json.encode(steps)
    if len(encoded) > LARGEST_STEPS:
        raise BadStep(
            f"{what}: its {len(steps):,} steps with their results are over {LARGEST_STEPS:,} bytes "
            "as JSON; take fewer steps, or store the results and return their keys"
        )
    return encoded.decode()


def decode_steps(text: str | None) -> Steps:
    """The steps of that JSON."""
    return () if text is None else _decode(text)


_decode = msgspec.json.Decoder(Steps).decode


def _ended(step: Step, tries: int, now: int) -> Step:
    """A step that was under way is done, unless it ends with its function."""
    if is_under_way(step, tries=tries) and not step.called:
        return replace(step, ended_at=now)
    return step
