"""What a consumer has taken: a message, the run that it carries, and the reply."""

from __future__ import annotations

import time
from itertools import count

import msgspec

from windlass.clock import SECOND
from windlass.core.run.contract import Keeper
from windlass.core.run.many.together import ListedRun
from windlass.core.run.ready import KindLoad
from windlass.core.task.kind import Given
from windlass.errors import BadArgument, Snooze
from windlass.queue.model.carrier import Parcel, RunReply
from windlass.queue.model.message import Delivered
from windlass.value.outcome import Misfit
from windlass.value.payload import with_trace
from windlass.value.task import Claimed


class CarriedRun(ListedRun):
    """A run that was carried here; in a list with others, if its handler takes lists."""

    __slots__ = ("parcel",)
    numbers = count(1)

    def __init__(self, parcel: Parcel, load: KindLoad, keeper: Keeper) -> None:
        super().__init__(_claimed(parcel), load)
        self.number = next(self.numbers)
        self.parcel = parcel
        self.keeper = keeper

    def given(self) -> Given:
        """What the handler is called with. Raises Misfit if its code does not take that."""
        if self.parcel.comes_too_late(time.time()):
            # It has waited here for too long.
            raise Snooze("1s")
        kind = self.kind
        if kind.has_rows and kind.period is None:
            try:
                return kind.arguments.decode(bytes(self.parcel.arguments).decode())
            except BadArgument as problem:
                raise Misfit(f"the consumer's code does not take this: {problem}") from None
        values = list(msgspec.json.decode(self.parcel.arguments, type=dict[str, object]).values())
        if len(values) != 1:
            raise Misfit(f"kind {kind.name!r} is called with 1 argument, and got {len(values)}")
        return (values[0],), {}


class Errand:
    """A message that has not been acknowledged, and its reply when it has one."""

    __slots__ = ("delivery", "id", "reply", "reply_to", "run")

    def __init__(self, delivery: Delivered, number: str, reply_to: str) -> None:
        self.delivery = delivery
        self.id = number
        self.reply_to = reply_to
        self.run: CarriedRun | None = None
        self.reply: RunReply | None = None


def _claimed(parcel: Parcel) -> Claimed:
    """The task of a parcel, as handlers and observers see it."""
    payload = bytes(parcel.arguments).decode()
    return Claimed(
        id=parcel.task,
        kind=parcel.kind,
        task_key=parcel.key,
        priority=0,
        due_at=round(parcel.due_at * SECOND),
        payload=with_trace(payload, parcel.trace),
        attempt=parcel.attempt,
        lost=parcel.attempt - parcel.tries,
        started_at=parcel.fence,
        bucket=0,
        batch=0,
        worker=0,
    )
