"""The gate before every claim: how many rows of a kind may be taken now.

A rate allows one row for each reserved moment. An open breaker allows one row, the probe, after its
pause.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from windlass import telemetry
from windlass.clock import SECOND, Clock
from windlass.core.alert.model import Trouble
from windlass.core.alert.store import note, raise_alert
from windlass.core.limit import store as limit_store
from windlass.core.run.in_flight import InFlight
from windlass.core.run.ready import Run
from windlass.database.connection import Connection
from windlass.database.database import Database, Numbers
from windlass.value.breaker import CLOSED, Breaker, BreakerState, BreakerTerms
from windlass.value.duration import format_duration
from windlass.value.outcome import Failed, Retried, Snoozed
from windlass.value.rate import AHEAD, HORIZON, Pace, Reserved, late_after

ASK_AGAIN_AFTER = SECOND // 20


class Rates:
    """How many tasks this worker may start, for each kind that has a rate.

    A rate is in real time, whatever clock the app uses. Start times are reserved on the database's
    clock, a quarter of a second at a time, and kept here on the monotonic clock, in microseconds.
    """

    def __init__(self, database: Database, *, share: float = 1.0) -> None:
        self._database = database
        # This database's part of each rate, if the app has several.
        self._share = share
        self._per_second: dict[str, float] = {}
        self._paces: dict[str, Pace] = {}
        self._ask_at: dict[str, int] = {}

    def set(self, kind: str, per_second: float | None) -> None:
        """Set the rate of the whole app; None removes it."""
        per_second = None if per_second is None else per_second * self._share
        if per_second == self._per_second.get(kind):
            return
        if per_second is None:
            self._per_second.pop(kind, None)
            return
        self._paces[kind] = Pace()
        self._ask_at[kind] = 0
        self._per_second[kind] = per_second

    def has(self, kind: str) -> bool:
        return kind in self._per_second

    def available(self, kind: str) -> int:
        """How many may start now. Reserves more before they run out."""
        return len(self.moments(kind))

    def moments(self, kind: str, *, ahead: int = 0, most: int | None = None) -> list[int]:
        """The next free moments, up to `ahead` microseconds from now. Reserves more in time."""
        pace, now = self._paces[kind], _monotonic()
        if pace.is_running_out(now) and now >= self._ask_at[kind]:
            reserved = self._reserve(kind)
            if reserved.grant is not None:
                pace.add(reserved.grant)
            else:
                self._ask_at[kind] = max(now + ASK_AGAIN_AFTER, reserved.next_at - HORIZON)
        return pace.moments(now, until=now + ahead, most=most)

    def late_after(self, kind: str) -> float:
        """How late a start may be, in microseconds."""
        return late_after(SECOND / self._per_second[kind])

    def spend(self, kind: str, count: int) -> None:
        if kind in self._per_second:
            self._paces[kind].spend(count)

    def seconds_until_one(self, kind: str, *, ahead: int = 0) -> float:
        """Seconds until a start may be planned, `ahead` microseconds before it."""
        next_at = self._paces[kind].next_at()
        at = self._ask_at[kind] + HORIZON if next_at is None else next_at
        return max(0.0, (at - ahead - _monotonic()) / SECOND)

    def _reserve(self, kind: str) -> Reserved:
        per_second, dialect = self._per_second.get(kind), self._database.dialect
        if per_second is None:
            return Reserved(None, _monotonic())

        def work(connection: Connection) -> limit_store.Measured:
            return limit_store.reserve_starts(connection, dialect, kind, per_second=per_second)

        measured = self._database.write(work, tries=2)
        return measured.reserved.shifted(measured.monotonic - measured.now)


def _monotonic() -> int:
    return time.monotonic_ns() // 1_000


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
        self, database: Database, clock: Clock, numbers: Numbers, *, worker: Callable[[], int]
    ) -> None:
        self._database = database
        self._clock = clock
        self._numbers = numbers
        self._worker = worker
        self._known: dict[str, Breaker] = {}

    def is_open(self, kind: str) -> bool:
        """Whether ordinary runs of the kind are held back."""
        return kind in self._known and self._known[kind].is_open

    def is_probe_due(self, kind: str) -> bool:
        """Whether a worker may probe now."""
        now = self._clock.now()
        return self._known.get(kind, CLOSED).take_probe(self._worker(), now) is not None

    def see(self, kind: str, found: Breaker) -> None:
        """Remember the breaker as its row says."""
        self._known[kind] = found

    def take_probe(self, kind: str) -> bool:
        """Reserve the probe for this worker; False if it is not time or another worker has it."""
        now, me = self._clock.now(), self._worker()
        if self._known[kind].take_probe(me, now) is None:
            return False
        before, after = self._change(kind, lambda found: found.take_probe(me, now) or found)
        is_mine = after.state is BreakerState.PROBING and before != after
        if is_mine:
            telemetry.emit("breaker.probing", kind=kind)
        return is_mine

    def give_back_probe(self, kind: str) -> None:
        """There was no row to probe with."""
        now, me = self._clock.now(), self._worker()
        self._change(kind, lambda found: found.give_back_probe(me, now))

    def note(
        self, connection: Connection, runs: Sequence[Run], accepted: set[int], *, now: int
    ) -> list[Move]:
        """Count the accepted outcomes of kinds with a breaker, in the current transaction."""
        moves = []
        for kind, ended in sorted(_by_kind(runs, accepted).items()):
            terms = ended[0].kind.breaker
            assert terms is not None
            move = self._note_kind(connection, kind, ended, terms, now)
            if move is not None:
                moves.append(move)
                self._alert(connection, move, terms, now)
        return moves

    def tell(self, moves: Sequence[Move]) -> None:
        """The transaction has committed: remember the moves and emit their events."""
        for move in moves:
            self._known[move.kind] = move.after
            if move.opened:
                telemetry.emit("breaker.opened", kind=move.kind, errors=move.after.errors_in_a_row)
            elif move.closed:
                telemetry.emit("breaker.closed", kind=move.kind)

    def count_call(self, kind: str, terms: BreakerTerms, *, ok: bool, is_probe: bool) -> None:
        """Count a call to the other system that is not a run; `ok` says whether it answered."""
        now, me = self._clock.now(), self._worker()
        if ok and not is_probe and not self._known.get(kind, CLOSED).errors_in_a_row:
            return

        def decide(found: Breaker) -> Breaker:
            if is_probe:
                return found.answer(terms, me, ok=ok, now=now)
            return found.count(terms, [ok], now)

        def work(connection: Connection) -> Move:
            dialect = self._database.dialect
            move = Move(kind, *limit_store.change_breaker(connection, dialect, kind, decide))
            self._alert(connection, move, terms, now)
            return move

        self.tell([self._database.write(work, tries=2)])

    def _note_kind(
        self, connection: Connection, kind: str, ended: list[Run], terms: BreakerTerms, now: int
    ) -> Move | None:
        outcomes = [_is_ok(run) for run in ended if not run.is_probe]
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
                    found = found.answer(terms, me, ok=_is_ok(probe), now=now)
            return found.count(terms, outcomes, now)

        before, after = limit_store.change_breaker(connection, self._database.dialect, kind, decide)
        return Move(kind, before, after)

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
        number = self._numbers.take(inside=connection)[0]
        if move.opened:
            raise_alert(connection, number, Trouble("breaker opened", move.kind, text), now=now)
        else:
            note(connection, number, Trouble("breaker closed", move.kind, text), now=now)

    def _change(self, kind: str, decide: Callable[[Breaker], Breaker]) -> tuple[Breaker, Breaker]:
        def work(connection: Connection) -> tuple[Breaker, Breaker]:
            return limit_store.change_breaker(connection, self._database.dialect, kind, decide)

        before, after = self._database.write(work, tries=2)
        self._known[kind] = after
        return before, after


def _by_kind(runs: Sequence[Run], accepted: set[int]) -> Mapping[str, list[Run]]:
    kinds: dict[str, list[Run]] = {}
    for run in runs:
        if run.kind.breaker is None or run.task.id not in accepted:
            continue
        if run.is_probe or not isinstance(run.outcome, Snoozed):
            kinds.setdefault(run.kind.name, []).append(run)
    return kinds


def _is_ok(run: Run) -> bool:
    return not isinstance(run.outcome, Failed | Retried) or run.outcome.is_answer


class Allowed(NamedTuple):
    """How many rows may be taken, and whether the row is the probe of a breaker.

    For a kind with a rate, `moments` has the start of each row.
    """

    most: int
    is_probe: bool = False
    moments: Sequence[int] = ()


@dataclass(eq=False)
class Gate:
    """A worker's gate: a claim asks it before it takes rows, and tells it how many it took."""

    in_flight: InFlight
    rates: Rates
    breakers: Breakers

    def is_free(self, kind: str) -> bool:
        """Whether nothing holds the kind back, and it has no rate."""
        is_open = self.in_flight.loads[kind].is_open and not self.breakers.is_open(kind)
        return is_open and not self.rates.has(kind)

    def is_held(self, kind: str) -> bool:
        """Whether a switch, a window or a breaker lets no row of the kind start now."""
        if not self.in_flight.loads[kind].is_open:
            return True
        return self.breakers.is_open(kind) and not self.breakers.is_probe_due(kind)

    def allow(self, kind: str, wanted: int) -> Allowed:
        """How many of the `wanted` rows may be taken now."""
        if not self.in_flight.loads[kind].is_open:
            return Allowed(0)
        if self.breakers.is_open(kind):
            # The rate does not matter: there were no calls for a while, and a probe is one.
            is_probe = self.breakers.take_probe(kind)
            return Allowed(int(is_probe), is_probe=is_probe)
        if self.rates.has(kind):
            moments = self.rates.moments(kind, ahead=self._ahead(kind), most=wanted)
            return Allowed(len(moments), moments=moments)
        return Allowed(wanted)

    def plan_again(self) -> None:
        """Give runs that lost their moments the next ones, before other rows get them."""
        for name, load in self.in_flight.loads.items():
            if not load.planned or not self.rates.has(name):
                continue
            lapsed = self.in_flight.lapsed(load)
            if lapsed:
                moments = self.rates.moments(name, ahead=self._ahead(name), most=lapsed)
                self.rates.spend(name, self.in_flight.plan_again(load, moments))

    def _ahead(self, kind: str) -> int:
        """How long before their moments rows are taken: not at all if they could be lost."""
        return 0 if self.in_flight.loads[kind].is_frail else AHEAD

    def took(self, kind: str, allowed: Allowed, count: int) -> None:
        """A claim took `count` rows, which may be none."""
        if count:
            self.rates.spend(kind, count)
        elif allowed.is_probe:
            self.breakers.give_back_probe(kind)

    def seconds_until(self, kinds: Collection[str]) -> float | None:
        """Seconds until one of `kinds` may start a row, if only its rate holds it back."""
        return min(
            (
                self.rates.seconds_until_one(kind, ahead=self._ahead(kind) // 2)
                for kind in kinds
                if self.rates.has(kind) and not self.breakers.is_open(kind)
            ),
            default=None,
        )
