"""The register of named runs: each call is one transaction on the row of the run.

Who is the authority? The row, read under its lock. Every call carries the batch of the start that
it belongs to, so whoever was taken over finds another number there, and changes nothing.

Which time is trusted? The database's, through the app's clock. A run that is past its expiry is
still its holder's until somebody takes it over: nobody loses work to a slow clock alone.

What does each failure do? The process dies: with a lease, nobody renews it and it can be taken over
a minute later; without one, the run is held until it expires or an operator releases it. The answer
to a call is lost: the same transaction is done again and finds its own work.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from sqlalchemy import Connection

from windlass import telemetry
from windlass.clock import Clock
from windlass.engine.identity import this_process
from windlass.model import control as rule
from windlass.model.control import (
    DONE,
    Control,
    Expires,
    Move,
    Place,
    Progress,
    Reply,
    Start,
)
from windlass.model.step import StepName
from windlass.store import control as store
from windlass.store.database import Database
from windlass.store.number import Numbers

F = TypeVar("F", bound=Control | None)


class Register:
    """What is done to the row of a run, each call a whole transaction."""

    def __init__(self, database: Callable[[], Database], clock: Clock, numbers: Numbers) -> None:
        self._database = database
        self._clock = clock
        self._numbers = numbers

    def now(self) -> int:
        return self._clock.now()

    def start(self, place: Place, *, expires: Expires | None, data: object) -> Reply:
        database = self._database()
        number, now = self._numbers.take()[0], self.now()
        until = None if expires is None else expires.moment(now)
        asked = Start(number, now, this_process(), until, data)

        def decide(found: Control) -> Move:
            return rule.start(found, asked)

        once = _once(decide)

        def work(connection: Connection) -> Move:
            return store.begin(connection, database.dialect, place, once)

        move = database.write(work)
        if move.reply.code == DONE:
            took_over = None if move.ended is None else move.ended.who
            telemetry.emit(
                "control.started",
                **place._asdict(),
                batch=move.reply.data["batch"],
                tries=move.reply.data["tries"],
                took_over=took_over,
            )
        return move.reply

    def step(
        self,
        place: Place,
        asked: StepName,
        *,
        batch: int | None,
        called: bool = False,
        forward: bool = False,
    ) -> Reply:
        now = self.now()
        return self._change(
            place,
            lambda found: rule.step(
                found, asked, batch=batch, now=now, called=called, forward=forward
            ),
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
        progress: Progress | None = None,
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
        progress: Progress | None = None,
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
        progress: Progress | None = None,
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
        once = _once(decide)
        return self._database().write(lambda connection: store.change(connection, place, once))


def _once(decide: Callable[[F], Move]) -> Callable[[F], Move]:
    """`decide` for a transaction that may be done again: one that had its effect has it once."""
    decided: list[Move] = []

    def again(found: F) -> Move:
        if decided and found is not None and found == decided[-1].after:
            # It was committed, and only the answer was lost.
            return decided[-1]._replace(after=None)
        decided.append(decide(found))
        return decided[-1]

    return again
