"""Breakers of kinds: count errors in a row, in the transaction that writes the outcomes.

The row in the switch table is the truth; a worker's copy may be a moment old. A worker that does
not know yet that a breaker opened goes on for that moment, and its outcomes change nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from windlass import telemetry
from windlass.clock import Clock
from windlass.core.alert.store import write_alert
from windlass.core.limit.store import switch
from windlass.core.run.ready import Run
from windlass.database.connection import Connection
from windlass.database.database import Database
from windlass.database.number import Numbers
from windlass.value.breaker import CLOSED, Breaker, BreakerState, BreakerTerms
from windlass.value.duration import format_duration
from windlass.value.outcome import Failed, Retried, Snoozed


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
    """The breakers of a worker's kinds, as it last saw them."""

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
            move = Move(kind, *switch.change_breaker(connection, dialect, kind, decide))
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
                switch.forget_errors(connection, kind)
            return None

        def decide(found: Breaker) -> Breaker:
            if probe is not None:
                me = probe.task.worker
                if isinstance(probe.outcome, Snoozed):
                    found = found.give_back_probe(me, now)
                else:
                    found = found.answer(terms, me, ok=_is_ok(probe), now=now)
            return found.count(terms, outcomes, now)

        before, after = switch.change_breaker(connection, self._database.dialect, kind, decide)
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
        write_alert(
            connection,
            self._numbers.take(inside=connection)[0],
            what="breaker opened" if move.opened else "breaker closed",
            kind=move.kind,
            text=text,
            now=now,
        )

    def _change(self, kind: str, decide: Callable[[Breaker], Breaker]) -> tuple[Breaker, Breaker]:
        def work(connection: Connection) -> tuple[Breaker, Breaker]:
            return switch.change_breaker(connection, self._database.dialect, kind, decide)

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
