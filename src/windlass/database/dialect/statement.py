"""Statements on task rows that the databases share, with a few different words."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Iterable, Sequence
from typing import Any

import msgspec
from sqlalchemy import Connection, CursorResult, TextClause, text

from windlass.database.dialect.base import (
    COLUMNS,
    Count,
    Dialect,
    Lane,
    LongText,
    Most,
    Stamp,
    document,
    stamped,
)
from windlass.value.outcome import Change, Visits
from windlass.value.period import GOES
from windlass.value.task import Claimed, NewTask

LANES = """
with recursive lane (kind, priority) as (
    select k.kind, (
        select t.priority from windlass_task t {hint}
        where t.status = 0 and t.kind = k.kind and t.due_at is not null
        order by t.priority limit 1
    ) from {kinds} k
    union all
    select lane.kind, (
        select t.priority from windlass_task t {hint}
        where t.status = 0 and t.kind = lane.kind and t.priority > lane.priority
          and t.due_at is not null
        order by t.priority limit 1
    ) from lane where lane.priority is not null
)
select kind, priority, (
    select t.due_at from windlass_task t {hint}
    where t.status = 0 and t.kind = lane.kind and t.priority = lane.priority
      and t.due_at is not null
    order by t.due_at limit 1
) as due_at
from lane where priority is not null
"""

ALIVE = "select id from windlass_worker where id = :worker and left_at is null"

# Rows that can be taken now.
FREE_AND_DUE = """status = 0 and kind = :kind and priority = :priority
  and due_at between :due_from and :due_until and bucket between :bucket_from and :bucket_to
  and batch is null and lost_in_a_row between :lost_from and :lost_to"""

PICK = f"""
select {COLUMNS} from windlass_task {{hint}}
where {FREE_AND_DUE}
order by due_at limit :limit {{lock}}
"""

PICK_IDS = PICK.replace(COLUMNS, "id")

# Whether a row has not changed since it was read (True) or claimed (False); its fence follows. The
# plus keeps planners from using another index than the primary key.
AS_TAKEN = {
    True: "+t.status = 0 and t.batch is null and +t.due_at =",
    False: "+t.status = 1 and t.batch =",
}

# The new values of a recurring row after a successful run.
VISITED = """status = 0, due_at = :due_at, batch = null, attempt = 0, lost = 0, lost_in_a_row = 0,
    worker = :worker, finished_at = :finished_at, last_status = 2, result = null, remark = null,
    priority = coalesce(:priority, priority)"""

STAMPED = """batch = :batch, worker = :worker, due_at = :lease_end,
    started_at = {greatest}(:now, coalesce(started_at, 0) + 1)"""

STAMP = f"""
update windlass_task set status = 1, attempt = attempt + 1, {STAMPED}
where id {{ids}}
"""

ABANDONED = f"""
select {COLUMNS}, lost_in_a_row
from windlass_task {{hint}}
where status = 1 and kind {{kinds}} and due_at <= :now
  and worker in (select id from windlass_worker where left_at is not null)
limit :limit {{lock}}
"""

RESCUE = f"""
update windlass_task
set attempt = attempt + :attempt, lost = lost + 1, lost_in_a_row = lost_in_a_row + 1, {STAMPED}
where id {{ids}}
"""

INSERT = """
insert into windlass_task
    (id, kind, task_key, bucket, status, priority, due_at, payload, created_at)
select id, kind, task_key, bucket, 0, priority, due_at, {payload}, created_at
from {rows} where true {unless_there} {returning}
"""

# The new values of a row, t, from the list of changes.
CHANGED = f"""{{t}}status = changes.status, {{t}}due_at = changes.due_at, {{t}}batch = null,
    {{t}}attempt = changes.attempt, {{t}}lost = changes.lost, {{t}}lost_in_a_row = 0,
    {{t}}started_at = changes.started_at, {{t}}worker = :worker,
    {{t}}finished_at = coalesce(changes.finished_at, t.finished_at),
    {{t}}prune_at = case when t.prune_at = {GOES} then t.prune_at else changes.prune_at end,
    {{t}}last_status = coalesce(changes.last_status, t.last_status), {{t}}result = {{result}},
    {{t}}remark = case when changes.finished_at is null then t.remark else changes.remark end,
    {{t}}payload = coalesce({{payload}}, t.payload),
    {{t}}priority = coalesce(changes.priority, t.priority)"""

# Fields that may be longer than a key.
LONG = ("payload", "result", "remark")

COUNTED = ("done", "failed", "retried", "milliseconds")
COUNT = """
insert into windlass_stat (minute, kind, worker, done, failed, retried, milliseconds)
select minute, kind, worker, done, failed, retried, milliseconds from {rows} where true {added}
"""


class TaskStatements(Dialect):
    """Builds the statements from the words of a database.

    A claim takes two statements, because not every database can return old values from an update.
    """

    # Words of the database: the index to use, how to skip locked rows, the greatest of two.
    hint = ""
    lock = "for update skip locked"
    greatest = "greatest"
    # Statements on rows that are still {as_taken}; {rows} is the list, {changed} the new values.
    change_text: str
    visit_text: str
    remove_text: str
    # Prefix of the columns to set, where the database needs it.
    of_task = ""
    # Ends an insert that returns the ids of the rows it wrote.
    returning = "returning id"

    def __init__(self) -> None:
        self._insert = text(
            INSERT.format(
                rows=self.rows("inserts", **columns_of(NewTask)),
                payload=self.to_json.format("payload"),
                unless_there=self.unless_there,
                returning=self.returning,
            )
        )
        counts = self.rows("counts", **columns_of(Count))
        self._count = self.often(COUNT.format(rows=counts, added=self.added()))
        changed = CHANGED.format(
            t=self.of_task,
            result=self.to_json.format("changes.result"),
            payload=self.to_json.format("changes.payload"),
        )
        changes = self.rows("changes", **columns_of(Change))
        self._change = self._as_taken(self.change_text, rows=changes, changed=changed)
        self._visit = self._as_taken(self.visit_text)
        self._remove = self._as_taken(self.remove_text)
        self._pick = text(PICK.format(hint=self.hint, lock=self.lock))
        self._read = text(PICK.format(hint=self.hint, lock=""))
        self._read_ids = text(PICK_IDS.format(hint=self.hint, lock=""))

    def often(self, statement: str) -> TextClause:
        """A statement that runs often, prepared where that helps."""
        return text(statement)

    def added(self) -> str:
        """Ends an insert into the statistics that adds to existing rows."""
        sums = ", ".join(f"{name} = windlass_stat.{name} + excluded.{name}" for name in COUNTED)
        return f"on conflict (minute, kind, worker) do update set {sums}"

    def count(self, connection: Connection, counts: Sequence[Count]) -> None:
        connection.execute(self._count, {"counts": document(counts)})

    @abstractmethod
    def ids(self, ids: Iterable[int]) -> tuple[str, dict[str, str]]:
        """SQL for "is one of these ids", and its parameters."""

    def read(self, connection: Connection, lane: Lane, most: Most) -> list[Sequence[Any]]:
        return list(connection.execute(self._read, wanted(lane, most)).fetchall())

    def read_ids(self, connection: Connection, lane: Lane, most: Most) -> list[int]:
        return list(connection.scalars(self._read_ids, wanted(lane, most)))

    def claim(self, connection: Connection, lane: Lane, stamp: Stamp, most: Most) -> list[Claimed]:
        if not self.alive(connection, stamp.worker):
            return []
        rows = connection.execute(self._pick, wanted(lane, most)).fetchall()
        if rows:
            self.stamp(connection, [row[0] for row in rows], stamp)
        return [stamped(row, stamp) for row in rows]

    def stamp(self, connection: Connection, ids: Collection[int], stamp: Stamp) -> None:
        self._write(connection, STAMP, ids, **stamp._asdict())

    def abandoned(
        self, connection: Connection, kinds: Collection[str], *, now: int, limit: int
    ) -> list[Sequence[Any]]:
        listed, parameters = self.texts(kinds)
        statement = text(ABANDONED.format(hint=self.hint, lock=self.lock, kinds=listed))
        rows = connection.execute(statement, {"now": now, "limit": limit, **parameters})
        return list(rows.fetchall())

    def rescue(
        self, connection: Connection, ids: Collection[int], stamp: Stamp, *, attempt: int
    ) -> None:
        self._write(connection, RESCUE, ids, attempt=attempt, **stamp._asdict())

    def _write(
        self, connection: Connection, statement: str, ids: Collection[int], **values: int | None
    ) -> None:
        listed, parameters = self.ids(ids)
        filled = text(statement.format(greatest=self.greatest, ids=listed))
        connection.execute(filled, {**values, **parameters})

    def _as_taken(self, statement: str, **words: str) -> dict[bool, TextClause]:
        """The statement by whether the rows were read or claimed."""
        return {
            is_read: self.often(statement.format(as_taken=way, **words))
            for is_read, way in AS_TAKEN.items()
        }


def columns_of(row: type[msgspec.Struct]) -> dict[str, type]:
    """The columns of a list of these structs, for `Dialect.rows`."""

    def type_of(field: msgspec.structs.FieldInfo) -> type:
        if field.name in LONG:
            return LongText
        return str if field.type in (str, str | None) else int

    return {field.name: type_of(field) for field in msgspec.structs.fields(row)}


def wanted(lane: Lane, most: Most) -> dict[str, Any]:
    """The parameters of FREE_AND_DUE."""
    place = {"kind": lane.kind, "priority": lane.priority, "due_from": lane.due_at}
    return {**place, **most.parameters}


def visited(visits: Visits, worker: int) -> dict[str, Any]:
    """The parameters of VISITED."""
    return {
        "due_at": visits.due_at,
        "finished_at": visits.finished_at,
        "priority": visits.priority,
        "worker": worker,
    }


def visited_rows(visits: Visits) -> str:
    """The ids, fences and start times of the rows, as one document."""
    return document(sorted((row.id, row.fence, row.started_at) for row in visits.rows))


def tuples(result: CursorResult[Any]) -> list[Sequence[Any]]:
    """All rows as the driver's tuples: SQLAlchemy's rows would cost more than the query."""
    assert result.cursor is not None
    rows = list(result.cursor.fetchall())
    result.close()
    return rows
