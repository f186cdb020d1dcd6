"""The plan that a database has for a query, as text, and whether it sorts all rows for it."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Select, text

SORTS = ("Sort", "TEMP B-TREE", "filesort")


def explain(connection: Connection, query: Select[Any]) -> str:
    """The plan, with what stands in for a table scan ruled out where it can be."""
    name = connection.dialect.name
    compiled = str(query.compile(connection, compile_kwargs={"literal_binds": True}))
    if name == "postgresql":
        # A small table is sorted although there is an index: the question is whether there is one.
        for setting in ("enable_seqscan", "enable_sort", "enable_bitmapscan"):
            connection.execute(text(f"set local {setting} = off"))
    word = "explain query plan" if name == "sqlite" else "explain"
    rows = connection.exec_driver_sql(f"{word} {compiled}").mappings().all()
    if name == "sqlite":
        return "; ".join(str(row["detail"]) for row in rows)
    if name == "postgresql":
        return "; ".join(str(row["QUERY PLAN"]).strip() for row in rows)
    return "; ".join(
        f"{row['table']}: type {row['type']}, key {row['key']}, {row['Extra']}" for row in rows
    )


def sorts(plan: str) -> bool:
    """Whether all rows are sorted before the first one comes."""
    return any(word in plan for word in SORTS)
