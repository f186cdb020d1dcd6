"""The register of control runs: each call is one transaction on the row of the run.

Who is the authority? The row, read under its lock. Every call carries the batch of the start that
it belongs to. After a takeover the row has another batch, and a call with the old one changes
nothing.

Which time is trusted? The database's, through the app's clock, read when the row is at hand. A run
that is past its expiry still belongs to its holder until another start takes it over: a slow clock
alone loses no work. If that clock has stepped forward since the run was started, the run is held
for that much longer, so that a step does not end it.

What does each failure do? The process dies: a lease is no longer renewed, and the run can be taken
over a minute later; without a lease the run is held until it expires or an operator releases it.
The answer to a call is lost: the transaction is repeated and finds its own work, in the row or, if
the run was started again since, in the history.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from operator import attrgetter
from typing import ParamSpec

from windlass import telemetry
from windlass.control import store
from windlass.control.model import control as rules
from windlass.control.model.argument import ControlKey, Expires
from windlass.control.model.control import Control, Decision, Noted, Reply, Rule, RunView, view
from windlass.core.clock import step
from windlass.core.clock import store as clock_store
from windlass.core.shard.fleet import Fleet, Route
from windlass.core.shard.shard import OUTAGES, Shard
from windlass.database.connection import Connection
from windlass.value.shard import CONTROL
from windlass.view.action import this_process

P = ParamSpec("P")


class Register:
    """What is done to the row of a run, each call a whole transaction.

    With several shards the row is at its home, or in the shard that was its home before.
    """

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet

    def start(
        self,
        key: ControlKey,
        *,
        expires: Expires | None,
        data: object,
        once: bool = False,
        who: str | None = None,
    ) -> Reply:
        start = RepeatableStart(key, expires, data, once, who or this_process())
        try:
            return _emitted(key, self._make(start))
        except BaseException as error:
            if start.last is not None and not isinstance(error, Exception):
                # An interrupt before the answer came: no code would know that it holds the run.
                self._take_back(start)
            raise

    def change(
        self, key: ControlKey, batch: int | None, rule: Rule[P], *args: P.args, **kwargs: P.kwargs
    ) -> Reply:
        """Make what a rule decides true; without a batch it is about the current try."""

        def decide(found: Control | None, now: int) -> Decision:
            return rule(found, batch, now, *args, **kwargs)

        return _emitted(key, self._make(RepeatableChange(key, decide)))

    def look_at_the_clock(self, key: ControlKey) -> None:
        """Notice a step of the clock that the run goes by, and record it for those who start it."""
        for shard in self._fleet.route(CONTROL, routing_key(key)).shards:
            shard.clock.fresh()
            step.record(shard.database, shard.clock, shard.numbers)

    def get(self, key: ControlKey) -> RunView | None:
        self._fleet.prepare()
        shards = self._fleet.route(CONTROL, routing_key(key)).shards
        found = (read(shard, key) for shard in shards)
        return next((run for run in found if run is not None), None)

    def _take_back(self, start: RepeatableStart) -> None:
        def decide(found: Control | None, now: int) -> Decision:
            if found is None or not start.made(found):
                return Decision(Reply(rules.DONE, "it was not started"))
            return rules.fail(found, found.batch, now, Noted(), error=rules.INTERRUPTED)

        with contextlib.suppress(Exception):
            self._make(RepeatableChange(start.key, decide))

    def _make(self, change: RepeatableChange | RepeatableStart) -> Decision:
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

    def _make_in(
        self, shard: Shard, change: RepeatableChange | RepeatableStart, route: Route
    ) -> Decision | None:
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


def read(shard: Shard, key: ControlKey) -> RunView | None:
    """The row of a run in a shard."""
    found = shard.database.read(lambda connection: store.get(connection, key))
    return None if found is None else view(found, now=shard.clock.now())


def _emitted(key: ControlKey, decision: Decision) -> Reply:
    if decision.event is not None:
        name, facts = decision.event
        telemetry.emit(name, **key._asdict(), **facts)
    return decision.reply


@dataclass(eq=False)
class RepeatableChange:
    """A change of a run that recognises its own work when its transaction is repeated."""

    key: ControlKey
    decide: Callable[[Control | None, int], Decision]
    last: Decision | None = field(init=False, default=None)

    def prepare(self, shard: Shard) -> None:
        """Get what the transaction in a shard needs, before it begins."""

    def make(self, connection: Connection, shard: Shard, *, is_home: bool) -> Decision | None:
        """Make the change; None if the row is not in this shard and this is not its home."""
        last = self.last
        if last and last.ended and store.has_ended(connection, self.key, last.ended.batch):
            # It was committed, only the answer was lost, and the run was started again since.
            return last
        found = store.locked(connection, self.key)
        if found is None and not is_home:
            return None
        if last and found is not None and found == last.after:
            return last
        self.last = self.decide(found, shard.clock.now())
        return store.write(connection, found, self.last)


@dataclass(eq=False)
class RepeatableStart:
    """One start of a run, as a change that may be repeated."""

    key: ControlKey
    expires: Expires | None
    data: object
    once: bool
    who: str
    numbers: dict[Shard, int] = field(init=False, default_factory=dict)
    last: Decision | None = field(init=False, default=None)

    def prepare(self, shard: Shard) -> None:
        if shard not in self.numbers:
            self.numbers[shard] = shard.numbers.take()[0]
        step.record(shard.database, shard.clock, shard.numbers)

    def make(self, connection: Connection, shard: Shard, *, is_home: bool) -> Decision | None:
        found = store.locked(connection, self.key)
        if found is None and not is_home:
            return None
        if found is None:
            found = store.created(connection, shard.database.dialect, self.key)
        if self.last is not None and self.made(found):
            return self.last
        now = shard.clock.now()
        until = None if self.expires is None else self.expires.moment(now)
        batch = self.numbers[shard]
        gained = 0
        if found.is_expired(now) and shard.database.schema.has(step.TABLES):
            gained = clock_store.gained(clock_store.steps(connection, since=found.start_time))
        self.last = rules.start(
            found,
            batch,
            now,
            who=self.who,
            expire_time=until,
            data=self.data,
            gained=gained,
            once=self.once,
        )
        return store.write(connection, found, self.last)

    def made(self, found: Control) -> bool:
        """Whether this call has started the run: it was committed, and only the answer was lost."""
        after = self.last and self.last.after
        identity = attrgetter("batch", "who", "start_time")
        return after is not None and bool(identity(found) == identity(after))
