"""MySQL and MariaDB, through PyMySQL, always in READ COMMITTED.

Statements on task rows lock and change them by primary key. Both servers take the same statements;
what differs between their sessions is in `mysql_server`.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from inspect import signature
from operator import itemgetter
from typing import Any

import msgspec
from sqlalchemy import URL, Connection, Engine, Table, TextClause, event, insert, text
from sqlalchemy.exc import DisconnectionError

from windlass.database.access import pymysql_url, ssl_arguments
from windlass.database.bound import Bounds
from windlass.database.dialect import statement as sql
from windlass.database.dialect.base import (
    Dialect,
    Executor,
    Login,
    Most,
    Tier,
    document,
    original,
    tuples,
    visited_rows,
    wanted,
)
from windlass.database.dialect.mysql_server import EXPLAIN, HOLD_T, Server, identify
from windlass.database.gone import traces_of
from windlass.value.outcome import Change, Visits
from windlass.value.period import GOES
from windlass.value.task import NewLaneTask, NewTask

# Both servers accept this form of a shared lock.
SHARED = "lock in share mode"
TAKE_NUMBERS = text(
    "update windlass_number set next = last_insert_id(next) + :count where name = 'id'"
)

# SQL types of the columns of a list.
TYPES = {int: "bigint", str: "varchar(255)", sql.LongText: "mediumtext"}

HINT = "force index (windlass_task_due)"
LANE_HINT = "force index (windlass_task_lane)"
# In a recursive part, or joined to a list, it would read all rows of a kind: it needs known values.
LANE_CHUNK = 256
LANE_STEPS = 64
LANES = text(f"""
select lane_place from windlass_task {LANE_HINT}
where kind = :kind and status = 0 and lane_place between :first and :last and due_at is not null
order by lane_place limit {LANE_CHUNK}
""")
AT_PLACES = """
select lane_place, id from windlass_task {hint}
where kind = :kind and status = :status and lane_place in ({places}) and due_at is not null
"""
FIRST_OF_LANE = f"""(
    select {sql.LANE_COLUMNS} from windlass_task {LANE_HINT}
    where kind = :kind and status = 0 and lane_place between {{first}} and {{last}}
      and due_at is not null
    order by lane_place, due_at, id limit {{most}}
)"""
LANES_AT_ONCE = 100
Picked = tuple[int, str, str | None, int, int, str, int, int, int | None, int, int | None]
# The columns of a row as one JSON array. Joining its parts costs the server less than `json_array`.
LINE = """concat('[', id, ',', json_quote(kind), ',', coalesce(json_quote(task_key), 'null'), ',',
    priority, ',', due_at, ',', json_quote(payload), ',', attempt, ',', lost, ',',
    coalesce(started_at, 'null'), ',', bucket, ',', coalesce(flow_id, 'null'), ']')"""
READ = sql.PICK.replace(sql.COLUMNS, f"{LINE} as line").format(hint=HINT, lock="")
READ_LINES = text(READ)
# One line for all rows: for each row, the driver takes longer than the server.
READ_PAGE = text(f"select count(*), group_concat(line) from ({READ}) as page")
DUE_AT = itemgetter(4)
ROWS = msgspec.json.Decoder(list[Picked])

# Row by row by id, in the order of the list: scanning a small table would lock all of it.
BY_ID_OF = """json_table(:ids, '$[*]' columns (id bigint path '$')) as listed
straight_join {table} as t force index (primary) on t.{id} = listed.id"""
BY_ID = BY_ID_OF.format(table="windlass_task", id="id")
# Locks rows and returns their fences, by whether they were read or claimed.
HOLD = {
    True: text(
        f"select t.id, t.due_at, t.prune_at from {BY_ID} "
        f"where t.status = 0 and t.batch is null {HOLD_T}"
    ),
    False: text(f"select t.id, t.batch, t.prune_at from {BY_ID} where t.status = 1 {HOLD_T}"),
}
FREE = text(f"select t.id from {BY_ID} where t.status in (0, 1) {HOLD_T} skip locked")
REMOVE = text(f"delete t from {BY_ID}")
# Removes all rows in one statement without a result, if none has changed since it was taken.
BY_FENCE = """json_table(:fences, '$[*]' columns (
    id bigint path '$[0]', fence bigint path '$[1]')) as listed
straight_join windlass_task as t force index (primary) on t.id = listed.id"""
REMOVE_AS_TAKEN = f"delete t from {BY_FENCE} where {{as_taken}} listed.fence"
OFFER = text(f"update {BY_ID} set t.batch = 0 where t.status = 0 and t.batch is null")
REMOVE_OFFERS = text("delete t from " + BY_ID_OF.format(table="windlass_offer", id="task_id"))
GOING = text(f"select t.id from {BY_ID} where t.prune_at = {GOES}")
SAVEPOINT = text("savepoint windlass_touch")
ROLL_BACK = text("rollback to savepoint windlass_touch")
LOWEST = -32_769
FIRST_TIER = """(
    select kind, priority, due_at from windlass_task force index (windlass_task_due)
    where status = 0 and kind = :kind_{index} and priority > :priority_{index}
      and due_at is not null
    order by priority, due_at limit 1
)"""

ESTIMATE_DUE = text(f"""
{EXPLAIN} select 1 from windlass_task force index (windlass_task_due)
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
set {sql.VISITED}, started_at = c.began
where {{as_taken}} c.fence and t.prune_at is null
"""


class MySQL(Dialect):
    """MySQL or MariaDB; which one is known after the first connection."""

    name = "mysql"
    compares_rows = False
    fence_stops_heartbeat = True
    read_now = SHARED
    hold_shared = SHARED
    in_key_index = "true"
    has_shard = (
        "select 1 from information_schema.tables "
        "where table_schema = database() and table_name = 'windlass_shard'"
    )
    conflicts = (1213, 1205, 1020, 1684)
    locked = (1205,)
    # A login that was refused is one too, as in PostgreSQL: the password may be changing.
    # fmt: off
    outages = (
        1040, 1045, 1053, 1077, 1114, 1152, 1158, 1159, 1160, 1161, 1290, 1698, 1792, 1836, 1927,
        1969, 2002, 2003, 2006, 2013, 2026, 2055, 3024, 3159, 4031,
    )
    # fmt: on
    read_only = (1290, 1792, 1836)
    duplicates = (1062,)
    # No database is selected, or the table does not exist.
    missing = (1046, 1146)

    hint = HINT
    lane_hint = LANE_HINT
    change_text, visit_text, remove_text = CHANGE, VISIT, REMOVE_AS_TAKEN
    of_task = "t."
    unless_there = "on duplicate key update id = windlass_task.id"
    returning = ""
    clock_text = "select timestampdiff(microsecond, '1970-01-01', utc_timestamp(6))"

    def __init__(self) -> None:
        super().__init__()
        # The kinds whose rows did not fit into one line; they are read row by row.
        self._wide: set[str] = set()

    def engine_options(self, url: URL, bounds: Bounds) -> dict[str, Any]:
        return {
            **bounds.pool,
            "isolation_level": "READ COMMITTED",
            # What is used stays in use, and what is idle ends.
            "pool_use_lifo": True,
            # A returned connection has ended its transaction; a reset would cost a round trip.
            "pool_reset_on_return": None,
            "connect_args": {
                "charset": "utf8mb4",
                "connect_timeout": bounds.connect,
                "read_timeout": bounds.socket,
                "write_timeout": bounds.socket,
                **ssl_arguments(url),
            },
        }

    def clean(self, url: URL) -> URL:
        return pymysql_url(url)

    def known_options(self) -> Collection[str]:
        from pymysql import Connection as Raw

        return signature(Raw.__init__).parameters

    def login(self, connection: Connection) -> Login:
        user = connection.exec_driver_sql("select current_user()").scalar_one()
        found = connection.exec_driver_sql("show session status like 'Ssl_version'").fetchall()
        return Login(str(user), found[0][1] or None if found else None)

    def prepare(self, engine: Engine, bounds: Bounds | None) -> None:
        limit = None if bounds is None else bounds.statement
        idle = max(1, self.idle_milliseconds // 1_000)

        @event.listens_for(engine, "connect")
        def on_connect(raw: Any, record: Any) -> None:
            server = identify(raw)
            self.server = server.name
            settings = server.settings(idle_seconds=idle, statement_seconds=limit)
            with raw.cursor() as cursor:
                cursor.execute("set session " + ", session ".join(settings))
            record.info[Server] = server

        @event.listens_for(engine, "checkin")
        def on_checkin(_raw: object, record: Any) -> None:
            record.info["idle_since"] = time.monotonic()

        @event.listens_for(engine, "checkout")
        def on_checkout(_raw: object, record: Any, _proxy: object) -> None:
            if not record.info[Server].closes_idle_connections:
                return
            # Long before the server closes it, so that no statement meets the end.
            if time.monotonic() - record.info.get("idle_since", time.monotonic()) > idle / 2:
                raise DisconnectionError("idle for too long")

    def abort(self, connection: Connection) -> None:
        raw: Any = connection.connection.driver_connection
        # Without this, the server would first finish a statement that it is in.
        with connection.engine.connect() as other:
            other.exec_driver_sql(f"kill {raw.thread_id()}")

    def raw_cursor(self, raw: Any) -> Any:
        from pymysql.cursors import Cursor

        return raw.cursor(Cursor) if type(raw).__module__.startswith("pymysql") else raw.cursor()

    def code_of(self, problem: Exception) -> object:
        args = original(problem).args
        return args[0] if args and isinstance(args[0], int) else None

    def take_numbers(self, executor: Executor, count: int) -> list[range]:
        executor.execute(TAKE_NUMBERS, {"count": count})
        first = int(executor.execute(text("select last_insert_id()"), {}).fetchall()[0][0])
        return [range(first, first + count)]

    def added(self) -> str:
        sums = (
            f"windlass_stat.{each} = windlass_stat.{each} + counts.{each}" for each in sql.COUNTED
        )
        return f"on duplicate key update {', '.join(sums)}"

    def rows(self, name: str, **columns: type) -> str:
        typed = ", ".join(
            f"{column} {TYPES[kind]} path '$.{column}'" for column, kind in columns.items()
        )
        return f"json_table(:{name}, '$[*]' columns ({typed})) as {name}"

    def insert(self, executor: Executor, rows: Sequence[NewTask]) -> set[int]:
        executor.execute(self._insert, {"inserts": document(rows)})
        return self._inserted(executor, rows)

    def _inserted(self, executor: Executor, rows: Sequence[NewTask]) -> set[int]:
        """The ids of those of the rows that are there."""
        if all(row.task_key is None for row in rows):
            return {row.id for row in rows}
        ids, parameters = self.ids(row.id for row in rows)
        found = executor.execute(text(f"select id from windlass_task where id {ids}"), parameters)
        return {row[0] for row in found.fetchall()}

    def insert_laned(self, executor: Executor, rows: Sequence[NewLaneTask]) -> set[int]:
        executor.execute(self._insert_laned, {"inserts": document(rows)})
        return self._inserted(executor, rows)

    def lanes(
        self, connection: Connection, kind: str, places: range, *, limit: int
    ) -> tuple[list[int], bool]:
        found: dict[int, None] = {}
        asked = {"kind": kind, "first": places.start, "last": places.stop - 1}
        for _ in range(LANE_STEPS):
            chunk = list(connection.scalars(LANES, asked)) if places else []
            found.update(dict.fromkeys(chunk))
            if len(chunk) < LANE_CHUNK:
                return list(found)[:limit], len(found) <= limit
            if len(found) >= limit:
                break
            # Past all rows of the last lane.
            asked["first"] = chunk[-1] + 1
        return list(found)[:limit], False

    def chains(
        self, connection: Connection, kind: str, numbers: Collection[int], *, most: int
    ) -> list[Sequence[Any]]:
        given = list(numbers)
        found: list[Sequence[Any]] = []
        for begin in range(0, len(given), LANES_AT_ONCE):
            some = given[begin : begin + LANES_AT_ONCE]
            found += self._chains_of(connection, kind, some, most=most)
        return found

    def _chains_of(
        self, connection: Connection, kind: str, numbers: list[int], *, most: int
    ) -> list[Sequence[Any]]:
        places = [place for number in numbers for place in (2 * number, 2 * number + 1)]
        running = self._at_places(connection, kind, places, status=1)
        busy = {place >> 1 for place, _ in running}
        parts = [
            FIRST_OF_LANE.format(first=2 * number, last=2 * number + 1, most=most)
            for number in numbers
            if number not in busy
        ]
        if not parts:
            return []
        statement = text(" union all ".join(parts))
        return list(connection.execute(statement, {"kind": kind}).fetchall())

    def _at_places(
        self, connection: Connection, kind: str, places: list[int], *, status: int
    ) -> list[tuple[int, int]]:
        if not places:
            return []
        statement = AT_PLACES.format(hint=self.lane_hint, places=", ".join(map(str, places)))
        rows = connection.execute(text(statement), {"kind": kind, "status": status})
        return [(place, number) for place, number in rows]

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

    def estimate_due(self, connection: Connection, tier: Tier, *, until: int) -> int:
        asked = {"kind": tier.kind, "priority": tier.priority, "until": until}
        plan = connection.execute(ESTIMATE_DUE, asked).mappings().one()
        # MariaDB may add what a filter leaves: "3 (0%)".
        return int(str(plan["rows"] or 0).split()[0])

    def tiers(self, connection: Connection, kinds: Collection[str]) -> list[Tier]:
        # Priority by priority: the optimiser makes a range only of known values. Otherwise it
        # would read all rows of a kind to find that there is no other priority.
        tiers: list[Tier] = []
        after = dict.fromkeys(kinds, LOWEST)
        while after:
            found = self._first_tiers(connection, after)
            tiers += found
            after = {tier.kind: tier.priority for tier in found}
        return tiers

    def _first_tiers(self, connection: Connection, after: Mapping[str, int]) -> list[Tier]:
        parts: list[str] = []
        values: dict[str, object] = {}
        for index, (kind, priority) in enumerate(after.items()):
            parts.append(FIRST_TIER.format(index=index))
            values |= {f"kind_{index}": kind, f"priority_{index}": priority}
        rows = connection.execute(text(" union all ".join(parts)), values)
        return [Tier(*row) for row in rows.fetchall()]

    def read(self, connection: Connection, tier: Tier, most: Most) -> list[Sequence[Any]]:
        # One JSON column: decoding separate columns takes the driver longer than all the rest.
        asked = wanted(tier, most)
        if self.server == "mysql" and tier.kind not in self._wide:
            rows = _page(connection, asked)
            if rows is not None:
                return rows
            self._wide.add(tier.kind)
        lines = tuples(connection.execute(READ_LINES, asked))
        return list(ROWS.decode("[" + ",".join([line[0] for line in lines]) + "]"))

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
        asked = {**sql.visited(visits, worker), "rows": visited_rows(visits)}
        if _touches(connection, self._visit[is_read], asked, rows=len(visits.rows)):
            return dict.fromkeys(row.id for row in visits.rows)
        return self.change(connection, visits.changes, worker=worker, is_read=is_read)

    def remove(
        self, connection: Connection, fences: Mapping[int, int], *, is_read: bool, now: int
    ) -> set[int]:
        if self.keeps_traces:
            self.remember(connection, traces_of(fences, now=now))
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


def _page(connection: Connection, asked: dict[str, Any]) -> list[Sequence[Any]] | None:
    """All rows of a read, sent as one line; None if the server cut it off as too long."""
    count, lines = tuples(connection.execute(READ_PAGE, asked))[0]
    try:
        rows = ROWS.decode(f"[{lines or ''}]")
    except msgspec.DecodeError:
        return None
    # The server need not keep the order of a table that it has made.
    return sorted(rows, key=DUE_AT) if len(rows) == count else None


def _touches(
    connection: Connection, statement: TextClause, asked: dict[str, Any], *, rows: int
) -> bool:
    """Whether the statement touched exactly `rows` rows; if not, it is rolled back."""
    # Plain statements: the savepoint ends with the transaction, and to release it before would
    # cost one more round trip.
    connection.execute(SAVEPOINT)
    if connection.execute(statement, asked).rowcount == rows:
        return True
    connection.execute(ROLL_BACK)
    return False
