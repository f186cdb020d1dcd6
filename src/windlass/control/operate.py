"""What operators see of control runs, and how they release them or make them start over."""

from __future__ import annotations

from collections.abc import Collection

from windlass import telemetry
from windlass.control import store
from windlass.control.engine.register import Register
from windlass.control.model.argument import ControlKey
from windlass.control.model.control import DONE, Reply, RunStatus, RunView, view
from windlass.core.shard.fleet import Fleet
from windlass.core.shard.shard import Shard
from windlass.view.identity import whoami
from windlass.view.listing import Listing

MOST_TRIES = 20


def listing(
    fleet: Fleet,
    *,
    name: str | None = None,
    statuses: Collection[RunStatus] = tuple(RunStatus),
    after: ControlKey | None = None,
    limit: int | None = None,
) -> Listing[RunView]:
    """All runs, or those with a name, by name and partition; `limit` of them, after a key."""

    def ask(shard: Shard) -> list[RunView]:
        found = shard.database.read(
            lambda connection: store.listing(
                connection, name=name, statuses=statuses, after=after, limit=limit
            )
        )
        now = shard.clock.now()
        return [view(run, now=now) for run in found]

    found = fleet.fan_out(ask)
    # A run that is being moved is in two shards for a moment.
    once = {ControlKey(run.name, run.partition): run for part in found.values for run in part}
    keys = sorted(once)[:limit]
    cursor = keys[-1].cursor if keys and len(keys) == limit else None
    return Listing([once[key] for key in keys], found.missing, cursor=cursor)


def get(fleet: Fleet, key: ControlKey) -> RunView | None:
    """One run, from the shards that answer; None if it was never started."""

    def ask(shard: Shard) -> RunView | None:
        found = shard.database.read(lambda connection: store.get(connection, key))
        return None if found is None else view(found, now=shard.clock.now())

    return next((run for run in fleet.ask(ask).values if run is not None), None)


def history(fleet: Fleet, key: ControlKey, *, limit: int = MOST_TRIES) -> list[RunView]:
    """The tries of a run that ended, newest first."""

    def ask(shard: Shard) -> list[RunView]:
        found = shard.database.read(lambda connection: store.history(connection, key, limit=limit))
        now = shard.clock.now()
        return [view(run, now=now) for run in found]

    tries = [run for part in fleet.fan_out(ask).values for run in part]
    if fleet.single is None:
        tries.sort(key=lambda run: (run.end_time is not None, run.end_time), reverse=True)
    return tries[:limit]


def release(
    fleet: Fleet, key: ControlKey, *, who: str | None = None, batch: int | None = None
) -> Reply:
    """Free a run that is stuck; its holder is fenced off, and the try is recorded as failed.

    With a batch only that try is released, not a later one.
    """
    name = (who or whoami())[:255]
    reply = Register(fleet).release(key, who=name, batch=batch)
    if reply.code == DONE:
        held_by = reply.data["who"]
        telemetry.emit("control.released", **key._asdict(), who=name, held_by=held_by)
    return reply


def reset(
    fleet: Fleet, key: ControlKey, *, who: str | None = None, batch: int | None = None
) -> Reply:
    """Make a run that failed start over: its steps and data are forgotten, its history is kept.

    With a batch, only if that was its last try.
    """
    reply = Register(fleet).reset(key, batch=batch)
    if reply.code == DONE:
        telemetry.emit("control.reset", **key._asdict(), who=(who or whoami())[:255])
    return reply
