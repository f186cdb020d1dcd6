"""The register of control runs: each call is one transaction on the row of the run.

Who is the authority? The row, read under its lock. Every call carries the batch of the start that
it belongs to. After a takeover the row has another batch, and a call with the old one changes
nothing.

Which time is trusted? The database's, through the app's clock, read when the row is at hand. A run
that is past its expiry still belongs to its holder until another start takes it over: a slow clock
alone loses no work.

What does each failure do? The process dies: a lease is no longer renewed, and the run can be taken
over a minute later; without a lease the run is held until it expires or an operator releases it.
The answer to a call is lost: the transaction is repeated and finds its own work, in the row or, if
the run was started again since, in the history.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Protocol

from windlass import telemetry
from windlass.clock import Clock
from windlass.control import store
from windlass.control.model import control as rule
from windlass.control.model.argument import ControlKey, Expires
from windlass.control.model.control import (
    DONE,
    INTERRUPTED,
    Control,
    Decision,
    Noted,
    Reply,
    RunView,
    Start,
    view,
)
from windlass.control.model.step import StepName
from windlass.core.shard.fleet import Fleet, Route
from windlass.core.shard.shard import OUTAGES, Shard
from windlass.database.connection import Connection
from windlass.value.shard import CONTROL
from windlass.view.identity import this_process

# What becomes of the row that was found, at the time of the clock.
Decide = Callable[[Control | None, Clock], Decision]


class Register:
    """What is done to the row of a run, each call a whole transaction.

    With several shards the row is at its home, or in the shard that was its home before.
    """

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet

    def start(self, key: ControlKey, *, expires: Expires | None, data: object) -> Reply:
        start = RepeatableStart(key, expires, data)
        try:
            decision = self._make(start)
        except BaseException as error:
            if not isinstance(error, Exception):
                # An interrupt before the answer came: no code would know that it holds the run.
                self._take_back(start)
            raise
        reply = decision.reply
        if reply.code == DONE:
            facts = {name: reply.data[name] for name in ("batch", "tries")}
            took_over = None if decision.ended is None else decision.ended.who
            telemetry.emit("control.started", **key._asdict(), **facts, took_over=took_over)
        return reply

    def step(
        self,
        key: ControlKey,
        asked: StepName,
        *,
        batch: int | None,
        called: bool = False,
        in_block: bool = False,
    ) -> Reply:
        return self._change(
            key,
            lambda found, clock: rule.step(
                found, batch, asked, now=clock.now(), called=called, in_block=in_block
            ),
        ).reply

    def complete(self, key: ControlKey, asked: StepName, *, batch: int, result: object) -> Reply:
        return self._change(
            key,
            lambda found, clock: rule.complete(found, batch, asked, now=clock.now(), result=result),
        ).reply

    def finish(self, key: ControlKey, noted: Noted, *, batch: int | None) -> Reply:
        decision = self._change(
            key, lambda found, clock: rule.finish(found, batch, noted, now=clock.now())
        )
        if decision.ended is not None:
            seconds = decision.ended.run_seconds
            telemetry.emit("control.finished", **key._asdict(), run_seconds=seconds)
        return decision.reply

    def fail(self, key: ControlKey, noted: Noted, *, batch: int | None, error: str) -> Reply:
        decision = self._change(
            key, lambda found, clock: rule.fail(found, batch, noted, now=clock.now(), error=error)
        )
        if decision.ended is not None:
            first_line = error.splitlines()[0]
            step = decision.ended.step
            telemetry.emit("control.failed", **key._asdict(), step=step, error=first_line)
        return decision.reply

    def note(self, key: ControlKey, noted: Noted, *, batch: int, lease: int | None = None) -> Reply:
        """Keep what a run says about itself; with a lease, hold the run that long from now on."""

        def decide(found: Control | None, clock: Clock) -> Decision:
            until = None if lease is None else clock.now() + lease
            return rule.note(found, batch, noted, expire_time=until)

        return self._change(key, decide).reply

    def release(self, key: ControlKey, *, who: str, batch: int | None = None) -> Reply:
        return self._change(
            key, lambda found, clock: rule.release(found, batch, now=clock.now(), who=who)
        ).reply

    def reset(self, key: ControlKey, *, batch: int | None = None) -> Reply:
        return self._change(key, lambda found, _clock: rule.reset(found, batch)).reply

    def get(self, key: ControlKey) -> RunView | None:
        self._fleet.prepare()
        for shard in self._fleet.route(CONTROL, routing_key(key)).shards:
            found = shard.database.read(lambda connection: store.get(connection, key))
            if found is not None:
                return view(found, now=shard.clock.now())
        return None

    def _change(self, key: ControlKey, decide: Decide) -> Decision:
        return self._make(RepeatableChange(key, decide))

    def _take_back(self, start: RepeatableStart) -> None:
        def decide(found: Control | None, clock: Clock) -> Decision:
            if found is None or not start.made(found):
                return Decision(Reply(DONE, "it was not started"))
            return rule.fail(found, found.batch, Noted(), now=clock.now(), error=INTERRUPTED)

        with contextlib.suppress(Exception):
            self._change(start.key, decide)

    def _make(self, change: Repeatable) -> Decision:
        """Make a change in the shard that was the home of the row before, or else at its home."""
        self._fleet.prepare()

        def work() -> Decision:
            route = self._fleet.route(CONTROL, routing_key(change.key))
            for shard in route.shards:
                decision = self._make_in(shard, change, route)
                if decision is not None:
                    return decision
            raise AssertionError("every control run has a home")

        return self._fleet.keyed(work)

    def _make_in(self, shard: Shard, change: Repeatable, route: Route) -> Decision | None:
        is_single = self._fleet.single is not None
        guard = None if is_single else self._fleet.guard(shard, route.number)

        def transaction(connection: Connection) -> Decision | None:
            if guard is not None:
                guard(connection)
            return change.make(connection, shard, is_home=shard is route.home)

        try:
            change.prepare(shard)
            return shard.database.write(transaction)
        except OUTAGES as problem:
            if is_single:
                raise
            raise shard.unavailable(f"control {change.key} belongs to", problem) from problem


def routing_key(key: ControlKey) -> str:
    """The text by which a run finds its home."""
    return "\0".join(key)


class Repeatable(Protocol):
    """A change of a run that recognises its own work when its transaction is repeated."""

    key: ControlKey

    def prepare(self, shard: Shard) -> None:
        """Get what the transaction in a shard needs, before it begins."""

    def make(self, connection: Connection, shard: Shard, *, is_home: bool) -> Decision | None:
        """Make the change; None if the row is not in this shard and this is not its home."""


class RepeatableStart:
    """One start of a run."""

    def __init__(self, key: ControlKey, expires: Expires | None, data: object) -> None:
        self.key = key
        self._expires = expires
        self._data = data
        self._numbers: dict[Shard, int] = {}
        self._last: Decision | None = None

    def prepare(self, shard: Shard) -> None:
        if shard not in self._numbers:
            self._numbers[shard] = shard.numbers.take()[0]

    def make(self, connection: Connection, shard: Shard, *, is_home: bool) -> Decision | None:
        found = store.locked(connection, self.key)
        if found is None and not is_home:
            return None
        if found is None:
            found = store.created(connection, shard.database.dialect, self.key)
        if self._last is not None and self.made(found):
            return self._last
        now = shard.clock.now()
        until = None if self._expires is None else self._expires.moment(now)
        asked = Start(self._numbers[shard], now, this_process(), until, self._data)
        self._last = rule.start(found, asked)
        return store.write(connection, found, self._last)

    def made(self, found: Control) -> bool:
        """Whether this call has started the run: it was committed, and only the answer was lost."""
        after = None if self._last is None else self._last.after
        if after is None:
            return False
        return (found.batch, found.who, found.start_time) == (
            after.batch,
            after.who,
            after.start_time,
        )


class RepeatableChange:
    """One change of a run that was started."""

    def __init__(self, key: ControlKey, decide: Decide) -> None:
        self.key = key
        self._decide = decide
        self._last: Decision | None = None

    def prepare(self, shard: Shard) -> None:
        pass

    def make(self, connection: Connection, shard: Shard, *, is_home: bool) -> Decision | None:
        last = self._last
        if last and last.ended and store.has_ended(connection, self.key, last.ended.batch):
            # It was committed, only the answer was lost, and the run was started again since.
            return last
        found = store.locked(connection, self.key)
        if found is None and not is_home:
            return None
        if last and found is not None and found == last.after:
            return last
        self._last = self._decide(found, shard.clock)
        return store.write(connection, found, self._last)
