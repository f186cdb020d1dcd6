"""What the kernel does for rolling kinds."""

from __future__ import annotations

from windlass.core.face import Along, Chore, Face, Tidying
from windlass.database.database import Database
from windlass.errors import BadDatabase
from windlass.rolling.store import item, trigger

ADD_UP_AT_ONCE = 10_000


def _add_up(tidying: Tidying) -> int:
    is_more = item.add_up(tidying.connection, limit=ADD_UP_AT_ONCE)
    return tidying.limit if is_more else 0


def _check_shard(database: Database) -> None:
    """A trigger would write items into its own database, whichever shard they belong to."""
    if trigger.follows_any(database):
        raise BadDatabase(
            f"{database.name} follows tables by triggers, which cannot write into other shards; "
            "first call unfollow for each rolling kind with this database alone, and mirror from "
            "then on"
        )


FACE = Face(
    name="rolling",
    maintenance=(Chore(_add_up, is_often=True, is_prune=False),),
    along=Along(counted=item.counted, expendable=item.kinds_with_items),
    check_shard=_check_shard,
)
