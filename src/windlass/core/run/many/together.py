"""Lists: rows of a kind with `many=` that one call of the handler takes together.

The rows keep runs of their own: each has its claim, its attempt and its outcome. The call is one
run beside them. It has the handler's thread, the time-out, a slot of the worker and the permits.

When a call fails as a whole, nobody knows which item is to blame. So no try is counted yet: the
items are called again in halves, and halves of those, until the one that fails is alone. A list in
which one item is bad costs a few more calls, and all other items succeed.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any

import msgspec
from typing_extensions import TypeIs

from windlass.core.run.ready import KindLoad, ReadyQueue, Run, State, failure, success
from windlass.core.task.kind import Given
from windlass.errors import Signal
from windlass.value.outcome import SUCCESS, Failed, Outcome, Snoozed, Succeeded, describe
from windlass.value.task import Call, Claimed

if TYPE_CHECKING:
    from windlass.core.run.in_flight import InFlight

# In memory only, and larger than any number in a database.
NUMBERS = count(3 << 61)


class BadAnswer(TypeError):
    """A handler answered a list with something that does not fit it."""


class ListedRun(Run):
    """One row of a list."""

    __slots__ = ("call_run", "company")

    def __init__(self, task: Claimed, load: KindLoad) -> None:
        super().__init__(task, load)
        # With how many at most it may be called; None: with as many as the kind says.
        self.company = _company(task, load)
        # The call that it is in.
        self.call_run: ListRun | None = None


def _company(task: Claimed, load: KindLoad) -> int | None:
    """After each lost worker half as many, and alone before the loss that makes it poison."""
    if not task.lost:
        return None
    is_last = task.lost >= load.kind.max_lost - 1
    return 1 if is_last else max(1, (load.many or 1) >> task.lost)


class ListRun(Run):
    """One call of a handler with a list."""

    __slots__ = ("answers", "given_items", "items")

    def __init__(self, items: Sequence[ListedRun], lists: Lists) -> None:
        first = items[0]
        # Not a row that was only read: its claim is not written down.
        super().__init__(msgspec.structs.replace(first.task, batch=0), first.load)
        self.number = next(NUMBERS)
        self.is_probe = first.is_probe
        self.items = list(items)
        # Those that the handler was called with: their arguments fit.
        self.given_items: list[ListedRun] = []
        # How items ended that were answered one by one, by the number of the row.
        self.answers: dict[int, Outcome] = {}
        self.keeper = lists

    @property
    def key(self) -> str | None:
        return self.items[0].key if len(self.items) == 1 else None

    def is_of(self, task_id: int) -> bool:
        return any(item.task.id == task_id for item in self.items)

    def _values(self) -> list[Any]:
        """The items that the handler is called with. Those that do not fit fail by themselves."""
        self.given_items, values = [], []
        problem: Exception | None = None
        for item in self.items:
            try:
                args, kwargs = item.given()
            except Exception as error:
                problem = error
                self.answers[item.number] = failure(item, error)
                continue
            values.append(args[0] if args else next(iter(kwargs.values())))
            self.given_items.append(item)
        if problem is not None and not values:
            raise problem
        return values

    def given(self) -> Given:
        return (self._values(),), {}

    def given_calls(self, args: tuple[Any, ...], kwargs: Mapping[str, object]) -> tuple[Call, ...]:
        """What the handler is called with, item by item."""
        pairs = zip(args[0], self.given_items, strict=True)
        return tuple(Call((value,), {}, item.key) for value, item in pairs)

    def succeeded(self, result: object) -> Outcome:
        """The handler has answered: with nothing, or with an answer for each item."""
        if result is None:
            return SUCCESS
        given, wanted = self.given_items, len(self.given_items)
        if not isinstance(result, list | tuple):
            what = f"a {type(result).__name__}"
        elif len(result) != wanted:
            what = f"{len(result)} answers"
        else:
            answers = [_answer(item, each) for item, each in zip(given, result, strict=True)]
            self.answers |= {item.number: each for item, each in zip(given, answers, strict=True)}
            overloaded = (each for each in answers if is_overload(each))
            return next(overloaded, SUCCESS)
        return failure(
            self,
            BadAnswer(
                f"the handler returned {what} for a list of {wanted}; return None, or a list with "
                "one answer for each item, in their order"
            ),
        )

    def outcome_of(self, item: ListedRun, *, is_alone: bool) -> Outcome | None:
        """How an item ended; None if the call failed and nobody knows which item is to blame."""
        answer = self.answers.get(item.number)
        if answer is not None:
            return answer
        error = self.error
        if isinstance(self.outcome, Succeeded) or error is None:
            return self.outcome
        if isinstance(error, BadAnswer):
            # Another try would answer the same.
            return Failed(*describe(error))
        # A signal is meant for all; so is what says that the other side is overloaded.
        is_meant = isinstance(error, Signal) or isinstance(self.outcome, Snoozed)
        return failure(item, error) if is_alone or is_meant else None


def is_list(run: Run) -> TypeIs[ListRun]:
    """Whether a run is a call with a list."""
    return isinstance(run, ListRun)


def is_overload(outcome: Outcome) -> bool:
    """Whether what the handler calls can bear no more."""
    return isinstance(outcome, Snoozed) and outcome.overload is not None


def _answer(item: ListedRun, given: object) -> Outcome:
    if isinstance(given, type) and issubclass(given, BaseException):
        given = given()
    return failure(item, given) if isinstance(given, BaseException) else success(given)


@dataclass(eq=False)
class Lists:
    """The lists of a worker. Used under the lock of `InFlight`."""

    in_flight: InFlight
    # How many running rows are in lists: they use no slots of their own.
    listed: int = 0
    # Whether items of a failed list wait to be called again.
    has_split: bool = False

    def begin(self, ready: ReadyQueue, first: ListedRun, now: float) -> ListRun:
        """Take the rows that may be in one call with `first`, and begin them."""
        run = ListRun([first, *_others(ready, first)], self)
        for item in run.items:
            item.state, item.began, item.call_run = State.RUNNING, now, run
            self.in_flight.running[item.number] = item
        self.listed += len(run.items)
        first.load.queued -= len(run.items)
        return run

    def landed(self, run: Run) -> bool:
        assert isinstance(run, ListRun)
        flight, load = self.in_flight, run.load
        items = [item for item in run.items if item.state is State.RUNNING]
        # The call itself was counted as one.
        load.ended += len(run.items) - 1
        is_alone = len(items) - len(run.answers) <= 1
        is_first, left = False, []
        for item in items:
            self._leave(item)
            outcome = run.outcome_of(item, is_alone=is_alone)
            if outcome is None:
                left.append(item)
                continue
            item.state, item.outcome = State.ENDED, outcome
            item.milliseconds = run.milliseconds / len(run.items)
            if load.trips and not (item.is_probe or isinstance(outcome, Snoozed)):
                for trip in load.trips:
                    trip.ended(outcome)
            if item.keeper is not None:
                item.keeper.landed(item)
            else:
                is_first |= flight.ended.add(item, time.monotonic())
        self._split(left)
        return is_first

    def taken_back(self, run: Run) -> None:
        """Never: a call starts as soon as it is made."""

    def drop(self, item: ListedRun) -> ListRun | None:
        """Take a row out of its call; returns the call, if nothing is left in it."""
        run = item.call_run
        self._leave(item)
        is_empty = run is not None and all(each.state is State.GONE for each in run.items)
        return run if is_empty else None

    def _leave(self, item: ListedRun) -> None:
        if self.in_flight.running.get(item.number) is item:
            del self.in_flight.running[item.number]
        item.call_run = None
        self.listed -= 1

    def _split(self, items: Sequence[ListedRun]) -> None:
        """Let the items of a failed call be called again, half as many at once, before others."""
        for item in reversed(items):
            item.state, item.company = State.QUEUED, (len(items) + 1) // 2
            self.in_flight.queues.put_first(item)
        self.has_split |= bool(items)


def _others(ready: ReadyQueue, first: ListedRun) -> list[ListedRun]:
    """The rows that are called with `first`: those that wait, the highest priority first."""
    most = first.company or first.load.many or 1
    if first.is_probe or most == 1:
        return []
    found: list[ListedRun] = []
    for rank in [each for each in ready.order if each[2] == first.kind.name]:
        queue = ready.queues[rank]
        while queue and len(found) < most - 1:
            other = queue[0]
            if not isinstance(other, ListedRun) or other.company != first.company or other.is_probe:
                break
            found.append(other)
            queue.popleft()
        if not queue:
            del ready.queues[rank]
            ready.order.remove(rank)
    ready.queued -= len(found)
    return found
