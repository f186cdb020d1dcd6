"""The gate before every claim: how many rows of a kind may be taken now.

A kind is allowed what all its limits allow: its own, and those of its downstreams. A rate allows
one row for each reserved moment. A limit of the fleet allows one row for each permit that the
worker holds. An open breaker allows one row, the probe, after its pause.

A downstream has its rate, its permits and its breaker in one shard, its home. So they are exact,
however many shards there are.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import NamedTuple

from windlass import telemetry
from windlass.clock import SECOND, Clock
from windlass.core.alert.model import Trouble
from windlass.core.alert.store import note, raise_alert
from windlass.core.face import Faces
from windlass.core.limit import store as limit_store
from windlass.core.limit.permit.guest import Place
from windlass.core.limit.rate import Reservations
from windlass.core.run.in_flight import InFlight
from windlass.core.run.permit import Pool
from windlass.core.run.ready import KindLoad, Run
from windlass.core.run.trip import Trip, is_ok
from windlass.database.connection import Connection
from windlass.database.database import DATABASE_ERRORS, Database, Numbers
from windlass.errors import DatabaseUnavailable
from windlass.value.breaker import CLOSED, Breaker, BreakerState, BreakerTerms
from windlass.value.duration import format_duration
from windlass.value.outcome import Snoozed
from windlass.value.rate import HORIZON, LATE, Pace, late_after

ASK_AGAIN_AFTER = SECOND // 20
# How soon to look again for rows of a kind that lacks permits.
PERMIT_SECONDS = 0.1
# A trip whose outcomes are written by then was not about them.
TRIP_SECONDS = 2.0


NO_FACES = Faces({})
NOWHERE: Mapping[str, Place] = MappingProxyType({})


class Moments(NamedTuple):
    """Moments that were taken, and what they were taken from."""

    pace: Pace
    at: list[int]


class Rates:
    """How many tasks this worker may start, for each kind that has a rate.

    A rate is in real time, whatever clock the app uses. Start times are reserved on the database's
    clock, up to a second at a time, and kept here on the monotonic clock, in microseconds.
    """

    def __init__(
        self,
        database: Database,
        *,
        share: float = 1.0,
        homes: Mapping[str, Place] = NOWHERE,
        whole: Collection[str] = (),
        most: int | None = None,
    ) -> None:
        self._database = database
        # How many starts it reserves at once at most.
        self._most = most
        # This database's part of each rate, if the app has several. The rate of a downstream is
        # whole: it is kept in one database.
        self._share = share
        self._homes = homes
        self._whole = whole
        self._per_second: dict[str, float] = {}
        self._paces: dict[str, Pace] = {}
        self._ask_at: dict[str, int] = {}
        # Made for the first rate.
        self._reservations: Reservations | None = None
        # Rows and items of sweeps are started by different threads.
        self._lock = threading.Lock()

    def set(self, kind: str, per_second: float | None) -> bool:
        """Set the rate of the whole app; None removes it. Returns whether there was another one.

        Moments that were taken from the rate before do not count any more: the runs that have not
        started need others, which are reserved already.
        """
        share = 1.0 if kind in self._whole else self._share
        per_second = None if per_second is None else per_second * share
        before = self._per_second.get(kind)
        if per_second == before:
            return False
        if per_second is None:
            self._per_second.pop(kind, None)
            return True
        with self._lock:
            if self._reservations is None:
                self._reservations = Reservations(self._database, self._homes, most=self._most)
            old = self._paces.get(kind, Pace())
            self._paces[kind] = old.at(per_second, _monotonic())
            self._ask_at[kind] = 0
            self._per_second[kind] = per_second
        return before is not None

    def has(self, kind: str) -> bool:
        return kind in self._per_second

    def take(self, kind: str, *, ahead: int, most: int) -> Moments:
        """Take the next moments, up to `ahead` microseconds from now. Reserves more in time."""
        pace, now = self._reserved(kind, most)
        with self._lock:
            return Moments(pace, pace.take(now, until=now + ahead, most=most))

    def take_reserved(self, kind: str, most: int) -> list[int]:
        """Take moments that are reserved already; without a rate, now."""
        pace, now = self._paces[kind], _monotonic()
        if not self.has(kind):
            return [now] * most
        with self._lock:
            return pace.take(now, until=now + HORIZON, most=most)

    def give_back(self, taken: Moments, *, used: int) -> None:
        """Only the first `used` of the moments are used."""
        with self._lock:
            taken.pace.give_back(taken.at[used:])

    def _reserved(self, kind: str, wanted: int) -> tuple[Pace, int]:
        """What is reserved for a kind, and more if it wants more; and the time."""
        pace, now = self._paces[kind], _monotonic()
        if now < self._ask_at[kind] or pace.has(wanted):
            return pace, now
        per_second = self._per_second.get(kind)
        if per_second is None or self._reservations is None:
            # Its rate was just removed.
            return pace, now
        reserved = self._reservations.reserve(kind, per_second=per_second, length=pace.length)
        with self._lock:
            # The rate may have changed meanwhile.
            pace, now = self._paces[kind], _monotonic()
            if reserved.grant is None:
                self._ask_at[kind] = max(now + ASK_AGAIN_AFTER, reserved.next_at - HORIZON)
                return pace, now
            pace.add(reserved.grant)
            self._ask_at[kind] = pace.ask_at(random.random())
            if per_second != self._per_second.get(kind, per_second):
                self._paces[kind] = pace = pace.at(self._per_second[kind], now)
        return pace, now

    def late_after(self, kind: str) -> float:
        """How late a start may be, in microseconds."""
        return late_after(SECOND / self._per_second[kind])

    def spend(self, kind: str, count: int) -> None:
        if kind in self._per_second:
            with self._lock:
                self._paces[kind].spend(count)

    def seconds_until_one(self, kind: str, *, ahead: int) -> float:
        """Seconds until a start may be planned, up to `ahead` microseconds before it."""
        next_at = self._paces[kind].next_at()
        at = self._ask_at[kind] if next_at is None else next_at - ahead
        return max(0.0, (at - _monotonic()) / SECOND)


class Move(NamedTuple):
    """A breaker before and after outcomes were written."""

    kind: str
    before: Breaker
    after: Breaker

    @property
    def opened(self) -> bool:
        return self.after.is_open and not self.before.is_open

    @property
    def closed(self) -> bool:
        return self.before.is_open and not self.after.is_open


class Breakers:
    """The breakers of a worker's kinds, as it last saw them.

    They count errors in a row, in the transaction that writes the outcomes. The row in the switch
    table is the truth; a worker's copy may be a moment old. A worker that does not know yet that a
    breaker opened goes on for that moment, and its outcomes change nothing.
    """

    def __init__(
        self,
        database: Database,
        clock: Clock,
        numbers: Numbers,
        *,
        worker: Callable[[], int],
        homes: Mapping[str, Place] = NOWHERE,
    ) -> None:
        self._here = Place(database, clock, numbers, NO_FACES)
        self._worker = worker
        # The breakers that are kept in other databases.
        self._homes = homes
        self._known: dict[str, Breaker] = {}
        # Called when one of them has opened.
        self.on_opened: Callable[[], None] = lambda: None

    def is_open(self, kind: str) -> bool:
        """Whether ordinary runs of the kind are held back."""
        return kind in self._known and self._known[kind].is_open

    def is_probe_due(self, kind: str) -> bool:
        """Whether a worker may probe now."""
        now = self._place(kind).clock.now()
        return self._known.get(kind, CLOSED).take_probe(self._worker(), now) is not None

    def see(self, kind: str, found: Breaker) -> None:
        """Remember the breaker as its row says."""
        self._known[kind] = found

    def take_probe(self, kind: str) -> bool:
        """Reserve the probe for this worker; False if it is not time or another worker has it."""
        now, me = self._place(kind).clock.now(), self._worker()
        if self._known[kind].take_probe(me, now) is None:
            return False
        before, after = self._change(kind, lambda found: found.take_probe(me, now) or found)
        is_mine = after.state is BreakerState.PROBING and before != after
        if is_mine:
            telemetry.emit("breaker.probing", kind=kind)
        return is_mine

    def give_back_probe(self, kind: str) -> None:
        """There was no row to probe with."""
        now, me = self._place(kind).clock.now(), self._worker()
        self._change(kind, lambda found: found.give_back_probe(me, now))

    def note(
        self, connection: Connection, runs: Sequence[Run], accepted: set[int], *, now: int
    ) -> list[Move]:
        """Count the accepted outcomes of breakers that are kept here, in this transaction."""
        moves = []
        for name, (terms, ended) in sorted(_by_breaker(runs, accepted).items()):
            if name in self._homes:
                continue
            move = self._note_one(connection, name, ended, terms, now=now)
            if move is not None:
                moves.append(move)
        return moves

    def note_elsewhere(self, runs: Sequence[Run], accepted: set[int]) -> list[Move]:
        """Count the accepted outcomes of breakers that are kept in other databases."""
        moves = []
        for name, (terms, ended) in sorted(_by_breaker(runs, accepted).items()):
            home = self._homes.get(name)
            is_plain = all(is_ok(run.outcome) and not run.is_probe for run in ended)
            if home is None or (is_plain and not self._known.get(name, CLOSED).errors_in_a_row):
                continue
            note = partial(self._note_one, kind=name, ended=ended, terms=terms)
            # Without its home no run of it starts, so what is not counted does no harm.
            with suppress(DatabaseUnavailable, *DATABASE_ERRORS, OSError):
                move = home.database.write(partial(note, now=home.clock.now()), tries=1)
                moves += [] if move is None else [move]
        return moves

    def tell(self, moves: Sequence[Move]) -> None:
        """The transaction has committed: remember the moves and emit their events."""
        for move in moves:
            self._known[move.kind] = move.after
            if move.opened:
                telemetry.emit("breaker.opened", kind=move.kind, errors=move.after.errors_in_a_row)
                self.on_opened()
            elif move.closed:
                telemetry.emit("breaker.closed", kind=move.kind)

    def count_call(self, kind: str, terms: BreakerTerms, *, ok: bool, is_probe: bool) -> None:
        """Count a call to the other system that is not a run; `ok` says whether it answered."""
        now, me = self._place(kind).clock.now(), self._worker()
        if ok and not is_probe and not self._known.get(kind, CLOSED).errors_in_a_row:
            return

        def decide(found: Breaker) -> Breaker:
            if is_probe:
                return found.answer(terms, me, ok=ok, now=now)
            return found.count(terms, [ok], now)

        def work(connection: Connection) -> Move:
            dialect = self._place(kind).database.dialect
            move = Move(kind, *limit_store.change_breaker(connection, dialect, kind, decide))
            self._alert(connection, move, terms, now)
            return move

        self.tell([self._place(kind).database.write(work, tries=2)])

    def _note_one(
        self, connection: Connection, kind: str, ended: list[Run], terms: BreakerTerms, *, now: int
    ) -> Move | None:
        outcomes = [is_ok(run.outcome) for run in ended if not run.is_probe]
        probe = next((run for run in ended if run.is_probe), None)
        if probe is None and all(outcomes):
            if outcomes:
                limit_store.forget_errors(connection, kind)
            return None

        def decide(found: Breaker) -> Breaker:
            if probe is not None:
                me = probe.task.worker
                if isinstance(probe.outcome, Snoozed):
                    found = found.give_back_probe(me, now)
                else:
                    found = found.answer(terms, me, ok=is_ok(probe.outcome), now=now)
            return found.count(terms, outcomes, now)

        dialect = self._place(kind).database.dialect
        before, after = limit_store.change_breaker(connection, dialect, kind, decide)
        move = Move(kind, before, after)
        self._alert(connection, move, terms, now)
        return move

    def _alert(self, connection: Connection, move: Move, terms: BreakerTerms, now: int) -> None:
        if move.opened:
            text = (
                f"breaker of {move.kind!r} opened after {move.after.errors_in_a_row} errors in a "
                f"row; next probe in {format_duration(terms.pause)}"
            )
        elif move.closed:
            text = f"breaker of {move.kind!r} closed: a probe succeeded"
        else:
            return
        number = self._place(move.kind).numbers.take(inside=connection)[0]
        if move.opened:
            raise_alert(connection, number, Trouble("breaker opened", move.kind, text), now=now)
        else:
            note(connection, number, Trouble("breaker closed", move.kind, text), now=now)

    def _change(self, kind: str, decide: Callable[[Breaker], Breaker]) -> tuple[Breaker, Breaker]:
        def work(connection: Connection) -> tuple[Breaker, Breaker]:
            return limit_store.change_breaker(connection, database.dialect, kind, decide)

        database = self._place(kind).database
        before, after = database.write(work, tries=2)
        self._known[kind] = after
        return before, after

    def _place(self, name: str) -> Place:
        return self._homes.get(name, self._here)


def _by_breaker(
    runs: Sequence[Run], accepted: set[int]
) -> Mapping[str, tuple[BreakerTerms, list[Run]]]:
    """The runs that count for each breaker: that of their kind, and those of its downstreams."""
    found: dict[str, tuple[BreakerTerms, list[Run]]] = {}
    for run in runs:
        if not run.load.breakers or run.task.id not in accepted:
            continue
        if run.is_probe or not isinstance(run.outcome, Snoozed):
            for name, terms in run.load.breakers:
                found.setdefault(name, (terms, []))[1].append(run)
    return found


class Allowed(NamedTuple):
    """How many rows may be taken, and whether the row is the probe of a breaker.

    For a kind with a rate, `moments` has the start of each row.
    """

    most: int
    is_probe: bool = False
    moments: Sequence[int] = ()
    taken: Sequence[Moments] = ()


@dataclass(eq=False)
class Gate:
    """A worker's gate: a claim asks it before it takes rows, and tells it how many it took."""

    in_flight: InFlight
    rates: Rates
    breakers: Breakers
    # The permits of downstreams, and of kinds with a limit for the whole fleet, by name.
    pools: dict[str, Pool] = field(default_factory=dict)
    trips: dict[str, Trip] = field(default_factory=dict)
    # Whether rows are taken ahead of their moments. A caller takes one, when it can start.
    plans: bool = True

    def set_rate(self, name: str, per_second: float | None) -> bool:
        """Set a rate; returns whether it has changed while it was in use.

        Planned runs get moments of the new rate. Rows without one are read again later.
        """
        return self.in_flight.undisturbed(lambda: self._set_rate(name, per_second))

    def _set_rate(self, name: str, per_second: float | None) -> bool:
        if not self.rates.set(name, per_second):
            return False
        self.in_flight.plan_version += 1
        for load in self.in_flight.loads.values():
            if name in load.names and load.planned:
                moments = self.rates.take_reserved(name, load.planned - load.lapsed)
                self.in_flight.move_planned(load, moments, apart=len(self._rated(load)) > 1)
        return True

    def is_free(self, kind: str) -> bool:
        """Whether nothing holds the kind back, and it has neither a rate nor permits."""
        load = self.in_flight.loads[kind]
        if not load.is_open or any(pool.limit is not None for pool in load.pools):
            return False
        return not any(self.breakers.is_open(name) or self.rates.has(name) for name in load.names)

    def is_held(self, kind: str) -> bool:
        """Whether a switch, a window or a breaker lets no row of the kind start now."""
        if not self.in_flight.loads[kind].is_open:
            return True
        return not all(self.breakers.is_probe_due(name) for name in self._broken(kind))

    def allow(self, kind: str, wanted: int) -> Allowed:
        """How many of the `wanted` rows may be taken now."""
        load = self.in_flight.loads[kind]
        if not load.is_open:
            return Allowed(0)
        broken = self._broken(kind)
        if broken and not all(self.breakers.is_probe_due(name) for name in broken):
            return Allowed(0)
        # Permits first: a rate's moments pass, so ask for them only if a row could start.
        most = 1 if broken else wanted
        for pool in load.pools:
            ahead = load.calls_of(load.ahead(pool.held))
            calls = pool.available(load.calls_of(most), ahead=ahead)
            most = min(most, load.rows_of(calls))
        if most and broken:
            # The rate does not matter: there were no calls for a while, and a probe is one.
            is_probe = self._take_probes(broken)
            return Allowed(int(is_probe), is_probe=is_probe)
        if most and load.is_rated:
            if load.planned and self._seconds_until_rate(load):
                # Not yet: a read should serve several moments.
                return Allowed(0)
            taken = self._take_moments(load, most)
            moments = _together(taken, most)
            return Allowed(len(moments), moments=moments, taken=taken)
        return Allowed(most)

    def is_tripped(self, kind: str) -> bool:
        """Whether nothing starts until it is written whether a breaker opens."""
        trips = self.in_flight.loads[kind].trips
        return any(trip.is_tripped and not self.breakers.is_open(trip.name) for trip in trips)

    def plan_again(self) -> bool:
        """Give runs that have no moment the next ones; returns whether some still need one."""
        plan = self.in_flight.queues.plan
        if plan is None:
            return False
        lapsed = [load for load in self.in_flight.loads.values() if load.lapsed]
        for load in lapsed:
            able = self.in_flight.undisturbed(partial(plan.usable, load))
            if able:
                taken = self._take_moments(load, able)
                moments = _together(taken, able)
                given = self.in_flight.undisturbed(partial(plan.plan_again, load, moments))
                self._give_back(taken, used=given)
        return bool(lapsed)

    def late_after(self, load: KindLoad) -> float:
        """How late a run may start, in microseconds: one that is later needs another moment."""
        return min((self.rates.late_after(name) for name in self._rated(load)), default=LATE)

    def _take_moments(self, load: KindLoad, most: int) -> list[Moments]:
        """Moments of all rates of a kind for its next runs, up to `most`; equally many of each."""
        ahead = self._ahead(load)
        found: list[Moments] = []
        for name in self._rated(load):
            found.append(self.rates.take(name, ahead=ahead, most=most))
            most = len(found[-1].at)
        self._give_back(found, used=most)
        return [Moments(each.pace, each.at[:most]) for each in found]

    def _give_back(self, taken: Sequence[Moments], *, used: int) -> None:
        for each in taken:
            self.rates.give_back(each, used=used)

    def _seconds_until_rate(self, load: KindLoad) -> float:
        """Seconds until it is worth to plan more starts."""
        ahead = self._ahead(load)
        waits = (self.rates.seconds_until_one(name, ahead=ahead) for name in self._rated(load))
        return max(waits, default=0.0)

    def _rated(self, load: KindLoad) -> list[str]:
        return [name for name in load.names if self.rates.has(name)]

    def _ahead(self, load: KindLoad) -> int:
        """How long before their moments rows are taken: not at all if they could be lost."""
        return HORIZON if self.plans and not load.is_frail else 0

    def took(self, kind: str, allowed: Allowed, count: int) -> None:
        """A claim took `count` rows, which may be none."""
        load = self.in_flight.loads[kind]
        self._give_back(allowed.taken, used=count)
        if count:
            # The probe of a breaker has no moment: later ones pay for it.
            for name in load.names if allowed.is_probe else ():
                self.rates.spend(name, count)
            return
        for pool in load.pools:
            pool.found_nothing()
        if allowed.is_probe:
            for name in self._broken(kind):
                self.breakers.give_back_probe(name)

    def seconds_until(self, kinds: Collection[str]) -> float | None:
        """Seconds until one of `kinds` may start a row, if only rates or permits hold it back.

        Kinds with planned runs count as well: one may lack room just when it was asked.
        """
        loads = self.in_flight.loads.items()
        planned = {name for name, load in loads if load.planned > load.lapsed}
        asked = (kind for kind in {*kinds, *planned} if not self._broken(kind))
        waits = map(self._seconds_until_one, asked)
        return min((wait for wait in waits if wait is not None), default=None)

    def _seconds_until_one(self, kind: str) -> float | None:
        load = self.in_flight.loads[kind]
        waits = [self._seconds_until_rate(load)] if self._rated(load) else []
        if any(pool.limit is not None for pool in load.pools):
            waits.append(PERMIT_SECONDS)
        return max(waits, default=None)

    def see(self, name: str, found: Breaker) -> None:
        """Remember a breaker as its row says."""
        was_open = self.breakers.is_open(name)
        self.breakers.see(name, found)
        trip = self.trips.get(name)
        if was_open and not found.is_open and trip is not None:
            self.in_flight.undisturbed(trip.reset)

    def settle_trips(self, *, written_since: float | None = None) -> None:
        """Let runs start again that stopped for a breaker which is closed.

        A trip counts until the outcomes are written that caused it: `written_since` is when the
        write began. Without it, trips count that nothing remains to be written for.
        """
        if not any(trip.is_tripped for trip in self.trips.values()):
            return
        self.in_flight.undisturbed(lambda: self._settle_trips(written_since))
        self.in_flight.made_room()

    def _settle_trips(self, written_since: float | None) -> None:
        before = 0.0 if written_since is None else written_since
        if written_since is None and not len(self.in_flight.ended):
            before = time.monotonic() - TRIP_SECONDS
        for name, trip in self.trips.items():
            is_written = trip.tripped_at is not None and trip.tripped_at < before
            if is_written and not self.breakers.is_open(name):
                trip.reset()

    def _broken(self, kind: str) -> list[str]:
        """The breakers that hold the kind back."""
        return [name for name in self.in_flight.loads[kind].names if self.breakers.is_open(name)]

    def _take_probes(self, names: list[str]) -> bool:
        """Take the probe of each breaker, or of none."""
        for index, name in enumerate(names):
            if not self.breakers.take_probe(name):
                for taken in names[:index]:
                    self.breakers.give_back_probe(taken)
                return False
        return True


def _together(taken: Sequence[Moments], most: int) -> list[int]:
    """When runs start that need a moment of each."""
    if not taken:
        # The rate was taken away just now.
        return [0] * most
    return [max(moments) for moments in zip(*(each.at for each in taken), strict=True)]


def _monotonic() -> int:
    return time.monotonic_ns() // 1_000
