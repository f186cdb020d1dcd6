"""Named runs, as an operator sees them and frees them."""

from __future__ import annotations

from windlass import telemetry
from windlass.clock import Clock
from windlass.engine.identity import whoami
from windlass.engine.register import change
from windlass.model import control as rule
from windlass.model.control import DONE, Place, Reply, RunView, view
from windlass.store import control as store
from windlass.store.database import Database


def listing(database: Database, clock: Clock) -> list[RunView]:
    """All runs, by name and partition."""
    found, now = database.read(store.listing), clock.now()
    return [view(run, now=now) for run in found]


def get(database: Database, clock: Clock, place: Place) -> RunView | None:
    """One run, or None if it was never started."""
    found = database.read(lambda connection: store.get(connection, place))
    return None if found is None else view(found, now=clock.now())


def history(database: Database, clock: Clock, place: Place, *, limit: int = 20) -> list[RunView]:
    """The tries of a run that ended, newest first."""
    found = database.read(lambda connection: store.history(connection, place, limit=limit))
    now = clock.now()
    return [view(run, now=now) for run in found]


def release(database: Database, clock: Clock, place: Place, *, who: str | None = None) -> Reply:
    """Free a run that is stuck; its holder is fenced off, and the try is recorded as failed."""
    name, now = (who or whoami())[:255], clock.now()

    reply = change(database, place, lambda found: rule.release(found, now=now, who=name)).reply
    if reply.code == DONE:
        telemetry.emit("control.released", **place._asdict(), who=name, held_by=reply.data["who"])
    return reply


def partitions_of(database: Database, name: str) -> list[str]:
    """The partitions of a name that were ever started."""
    found = database.read(lambda connection: store.listing(connection, name=name))
    return [run.partition for run in found]
