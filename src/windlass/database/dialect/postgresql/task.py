"""The statements on task rows in PostgreSQL: one round trip for what others say in several."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
from sqlalchemy import Connection, Engine, Table, text
from sqlalchemy.dialects.postgresql import insert

from windlass.database.dialect.base import (
    COLUMNS,
    Count,
    Executor,
    Lane,
    Most,
    Stamp,
    encode,
    stamped,
)
from windlass.database.dialect.postgresql.driver import array, copy_lines, driver_of, told
from windlass.database.dialect.postgresql.server import CHANNEL, PostgreSQLServer, often
from windlass.database.dialect.statement import (
    ABANDONED,
    FREE_AND_DUE,
    LANES,
    PICK,
    PICK_IDS,
    RESCUE,
    STAMP,
    STAMPED,
    VISITED,
    as_taken,
    tuples,
    visited,
    wanted,
)
from windlass.value.outcome import Change, Visits
from windlass.value.period import GOES
from windlass.value.task import Claimed, NewTask


def listed(query: str) -> str:
    """Rows by primary key. The planner thinks of such a list as short, and so takes the index
    whatever its statistics say of a table that grows and shrinks by the second."""
    return f"any(array({query}))"


BY_ID = listed("select unnest(cast(:ids as bigint[]))")


INSERT = text("""
insert into windlass_task
    (id, kind, task_key, bucket, status, priority, due_at, payload, created_at)
select id, kind, task_key, bucket, 0, priority, due_at, cast(payload as json), created_at
from json_to_recordset(cast(:rows as json)) as r (
    id bigint, kind text, task_key text, bucket smallint, priority smallint, due_at bigint,
    payload text, created_at bigint)
on conflict do nothing returning id
""")

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

# One statement, so one round trip and one commit. The rows are picked in a materialised part of
# their own: a limit inside an `in` would not be obeyed when the plan repeats it. What comes back is
# the rows as they were before.
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
update windlass_task as t
set status = c.status, due_at = c.due_at, batch = null, attempt = c.attempt, lost = c.lost,
    lost_in_a_row = 0, started_at = c.started_at, worker = :worker,
    finished_at = coalesce(c.finished_at, t.finished_at),
    prune_at = case when t.prune_at = {GOES} then t.prune_at else c.prune_at end,
    last_status = coalesce(c.last_status, t.last_status),
    result = cast(c.result as json),
    remark = case when c.finished_at is null then t.remark else c.remark end,
    payload = coalesce(cast(c.payload as json), t.payload),
    priority = coalesce(c.priority, t.priority)
from json_to_recordset(cast(:changes as json)) as c (
    id bigint, fence bigint, status smallint, due_at bigint, attempt integer, lost smallint,
    started_at bigint, finished_at bigint, prune_at bigint, last_status smallint, result text,
    remark text, payload text, priority smallint)
where t.id = {BY_ID}
  and t.id = c.id and {{as_taken}} c.fence
returning t.id, t.prune_at
"""

# By the id alone, as REMOVE: a join of a thousand rows might be planned for one.
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

# The ids come back as one text: for the client, hundreds of rows cost more than that.
REMOVE = f"""
with gone as (
    delete from windlass_task as t
    where t.id = {BY_ID}
      and {{as_taken}} cast(cast(:fences as jsonb) ->> cast(t.id as text) as bigint)
    returning t.id
)
select string_agg(cast(id as text), ',') from gone
"""

COUNT = often("""
insert into windlass_stat as s (minute, kind, worker, done, failed, retried, milliseconds)
select minute, kind, worker, done, failed, retried, milliseconds
from json_to_recordset(cast(:counts as json)) as c (
    minute bigint, kind text, worker bigint, done bigint, failed bigint, retried bigint,
    milliseconds bigint)
on conflict (minute, kind, worker) do update set
    done = s.done + excluded.done, failed = s.failed + excluded.failed,
    retried = s.retried + excluded.retried, milliseconds = s.milliseconds + excluded.milliseconds
""")


class PostgreSQL(PostgreSQLServer):
    """The server that most teams have."""

    def __init__(self) -> None:
        kinds = "(select unnest(cast(:kinds as text[])) as kind)"
        self._lanes = text(LANES.format(hint="", kinds=kinds))
        among = "= " + listed("select unnest(cast(:kinds as text[]))")
        lock = "for update skip locked"
        self._abandoned = text(ABANDONED.format(hint="", kinds=among, lock=lock))
        self._read = text(PICK.format(hint="", lock=""))
        self._read_ids = text(PICK_IDS.format(hint="", lock=""))
        self._change = as_taken(CHANGE, often)
        self._visit = as_taken(VISIT, often)
        self._remove = as_taken(REMOVE, often)
        self._stamp = text(STAMP.format(greatest="greatest", ids=f"= {BY_ID}"))
        self._rescue = text(RESCUE.format(greatest="greatest", ids=f"= {BY_ID}"))

    def prepare(self, engine: Engine) -> None:
        super().prepare(engine)
        self._insert_one = str(INSERT_ONE.compile(dialect=engine.dialect))
        self._insert_and_notify = str(INSERT_AND_NOTIFY.compile(dialect=engine.dialect))

    def insert(self, executor: Executor, rows: Sequence[NewTask]) -> set[int]:
        if len(rows) == 1:
            inserted = executor.execute(INSERT_ONE, _fields(rows[0]))
        else:
            inserted = executor.execute(INSERT, {"rows": encode(rows).decode()})
        return {row[0] for row in inserted.fetchall()}

    def insert_alone(self, connection: Connection, row: NewTask, *, notify: bool) -> bool:
        raw = driver_of(connection)
        if raw is None:
            statement = INSERT_AND_NOTIFY if notify else INSERT_ONE
            return connection.execute(statement, _fields(row)).first() is not None
        # Past SQLAlchemy: for one small row, its care costs more than the row.
        query = self._insert_and_notify if notify else self._insert_one
        with told(connection, raw):
            return raw.execute(query, _fields(row)).fetchone() is not None

    def copy(self, executor: Executor, rows: Sequence[NewTask]) -> bool:
        return copy_lines(executor, COPY, rows, _line)

    def ensure_all(
        self, connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]
    ) -> None:
        connection.execute(insert(table).on_conflict_do_nothing(), list(rows))

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

    def stamp(self, connection: Connection, ids: Collection[int], stamp: Stamp) -> None:
        connection.execute(self._stamp, {**stamp._asdict(), "ids": array(ids)})

    def abandoned(
        self, connection: Connection, kinds: Collection[str], *, now: int, limit: int
    ) -> list[Sequence[Any]]:
        rows = connection.execute(
            self._abandoned, {"kinds": list(kinds), "now": now, "limit": limit}
        )
        return list(rows.fetchall())

    def rescue(
        self, connection: Connection, ids: Collection[int], stamp: Stamp, *, attempt: int
    ) -> None:
        connection.execute(self._rescue, {**stamp._asdict(), "ids": array(ids), "attempt": attempt})

    def change(
        self, connection: Connection, changes: Sequence[Change], *, worker: int, is_read: bool
    ) -> dict[int, int | None]:
        ids = array(change.id for change in changes)
        asked = {"changes": encode(changes).decode(), "ids": ids, "worker": worker}
        rows = connection.execute(self._change[is_read], asked)
        return dict(map(tuple, rows.fetchall()))

    def visit(
        self, connection: Connection, visits: Visits, *, worker: int, is_read: bool
    ) -> dict[int, int | None]:
        asked = {
            **visited(visits, worker),
            "ids": array(row.id for row in visits.rows),
            "fences": encode({row.id: row.fence for row in visits.rows}).decode(),
            "began": encode({row.id: row.started_at for row in visits.rows}).decode(),
        }
        ids, going = connection.execute(self._visit[is_read], asked).one()
        return dict.fromkeys(_numbers(ids)) | dict.fromkeys(_numbers(going), GOES)

    def remove(
        self, connection: Connection, fences: Mapping[int, int], *, is_read: bool
    ) -> set[int]:
        asked = {"ids": array(fences), "fences": encode(fences).decode()}
        gone = connection.execute(self._remove[is_read], asked).scalar_one()
        return set(_numbers(gone))

    def count(self, connection: Connection, counts: Sequence[Count]) -> None:
        connection.execute(COUNT, {"counts": encode(counts).decode()})


def _numbers(listed: str | None) -> Iterator[int]:
    """The numbers that `string_agg` put into one text."""
    return map(int, listed.split(",")) if listed else iter(())


def _line(row: NewTask) -> str:
    """A row for COPY. JSON has no bare tabs or line ends, so backslashes are all to escape."""
    payload = row.payload.replace("\\", "\\\\") if "\\" in row.payload else row.payload
    kind = row.kind.replace("\\", "\\\\")
    return (
        f"{row.id}\t{kind}\t{row.bucket}\t0\t{row.priority}\t{row.due_at}\t{payload}"
        f"\t{row.created_at}\n"
    )


def _fields(row: NewTask) -> dict[str, Any]:
    return {name: getattr(row, name) for name in NewTask.__struct_fields__}
