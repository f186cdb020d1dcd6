"""What the kernel does for control runs: it moves them to the shard where they belong.

They need no journal: nobody deletes them, and until one has left nobody looks at its copy.
"""

from __future__ import annotations

from windlass.control import store
from windlass.control.engine.register import routing_key
from windlass.control.model.argument import ControlKey
from windlass.control.model.control import RunStatus
from windlass.core.face import Face, Moved
from windlass.core.shard.fleet import Fleet, Rerouted
from windlass.core.shard.shard import Shard
from windlass.database.connection import Connection
from windlass.value.shard import CONTROL


def move(fleet: Fleet, source: Shard) -> Moved:
    """Move the control runs of a shard that belong elsewhere and are not running."""
    moved = busy = 0
    for place, status in source.database.read(store.places):
        target = fleet.home(CONTROL, routing_key(place))
        if target is source:
            continue
        if status is RunStatus.RUNNING or not _move(fleet, source, target, place):
            busy += 1
        else:
            moved += 1
    return Moved(moved, busy)


def _move(fleet: Fleet, source: Shard, target: Shard, place: ControlKey) -> bool:
    roster = fleet.roster
    check = fleet.guard(target, roster.number)
    if roster.home(CONTROL, routing_key(place)) != target.ring:
        return False
    copied = source.database.read(lambda connection: store.copy(connection, place))
    if copied is None:
        return False
    row, history = copied

    def put(connection: Connection) -> bool:
        check(connection)
        return store.put_copy(connection, row, history)

    try:
        if not target.database.write(put):
            return False
    except Rerouted:
        return False
    return source.database.write(lambda connection: store.release(connection, row))


FACE = Face(name="control", move=move)
