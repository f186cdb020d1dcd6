"""Control runs for operators and for programs elsewhere: see them, take part, free them, reset."""

from __future__ import annotations

from collections.abc import Callable, Collection

from windlass.control import store
from windlass.control.engine.register import Register, read, routing_key
from windlass.control.engine.run import error_text
from windlass.control.model import control as rules
from windlass.control.model.argument import ControlKey, Expires, check_data, check_step_data
from windlass.control.model.control import (
    REFUSED,
    Control,
    Noted,
    Reply,
    RunStatus,
    RunView,
    view,
)
from windlass.control.model.step import StepName, check_step
from windlass.core.shard.fleet import Fleet
from windlass.core.shard.shard import Shard
from windlass.database.connection import Connection
from windlass.errors import BadStep
from windlass.view.action import whoami
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

    def work(connection: Connection) -> list[Control]:
        return store.listing(connection, name=name, statuses=statuses, after=after, limit=limit)

    found = fleet.fan_out(lambda shard: _views(shard, work))
    # A run that is being moved is in two shards for a moment.
    once = {ControlKey(run.name, run.partition): run for part in found.values for run in part}
    keys = sorted(once)[:limit]
    cursor = keys[-1].cursor if keys and len(keys) == limit else None
    return Listing([once[key] for key in keys], found.missing, cursor=cursor)


def get(fleet: Fleet, key: ControlKey) -> RunView | None:
    """One run, from the shards that answer; None if it was never started."""

    found = fleet.ask(lambda shard: read(shard, key))
    return next((run for run in found.values if run is not None), None)


def history(fleet: Fleet, key: ControlKey, *, limit: int = MOST_TRIES) -> list[RunView]:
    """The tries of a run that ended, newest first."""

    def work(connection: Connection) -> list[Control]:
        return store.history(connection, key, limit=limit)

    found = fleet.fan_out(lambda shard: _views(shard, work))
    tries = [run for part in found.values for run in part]
    if fleet.single is None:
        tries.sort(key=lambda run: (run.end_time is not None, run.end_time), reverse=True)
    return tries[:limit]


def home_key(key: ControlKey) -> str:
    """The text by which a run finds its home."""
    return routing_key(key)


def start(
    fleet: Fleet, key: ControlKey, *, expires: Expires | None, data: object, once: bool, who: str
) -> Reply:
    """Start a run for somebody who is not in this process; every later call names its batch."""
    given = check_data(data, key)
    return Register(fleet).start(key, expires=expires, data=given, once=once, who=who[:255])


def step(
    fleet: Fleet, key: ControlKey, asked: StepName, *, batch: int | None, data: object
) -> Reply:
    """Begin a step, or skip it if it is done; without a batch of the current try."""
    check_step(asked, what=f"control {key}")
    given = check_step_data(data, key, asked)
    try:
        return Register(fleet).change(key, batch, rules.step, asked, data=given)
    except BadStep as problem:
        return Reply(REFUSED, str(problem))


def note(fleet: Fleet, key: ControlKey, data: object, *, batch: int | None) -> Reply:
    """Keep `data` with a running run."""
    return Register(fleet).change(key, batch, rules.note, Noted(check_data(data, key)))


def finish(fleet: Fleet, key: ControlKey, *, batch: int | None, data: object) -> Reply:
    """End a run as succeeded."""
    return Register(fleet).change(key, batch, rules.finish, Noted(check_data(data, key)))


def fail(fleet: Fleet, key: ControlKey, error: str, *, batch: int | None, data: object) -> Reply:
    """End a run as failed; its steps are kept for the next try."""
    noted, why = Noted(check_data(data, key)), error_text(error)
    return Register(fleet).change(key, batch, rules.fail, noted, error=why)


def release(
    fleet: Fleet, key: ControlKey, *, who: str | None = None, batch: int | None = None
) -> Reply:
    """Free a run that is stuck; its holder is fenced off, and the try is recorded as failed.

    With a batch only that try is released, not a later one.
    """
    name = (who or whoami())[:255]
    return Register(fleet).change(key, batch, rules.release, who=name)


def reset(
    fleet: Fleet, key: ControlKey, *, who: str | None = None, batch: int | None = None
) -> Reply:
    """Make a run that failed start over: its steps and data are forgotten, its history is kept.

    With a batch, only if that was its last try.
    """
    name = (who or whoami())[:255]
    return Register(fleet).change(key, batch, rules.reset, who=name)


def _views(shard: Shard, work: Callable[[Connection], list[Control]]) -> list[RunView]:
    found, now = shard.database.read(work), shard.clock.now()
    return [view(run, now=now) for run in found]
