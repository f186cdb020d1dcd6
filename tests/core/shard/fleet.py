"""Looking into the shards of an app."""

from typing import Any

from sqlalchemy import select

from windlass import App, Task
from windlass.core.shard.shard import Shard
from windlass.core.shard.store import shard as store
from windlass.database import schema


def declare_mail(app: App) -> Task[[str], str]:
    @app.task(keep="1d")
    def mail(to: str) -> str:
        return f"to {to}"

    return mail


def rows(app: App, **wanted: Any) -> list[list[dict[str, Any]]]:
    """The task rows of each shard, oldest first, whose columns have the wanted values."""
    return [rows_of(shard, **wanted) for shard in app.fleet.shards]


def rows_of(shard: Shard, **wanted: Any) -> list[dict[str, Any]]:
    query = select(schema.task).order_by(schema.task.c.id)
    for name, value in wanted.items():
        query = query.where(schema.task.c[name] == value)
    return shard.database.read(
        lambda connection: [dict(row) for row in connection.execute(query).mappings()]
    )


def places(app: App) -> list[int]:
    """The place of each shard, in the order of the list."""
    app.prepare()
    return [shard.look().place for shard in app.fleet.shards]


def row_of(shard: Shard) -> store.ShardRow:
    return shard.database.read(store.get)


def key_for(app: App, shard: Shard, kind: str, prefix: str = "key") -> str:
    """A key that belongs into `shard`."""
    app.prepare()
    return next(
        key
        for key in (f"{prefix}-{number}" for number in range(10_000))
        if app.fleet.home(kind, key) is shard
    )
