"""Rounds: sweeps are found by starting workers, and a round that is due is cut into ranges."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from sqlalchemy import Connection

from windlass import telemetry
from windlass.clock import Clock
from windlass.core.alert.store import write_alert
from windlass.core.ring.store import worker
from windlass.core.task.kind import Kind
from windlass.database.database import Database, first_line
from windlass.database.number import Numbers
from windlass.source.contract import SweepSource
from windlass.sweep.engine.reader import name_of
from windlass.sweep.model import Range, Round, Tile, described, tiles
from windlass.sweep.store import sweep as store
from windlass.sweep.store.sweep import SweepRow
from windlass.value.key import encode_key


def everywhere(_kind: Kind) -> bool:
    """In an app with one database every sweep belongs there."""
    return True


def discover(
    database: Database,
    kinds: Mapping[str, Kind],
    clock: Clock,
    *,
    is_here: Callable[[Kind], bool] = everywhere,
) -> None:
    """Make the rows of sweeps agree with what is declared; safe with any number of workers."""
    for kind in kinds.values():
        if kind.sweep is not None and is_here(kind):
            declare(database, kind, clock)
    for name in _undeclared(database, kinds):
        if database.write(partial(store.stop, name=name, now=clock.now())):
            telemetry.emit("sweep.stopped", sweep=name)


def declare(database: Database, kind: Kind, clock: Clock) -> None:
    """Have the row of one sweep say what is declared."""
    terms, source = kind.sweep, kind.source
    assert terms is not None
    assert source is not None
    now = clock.now()

    def work(connection: Connection) -> bool:
        return store.declare(
            connection,
            database.dialect,
            kind.name,
            ranges=terms.ranges,
            redo=terms.redo,
            source=described(source, name_of(source)),
            now=now,
        )

    if database.write(work):
        telemetry.emit("sweep.declared", sweep=kind.name, source=name_of(source))


def take_over(database: Database, numbers: Numbers, clock: Clock, kind: Kind) -> None:
    """Have a sweep walk the source that is declared here, if the keys of its rows are others.

    The round that runs was cut by the old keys: it is given up, and the next one is due at once.
    """
    declared = kind.source
    assert declared is not None
    now, source = clock.now(), described(declared, name_of(declared))

    def work(connection: Connection) -> Round | None:
        over = store.take_over(connection, kind.name, source=source, now=now)
        if over is not None:
            text = (
                f"round {over.round} of sweep {kind.name!r} was given up after {over.done} items, "
                f"as its source is another one now: {name_of(declared)}; the next round is due"
            )
            number = numbers.take(inside=connection)[0]
            write_alert(connection, number, what="source", kind=kind.name, text=text, now=now)
        return over

    over = database.write(work)
    if over is not None:
        telemetry.emit("sweep.abandoned", sweep=kind.name, round=over.round, done=over.done)


def _undeclared(database: Database, kinds: Mapping[str, Kind]) -> list[str]:
    """Sweeps that are not declared here, nor by any other living worker."""

    def look(connection: Connection) -> tuple[list[SweepRow], list[worker.WorkerView]]:
        return store.listing(connection), worker.listing(connection)

    rows, workers = database.read(look)
    elsewhere = {name for view in workers for name in view.declared}
    declared = {name for name, kind in kinds.items() if kind.sweep is not None}
    return [
        row.name
        for row in rows
        if row.stopped_at is None and row.name not in declared | (elsewhere - kinds.keys())
    ]


class Cut:
    """The source of a sweep, checked and cut into the ranges of a round."""

    def __init__(self, source: SweepSource, count: int) -> None:
        check: Any = getattr(source, "check_sweep", None) or getattr(source, "check", None)
        if check is not None:
            check()
        counted: Any = getattr(source, "count", None)
        found = counted() if counted is not None else None
        # None is not known, which is not the same as none.
        self.rows = None if found is None else max(0, int(found))
        bounds = source.bounds(count) if count > 1 else []
        texts = [encode_key(key, what=name_of(source)) for key in bounds]
        self.tiles: list[Tile] = tiles(texts[: count - 1], self.rows)


def open_round(
    database: Database,
    numbers: Numbers,
    clock: Clock,
    before: SweepRow,
    source: SweepSource,
    *,
    source_text: str | None = None,
    worker: int | None = None,
) -> int | None:
    """Begin the round after `before`; the number of the round that runs then.

    With a `worker`, it acts for that one: None if it was marked left. `source_text` is what the row
    says of the source from then on.
    """
    cut = Cut(source, before.ranges)
    ids = numbers.take(len(cut.tiles))

    def work(connection: Connection) -> int | None:
        if worker is not None and not database.dialect.alive(connection, worker):
            return None
        return store.open_round(
            connection,
            before,
            cut.tiles,
            ids,
            rows=cut.rows,
            now=clock.now(),
            source=source_text,
        )

    number = database.write(work)
    if number == before.round + 1:
        telemetry.emit(
            "sweep.started", sweep=before.name, round=number, ranges=len(cut.tiles), rows=cut.rows
        )
    return number


def note_trouble(
    database: Database, numbers: Numbers, clock: Clock, name: str, problem: BaseException
) -> None:
    """Say in the row of a sweep what keeps it from going on, and tell people once."""
    text = first_line(problem)

    def work(connection: Connection) -> bool:
        if not store.note_error(connection, name, text):
            return False
        number = numbers.take(inside=connection)[0]
        words = f"sweep {name!r} cannot read its source: {text}"
        write_alert(connection, number, what="source", kind=name, text=words, now=clock.now())
        return True

    if database.write(work):
        telemetry.emit("sweep.failed", sweep=name, error=text)


def alert_of_failures(
    connection: Connection, numbers: Numbers, name: str, over: Round, *, now: int
) -> None:
    """Tell people that a round set items aside, in the transaction that ends it."""
    if over.failed:
        text = (
            f"round {over.round} of sweep {name!r} ended with {over.failed} items set aside, "
            f"{over.done} were done; see: windlass sweep failures {name}"
        )
        number = numbers.take(inside=connection)[0]
        write_alert(connection, number, what="failures", kind=name, text=text, now=now)


def tell_straggler(database: Database, numbers: Numbers, clock: Clock, found: Range) -> None:
    """Tell people that a range will end long after the others."""
    text = (
        f"range {found.id} of sweep {found.sweep!r} will end long after the others; idle workers "
        f"take half of it; see: windlass sweep show {found.sweep}"
    )

    def work(connection: Connection) -> None:
        number = numbers.take(inside=connection)[0]
        now = clock.now()
        write_alert(connection, number, what="straggler", kind=found.sweep, text=text, now=now)

    database.write(work)
    telemetry.emit("range.straggles", sweep=found.sweep, range=found.id)
