"""PostgreSQL, through psycopg 3: one round trip where others need several.

Nothing here needs a session, so pgbouncer may be in between.
"""

from __future__ import annotations

import math
import os
import socket
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import msgspec
from sqlalchemy import URL, Connection, Engine, Table, TextClause, event, text
from sqlalchemy.dialects.postgresql import insert

from windlass.database.access import libpq_url
from windlass.database.bound import Bounds
from windlass.database.dialect import statement as sql
from windlass.database.dialect.base import (
    BLOCK,
    Dialect,
    Executor,
    Login,
    Most,
    Stamp,
    Tier,
    document,
    original,
    stamped,
    tuples,
    wanted,
)
from windlass.database.dialect.psycopg import (
    array,
    bounded,
    copy_lines,
    driver_of,
    escaped,
    is_direct,
    known_options,
    limit_statements,
    refuse_old,
    told,
)
from windlass.database.dialect.qualify import qualify_on
from windlass.database.gone import traces_of
from windlass.value.outcome import Change, Visits
from windlass.value.period import GOES
from windlass.value.task import Claimed, NewLaneTask, NewTask

CHANNEL = "windlass"
NOTIFY = text(f"select pg_notify('{CHANNEL}', :who)")

# Marks short statements that run often: they are prepared, because planning would cost as much.
OFTEN = "windlass_often"
NEVER_BY_ITSELF = 1_000_000_000

LOGIN = "select current_user, (select version from pg_stat_ssl where pid = pg_backend_pid())"

LOCK_MILLISECONDS = "1000"
ABORT_SECONDS = 1.0
# SQL states of connection errors start with this.
CONNECTION = "08"


def often(statement: str) -> TextClause:
    """A statement that each connection prepares once."""
    return text(statement).execution_options(**{OFTEN: True})


TAKE_NUMBERS = text("select nextval('windlass_number_id') from generate_series(1, :blocks)")

ALIVE = often("""
select id, set_config('idle_in_transaction_session_timeout', :idle, true),
    set_config('lock_timeout', :lock, true)
from windlass_worker where id = :worker and left_at is null for key share
""")

# The settings come first: they limit the wait for the rows.
ALIVE_WITH = often("""
with setting as materialized (
    select set_config('idle_in_transaction_session_timeout', :idle, true) as idle,
        set_config('lock_timeout', :lock, true) as wait
), alive as materialized (
    select id from windlass_worker
    where id = :worker and left_at is null and (select idle from setting) is not null
    for key share
), run as materialized (
    select id, open_slots from windlass_task
    where id = any(cast(:runs as bigint[])) and status = 1 and exists (select from alive)
    order by id for update
)
select alive.id, run.id, run.open_slots from alive left join run on true
""")

LOCK_WORKER = often(str(ALIVE).replace("for key share", "for update"))


def listed(query: str) -> str:
    """Rows by primary key. The planner expects such a list to be short and uses the index, even if
    its statistics are wrong for a table that grows and shrinks every second."""
    return f"any(array({query}))"


BY_ID = listed("select unnest(cast(:ids as bigint[]))")

COPY = """
copy windlass_task (id, kind, bucket, status, priority, due_at, payload, created_at) from stdin
"""

COPY_LANED = COPY.replace("created_at)", "created_at, lane, lane_place)")

ESTIMATE_DUE = text("""
explain (format json) select 1 from windlass_task
where status = 0 and kind = :kind and priority = :priority and due_at <= :until
""")

INSERT_ONE = text("""
insert into windlass_task
    (id, kind, task_key, bucket, status, priority, due_at, payload, created_at)
values (:id, :kind, :task_key, :bucket, 0, :priority, :due_at, cast(:payload as json), :created_at)
on conflict do nothing returning id
""")

# A statement that commits alone may run after its caller has given it up: a server that stood still
# finds it in its socket. Then the row may have been written by the next try, and run.
ONE_ROW = """
insert into windlass_task
    (id, kind, task_key, bucket, status, priority, due_at, payload, created_at)
select new.id, :kind, :task_key, :bucket, 0, :priority, :due_at, cast(:payload as json), :created_at
from (select cast(:id as bigint) as id) as new
where not exists (
    select from windlass_gone where last_id >= new.id and first_id <= new.id
      and (ids is null or strpos(ids, ',' || (new.id - first_id) || ',') > 0)
)
on conflict do nothing returning id
"""


def and_notify(insert_one: str) -> str:
    """The insert of one row that also wakes idle workers."""
    return f"with made as ({insert_one}) select id, pg_notify('{CHANNEL}', '') from made"


# By whether there are traces, and whether to notify.
INSERT_ALONE = {
    (True, False): text(ONE_ROW),
    (True, True): text(and_notify(ONE_ROW)),
    (False, False): INSERT_ONE,
    (False, True): text(and_notify(INSERT_ONE.text)),
}

# One statement, so one round trip and one commit. The rows are picked in a materialised part: a
# plan that repeats an `in` would exceed the limit inside it. Returns the rows as they were before.
CLAIM = text(f"""
with alive as materialized (
    select id from windlass_worker where id = :worker and left_at is null for key share
), picked as materialized (
    select {sql.COLUMNS}
    from windlass_task
    where {sql.FREE_AND_DUE} and exists (select from alive)
    order by due_at limit :limit for update skip locked
), stamped as (
    update windlass_task
    set status = 1, attempt = attempt + 1, {sql.STAMPED.format(greatest="greatest")}
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
    set {sql.VISITED}, started_at = cast(cast(:began as jsonb) ->> cast(t.id as text) as bigint)
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

# With the traces, in one round trip. Returns the ids as one text: many rows cost the client more.
REMOVE = f"""
with {{remember}}gone as (
    delete from windlass_task as t
    where t.id = {BY_ID}
      and {{as_taken}} cast(cast(:fences as jsonb) ->> cast(t.id as text) as bigint)
    returning t.id
)
select string_agg(cast(id as text), ',') from gone
"""


class PostgreSQL(Dialect):
    """PostgreSQL."""

    name = "postgresql"
    to_json = "cast({} as json)"
    hold_shared = "for share"
    has_shard = "select to_regclass('windlass_shard') is not null"
    commits_alone = True
    wakes = True
    conflicts = ("40001", "40P01", "55P03")
    locked = ("55P03",)
    # A failed or cut connection has no SQL state in psycopg, only an exception class.
    # fmt: off
    outages = (
        CONNECTION, "OperationalError", "ConnectionTimeout", "25006", "25P03", "53100", "53200",
        "53300", "57014", "57P01", "57P02", "57P03",
    )
    # fmt: on
    read_only = ("25006",)
    duplicates = ("23505",)
    # No such table, or no such schema.
    missing = ("42P01", "3F000")

    change_text, visit_text, remove_text = CHANGE, VISIT, REMOVE
    clock_text = "select cast(extract(epoch from clock_timestamp()) * 1000000 as bigint)"
    next_number_text = (
        f"select last_value + case when is_called then {BLOCK} else 0 end from windlass_number_id"
    )
    begin_numbers_text = "select setval('windlass_number_id', :first, false)"

    def __init__(self) -> None:
        super().__init__()
        self._alive, self._lock_worker = ALIVE, LOCK_WORKER
        trace = f"trace as ({self._remember.text}), "
        self._remove_and_remember = self._as_taken(REMOVE, remember=trace)
        kinds = "(select unnest(cast(:kinds as text[])) as kind)"
        self._tiers = text(sql.TIERS.format(hint="", kinds=kinds))
        among = "= " + listed("select unnest(cast(:kinds as text[]))")
        self._abandoned = {
            has_lock: text(
                sql.ABANDONED.format(hint="", kinds=among, lock=self.lock if has_lock else "")
            )
            for has_lock in (False, True)
        }

    def engine_options(self, url: URL, bounds: Bounds) -> dict[str, Any]:
        return {
            **bounds.pool,
            "isolation_level": "READ COMMITTED",
            # Prepared statements belong to a session, so they are used only without a pooler.
            "connect_args": {
                "prepare_threshold": None,
                "connect_timeout": math.ceil(bounds.connect),
                "keepalives_idle": 5,
                "keepalives_interval": 2,
                "keepalives_count": 3,
                "tcp_user_timeout": 10_000,
            },
        }

    def clean(self, url: URL) -> URL:
        return libpq_url(url)

    def known_options(self) -> Collection[str]:
        return known_options()

    def login(self, connection: Connection) -> Login:
        user, version = connection.exec_driver_sql(LOGIN).one()
        raw = driver_of(connection)
        # Behind a pooler, the server knows only the pooler's own connection.
        is_encrypted = raw is not None and raw.pgconn.ssl_in_use
        return Login(user, (version or "TLS") if is_encrypted else None)

    def connector(self, engine: Engine, bounds: Bounds) -> Callable[..., Any]:
        if bounds.socket is None:
            return super().connector(engine, bounds)
        return bounded(bounds.socket).connect

    def prepare(self, engine: Engine, bounds: Bounds | None) -> None:
        from psycopg import ClientCursor
        from psycopg.types.string import TextLoader

        limit = None if bounds is None else bounds.statement

        @event.listens_for(engine, "connect")
        def on_connect(raw: Any, _record: object) -> None:
            refuse_old(raw.info.server_version)
            raw.adapters.register_loader("json", TextLoader)
            if is_direct(raw):
                raw.prepare_threshold = NEVER_BY_ITSELF
                if limit is not None:
                    limit_statements(raw, limit)

        @event.listens_for(engine, "do_execute")
        def prepared(cursor: Any, statement: str, given: Any, context: Any) -> bool:
            if not context.execution_options.get(OFTEN):
                return False
            cursor.execute(statement, given, prepare=True)
            return True

        @event.listens_for(engine, "do_executemany")
        def in_one_message(cursor: Any, statement: str, rows: Any, _context: object) -> bool:
            if "windlass_" not in statement:
                # A statement of the user, who may need the row count.
                return False
            # psycopg would end its pipeline with a flush, after which the server does not measure
            # how long the transaction is idle: a frozen process would keep its locks forever.
            bound = ClientCursor(cursor.connection)
            cursor.execute(";".join([bound.mogrify(statement, row) for row in rows]))
            return True

        if self.qualify is not None:
            qualify_on(engine, self.qualify)
        self._insert_alone = {
            which: self.qualified(str(each.compile(dialect=engine.dialect)))
            for which, each in INSERT_ALONE.items()
        }

    @contextmanager
    def lent(self, connection: Connection) -> Iterator[None]:
        from psycopg.types.json import JsonLoader
        from psycopg.types.string import TextLoader

        raw: Any = connection.connection.driver_connection
        raw.adapters.register_loader("json", JsonLoader)
        try:
            yield
        finally:
            raw.adapters.register_loader("json", TextLoader)

    def abort(self, connection: Connection) -> None:
        raw: Any = connection.connection.driver_connection
        with suppress(Exception):
            raw.cancel_safe(timeout=ABORT_SECONDS)
        # The other thread may be waiting for the server in a statement: that ends now.
        with socket.socket(fileno=os.dup(raw.fileno())) as line:
            line.shutdown(socket.SHUT_RDWR)
        if raw.lock.acquire(timeout=ABORT_SECONDS):
            raw.lock.release()

    def raw_cursor(self, raw: Any) -> Any:
        from psycopg.rows import tuple_row

        return raw.cursor(row_factory=tuple_row) if hasattr(raw, "row_factory") else raw.cursor()

    def code_of(self, problem: Exception) -> object:
        cause = original(problem)
        state: str = getattr(cause, "sqlstate", None) or type(cause).__name__
        return CONNECTION if state.startswith(CONNECTION) else state

    def notify(self, executor: Executor, who: str = "") -> None:
        executor.execute(NOTIFY, {"who": who})

    def take_numbers(self, executor: Executor, count: int) -> list[range]:
        # The sequence counts in blocks, and does not wait for a commit.
        rows = executor.execute(TAKE_NUMBERS, {"blocks": -(-count // BLOCK)}).fetchall()
        return [range(row[0], row[0] + BLOCK) for row in rows]

    def alive_with(
        self, connection: Connection, worker: int, runs: Collection[int], *, patient: bool = True
    ) -> dict[int, int] | None:
        asked = {**self.fence(worker, patient), "runs": array(runs)}
        rows = connection.execute(ALIVE_WITH, asked).fetchall()
        return {run: left for _, run, left in rows if run is not None} if rows else None

    def fence(self, worker: int, patient: bool) -> dict[str, Any]:
        lock = "0" if patient else LOCK_MILLISECONDS
        return {"worker": worker, "idle": str(self.idle_milliseconds), "lock": lock}

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
            return {row[0] for row in inserted.fetchall()}
        return super().insert(executor, rows)

    def insert_alone(self, connection: Connection, row: NewTask, *, notify: bool) -> bool:
        raw = driver_of(connection)
        which = self.keeps_traces, notify
        if raw is None:
            return connection.execute(INSERT_ALONE[which], _fields(row)).first() is not None
        query = self._insert_alone[which]
        with told(connection, raw):
            return raw.execute(query, _fields(row), prepare=True).fetchone() is not None

    def copy(self, executor: Executor, rows: Sequence[NewTask]) -> bool:
        return copy_lines(executor, self.qualified(COPY), rows, _line)

    def copy_laned(self, executor: Executor, rows: Sequence[NewLaneTask]) -> bool:
        return copy_lines(executor, self.qualified(COPY_LANED), rows, _laned_line)

    def ensure_all(
        self, connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]
    ) -> None:
        connection.execute(insert(table).on_conflict_do_nothing(), list(rows))

    def ids(self, ids: Iterable[int]) -> tuple[str, dict[str, str]]:
        return f"= {BY_ID}", {"ids": array(ids)}

    def texts(self, texts: Iterable[str]) -> tuple[str, dict[str, Any]]:
        return "= any(cast(:texts as text[]))", {"texts": list(texts)}

    def estimate_due(self, connection: Connection, tier: Tier, *, until: int) -> int:
        asked = {"kind": tier.kind, "priority": tier.priority, "until": until}
        plan = connection.execute(ESTIMATE_DUE, asked).scalar_one()
        found = plan if isinstance(plan, list) else msgspec.json.decode(plan)
        return int(found[0]["Plan"]["Plan Rows"])

    def tiers(self, connection: Connection, kinds: Collection[str]) -> list[Tier]:
        rows = connection.execute(self._tiers, {"kinds": list(kinds)})
        return [Tier(*row) for row in rows.fetchall()]

    def free(self, connection: Connection, ids: Collection[int]) -> set[int]:
        return {row[0] for row in connection.execute(FREE, {"ids": array(sorted(ids))}).fetchall()}

    def read(self, connection: Connection, tier: Tier, most: Most) -> list[Sequence[Any]]:
        return tuples(connection.execute(self._read, wanted(tier, most)))

    def read_ids(self, connection: Connection, tier: Tier, most: Most) -> list[int]:
        rows = tuples(connection.execute(self._read_ids, wanted(tier, most)))
        return [row[0] for row in rows]

    def claim(self, connection: Connection, tier: Tier, stamp: Stamp, most: Most) -> list[Claimed]:
        rows = connection.execute(CLAIM, {**stamp._asdict(), **wanted(tier, most)})
        return [stamped(row, stamp) for row in rows.fetchall()]

    def abandoned(
        self,
        connection: Connection,
        kinds: Collection[str],
        *,
        now: int,
        limit: int,
        lock: bool = True,
    ) -> list[Sequence[Any]]:
        asked = {"kinds": list(kinds), "now": now, "limit": limit}
        rows = connection.execute(self._abandoned[lock], asked)
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
            **sql.visited(visits, worker),
            "ids": array(row.id for row in visits.rows),
            "fences": document({row.id: row.fence for row in visits.rows}),
            "began": document({row.id: row.started_at for row in visits.rows}),
        }
        ids, going = connection.execute(self._visit[is_read], asked).one()
        return dict.fromkeys(_numbers(ids)) | dict.fromkeys(_numbers(going), GOES)

    def remove(
        self, connection: Connection, fences: Mapping[int, int], *, is_read: bool, now: int
    ) -> set[int]:
        asked = {"ids": array(fences), "fences": document(fences)}
        if self.keeps_traces:
            asked["traces"] = document(traces_of(fences, now=now))
            gone = connection.execute(self._remove_and_remember[is_read], asked).scalar_one()
        else:
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


def _laned_line(row: NewLaneTask) -> str:
    return f"{_line(row)[:-1]}\t{escaped(row.lane)}\t{row.lane_place}\n"


def _fields(row: NewTask) -> dict[str, Any]:
    return {name: getattr(row, name) for name in NewTask.__struct_fields__}
