"""What the kernel does for queues."""

from __future__ import annotations

from collections.abc import Sequence

from windlass.core.face import Chore, Face, FaceLoop, Site, Workplace
from windlass.core.shard.fleet import Fleet
from windlass.core.shard.shard import Shard
from windlass.core.task.kind import Kind
from windlass.database.connection import Connection
from windlass.database.database import has_tables
from windlass.errors import DatabaseUnavailable
from windlass.queue.declare import is_outbox
from windlass.queue.engine.carrier import carrier_loops
from windlass.queue.engine.consumer import ConsumerLoop
from windlass.queue.engine.contact import Contact
from windlass.queue.engine.outbox import Outbox
from windlass.queue.model.consume import is_consumer, terms_of
from windlass.queue.store import inbox, outbox
from windlass.queue.store.inbox import TABLES

# The key by which a consumer finds its shard.
QUEUE_KEY = "windlass:queue"


def _home(fleet: Fleet, kind: Kind) -> Shard:
    """The shard that has the inbox of a consumer: one, so that a message counts once.

    It stays there when shards come and go, as long as there are messages that it remembers.
    """
    if fleet.single is not None:
        return fleet.single
    found = fleet.fan_out(lambda shard: _has_inbox(shard, kind))
    there = [shard for shard, is_there in found.found if is_there]
    if there:
        return min(there, key=lambda shard: shard.index)
    if found.missing:
        raise DatabaseUnavailable(
            f"the inbox of {kind.name!r} is in none of the shards that answer; "
            f"{', '.join(found.missing)} does not",
            missing=found.missing,
        )
    return fleet.home(kind.name, QUEUE_KEY)


def _has_inbox(shard: Shard, kind: Kind) -> bool:
    database = shard.database
    if not database.schema.has(TABLES):
        return False
    return database.read(lambda connection: inbox.has_some(connection, kind.name))


def _discover(site: Site) -> None:
    """The queues that are consumed have rows, for operators."""
    if not site.database.schema.has(TABLES):
        return
    for kind in site.registry.kinds.values():
        if is_consumer(kind) and site.is_home(kind):
            assert Contact(site, terms_of(kind).queue).id


def _loops(workplace: Workplace) -> Sequence[FaceLoop]:
    loops: list[FaceLoop] = []
    for kind in workplace.kinds.values():
        if is_outbox(kind):
            loops.append(Outbox(workplace, kind.face_terms.find))
        elif is_consumer(kind) and workplace.site.is_home(kind):
            loops.append(ConsumerLoop(kind, workplace))
    return [*loops, *carrier_loops(workplace)]


def _let_go(connection: Connection, worker: int) -> int:
    """A worker has left: others may receive for the lanes that it received for."""
    if has_tables(connection, TABLES):
        outbox.let_go(connection, worker)
    return 0


FACE = Face(
    name="queue",
    home=_home,
    discover=_discover,
    loops=_loops,
    hand_back=_let_go,
    abandon=_let_go,
    maintenance=(Chore(inbox.prune, is_often=True),),
)
