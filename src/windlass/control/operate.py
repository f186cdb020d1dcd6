"""Named runs, as an operator sees them, frees them and has them start over."""

from __future__ import annotations

from collections.abc import Collection

from windlass import telemetry
from windlass.clock import Clock
from windlass.control import store
from windlass.control.engine.register import Register
from windlass.control.model.control import DONE, Place, Reply, RunStatus, RunView, view
from windlass.core.shard.fleet import Fleet
from windlass.database.database import Database
from windlass.value.identity import whoami


def listing(
    database: Database,
    clock: Clock,
    *,
    name: str | None = None,
    statuses: Collection[RunStatus] = tuple(RunStatus),
    after: Place | None = None,
    limit: int | None = None,
) -> list[RunView]:
    """All runs, or those of a name, by name and partition; a page of them after one of them."""
    found = database.read(
        lambda connection: store.listing(
            connection, name=name, statuses=statuses, after=after, limit=limit
        )
    )
    now = clock.now()
    return [view(run, now=now) for run in found]


def get(database: Database, clock: Clock, place: Place) -> RunView | None:
    """One run; None if it was never started."""
    found = database.read(lambda connection: store.get(connection, place))
    return None if found is None else view(found, now=clock.now())


def history(database: Database, clock: Clock, place: Place, *, limit: int = 20) -> list[RunView]:
    """The tries of a run that ended, newest first."""
    found = database.read(lambda connection: store.history(connection, place, limit=limit))
    now = clock.now()
    return [view(run, now=now) for run in found]


def release(
    fleet: Fleet, place: Place, *, who: str | None = None, batch: int | None = None
) -> Reply:
    """Free a run that is stuck; its holder is fenced off, and the try is recorded as failed.

    With a batch, only that try: not one that somebody has started since.
    """
    name = (who or whoami())[:255]
    reply = Register(fleet).release(place, who=name, batch=batch)
    if reply.code == DONE:
        held_by = reply.data["who"]
        telemetry.emit("control.released", **place._asdict(), who=name, held_by=held_by)
    return reply


def reset(fleet: Fleet, place: Place, *, who: str | None = None, batch: int | None = None) -> Reply:
    """Have a run that failed start over: its steps and its data are forgotten, not its history.

    With a batch, only if that was its last try.
    """
    reply = Register(fleet).reset(place, batch=batch)
    if reply.code == DONE:
        telemetry.emit("control.reset", **place._asdict(), who=(who or whoami())[:255])
    return reply
