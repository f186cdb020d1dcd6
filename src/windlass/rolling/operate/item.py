"""Rolling kinds: look at their items, and follow a table."""

from __future__ import annotations

from windlass.core.shard.fleet import Fleet
from windlass.core.task.kind import Kind
from windlass.database.database import Database
from windlass.errors import BadSource
from windlass.rolling.model import Item
from windlass.rolling.store import item as rolling
from windlass.rolling.store import trigger
from windlass.source.contract import MirrorSource
from windlass.source.store.table import Table


def item(database: Database, kind: Kind, code: str) -> Item | None:
    """One item; None if there is none of that code."""
    return database.read(lambda connection: rolling.item(connection, kind.name, code))


def items(database: Database, kind: Kind, *, prefix: str, after: str, limit: int) -> list[Item]:
    """Items whose codes begin with `prefix`, in the order of their codes, after one of them."""
    return database.read(
        lambda connection: rolling.items(
            connection, kind.name, prefix=prefix, after=after, limit=limit
        )
    )


def follow(database: Database, kind: Kind, source: MirrorSource) -> None:
    """Have triggers add and remove items as rows of `source` come and go."""
    trigger.install(database, _table(source), kind=kind.name, priority=kind.priority)


def unfollow(database: Database, kind: Kind, source: MirrorSource) -> bool:
    """Remove those triggers; whether there were any."""
    return trigger.uninstall(database, _table(source), kind=kind.name)


def is_followed(database: Database, kind: Kind, source: MirrorSource) -> bool:
    """Whether `source` has those triggers."""
    return isinstance(source, Table) and trigger.is_installed(database, source, kind=kind.name)


def _table(source: MirrorSource) -> Table:
    if not isinstance(source, Table):
        raise BadSource(
            f"{source!r} cannot be followed: only a windlass.Table can have triggers; "
            "call add and remove from your own code, or mirror now and then"
        )
    return source


def only_database(fleet: Fleet, source: MirrorSource) -> Database:
    """The database whose triggers can keep all items; an app with several shards has none."""
    if fleet.single is None:
        name = source.name if isinstance(source, MirrorSource) else repr(source)
        raise BadSource(
            f"{name} cannot be followed: its triggers could only write into their own database, "
            f"and the items of this app are in {len(fleet.shards)} shards; mirror it now and then, "
            "or call add(now=True) and remove from your own code"
        )
    return fleet.single.database
