"""Statements on task rows in SQLite: lists are sent as JSON, changed rows are returned."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Table, text
from sqlalchemy.dialects.sqlite import insert

from windlass.database.dialect.base import Executor, Lane, document
from windlass.database.dialect.sqlite.server import SQLiteServer
from windlass.database.dialect.statement import (
    LANES,
    VISITED,
    TaskStatements,
    visited,
    visited_rows,
)
from windlass.value.outcome import Change, Visits
from windlass.value.task import NewTask

# The database is in this process and counts a million entries quickly.
COUNTED_AT_MOST = 1_000_000
COUNT_DUE = text("""
select count(*) from (
    select 1 from windlass_task indexed by windlass_task_due
    where status = 0 and kind = :kind and priority = :priority and due_at <= :until limit :limit
)
""")

CHANGE = """
update windlass_task as t set {changed} from {rows}
where t.id = changes.id and {as_taken} changes.fence
returning id, prune_at
"""

VISIT = f"""
update windlass_task as t set {VISITED}, started_at = c.value ->> 2
from json_each(:rows) as c
where t.id = (c.value ->> 0) and {{as_taken}} (c.value ->> 1)
returning id, prune_at
"""

REMOVE = """
delete from windlass_task
where id in (
    select t.id from json_each(:fences) as f
    join windlass_task as t on t.id = (f.value ->> 0)
    where {as_taken} (f.value ->> 1)
)
returning id
"""


class SQLite(SQLiteServer, TaskStatements):
    """SQLite."""

    hint = "indexed by windlass_task_due"
    lock = ""
    greatest = "max"
    change_text, visit_text, remove_text = CHANGE, VISIT, REMOVE

    def __init__(self) -> None:
        super().__init__()
        self._lanes = text(
            LANES.format(hint=self.hint, kinds="(select value as kind from json_each(:kinds))")
        )

    def rows(self, name: str, **columns: type) -> str:
        values = ", ".join(f"value ->> '{column}' as {column}" for column in columns)
        return f"(select {values} from json_each(:{name})) as {name}"

    def ids(self, ids: Iterable[int]) -> tuple[str, dict[str, str]]:
        return "in (select value from json_each(:ids))", {"ids": document(list(ids))}

    def texts(self, texts: Iterable[str]) -> tuple[str, dict[str, str]]:
        return "in (select value from json_each(:texts))", {"texts": document(list(texts))}

    def insert(self, executor: Executor, rows: Sequence[NewTask]) -> set[int]:
        inserted = executor.execute(self._insert, {"inserts": document(rows)})
        return {row[0] for row in inserted.fetchall()}

    def ensure_all(
        self, connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]
    ) -> None:
        connection.execute(insert(table).on_conflict_do_nothing(), list(rows))

    def estimate_due(self, connection: Connection, lane: Lane, *, until: int) -> int:
        asked = {"kind": lane.kind, "priority": lane.priority, "until": until}
        return int(connection.execute(COUNT_DUE, asked | {"limit": COUNTED_AT_MOST}).scalar_one())

    def lanes(self, connection: Connection, kinds: Collection[str]) -> list[Lane]:
        rows = connection.execute(self._lanes, {"kinds": document(list(kinds))})
        return [Lane(*row) for row in rows.fetchall()]

    def free(self, connection: Connection, ids: Collection[int]) -> set[int]:
        return set(ids)

    def change(
        self, connection: Connection, changes: Sequence[Change], *, worker: int, is_read: bool
    ) -> dict[int, int | None]:
        asked = {"changes": document(changes), "worker": worker}
        return dict(map(tuple, connection.execute(self._change[is_read], asked).fetchall()))

    def visit(
        self, connection: Connection, visits: Visits, *, worker: int, is_read: bool
    ) -> dict[int, int | None]:
        asked = {**visited(visits, worker), "rows": visited_rows(visits)}
        return dict(map(tuple, connection.execute(self._visit[is_read], asked).fetchall()))

    def remove(
        self, connection: Connection, fences: Mapping[int, int], *, is_read: bool
    ) -> set[int]:
        asked = {"fences": document(list(fences.items()))}
        rows = connection.execute(self._remove[is_read], asked)
        return {row[0] for row in rows.fetchall()}
