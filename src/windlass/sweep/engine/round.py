"""What is declared becomes rows of sweeps, and a round begins: the source is cut into ranges."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from windlass import telemetry
from windlass.clock import Clock
from windlass.core.alert.store import write_alert
from windlass.core.ring.store import worker
from windlass.core.task.kind import Kind
from windlass.database.connection import Connection
from windlass.database.database import Database
from windlass.database.number import Numbers
from windlass.source.contract import SweepSource, name_of
from windlass.source.key_text import encode_key
from windlass.sweep.model import RoundView, SweepRow, Tile, described, is_sweep, terms_of, tiles
from windlass.sweep.store import sweep as store


def everywhere(_kind: Kind) -> bool:
    """In an app with one database, every sweep is there."""
    return True


def discover(
    database: Database,
    kinds: Mapping[str, Kind],
    clock: Clock,
    *,
    is_here: Callable[[Kind], bool] = everywhere,
) -> None:
    """Make the rows of sweeps say what is declared; any number of workers may do it at once."""
    for kind in kinds.values():
        if is_sweep(kind) and is_here(kind):
            declare(database, kind, clock)
    for name in _undeclared(database, kinds):
        if database.write(partial(store.stop, name=name, now=clock.now())):
            telemetry.emit("sweep.stopped", sweep=name)


def declare(database: Database, kind: Kind, clock: Clock) -> None:
    """Make the row of one sweep say what is declared."""
    terms, source = terms_of(kind), terms_of(kind).source
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
    """Let a sweep read the source that is declared here, if that has other keys than before.

    A running round was cut by the old keys: it is given up, and the next one is due at once.
    """
    declared = terms_of(kind).source
    assert declared is not None
    now, source = clock.now(), described(declared, name_of(declared))

    def work(connection: Connection) -> RoundView | None:
        over = store.take_over(connection, kind.name, source=source, now=now)
        if over is not None:
            text = (
                f"round {over.round} of sweep {kind.name!r} was given up after {over.done} items, "
                f"because its source has changed to {name_of(declared)}; the next round is due"
            )
            number = numbers.take(inside=connection)[0]
            write_alert(connection, number, what="source", kind=kind.name, text=text, now=now)
        return over

    over = database.write(work)
    if over is not None:
        telemetry.emit("sweep.abandoned", sweep=kind.name, round=over.round, done=over.done)


def _undeclared(database: Database, kinds: Mapping[str, Kind]) -> list[str]:
    """Sweeps that neither this app nor any other live worker declares."""

    def work(connection: Connection) -> tuple[list[SweepRow], list[worker.WorkerView]]:
        return store.listing(connection), worker.listing(connection)

    rows, workers = database.read(work)
    elsewhere = {name for view in workers for name in view.declared}
    declared = {name for name, kind in kinds.items() if is_sweep(kind)}
    return [
        row.name
        for row in rows
        if row.stopped_at is None and row.name not in declared | (elsewhere - kinds.keys())
    ]


class RoundPlan:
    """The ranges of a new round: the source is checked, counted and cut."""

    def __init__(self, source: SweepSource, count: int) -> None:
        check: Any = getattr(source, "check_sweep", None) or getattr(source, "check", None)
        if check is not None:
            check()
        counted: Any = getattr(source, "count", None)
        found = counted() if counted is not None else None
        self.rows = None if found is None else max(0, int(found))
        bounds = source.bounds(count) if count > 1 else []
        texts = [encode_key(key, what=name_of(source)) for key in bounds]
        self.tiles: list[Tile] = tiles(texts[: count - 1], self.rows)


def open_round(
    database: Database,
    before: SweepRow,
    source: SweepSource,
    *,
    numbers: Numbers,
    clock: Clock,
    source_text: str,
    worker: int | None = None,
) -> int | None:
    """Begin the round after `before`; the number of the round that runs then.

    With a `worker` it acts on its behalf: None if that was marked left. `source_text` is written
    into the row as the description of the source.
    """
    plan = RoundPlan(source, before.ranges)
    ids = numbers.take(len(plan.tiles))

    def work(connection: Connection) -> int | None:
        return store.open_round(
            connection,
            before,
            plan.tiles,
            numbers=ids,
            rows=plan.rows,
            now=clock.now(),
            source=source_text,
        )

    write = database.write if worker is None else partial(database.write_as, worker, lost=None)
    number = write(work)
    if number == before.round + 1:
        telemetry.emit(
            "sweep.started", sweep=before.name, round=number, ranges=len(plan.tiles), rows=plan.rows
        )
    return number
