"""`app.control`: the plain calls about named runs, and the way into a run that a block holds."""

from __future__ import annotations

import threading
from typing import Any

from windlass.control.engine.register import Register
from windlass.control.engine.run import LEASE, ControlRun
from windlass.control.model import control as rule
from windlass.control.model.control import (
    DONE,
    REFUSED,
    Expiry,
    Place,
    Reply,
    RunView,
    parse_expires,
)
from windlass.control.model.step import StepName, check_step
from windlass.core.shard.fleet import Fleet
from windlass.errors import BadInput, BadStep
from windlass.value.duration import Duration, parse_duration
from windlass.value.outcome import LONGEST_TRACEBACK, storable
from windlass.value.payload import LARGEST_PAYLOAD
from windlass.value.twin import twin

# Of runs that are started here and ended elsewhere, so many are known as ours.
MOST_REMEMBERED = 10_000


class Controls:
    """`app.control`: call it for a run to enter, or use the plain calls from anywhere."""

    def __init__(self, fleet: Fleet) -> None:
        self._register = Register(fleet)
        self._batches: dict[Place, int] = {}
        self._lock = threading.Lock()

    def __call__(
        self,
        name: str,
        partition: str = "",
        expires: Expiry | None = None,
        data: object = None,
        *,
        lease: Duration = LEASE,
    ) -> ControlRun:
        """The run of that name, to enter with `with` or `async with`.

        Without `expires` it is held by a `lease` that is renewed while the block runs.
        """
        place = rule.check_place(name, partition)
        return ControlRun(
            self._register,
            place,
            expires=parse_expires(expires),
            lease=parse_duration(lease, what="lease"),
            data=_checked(data, place),
        )

    def start(
        self,
        name: str,
        partition: str = "",
        expires: Expiry | None = None,
        *,
        data: object = None,
    ) -> Reply:
        """Start a run: 0, or 8 if somebody runs it.

        Without `expires` it is held until it is finished, failed or released.
        """
        place = rule.check_place(name, partition)
        reply = self._register.start(
            place, expires=parse_expires(expires), data=_checked(data, place)
        )
        if reply.code == DONE:
            self._remember(place, reply.data["batch"])
        return reply

    def step(
        self, name: str, step: StepName, partition: str = "", *, batch: int | None = None
    ) -> Reply:
        """Begin a step, which ends the one before: 0, or 2 if it is done already, or 451.

        Where several threads or processes may start the run, pass the `batch` of yours.
        """
        place = rule.check_place(name, partition)
        asked = check_step(step, what=f"control {place}")
        try:
            return self._register.step(place, asked, batch=self._batch(place, batch))
        except BadStep as problem:
            return Reply(REFUSED, str(problem))

    def finish(
        self, name: str, partition: str = "", *, batch: int | None = None, data: object = None
    ) -> Reply:
        """End a run as succeeded: 0, or 451."""
        place = rule.check_place(name, partition)
        mine = self._batch(place, batch)
        reply = self._register.finish(place, batch=mine, data=_checked(data, place))
        return self._forget(place, reply)

    def error(
        self,
        name: str,
        error: object = "",
        partition: str = "",
        *,
        batch: int | None = None,
        data: object = None,
    ) -> Reply:
        """End a run as failed, for which reason: 0, or 451. Its steps are kept for the next try."""
        place = rule.check_place(name, partition)
        mine = self._batch(place, batch)
        why = storable(str(error))[:LONGEST_TRACEBACK] or "failed"
        reply = self._register.fail(place, why, batch=mine, data=_checked(data, place))
        return self._forget(place, reply)

    def get(self, name: str, partition: str = "") -> RunView | None:
        """The row of a run, or None if it was never started."""
        return self._register.get(rule.check_place(name, partition))

    async def astart(
        self,
        name: str,
        partition: str = "",
        expires: Expiry | None = None,
        *,
        data: object = None,
    ) -> Reply:
        """`start`, awaited."""
        return await twin(self.start, name, partition, expires, data=data)

    async def astep(
        self, name: str, step: StepName, partition: str = "", *, batch: int | None = None
    ) -> Reply:
        """`step`, awaited."""
        return await twin(self.step, name, step, partition, batch=batch)

    async def afinish(
        self, name: str, partition: str = "", *, batch: int | None = None, data: object = None
    ) -> Reply:
        """`finish`, awaited."""
        return await twin(self.finish, name, partition, batch=batch, data=data)

    async def aerror(
        self,
        name: str,
        error: object = "",
        partition: str = "",
        *,
        batch: int | None = None,
        data: object = None,
    ) -> Reply:
        """`error`, awaited."""
        return await twin(self.error, name, error, partition, batch=batch, data=data)

    async def aget(self, name: str, partition: str = "") -> RunView | None:
        """`get`, awaited."""
        return await twin(self.get, name, partition)

    def forget(self) -> None:
        """Know of no run that was started here; tests begin like this."""
        with self._lock:
            self._batches.clear()

    def _batch(self, place: Place, given: int | None) -> int | None:
        """The batch of the run that this app started, unless the caller says which."""
        if given is None:
            with self._lock:
                return self._batches.get(place)
        if isinstance(given, bool) or not isinstance(given, int):
            raise BadInput(f"control {place}: batch={given!r} is no number; pass data['batch']")
        return given

    def _remember(self, place: Place, batch: int) -> None:
        with self._lock:
            self._batches.pop(place, None)
            self._batches[place] = batch
            if len(self._batches) > MOST_REMEMBERED:
                del self._batches[next(iter(self._batches))]

    def _forget(self, place: Place, reply: Reply) -> Reply:
        # A run that ended under us stays remembered: what we say of it later must be refused.
        if reply.code == DONE:
            with self._lock:
                if self._batches.get(place) == reply.data["batch"]:
                    del self._batches[place]
        return reply


def _checked(data: object, place: Place) -> Any:
    return rule.check_data(data, place=place, largest=LARGEST_PAYLOAD)
