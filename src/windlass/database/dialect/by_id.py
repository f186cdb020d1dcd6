"""Rows are deleted by their ids, and no other row is looked at.

A statement that locks waits for every row that it looks at and that another transaction holds. The
servers scan small tables, MariaDB 11 rather than 10: then it waits for rows it does not want.
"""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import Connection, Table

from windlass.database.column import server_of

# Numbers as they are, or one array: a parameter for each costs more than deleting its row.
STATEMENTS = {
    "sqlite": "delete from {table} where {key} in ({ids})",
    "postgresql": "delete from {table} where {key} = any(%s)",
    "mysql": "delete t from {table} as t force index (primary) where t.{key} in ({ids})",
    "mariadb": "delete t from {table} as t force index (primary) where t.{key} in ({ids})",
}


def delete_by_id(connection: Connection, table: Table, ids: Collection[int]) -> int:
    """Delete the rows with these primary keys, and look at no other row; how many."""
    (key,) = table.primary_key.columns
    server = server_of(connection.dialect)
    numbers = sorted(int(number) for number in ids)
    if not numbers:
        return 0
    said = STATEMENTS[server].format(
        table=table.name,
        key=key.name,
        ids=", ".join(map(str, numbers)),
    )
    given = (numbers,) if server == "postgresql" else None
    return connection.exec_driver_sql(said, given).rowcount
