"""What the kernel does for rolling kinds."""

from __future__ import annotations

from windlass.core.face import Along, Chore, Face, Tidying
from windlass.rolling.operate.source import check_shard
from windlass.rolling.store import item

ADD_UP_AT_ONCE = 10_000


def _add_up(tidying: Tidying) -> int:
    is_more = item.add_up(tidying.connection, limit=ADD_UP_AT_ONCE)
    return tidying.limit if is_more else 0


FACE = Face(
    name="rolling",
    maintenance=(Chore(_add_up, is_often=True, is_prune=False),),
    along=Along(counted=item.counted, expendable=item.kinds_with_items),
    check_shard=check_shard,
)
