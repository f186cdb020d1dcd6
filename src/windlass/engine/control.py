"""Named runs: the plain calls, each one transaction on the row of the run.

Who is the authority? The row, read under its lock. Every call carries the batch of the start that
it belongs to, so whoever was taken over finds another number there, and changes nothing.

Which time is trusted? The database's, through the app's clock. A run that is past its expiry is
still its holder's until somebody takes it over: nobody loses work to a slow clock alone.

What does each failure do? The process dies: with a lease, nobody renews it and it can be taken over
a minute later; without one, the run is held until it expires or an operator releases it. The answer
to a call is lost: the same transaction is done again and finds its own work.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Any

from sqlalchemy import Connection

from windlass import telemetry
from windlass.clock import Clock
from windlass.declare.twin import twin
from windlass.engine.controlled import ControlRun, Hands
from windlass.engine.identity import this_process
from windlass.model import control as rule
from windlass.model.control import DONE, Control, Move, Place, Reply, Start
from windlass.model.duration import Duration, parse_duration
from windlass.model.outcome import LONGEST_TRACEBACK, storable
from windlass.model.payload import LARGEST_PAYLOAD
from windlass.model.step import StepName, check_step
from windlass.store import control as store
from windlass.store.database import Database
from windlass.store.number import Numbers


class Controls:
    """`app.control`: call it for a run to enter, or use the plain calls from anywhere."""

    def __init__(self, database: Callable[[], Database], clock: Clock, numbers: Numbers) -> None:
        self._hands = Transactions(database, clock, numbers)
        self._batches: dict[Place, int] = {}
        self._lock = threading.Lock()

    def __call__(
        self,
        name: str,
        partition: str = "",
        expires: Duration | None = None,
        data: object = None,
    ) -> ControlRun:
        """The run of that name, to enter with `with` or `async with`.

        Without `expires` it is held by a lease that is renewed while the block runs.
        """
        place = rule.check_place(name, partition)
        return ControlRun(self._hands, place, expires=_lasting(expires), data=_checked(data, place))

    def start(
        self,
        name: str,
        partition: str = "",
        expires: Duration | None = None,
        *,
        data: object = None,
    ) -> Reply:
        """Start a run: 0, or 8 if somebody runs it.

        Without `expires` it is held until it is finished, failed or released.
        """
        place = rule.check_place(name, partition)
        reply = self._hands.start(place, lasting=_lasting(expires), data=_checked(data, place))
        if reply.code == DONE:
            with self._lock:
                self._batches[place] = reply.data["batch"]
        return reply

    def step(
        self, name: str, step: StepName, partition: str = "", *, batch: int | None = None
    ) -> Reply:
        """Begin a step, which ends the one before: 0, or 2 if it is done already, or 451."""
        place = rule.check_place(name, partition)
        asked = check_step(step, what=f"control {place}")
        return self._hands.step(place, asked, batch=self._batch(place, batch))

    def finish(
        self, name: str, partition: str = "", *, batch: int | None = None, data: object = None
    ) -> Reply:
        """End a run as succeeded: 0, or 451."""
        place = rule.check_place(name, partition)
        mine = self._batch(place, batch)
        reply = self._hands.finish(place, batch=mine, data=_checked(data, place))
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
        reply = self._hands.fail(place, why, batch=mine, data=_checked(data, place))
        return self._forget(place, reply)

    def get(self, name: str, partition: str = "") -> Control | None:
        """The row of a run, or None if it was never started."""
        return self._hands.get(rule.check_place(name, partition))

    async def astart(
        self,
        name: str,
        partition: str = "",
        expires: Duration | None = None,
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

    async def aget(self, name: str, partition: str = "") -> Control | None:
        """`get`, awaited."""
        return await twin(self.get, name, partition)

    def _batch(self, place: Place, given: int | None) -> int | None:
        """The batch of the run that this app started, unless the caller says which."""
        with self._lock:
            return self._batches.get(place) if given is None else given

    def _forget(self, place: Place, reply: Reply) -> Reply:
        # A run that ended under us stays remembered: what we say of it later must be refused.
        if reply.code == DONE:
            with self._lock:
                if self._batches.get(place) == reply.data["batch"]:
                    del self._batches[place]
        return reply


class Transactions(Hands):
    """What is done to the row of a run, each a whole transaction."""

    def __init__(self, database: Callable[[], Database], clock: Clock, numbers: Numbers) -> None:
        self._database = database
        self._clock = clock
        self._numbers = numbers

    def now(self) -> int:
        return self._clock.now()

    def start(self, place: Place, *, lasting: int | None, data: object) -> Reply:
        database = self._database()
        number, now = self._numbers.take()[0], self.now()
        until = None if lasting is None else now + lasting
        asked = Start(number, now, this_process(), until, data)

        def work(connection: Connection) -> Move:
            return store.begin(
                connection, database.dialect, place, partial(rule.start, asked=asked)
            )

        move = database.write(work)
        if move.reply.code == DONE:
            took_over = None if move.ended is None else move.ended.who
            telemetry.emit(
                "control.started",
                **place._asdict(),
                batch=number,
                tries=move.reply.data["tries"],
                took_over=took_over,
            )
        return move.reply

    def step(
        self, place: Place, asked: StepName, *, batch: int | None, called: bool = False
    ) -> Reply:
        now = self.now()
        return self._change(
            place, lambda found: rule.step(found, asked, batch=batch, now=now, called=called)
        ).reply

    def complete(self, place: Place, asked: StepName, *, batch: int, result: object) -> Reply:
        now = self.now()
        return self._change(
            place, lambda found: rule.complete(found, asked, batch=batch, now=now, result=result)
        ).reply

    def finish(
        self,
        place: Place,
        *,
        batch: int | None,
        data: object = None,
        progress: rule.Progress | None = None,
    ) -> Reply:
        now = self.now()
        move = self._change(
            place,
            lambda found: rule.finish(found, batch=batch, now=now, data=data, progress=progress),
        )
        if move.ended is not None:
            seconds = move.ended.run_seconds
            telemetry.emit("control.finished", **place._asdict(), run_seconds=seconds)
        return move.reply

    def fail(
        self,
        place: Place,
        error: str,
        *,
        batch: int | None,
        data: object = None,
        progress: rule.Progress | None = None,
    ) -> Reply:
        now = self.now()
        move = self._change(
            place,
            lambda found: rule.fail(
                found, batch=batch, now=now, error=error, data=data, progress=progress
            ),
        )
        if move.ended is not None:
            first_line = error.splitlines()[0]
            step = move.ended.step
            telemetry.emit("control.failed", **place._asdict(), step=step, error=first_line)
        return move.reply

    def note(
        self,
        place: Place,
        *,
        batch: int,
        data: object = None,
        progress: rule.Progress | None = None,
        lasting: int | None = None,
    ) -> Reply:
        until = None if lasting is None else self.now() + lasting
        return self._change(
            place,
            lambda found: rule.note(
                found, batch=batch, data=data, progress=progress, expire_time=until
            ),
        ).reply

    def get(self, place: Place) -> Control | None:
        return self._database().read(lambda connection: store.get(connection, place))

    def _change(self, place: Place, decide: Callable[[Control | None], Move]) -> Move:
        written: list[Move] = []

        def again(found: Control | None) -> Move:
            # An end whose answer was lost is there already when it is done again.
            if written and found is not None and found == written[-1].after:
                return Move(written[-1].reply, ended=None)
            written.append(decide(found))
            return written[-1]

        return self._database().write(lambda connection: store.change(connection, place, again))


def _lasting(expires: Duration | None) -> int | None:
    return None if expires is None else parse_duration(expires, what="expires")


def _checked(data: object, place: Place) -> Any:
    return rule.check_data(data, place=place, largest=LARGEST_PAYLOAD)
