"""MySQL 8 and MariaDB 10.6 or newer, through PyMySQL, always in READ COMMITTED."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
from sqlalchemy import URL, Connection, Engine, Table, TextClause, event, insert, text

from windlass.database.dialect.base import (
    ALIVE,
    AS_TAKEN,
    COLUMNS,
    PICK,
    VISITED,
    Count,
    Executor,
    Lane,
    Most,
    NewItems,
    PickAndStamp,
    encode,
    original,
    tuples,
    visited,
    visited_rows,
    wanted,
)
from windlass.value.outcome import Change, Visits
from windlass.value.period import GOES, PAYLOAD
from windlass.value.task import NewTask

HINT = "force index (windlass_task_due)"
READ = text(PICK.replace(COLUMNS, f"json_array({COLUMNS})").format(hint=HINT, lock=""))
Picked = tuple[int, str, str | None, int, int, str, int, int, int | None, int, int | None]
ROWS = msgspec.json.Decoder(list[Picked])

# One row after the other by its id, in the order of the list: a table that is scanned because it
# is small is a table that is locked.
BY_ID_OF = """json_table(:ids, '$[*]' columns (id bigint path '$')) as listed
straight_join {table} as t force index (primary) on t.{id} = listed.id"""
BY_ID = BY_ID_OF.format(table="windlass_task", id="id")
# What is found as it was taken, with its fence: by whether it was read or claimed.
HOLD = {
    True: text(
        f"select t.id, t.due_at, t.prune_at from {BY_ID} "
        "where t.status = 0 and t.batch is null for update"
    ),
    False: text(f"select t.id, t.batch, t.prune_at from {BY_ID} where t.status = 1 for update"),
}
FREE = text(f"select t.id from {BY_ID} where t.status in (0, 1) for update skip locked")
REMOVE = text(f"delete t from {BY_ID}")
# All of them at once, if all are as they were taken: nothing then has to come back.
BY_FENCE = """json_table(:fences, '$[*]' columns (
    id bigint path '$[0]', fence bigint path '$[1]')) as listed
straight_join windlass_task as t force index (primary) on t.id = listed.id"""
REMOVE_AS_TAKEN = {
    way: text(f"delete t from {BY_FENCE} where {AS_TAKEN[way]} listed.fence") for way in AS_TAKEN
}
OFFER = text(f"update {BY_ID} set t.batch = 0 where t.status = 0 and t.batch is null")
REMOVE_OFFERS = text("delete t from " + BY_ID_OF.format(table="windlass_offer", id="task_id"))
GOING = text(f"select t.id from {BY_ID} where t.prune_at = {GOES}")
LOWEST = -32_769
LOCK_SECONDS = 2
FIRST_LANE = """(
    select kind, priority, due_at from windlass_task force index (windlass_task_due)
    where status = 0 and kind = :kind_{index} and priority > :priority_{index}
      and due_at is not null
    order by priority, due_at limit 1
)"""

CONFLICTS = {1213, 1205, 1020}
OUTAGES = {
    1040,
    1053,
    1114,
    1290,
    1792,
    1836,
    1077,
    1152,
    1158,
    1159,
    1160,
    1161,
    1927,
    2002,
    2003,
    2006,
    2013,
    2055,
    4031,
}

TAKE_NUMBERS = text(
    "update windlass_number set next = last_insert_id(next) + :count where name = 'id'"
)

INSERT = text("""
insert into windlass_task
    (id, kind, task_key, bucket, status, priority, due_at, payload, created_at)
select id, kind, task_key, bucket, 0, priority, due_at, payload, created_at
from json_table(:rows, '$[*]' columns (
    id bigint path '$.id', kind varchar(100) path '$.kind', task_key varchar(255) path '$.task_key',
    bucket smallint path '$.bucket', priority smallint path '$.priority',
    due_at bigint path '$.due_at', payload mediumtext path '$.payload',
    created_at bigint path '$.created_at')) as r
on duplicate key update id = windlass_task.id
""")

INSERT_ITEMS = text(f"""
insert into windlass_task
    (id, kind, task_key, bucket, status, priority, due_at, payload, created_at)
select id, :kind, code, bucket, 0, :priority, due_at, '{PAYLOAD}', :created_at
from json_table(:rows, '$[*]' columns (
    id bigint path '$[0]', code varchar(255) path '$[1]', bucket smallint path '$[2]',
    due_at bigint path '$[3]')) as r
on duplicate key update id = windlass_task.id
""")

COUNT_MADE = text("""
select count(*) from windlass_task where id between :first and :last and kind = :kind
""")

ESTIMATE_DUE = text("""
explain select 1 from windlass_task force index (windlass_task_due)
where status = 0 and kind = :kind and priority = :priority and due_at <= :until
""")

CHANGE = f"""
update json_table(:changes, '$[*]' columns (
    id bigint path '$.id', fence bigint path '$.fence', status smallint path '$.status',
    due_at bigint path '$.due_at', attempt int path '$.attempt', lost smallint path '$.lost',
    started_at bigint path '$.started_at',
    finished_at bigint path '$.finished_at', prune_at bigint path '$.prune_at',
    last_status smallint path '$.last_status', result mediumtext path '$.result',
    remark mediumtext path '$.remark', payload mediumtext path '$.payload',
    priority smallint path '$.priority')) as c
straight_join windlass_task as t force index (primary) on t.id = c.id
set t.status = c.status, t.due_at = c.due_at, t.batch = null, t.attempt = c.attempt,
    t.lost = c.lost, t.lost_in_a_row = 0, t.started_at = c.started_at, t.worker = :worker,
    t.finished_at = coalesce(c.finished_at, t.finished_at),
    t.prune_at = if(t.prune_at = {GOES}, t.prune_at, c.prune_at),
    t.last_status = coalesce(c.last_status, t.last_status),
    t.result = c.result, t.remark = if(c.finished_at is null, t.remark, c.remark),
    t.payload = coalesce(c.payload, t.payload), t.priority = coalesce(c.priority, t.priority)
where {{as_taken}} c.fence
"""
# An item that was removed while it was visited is none of them.
VISIT = f"""
update json_table(:rows, '$[*]' columns (
    id bigint path '$[0]', fence bigint path '$[1]', began bigint path '$[2]')) as c
straight_join windlass_task as t force index (primary) on t.id = c.id
set {VISITED}, started_at = c.began
where {{as_taken}} c.fence and t.prune_at is null
"""
VISIT_AS_TAKEN = {way: text(VISIT.format(as_taken=AS_TAKEN[way])) for way in AS_TAKEN}
CHANGE_AS_TAKEN = {way: text(CHANGE.format(as_taken=AS_TAKEN[way])) for way in AS_TAKEN}

COUNT = text("""
insert into windlass_stat (minute, kind, worker, done, failed, retried, milliseconds)
select minute, kind, worker, done, failed, retried, milliseconds
from json_table(:counts, '$[*]' columns (
    minute bigint path '$.minute', kind varchar(100) path '$.kind', worker bigint path '$.worker',
    done bigint path '$.done', failed bigint path '$.failed', retried bigint path '$.retried',
    milliseconds bigint path '$.milliseconds')) as c
on duplicate key update
    windlass_stat.done = windlass_stat.done + c.done,
    windlass_stat.failed = windlass_stat.failed + c.failed,
    windlass_stat.retried = windlass_stat.retried + c.retried,
    windlass_stat.milliseconds = windlass_stat.milliseconds + c.milliseconds
""")


class MySQL(PickAndStamp):
    """MySQL and its sister. Rows are locked and changed by primary key."""

    name = "mysql"
    compares_rows = False
    in_key_index = "true"
    hint = HINT
    lock = "for update skip locked"
    greatest = "greatest"
    read_now = "lock in share mode"
    hold_shared = "lock in share mode"
    has_shard = (
        "select 1 from information_schema.tables "
        "where table_schema = database() and table_name = 'windlass_shard'"
    )

    def __init__(self) -> None:
        super().__init__()
        self._server = self.name
        # Both servers know this form of a shared lock.
        self._alive = text(ALIVE + " lock in share mode")
        self._lock_worker = text(ALIVE + " for update")

    @property
    def server(self) -> str:
        """MySQL or MariaDB, which is known after the first connection."""
        return self._server

    def engine_options(self, url: URL) -> dict[str, Any]:
        return {
            "pool_size": 8,
            "max_overflow": 8,
            "isolation_level": "READ COMMITTED",
            # A connection that is given back has ended its transaction: to end it once more would
            # be one more round trip for each.
            "pool_reset_on_return": None,
            "connect_args": {
                "charset": "utf8mb4",
                "connect_timeout": 5,
                "read_timeout": 60,
                "write_timeout": 60,
            },
        }

    def prepare(self, engine: Engine) -> None:
        @event.listens_for(engine, "connect")
        def on_connect(raw: Any, _record: object) -> None:
            # A stopped process must not hold its locks for long. MySQL has no such limit.
            with raw.cursor() as cursor:
                # Nor wait for long: a finish that waits keeps its worker from giving signs of life.
                cursor.execute(f"set session innodb_lock_wait_timeout = {LOCK_SECONDS}")
                if "mariadb" in str(raw.get_server_info()).lower():
                    self._server = "mariadb"
                    seconds = max(1, self.idle_milliseconds // 1_000)
                    cursor.execute(f"set session idle_transaction_timeout = {seconds}")

    def is_conflict(self, problem: Exception) -> bool:
        return _number_of(problem) in CONFLICTS

    def is_outage(self, problem: Exception) -> bool:
        return _number_of(problem) in OUTAGES

    def is_duplicate(self, problem: Exception) -> bool:
        return _number_of(problem) == 1062

    def is_elsewhere(self, problem: Exception) -> bool:
        return _number_of(problem) in (1046, 1146)  # no database chosen, no such table

    def measure(self, connection: Connection) -> int:
        now = text("select timestampdiff(microsecond, '1970-01-01', utc_timestamp(6))")
        return int(connection.execute(now).scalar_one())

    def take_numbers(self, executor: Executor, count: int) -> list[range]:
        executor.execute(TAKE_NUMBERS, {"count": count})
        first = int(executor.execute(text("select last_insert_id()"), {}).fetchall()[0][0])
        return [range(first, first + count)]

    def insert(self, executor: Executor, rows: Sequence[NewTask]) -> set[int]:
        executor.execute(INSERT, {"rows": encode(rows).decode()})
        if all(row.task_key is None for row in rows):
            return {row.id for row in rows}
        ids, parameters = self.ids(row.id for row in rows)
        found = executor.execute(text(f"select id from windlass_task where id {ids}"), parameters)
        return {row[0] for row in found.fetchall()}

    def insert_items(self, connection: Connection, new: NewItems) -> int:
        parameters = {
            "kind": new.kind,
            "priority": new.priority,
            "created_at": new.created_at,
            "rows": encode(new.rows).decode(),
        }
        connection.execute(INSERT_ITEMS, parameters)
        made = 0
        for numbers in _stretches([row.id for row in new.rows]):
            between = {"first": numbers[0], "last": numbers[-1], "kind": new.kind}
            made += int(connection.execute(COUNT_MADE, between).scalar_one())
        return made

    def ensure_all(
        self, connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]
    ) -> None:
        connection.execute(insert(table).prefix_with("ignore"), list(rows))

    def estimate_due(self, connection: Connection, lane: Lane, *, until: int) -> int:
        asked = {"kind": lane.kind, "priority": lane.priority, "until": until}
        plan = connection.execute(ESTIMATE_DUE, asked).mappings().one()
        return int(plan["rows"] or 0)

    def lanes(self, connection: Connection, kinds: Collection[str]) -> list[Lane]:
        # Priority by priority: it makes a range only of values that it knows beforehand, and
        # would walk through all rows of a kind to find that no other priority is there.
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
        # The columns of a row, one by one, take the driver longer than everything else together.
        rows = tuples(connection.execute(READ, wanted(lane, most)))
        return list(ROWS.decode("[" + ",".join([row[0] for row in rows]) + "]"))

    def give_up(self, connection: Connection, ids: Collection[int]) -> None:
        connection.execute(OFFER, {"ids": encode(sorted(ids)).decode()})

    def remove_offers(self, connection: Connection, ids: Collection[int]) -> None:
        connection.execute(REMOVE_OFFERS, {"ids": encode(sorted(ids)).decode()})

    def is_locked(self, problem: Exception) -> bool:
        return _number_of(problem) == 1205

    def free(self, connection: Connection, ids: Collection[int]) -> set[int]:
        rows = connection.execute(FREE, {"ids": encode(sorted(ids)).decode()})
        return {row[0] for row in rows.fetchall()}

    def alive(self, connection: Connection, worker: int, *, patient: bool = True) -> bool:
        return connection.execute(self._alive, {"worker": worker}).first() is not None

    def lock_worker(self, connection: Connection, worker: int, *, patient: bool = True) -> bool:
        return connection.execute(self._lock_worker, {"worker": worker}).first() is not None

    def change(
        self, connection: Connection, changes: Sequence[Change], *, worker: int, is_read: bool
    ) -> dict[int, int | None]:
        statement = CHANGE_AS_TAKEN[is_read]
        asked = {"changes": encode(changes).decode(), "worker": worker}
        if _touches(connection, statement, asked, rows=len(changes)):
            changed: dict[int, int | None] = {each.id: each.prune_at for each in changes}
            going = connection.scalars(GOING, {"ids": encode(sorted(changed)).decode()})
            return changed | dict.fromkeys(going, GOES)
        fences = {change.id: change.fence for change in changes}
        held = self._hold(connection, fences, is_read=is_read)
        ours = [change for change in changes if change.id in held]
        if ours:
            connection.execute(statement, {"changes": encode(ours).decode(), "worker": worker})
        return held

    def visit(
        self, connection: Connection, visits: Visits, *, worker: int, is_read: bool
    ) -> dict[int, int | None]:
        asked = {**visited(visits, worker), "rows": visited_rows(visits)}
        if _touches(connection, VISIT_AS_TAKEN[is_read], asked, rows=len(visits.rows)):
            return dict.fromkeys(row.id for row in visits.rows)
        return self.change(connection, visits.changes, worker=worker, is_read=is_read)

    def remove(
        self, connection: Connection, fences: Mapping[int, int], *, is_read: bool
    ) -> set[int]:
        listed = encode(sorted(fences.items())).decode()
        if _touches(connection, REMOVE_AS_TAKEN[is_read], {"fences": listed}, rows=len(fences)):
            return set(fences)
        held = self._hold(connection, fences, is_read=is_read)
        if held:
            connection.execute(REMOVE, {"ids": encode(sorted(held)).decode()})
        return set(held)

    def _hold(
        self, connection: Connection, fences: Mapping[int, int], *, is_read: bool
    ) -> dict[int, int | None]:
        """Lock the rows that are still as they were taken, by id: id to `prune_at`."""
        rows = connection.execute(HOLD[is_read], {"ids": encode(sorted(fences)).decode()})
        return {row[0]: row[2] for row in rows.fetchall() if fences[row[0]] == row[1]}

    def count(self, connection: Connection, counts: Sequence[Count]) -> None:
        connection.execute(COUNT, {"counts": encode(counts).decode()})

    def ids(self, ids: Iterable[int]) -> tuple[str, dict[str, str]]:
        # Numbers of our own, written out: the optimiser then sees a range of the primary key.
        return f"in ({', '.join(str(int(number)) for number in ids)})", {}

    def texts(self, texts: Iterable[str]) -> tuple[str, dict[str, str]]:
        parameters = {f"text_{index}": value for index, value in enumerate(texts)}
        return f"in ({', '.join(f':{name}' for name in parameters)})", parameters

    def raw_cursor(self, raw: Any) -> Any:
        from pymysql.cursors import Cursor

        return raw.cursor(Cursor) if type(raw).__module__.startswith("pymysql") else raw.cursor()


def _stretches(numbers: Sequence[int]) -> Iterator[Sequence[int]]:
    """Numbers that follow each other, together."""
    begin = 0
    for index in range(1, len(numbers) + 1):
        if index == len(numbers) or numbers[index] != numbers[index - 1] + 1:
            yield numbers[begin:index]
            begin = index


def _touches(
    connection: Connection, statement: TextClause, asked: dict[str, Any], *, rows: int
) -> bool:
    """Run a statement that is to touch so many rows; if it does not, it has touched none."""
    # Not as a context: after a deadlock the server has forgotten the savepoint, and the complaint
    # about that would take the place of the one that says so.
    attempt = connection.begin_nested()
    if connection.execute(statement, asked).rowcount == rows:
        attempt.commit()
        return True
    attempt.rollback()
    return False


def _number_of(problem: Exception) -> int | None:
    args = original(problem).args
    return args[0] if args and isinstance(args[0], int) else None
