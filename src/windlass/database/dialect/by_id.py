"""Rows are deleted by their ids, and no other row is looked at.

A statement that locks waits for every row that it looks at and that another transaction holds. The
servers scan small tables, MariaDB 11 rather than 10: then it waits for rows it does not want.
"""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import Connection, Table, bindparam, delete, text

from windlass.database.column import server_of

BY_PRIMARY_KEY = "delete t from {table} as t force index (primary) where t.{key} in :ids"


def delete_by_id(connection: Connection, table: Table, ids: Collection[int]) -> int:
    """Delete the rows with these primary keys, and look at no other row; how many."""
    (key,) = table.primary_key.columns
    if server_of(connection.dialect) in {"mysql", "mariadb"}:
        said = text(BY_PRIMARY_KEY.format(table=table.name, key=key.name))
        statement = said.bindparams(bindparam("ids", sorted(ids), expanding=True))
        return connection.execute(statement).rowcount
    return connection.execute(delete(table).where(key.in_(ids))).rowcount
