"""The SQL of access tokens. There are few of them: all are read together."""

from __future__ import annotations

from sqlalchemy import Connection, delete, insert, or_, select, update

from windlass.database.schema import shard, token
from windlass.errors import NotPossible
from windlass.operate.token.model import TokenRow
from windlass.view.role import Role

MOST = 1_000


def listing(connection: Connection) -> list[TokenRow]:
    """All tokens by name, also those that were revoked or have expired."""
    rows = connection.execute(select(token).order_by(token.c.name).limit(MOST)).mappings()
    return [TokenRow(**{**row, "role": Role(row["role"])}) for row in rows]


def write(connection: Connection, *, row: TokenRow, now: int) -> None:
    """Write a token, or of one that is there, that it is revoked.

    It takes the name of a token that is no longer active.
    """
    # One at a time: the checks and the insert belong together.
    connection.execute(select(shard.c.id).where(shard.c.id == 1).with_for_update())
    found = {each.name: each for each in listing(connection)}
    same = found.get(row.name)
    if same is not None and same.prefix == row.prefix:
        if row.revoked_at is not None and row.revoked_by is not None:
            revoke(connection, row.name, who=row.revoked_by, now=row.revoked_at)
        return
    if same is not None and same.state(now) == "active":
        raise NotPossible(
            f"there is a token {row.name!r} already; revoke it first, or choose another name"
        )
    if same is not None:
        remove(connection, same.prefix)
    elif len(found) >= MOST:
        _make_room(connection, list(found.values()), now=now)
    connection.execute(insert(token).values({**vars(row), "role": str(row.role)}))


def revoke(connection: Connection, name: str, *, who: str, now: int) -> None:
    """Revoke what has this name, unless it was revoked before."""
    connection.execute(
        update(token)
        .where(token.c.name == name, token.c.revoked_at.is_(None))
        .values(revoked_at=now, revoked_by=who)
    )


def remove(connection: Connection, prefix: str) -> None:
    """Forget a token."""
    connection.execute(delete(token).where(token.c.prefix == prefix))


def use(connection: Connection, prefix: str, *, now: int, before: int) -> None:
    """Write down that a token was used, unless that was written after `before`."""
    unknown = or_(token.c.last_used_at.is_(None), token.c.last_used_at < before)
    connection.execute(
        update(token).where(token.c.prefix == prefix, unknown).values(last_used_at=now)
    )


def _make_room(connection: Connection, found: list[TokenRow], *, now: int) -> None:
    """Forget the oldest token that is no longer active."""
    over = [each for each in found if each.state(now) != "active"]
    if not over:
        raise NotPossible(f"there are {MOST:,} tokens, which is the most; revoke some")
    remove(connection, min(over, key=lambda each: each.created_at).prefix)
