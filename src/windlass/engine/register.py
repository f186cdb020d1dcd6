"""The register of named runs: each call is one transaction on the row of the run.

Who is the authority? The row, read under its lock. Every call carries the batch of the start that
it belongs to, so whoever was taken over finds another number there, and changes nothing.

Which time is trusted? The database's, through the app's clock, read when the row is at hand. A run
that is past its expiry is still its holder's until somebody takes it over: nobody loses work to a
slow clock alone.

What does each failure do? The process dies: with a lease, nobody renews it and it can be taken over
a minute later; without one, the run is held until it expires or an operator releases it. The answer
to a call is lost: the transaction is done again and finds its own work, in the row or, if others
have been there since, in the history.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from sqlalchemy import Connection

from windlass import telemetry
from windlass.clock import Clock
from windlass.engine.identity import this_process
from windlass.model import control as rule
from windlass.model.control import (
    DONE,
    INTERRUPTED,
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
        start = Starting(self._numbers.take()[0], self._clock, expires, data)
        try:
            move = database.write(
                lambda connection: store.begin(connection, database.dialect, place, start.decide)
            )
        except BaseException as error:
            if not isinstance(error, Exception):
                # An interrupt while the answer was awaited: nobody would know that it is ours.
                self._take_back(place, start)
            raise
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
        in_block: bool = False,
    ) -> Reply:
        return self._change(
            place,
            lambda found: rule.step(
                found, asked, batch=batch, now=self.now(), called=called, in_block=in_block
            ),
        ).reply

    def complete(self, place: Place, asked: StepName, *, batch: int, result: object) -> Reply:
        return self._change(
            place,
            lambda found: rule.complete(found, asked, batch=batch, now=self.now(), result=result),
        ).reply

    def finish(
        self,
        place: Place,
        *,
        batch: int | None,
        data: object = None,
        progress: Progress | None = None,
    ) -> Reply:
        move = self._change(
            place,
            lambda found: rule.finish(
                found, batch=batch, now=self.now(), data=data, progress=progress
            ),
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
        move = self._change(
            place,
            lambda found: rule.fail(
                found, batch=batch, now=self.now(), error=error, data=data, progress=progress
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
        def decide(found: Control | None) -> Move:
            until = None if lasting is None else self.now() + lasting
            return rule.note(found, batch=batch, data=data, progress=progress, expire_time=until)

        return self._change(place, decide).reply

    def get(self, place: Place) -> Control | None:
        return self._database().read(lambda connection: store.get(connection, place))

    def _change(self, place: Place, decide: Callable[[Control | None], Move]) -> Move:
        return change(self._database(), place, decide)

    def _take_back(self, place: Place, start: Starting) -> None:
        def decide(found: Control | None) -> Move:
            if found is None or not start.made(found):
                return Move(Reply(DONE, "it was not started"))
            return rule.fail(found, batch=found.batch, now=self.now(), error=INTERRUPTED)

        with contextlib.suppress(Exception):
            self._change(place, decide)


class Starting:
    """One call of `start`, which knows its own work when it is done again."""

    def __init__(self, number: int, clock: Clock, expires: Expires | None, data: object) -> None:
        self._number = number
        self._clock = clock
        self._expires = expires
        self._data = data
        self._decided: list[Move] = []

    def decide(self, found: Control) -> Move:
        for move in self._decided:
            if move.after is not None and _is_same_start(found, move.after):
                # It was committed, and only the answer was lost.
                return move._replace(after=None)
        now = self._clock.now()
        until = None if self._expires is None else self._expires.moment(now)
        asked = Start(self._number, now, this_process(), until, self._data)
        self._decided.append(rule.start(found, asked))
        return self._decided[-1]

    def made(self, found: Control) -> bool:
        """Whether the run of now is the one that this call started."""
        afters = (move.after for move in self._decided)
        return any(after is not None and _is_same_start(found, after) for after in afters)


def change(database: Database, place: Place, decide: Callable[[Control | None], Move]) -> Move:
    """Make of a run what `decide` says, once, although its transaction may be done again."""
    decided: list[Move] = []

    def once(found: Control | None) -> Move:
        if decided and found is not None and found == decided[-1].after:
            # It was committed, and only the answer was lost.
            return decided[-1]._replace(after=None)
        decided.append(decide(found))
        return decided[-1]

    def work(connection: Connection) -> Move:
        before = decided[-1] if decided else None
        ended = None if before is None else before.ended
        if before is not None and ended and store.has_ended(connection, place, ended.batch):
            # As above, and others have started it since.
            return before._replace(after=None)
        return store.change(connection, place, once)

    return database.write(work)


def _is_same_start(one: Control, other: Control) -> bool:
    return (one.batch, one.who, one.start_time) == (other.batch, other.who, other.start_time)
