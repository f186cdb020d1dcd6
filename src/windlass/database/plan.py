"""The plan of a query, as text, and whether it sorts all rows."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Select

from windlass.database.dialect import PerDialect, mysql_server

SORTS = ("Sort", "TEMP B-TREE", "filesort")
# The command, and how to show each row of its result.
EXPLAIN = PerDialect(
    sqlite=("explain query plan", "{detail}"),
    postgresql=("explain", "{QUERY PLAN}"),
    mysql=(mysql_server.EXPLAIN, "{table}: type {type}, key {key}, {Extra}"),
)
# PostgreSQL sorts a small table although there is an index; without these it uses the index.
RULED_OUT: PerDialect[tuple[str, ...]] = PerDialect(
    sqlite=(),
    postgresql=(
        "set local enable_seqscan = off",
        "set local enable_sort = off",
        "set local enable_bitmapscan = off",
    ),
    mysql=(),
)


def explain(connection: Connection, query: Select[Any]) -> str:
    """The plan of `query`, without scans and sorts of the whole table if an index avoids them."""
    command, line = EXPLAIN.on(connection)
    compiled = str(query.compile(connection, compile_kwargs={"literal_binds": True}))
    for statement in RULED_OUT.on(connection):
        connection.exec_driver_sql(statement)
    rows = connection.exec_driver_sql(f"{command} {compiled}").mappings().all()
    return "; ".join(line.format(**row).strip() for row in rows)


def sorts(plan: str) -> bool:
    """Whether the plan sorts all rows before it returns the first."""
    return any(word in plan for word in SORTS)
