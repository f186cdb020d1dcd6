"""Statements on task rows in MySQL and MariaDB: they lock and change rows by primary key."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import msgspec
from sqlalchemy import Connection, Table, TextClause, insert, text

from windlass.database.dialect.base import COLUMNS, Executor, Lane, LongText, Most, document
from windlass.database.dialect.mysql.server import MySQLServer
from windlass.database.dialect.statement import (
    COUNTED,
    PICK,
    VISITED,
    TaskStatements,
    tuples,
    visited,
    visited_rows,
    wanted,
)
from windlass.value.outcome import Change, Visits
from windlass.value.period import GOES
from windlass.value.task import NewTask

# SQL types of the columns of a list.
TYPES = {int: "bigint", str: "varchar(255)", LongText: "mediumtext"}

HINT = "force index (windlass_task_due)"
READ = text(PICK.replace(COLUMNS, f"json_array({COLUMNS})").format(hint=HINT, lock=""))
Picked = tuple[int, str, str | None, int, int, str, int, int, int | None, int, int | None]
ROWS = msgspec.json.Decoder(list[Picked])

# Row by row by id, in the order of the list: scanning a small table would lock all of it.
BY_ID_OF = """json_table(:ids, '$[*]' columns (id bigint path '$')) as listed
straight_join {table} as t force index (primary) on t.{id} = listed.id"""
BY_ID = BY_ID_OF.format(table="windlass_task", id="id")
# Locks rows and returns their fences, by whether they were read or claimed.
HOLD = {
    True: text(
        f"select t.id, t.due_at, t.prune_at from {BY_ID} "
        "where t.status = 0 and t.batch is null for update"
    ),
    False: text(f"select t.id, t.batch, t.prune_at from {BY_ID} where t.status = 1 for update"),
}
FREE = text(f"select t.id from {BY_ID} where t.status in (0, 1) for update skip locked")
REMOVE = text(f"delete t from {BY_ID}")
# Removes all rows in one statement without a result, if none has changed since it was taken.
BY_FENCE = """json_table(:fences, '$[*]' columns (
    id bigint path '$[0]', fence bigint path '$[1]')) as listed
straight_join windlass_task as t force index (primary) on t.id = listed.id"""
REMOVE_AS_TAKEN = f"delete t from {BY_FENCE} where {{as_taken}} listed.fence"
OFFER = text(f"update {BY_ID} set t.batch = 0 where t.status = 0 and t.batch is null")
REMOVE_OFFERS = text("delete t from " + BY_ID_OF.format(table="windlass_offer", id="task_id"))
GOING = text(f"select t.id from {BY_ID} where t.prune_at = {GOES}")
LOWEST = -32_769
FIRST_LANE = """(
    select kind, priority, due_at from windlass_task force index (windlass_task_due)
    where status = 0 and kind = :kind_{index} and priority > :priority_{index}
      and due_at is not null
    order by priority, due_at limit 1
)"""

ESTIMATE_DUE = text("""
explain select 1 from windlass_task force index (windlass_task_due)
where status = 0 and kind = :kind and priority = :priority and due_at <= :until
""")

CHANGE = """
update {rows} straight_join windlass_task as t force index (primary) on t.id = changes.id
set {changed} where {as_taken} changes.fence
"""
# Skips rows that must be deleted after their run.
VISIT = f"""
update json_table(:rows, '$[*]' columns (
    id bigint path '$[0]', fence bigint path '$[1]', began bigint path '$[2]')) as c
straight_join windlass_task as t force index (primary) on t.id = c.id
set {VISITED}, started_at = c.began
where {{as_taken}} c.fence and t.prune_at is null
"""


class MySQL(MySQLServer, TaskStatements):
    """MySQL and MariaDB."""

    hint = HINT
    change_text, visit_text, remove_text = CHANGE, VISIT, REMOVE_AS_TAKEN
    of_task = "t."
    unless_there = "on duplicate key update id = windlass_task.id"
    returning = ""

    def added(self) -> str:
        sums = (f"windlass_stat.{each} = windlass_stat.{each} + counts.{each}" for each in COUNTED)
        return f"on duplicate key update {', '.join(sums)}"

    def rows(self, name: str, **columns: type) -> str:
        typed = ", ".join(
            f"{column} {TYPES[kind]} path '$.{column}'" for column, kind in columns.items()
        )
        return f"json_table(:{name}, '$[*]' columns ({typed})) as {name}"

    def insert(self, executor: Executor, rows: Sequence[NewTask]) -> set[int]:
        executor.execute(self._insert, {"inserts": document(rows)})
        if all(row.task_key is None for row in rows):
            return {row.id for row in rows}
        ids, parameters = self.ids(row.id for row in rows)
        found = executor.execute(text(f"select id from windlass_task where id {ids}"), parameters)
        return {row[0] for row in found.fetchall()}

    def ensure_all(
        self, connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]
    ) -> None:
        connection.execute(insert(table).prefix_with("ignore"), list(rows))

    def ids(self, ids: Iterable[int]) -> tuple[str, dict[str, str]]:
        # Literal numbers let the optimiser use a range of the primary key.
        return f"in ({', '.join(str(int(number)) for number in ids)})", {}

    def texts(self, texts: Iterable[str]) -> tuple[str, dict[str, str]]:
        parameters = {f"text_{index}": value for index, value in enumerate(texts)}
        return f"in ({', '.join(f':{name}' for name in parameters)})", parameters

    def estimate_due(self, connection: Connection, lane: Lane, *, until: int) -> int:
        asked = {"kind": lane.kind, "priority": lane.priority, "until": until}
        plan = connection.execute(ESTIMATE_DUE, asked).mappings().one()
        return int(plan["rows"] or 0)

    def lanes(self, connection: Connection, kinds: Collection[str]) -> list[Lane]:
        # Priority by priority: the optimiser makes a range only of known values. Otherwise it
        # would read all rows of a kind to find that there is no other priority.
        lanes: list[Lane] = []
        after = dict.fromkeys(kinds, LOWEST)
        while after:
            found = self._first_lanes(connection, after)
            lanes += found
            after = {lane.kind: lane.priority for lane in found}
        return lanes

    def _first_lanes(self, connection: Connection, after: Mapping[str, int]) -> list[Lane]:
        parts: list[str] = []
        values: dict[str, object] = {}
        for index, (kind, priority) in enumerate(after.items()):
            parts.append(FIRST_LANE.format(index=index))
            values |= {f"kind_{index}": kind, f"priority_{index}": priority}
        rows = connection.execute(text(" union all ".join(parts)), values)
        return [Lane(*row) for row in rows.fetchall()]

    def read(self, connection: Connection, lane: Lane, most: Most) -> list[Sequence[Any]]:
        # One JSON column: decoding separate columns takes the driver longer than all the rest.
        rows = tuples(connection.execute(READ, wanted(lane, most)))
        return list(ROWS.decode("[" + ",".join([row[0] for row in rows]) + "]"))

    def give_up(self, connection: Connection, ids: Collection[int]) -> None:
        connection.execute(OFFER, {"ids": document(sorted(ids))})

    def remove_offers(self, connection: Connection, ids: Collection[int]) -> None:
        connection.execute(REMOVE_OFFERS, {"ids": document(sorted(ids))})

    def free(self, connection: Connection, ids: Collection[int]) -> set[int]:
        rows = connection.execute(FREE, {"ids": document(sorted(ids))})
        return {row[0] for row in rows.fetchall()}

    def change(
        self, connection: Connection, changes: Sequence[Change], *, worker: int, is_read: bool
    ) -> dict[int, int | None]:
        statement = self._change[is_read]
        asked = {"changes": document(changes), "worker": worker}
        if _touches(connection, statement, asked, rows=len(changes)):
            changed: dict[int, int | None] = {each.id: each.prune_at for each in changes}
            going = connection.scalars(GOING, {"ids": document(sorted(changed))})
            return changed | dict.fromkeys(going, GOES)
        fences = {change.id: change.fence for change in changes}
        held = self._hold(connection, fences, is_read=is_read)
        ours = [change for change in changes if change.id in held]
        if ours:
            connection.execute(statement, {"changes": document(ours), "worker": worker})
        return held

    def visit(
        self, connection: Connection, visits: Visits, *, worker: int, is_read: bool
    ) -> dict[int, int | None]:
        asked = {**visited(visits, worker), "rows": visited_rows(visits)}
        if _touches(connection, self._visit[is_read], asked, rows=len(visits.rows)):
            return dict.fromkeys(row.id for row in visits.rows)
        return self.change(connection, visits.changes, worker=worker, is_read=is_read)

    def remove(
        self, connection: Connection, fences: Mapping[int, int], *, is_read: bool
    ) -> set[int]:
        listed = document(sorted(fences.items()))
        if _touches(connection, self._remove[is_read], {"fences": listed}, rows=len(fences)):
            return set(fences)
        held = self._hold(connection, fences, is_read=is_read)
        if held:
            connection.execute(REMOVE, {"ids": document(sorted(held))})
        return set(held)

    def _hold(
        self, connection: Connection, fences: Mapping[int, int], *, is_read: bool
    ) -> dict[int, int | None]:
        """Lock the rows that have not changed since they were taken: id to `prune_at`."""
        rows = connection.execute(HOLD[is_read], {"ids": document(sorted(fences))})
        return {row[0]: row[2] for row in rows.fetchall() if fences[row[0]] == row[1]}


def _touches(
    connection: Connection, statement: TextClause, asked: dict[str, Any], *, rows: int
) -> bool:
    """Whether the statement touched exactly `rows` rows; if not, it is rolled back."""
    # Not a `with` block: after a deadlock the savepoint is gone, and the error about that would
    # hide the deadlock.
    attempt = connection.begin_nested()
    if connection.execute(statement, asked).rowcount == rows:
        attempt.commit()
        return True
    attempt.rollback()
    return False
