"""What the kernel does for flows."""

from __future__ import annotations

from windlass.core.face import Along, Chore, Face, Tidying
from windlass.flow.engine.ending import ending
from windlass.flow.engine.resolve import resolve
from windlass.flow.store import along
from windlass.flow.store.flow import prune


def _prune(tidying: Tidying) -> int:
    connection, faces, now, limit = tidying
    return prune(connection, now=now, limit=limit, pruned=faces.pruned)


FACE = Face(
    name="flow",
    resolve=resolve,
    ending=ending,
    maintenance=(Chore(_prune, is_often=True),),
    along=Along(nodes=along.nodes, inside=along.inside, copy=along.slots, drop=along.drop),
)
