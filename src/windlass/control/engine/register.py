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
from typing import Protocol

from sqlalchemy import Connection

from windlass import telemetry
from windlass.clock import Clock
from windlass.control import store
from windlass.control.model import control as rule
from windlass.control.model.control import (
    DONE,
    INTERRUPTED,
    Control,
    Expires,
    Move,
    Place,
    Progress,
    Reply,
    RunView,
    Start,
    view,
)
from windlass.control.model.step import StepName
from windlass.core.shard.fleet import Fleet
from windlass.core.shard.shard import OUTAGES, Shard
from windlass.core.task.enqueue import Guard
from windlass.database.database import Database
from windlass.value.identity import this_process
from windlass.value.shard import CONTROL


class Register:
    """What is done to the row of a run, each call a whole transaction.

    With several shards the row is at its home, or where it still is from before.
    """

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet

    def start(self, place: Place, *, expires: Expires | None, data: object) -> Reply:
        starts: dict[Shard, Starting] = {}

        def begin(shard: Shard, guard: Guard | None, *, is_home: bool) -> Move | None:
            if shard not in starts:
                number = shard.numbers.take()[0]
                starts[shard] = Starting(number, shard.clock, expires, data)
            decide = starts[shard].decide

            def work(connection: Connection) -> Move | None:
                if guard is not None:
                    guard(connection)
                if is_home:
                    return store.begin(connection, shard.database.dialect, place, decide)
                return store.change_existing(connection, place, decide)

            return shard.database.write(work)

        try:
            move = self._at(place, begin)
        except BaseException as error:
            if not isinstance(error, Exception):
                # An interrupt while the answer was awaited: nobody would know that it is ours.
                self._take_back(place, list(starts.values()))
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
            lambda found, clock: rule.step(
                found, asked, batch=batch, now=clock.now(), called=called, in_block=in_block
            ),
        ).reply

    def complete(self, place: Place, asked: StepName, *, batch: int, result: object) -> Reply:
        return self._change(
            place,
            lambda found, clock: rule.complete(
                found, asked, batch=batch, now=clock.now(), result=result
            ),
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
            lambda found, clock: rule.finish(
                found, batch=batch, now=clock.now(), data=data, progress=progress
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
            lambda found, clock: rule.fail(
                found, batch=batch, now=clock.now(), error=error, data=data, progress=progress
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
        def decide(found: Control | None, clock: Clock) -> Move:
            until = None if lasting is None else clock.now() + lasting
            return rule.note(found, batch=batch, data=data, progress=progress, expire_time=until)

        return self._change(place, decide).reply

    def release(self, place: Place, *, who: str, batch: int | None = None) -> Reply:
        return self._change(
            place, lambda found, clock: rule.release(found, now=clock.now(), who=who, batch=batch)
        ).reply

    def reset(self, place: Place, *, batch: int | None = None) -> Reply:
        return self._change(place, lambda found, _clock: rule.reset(found, batch=batch)).reply

    def get(self, place: Place) -> RunView | None:
        self._fleet.prepare()
        for shard in self._fleet.route(CONTROL, key_of(place)).shards:
            found = shard.database.read(lambda connection: store.get(connection, place))
            if found is not None:
                return view(found, now=shard.clock.now())
        return None

    def _change(self, place: Place, decide: Callable[[Control | None, Clock], Move]) -> Move:
        changing = Changing(place)

        def make(shard: Shard, guard: Guard | None, *, is_home: bool) -> Move | None:
            def decide_here(found: Control | None) -> Move:
                return decide(found, shard.clock)

            return changing.make(shard.database, decide_here, guard=guard, is_home=is_home)

        return self._at(place, make)

    def _take_back(self, place: Place, starts: list[Starting]) -> None:
        def decide(found: Control | None, clock: Clock) -> Move:
            if found is None or not any(start.made(found) for start in starts):
                return Move(Reply(DONE, "it was not started"))
            return rule.fail(found, batch=found.batch, now=clock.now(), error=INTERRUPTED)

        with contextlib.suppress(Exception):
            self._change(place, decide)

    def _at(self, place: Place, call: Call) -> Move:
        """Do it where the row still is from before, or else at its home."""
        self._fleet.prepare()

        def work() -> Move:
            route = self._fleet.route(CONTROL, key_of(place))
            for shard in route.shards:
                guard = None
                if self._fleet.single is None:
                    guard = self._fleet.guard(shard, route.number)
                try:
                    move = call(shard, guard, is_home=shard is route.home)
                except OUTAGES as problem:
                    if self._fleet.single is not None:
                        raise
                    raise shard.unavailable(f"control {place} belongs to", problem) from problem
                if move is not None:
                    return move
            raise AssertionError("a run has a home")

        return self._fleet.keyed(work)


class Call(Protocol):
    """Something done to a run in one shard; None if it is not there and that is not its home."""

    def __call__(self, shard: Shard, guard: Guard | None, *, is_home: bool) -> Move | None: ...


def key_of(place: Place) -> str:
    """By what a run finds its home."""
    return "\0".join(place)


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


class Changing:
    """One change of a run, which knows its own work when it is done again."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._decided: list[Move] = []

    def make(
        self,
        database: Database,
        decide: Callable[[Control | None], Move],
        *,
        guard: Guard | None = None,
        is_home: bool = True,
    ) -> Move | None:
        """Make it in one database; None if the run is not there, and that is not its home."""

        def once(found: Control | None) -> Move:
            if self._decided and found is not None and found == self._decided[-1].after:
                # It was committed, and only the answer was lost.
                return self._decided[-1]._replace(after=None)
            self._decided.append(decide(found))
            return self._decided[-1]

        def work(connection: Connection) -> Move | None:
            if guard is not None:
                guard(connection)
            before = self._decided[-1] if self._decided else None
            ended = None if before is None else before.ended
            if before and ended and store.has_ended(connection, self._place, ended.batch):
                # As above, and others have started it since.
                return before._replace(after=None)
            if is_home:
                return store.change(connection, self._place, once)
            return store.change_existing(connection, self._place, once)

        return database.write(work)


def _is_same_start(one: Control, other: Control) -> bool:
    return (one.batch, one.who, one.start_time) == (other.batch, other.who, other.start_time)
