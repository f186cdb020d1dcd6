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
from functools import partial
from typing import TypeVar

from sqlalchemy import Connection

from windlass import telemetry
from windlass.engine.enqueue import Guard
from windlass.engine.fleet import Fleet
from windlass.engine.identity import this_process
from windlass.engine.shard import OUTAGES, Shard, first_line
from windlass.errors import DatabaseUnavailable
from windlass.model import control as rule
from windlass.model.control import DONE, Control, Move, Place, Progress, Reply, Start
from windlass.model.shard import CONTROL
from windlass.model.step import StepName
from windlass.store import control as store

F = TypeVar("F", bound=Control | None)


class Register:
    """What is done to the row of a run, each call a whole transaction.

    With several shards the row is at its home, or where it still is from before.
    """

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet

    def start(self, place: Place, *, lasting: int | None, data: object) -> Reply:
        def begin(shard: Shard, guard: Guard | None, *, is_home: bool) -> Move | None:
            number, now = shard.numbers.take()[0], shard.clock.now()
            until = None if lasting is None else now + lasting
            asked = Start(number, now, this_process(), until, data)
            decide = _once(partial(_start, asked=asked))

            def work(connection: Connection) -> Move | None:
                if guard is not None:
                    guard(connection)
                if not is_home:
                    return store.change_existing(connection, place, decide)
                return store.begin(connection, shard.database.dialect, place, decide)

            return shard.database.write(work)

        move = self._at(place, begin)
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
        self, place: Place, asked: StepName, *, batch: int | None, called: bool = False
    ) -> Reply:
        return self._change(
            place, lambda found, now: rule.step(found, asked, batch=batch, now=now, called=called)
        ).reply

    def complete(self, place: Place, asked: StepName, *, batch: int, result: object) -> Reply:
        return self._change(
            place,
            lambda found, now: rule.complete(found, asked, batch=batch, now=now, result=result),
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
            lambda found, now: rule.finish(
                found, batch=batch, now=now, data=data, progress=progress
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
            lambda found, now: rule.fail(
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
        def decide(found: Control | None, now: int) -> Move:
            until = None if lasting is None else now + lasting
            return rule.note(found, batch=batch, data=data, progress=progress, expire_time=until)

        return self._change(place, decide).reply

    def release(self, place: Place, *, who: str) -> Reply:
        return self._change(place, lambda found, now: rule.release(found, now=now, who=who)).reply

    def get(self, place: Place) -> Control | None:
        self._fleet.prepare()
        for shard in self._fleet.route(CONTROL, key_of(place)).shards:
            found = shard.database.read(lambda connection: store.get(connection, place))
            if found is not None:
                return found
        return None

    def _change(self, place: Place, decide: Callable[[Control | None, int], Move]) -> Move:
        def change(shard: Shard, guard: Guard | None, *, is_home: bool) -> Move | None:
            now = shard.clock.now()
            once = _once(lambda found: decide(found, now))

            def work(connection: Connection) -> Move | None:
                if guard is not None:
                    guard(connection)
                if is_home:
                    return store.change(connection, place, once)
                return store.change_existing(connection, place, once)

            return shard.database.write(work)

        return self._at(place, change)

    def _at(self, place: Place, call: Callable[..., Move | None]) -> Move:
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
                    raise _unavailable(place, shard, problem) from problem
                if move is not None:
                    return move
            raise AssertionError("a run has a home")

        return self._fleet.keyed(work)


def _unavailable(place: Place, shard: Shard, problem: BaseException) -> DatabaseUnavailable:
    shard.failed(problem)
    return DatabaseUnavailable(
        f"control {place} belongs to {shard.name}, which does not answer: {first_line(problem)}",
        missing=(shard.name,),
    )


def key_of(place: Place) -> str:
    """By what a run finds its home."""
    return "\0".join(place)


def _start(found: Control, asked: Start) -> Move:
    return rule.start(found, asked)


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
