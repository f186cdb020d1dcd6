"""Which index a statement uses, where the server must not choose.

A statement that locks waits for every row that it looks at and that another transaction holds. The
servers scan small tables, MariaDB 11 rather than 10: then it waits for rows it does not want.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, TypeVar

from sqlalchemy import Connection, Select, Table, bindparam, delete, text

from windlass.database.column import server_of

Rows = TypeVar("Rows", bound=Select[Any])
BY_PRIMARY_KEY = "delete t from {table} as t force index (primary) where t.{key} in :ids"


def force_index(query: Rows, table: Table, index: str) -> Rows:
    """Force MySQL and MariaDB to read `table` by `index`."""
    hint = f"force index ({index})"
    return query.with_hint(table, hint, "mysql").with_hint(table, hint, "mariadb")


def delete_by_id(connection: Connection, table: Table, ids: Collection[int]) -> int:
    """Delete the rows with these primary keys, and look at no other row; how many."""
    (key,) = table.primary_key.columns
    if server_of(connection.dialect) in {"mysql", "mariadb"}:
        said = text(BY_PRIMARY_KEY.format(table=table.name, key=key.name))
        statement = said.bindparams(bindparam("ids", sorted(ids), expanding=True))
        return connection.execute(statement).rowcount
    return connection.execute(delete(table).where(key.in_(ids))).rowcount
