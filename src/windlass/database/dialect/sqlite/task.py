"""The statements on task rows in SQLite: lists travel as JSON, changed rows are returned."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Table, text
from sqlalchemy.dialects.sqlite import insert

from windlass.database.dialect.base import Count, Executor, Lane, encode
from windlass.database.dialect.sqlite.server import SQLiteServer
from windlass.database.dialect.statement import (
    LANES,
    VISITED,
    PickAndStamp,
    as_taken,
    visited,
    visited_rows,
)
from windlass.value.outcome import Change, Visits
from windlass.value.period import GOES
from windlass.value.task import NewTask

INSERT = text("""
insert into windlass_task
    (id, kind, task_key, bucket, status, priority, due_at, payload, created_at)
select value ->> 'id', value ->> 'kind', value ->> 'task_key', value ->> 'bucket', 0,
       value ->> 'priority', value ->> 'due_at', value ->> 'payload', value ->> 'created_at'
from json_each(:rows) where true
on conflict do nothing returning id
""")

# The database is in this process, and steps through a million entries in a blink.
COUNTED_AT_MOST = 1_000_000

COUNT_DUE = text("""
select count(*) from (
    select 1 from windlass_task indexed by windlass_task_due
    where status = 0 and kind = :kind and priority = :priority and due_at <= :until limit :limit
)
""")

CHANGE = f"""
update windlass_task as t
set status = c.value ->> 'status', due_at = c.value ->> 'due_at', batch = null,
    attempt = c.value ->> 'attempt', lost = c.value ->> 'lost',
    lost_in_a_row = 0, started_at = c.value ->> 'started_at', worker = :worker,
    finished_at = coalesce(c.value ->> 'finished_at', finished_at),
    prune_at = case when prune_at = {GOES} then prune_at else c.value ->> 'prune_at' end,
    last_status = coalesce(c.value ->> 'last_status', last_status),
    result = c.value ->> 'result',
    remark = case when c.value ->> 'finished_at' is null then remark else c.value ->> 'remark' end,
    payload = coalesce(c.value ->> 'payload', payload),
    priority = coalesce(c.value ->> 'priority', priority)
from json_each(:changes) as c
where t.id = (c.value ->> 'id') and {{as_taken}} (c.value ->> 'fence')
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

COUNT = text("""
insert into windlass_stat (minute, kind, worker, done, failed, retried, milliseconds)
select value ->> 'minute', value ->> 'kind', value ->> 'worker', value ->> 'done',
       value ->> 'failed', value ->> 'retried', value ->> 'milliseconds'
from json_each(:counts) where true
on conflict (minute, kind, worker) do update set
    done = done + excluded.done, failed = failed + excluded.failed,
    retried = retried + excluded.retried, milliseconds = milliseconds + excluded.milliseconds
""")


class SQLite(SQLiteServer, PickAndStamp):
    """The embedded database."""

    hint = "indexed by windlass_task_due"
    lock = ""
    greatest = "max"

    def __init__(self) -> None:
        super().__init__()
        self._lanes = text(
            LANES.format(hint=self.hint, kinds="(select value as kind from json_each(:kinds))")
        )
        self._change = as_taken(CHANGE)
        self._visit = as_taken(VISIT)
        self._remove = as_taken(REMOVE)

    def insert(self, executor: Executor, rows: Sequence[NewTask]) -> set[int]:
        inserted = executor.execute(INSERT, {"rows": encode(rows).decode()})
        return {row[0] for row in inserted.fetchall()}

    def ensure_all(
        self, connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]
    ) -> None:
        connection.execute(insert(table).on_conflict_do_nothing(), list(rows))

    def ids(self, ids: Iterable[int]) -> tuple[str, dict[str, str]]:
        return "in (select value from json_each(:ids))", {"ids": encode(list(ids)).decode()}

    def texts(self, texts: Iterable[str]) -> tuple[str, dict[str, str]]:
        return "in (select value from json_each(:texts))", {"texts": encode(list(texts)).decode()}

    def estimate_due(self, connection: Connection, lane: Lane, *, until: int) -> int:
        asked = {"kind": lane.kind, "priority": lane.priority, "until": until}
        return int(connection.execute(COUNT_DUE, asked | {"limit": COUNTED_AT_MOST}).scalar_one())

    def lanes(self, connection: Connection, kinds: Collection[str]) -> list[Lane]:
        rows = connection.execute(self._lanes, {"kinds": encode(list(kinds)).decode()})
        return [Lane(*row) for row in rows.fetchall()]

    def free(self, connection: Connection, ids: Collection[int]) -> set[int]:
        return set(ids)

    def change(
        self, connection: Connection, changes: Sequence[Change], *, worker: int, is_read: bool
    ) -> dict[int, int | None]:
        asked = {"changes": encode(changes).decode(), "worker": worker}
        return dict(map(tuple, connection.execute(self._change[is_read], asked).fetchall()))

    def visit(
        self, connection: Connection, visits: Visits, *, worker: int, is_read: bool
    ) -> dict[int, int | None]:
        asked = {**visited(visits, worker), "rows": visited_rows(visits)}
        return dict(map(tuple, connection.execute(self._visit[is_read], asked).fetchall()))

    def remove(
        self, connection: Connection, fences: Mapping[int, int], *, is_read: bool
    ) -> set[int]:
        asked = {"fences": encode(list(fences.items())).decode()}
        rows = connection.execute(self._remove[is_read], asked)
        return {row[0] for row in rows.fetchall()}

    def count(self, connection: Connection, counts: Sequence[Count]) -> None:
        connection.execute(COUNT, {"counts": encode(counts).decode()})
