"""Statements on task rows in PostgreSQL: one round trip where others need several."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
from sqlalchemy import Connection, Engine, Table, TextClause, text
from sqlalchemy.dialects.postgresql import insert

from windlass.database.dialect.base import COLUMNS, Executor, Lane, Most, Stamp, document, stamped
from windlass.database.dialect.postgresql.driver import array, copy_lines, driver_of, told
from windlass.database.dialect.postgresql.server import CHANNEL, PostgreSQLServer, often
from windlass.database.dialect.statement import (
    ABANDONED,
    FREE_AND_DUE,
    LANES,
    STAMPED,
    VISITED,
    TaskStatements,
    tuples,
    visited,
    wanted,
)
from windlass.value.outcome import Change, Visits
from windlass.value.period import GOES
from windlass.value.task import Claimed, NewTask


def listed(query: str) -> str:
    """Rows by primary key. The planner expects such a list to be short and uses the index, even if
    its statistics are wrong for a table that grows and shrinks every second."""
    return f"any(array({query}))"


BY_ID = listed("select unnest(cast(:ids as bigint[]))")

COPY = """
copy windlass_task (id, kind, bucket, status, priority, due_at, payload, created_at) from stdin
"""

ESTIMATE_DUE = text("""
explain (format json) select 1 from windlass_task
where status = 0 and kind = :kind and priority = :priority and due_at <= :until
""")

ONE_ROW = """
insert into windlass_task
    (id, kind, task_key, bucket, status, priority, due_at, payload, created_at)
values (:id, :kind, :task_key, :bucket, 0, :priority, :due_at, cast(:payload as json), :created_at)
on conflict do nothing returning id
"""

INSERT_ONE = text(ONE_ROW)

INSERT_AND_NOTIFY = text(
    f"with made as ({ONE_ROW}) select id, pg_notify('{CHANNEL}', '') from made"
)

# One statement, so one round trip and one commit. The rows are picked in a materialised part: a
# plan that repeats an `in` would exceed the limit inside it. Returns the rows as they were before.
CLAIM = text(f"""
with alive as materialized (
    select id from windlass_worker where id = :worker and left_at is null for key share
), picked as materialized (
    select {COLUMNS}
    from windlass_task
    where {FREE_AND_DUE} and exists (select from alive)
    order by due_at limit :limit for update skip locked
), stamped as (
    update windlass_task
    set status = 1, attempt = attempt + 1, {STAMPED.format(greatest="greatest")}
    where id = {listed("select id from picked")}
)
select * from picked
""")

CHANGE = f"""
update windlass_task as t set {{changed}} from {{rows}}
where t.id = {BY_ID} and t.id = changes.id and {{as_taken}} changes.fence
returning t.id, t.prune_at
"""

# By id alone, as REMOVE: the planner might expect one row in a join of a thousand.
VISIT = f"""
with visited as (
    update windlass_task as t
    set {VISITED}, started_at = cast(cast(:began as jsonb) ->> cast(t.id as text) as bigint)
    where t.id = {BY_ID}
      and {{as_taken}} cast(cast(:fences as jsonb) ->> cast(t.id as text) as bigint)
    returning t.id, t.prune_at
)
select string_agg(cast(id as text), ','),
    string_agg(cast(id as text), ',') filter (where prune_at = {GOES})
from visited
"""

FREE = text("""
select id from windlass_task where id = any(cast(:ids as bigint[])) and status in (0, 1)
order by id for update skip locked
""")

# Returns the ids as one text: hundreds of rows cost the client more.
REMOVE = f"""
with gone as (
    delete from windlass_task as t
    where t.id = {BY_ID}
      and {{as_taken}} cast(cast(:fences as jsonb) ->> cast(t.id as text) as bigint)
    returning t.id
)
select string_agg(cast(id as text), ',') from gone
"""


class PostgreSQL(PostgreSQLServer, TaskStatements):
    """PostgreSQL."""

    change_text, visit_text, remove_text = CHANGE, VISIT, REMOVE

    def __init__(self) -> None:
        super().__init__()
        kinds = "(select unnest(cast(:kinds as text[])) as kind)"
        self._lanes = text(LANES.format(hint="", kinds=kinds))
        among = "= " + listed("select unnest(cast(:kinds as text[]))")
        self._abandoned = text(ABANDONED.format(hint="", kinds=among, lock=self.lock))

    def prepare(self, engine: Engine) -> None:
        super().prepare(engine)
        self._insert_one = str(INSERT_ONE.compile(dialect=engine.dialect))
        self._insert_and_notify = str(INSERT_AND_NOTIFY.compile(dialect=engine.dialect))

    def often(self, statement: str) -> TextClause:
        return often(statement)

    def rows(self, name: str, **columns: type) -> str:
        typed = ", ".join(
            f"{column} {'bigint' if kind is int else 'text'}" for column, kind in columns.items()
        )
        return f"json_to_recordset(cast(:{name} as json)) as {name} ({typed})"

    def insert(self, executor: Executor, rows: Sequence[NewTask]) -> set[int]:
        if len(rows) == 1:
            inserted = executor.execute(INSERT_ONE, _fields(rows[0]))
        else:
            inserted = executor.execute(self._insert, {"inserts": document(rows)})
        return {row[0] for row in inserted.fetchall()}

    def insert_alone(self, connection: Connection, row: NewTask, *, notify: bool) -> bool:
        raw = driver_of(connection)
        if raw is None:
            statement = INSERT_AND_NOTIFY if notify else INSERT_ONE
            return connection.execute(statement, _fields(row)).first() is not None
        query = self._insert_and_notify if notify else self._insert_one
        with told(connection, raw):
            return raw.execute(query, _fields(row)).fetchone() is not None

    def copy(self, executor: Executor, rows: Sequence[NewTask]) -> bool:
        return copy_lines(executor, COPY, rows, _line)

    def ensure_all(
        self, connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]
    ) -> None:
        connection.execute(insert(table).on_conflict_do_nothing(), list(rows))

    def ids(self, ids: Iterable[int]) -> tuple[str, dict[str, str]]:
        return f"= {BY_ID}", {"ids": array(ids)}

    def texts(self, texts: Iterable[str]) -> tuple[str, dict[str, Any]]:
        return "= any(cast(:texts as text[]))", {"texts": list(texts)}

    def estimate_due(self, connection: Connection, lane: Lane, *, until: int) -> int:
        asked = {"kind": lane.kind, "priority": lane.priority, "until": until}
        plan = connection.execute(ESTIMATE_DUE, asked).scalar_one()
        found = plan if isinstance(plan, list) else msgspec.json.decode(plan)
        return int(found[0]["Plan"]["Plan Rows"])

    def lanes(self, connection: Connection, kinds: Collection[str]) -> list[Lane]:
        rows = connection.execute(self._lanes, {"kinds": list(kinds)})
        return [Lane(*row) for row in rows.fetchall()]

    def free(self, connection: Connection, ids: Collection[int]) -> set[int]:
        return {row[0] for row in connection.execute(FREE, {"ids": array(sorted(ids))}).fetchall()}

    def read(self, connection: Connection, lane: Lane, most: Most) -> list[Sequence[Any]]:
        return tuples(connection.execute(self._read, wanted(lane, most)))

    def read_ids(self, connection: Connection, lane: Lane, most: Most) -> list[int]:
        rows = tuples(connection.execute(self._read_ids, wanted(lane, most)))
        return [row[0] for row in rows]

    def claim(self, connection: Connection, lane: Lane, stamp: Stamp, most: Most) -> list[Claimed]:
        rows = connection.execute(CLAIM, {**stamp._asdict(), **wanted(lane, most)})
        return [stamped(row, stamp) for row in rows.fetchall()]

    def abandoned(
        self, connection: Connection, kinds: Collection[str], *, now: int, limit: int
    ) -> list[Sequence[Any]]:
        rows = connection.execute(
            self._abandoned, {"kinds": list(kinds), "now": now, "limit": limit}
        )
        return list(rows.fetchall())

    def change(
        self, connection: Connection, changes: Sequence[Change], *, worker: int, is_read: bool
    ) -> dict[int, int | None]:
        ids = array(change.id for change in changes)
        asked = {"changes": document(changes), "ids": ids, "worker": worker}
        rows = connection.execute(self._change[is_read], asked)
        return dict(map(tuple, rows.fetchall()))

    def visit(
        self, connection: Connection, visits: Visits, *, worker: int, is_read: bool
    ) -> dict[int, int | None]:
        asked = {
            **visited(visits, worker),
            "ids": array(row.id for row in visits.rows),
            "fences": document({row.id: row.fence for row in visits.rows}),
            "began": document({row.id: row.started_at for row in visits.rows}),
        }
        ids, going = connection.execute(self._visit[is_read], asked).one()
        return dict.fromkeys(_numbers(ids)) | dict.fromkeys(_numbers(going), GOES)

    def remove(
        self, connection: Connection, fences: Mapping[int, int], *, is_read: bool
    ) -> set[int]:
        asked = {"ids": array(fences), "fences": document(fences)}
        gone = connection.execute(self._remove[is_read], asked).scalar_one()
        return set(_numbers(gone))


def _numbers(listed: str | None) -> Iterator[int]:
    """The numbers that `string_agg` put into one text."""
    return map(int, listed.split(",")) if listed else iter(())


def _line(row: NewTask) -> str:
    """A row for COPY. JSON has no bare tabs or line ends, so only backslashes need escapes."""
    payload = row.payload.replace("\\", "\\\\") if "\\" in row.payload else row.payload
    kind = row.kind.replace("\\", "\\\\")
    return (
        f"{row.id}\t{kind}\t{row.bucket}\t0\t{row.priority}\t{row.due_at}\t{payload}"
        f"\t{row.created_at}\n"
    )


def _fields(row: NewTask) -> dict[str, Any]:
    return {name: getattr(row, name) for name in NewTask.__struct_fields__}
