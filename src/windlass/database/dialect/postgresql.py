"""PostgreSQL, through psycopg 3. Nothing here needs a session, so pgbouncer may stand between."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec
from sqlalchemy import URL, Connection, Engine, Table, TextClause, event, text
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.exc import OperationalError

from windlass.database.dialect.base import (
    AS_TAKEN,
    BLOCK,
    COLUMNS,
    FALLEN,
    LANES,
    PICK,
    PICK_IDS,
    RESCUE,
    STAMP,
    VISITED,
    Count,
    Dialect,
    Executor,
    Lane,
    Most,
    NewItem,
    NewItems,
    Stamp,
    encode,
    original,
    stamped,
    tuples,
    visited,
    wanted,
)
from windlass.value.outcome import Change, Visits
from windlass.value.period import GOES, PAYLOAD
from windlass.value.task import Claimed, NewTask

CHANNEL = "windlass"

# Marks statements that run again and again with little to do, so that planning them costs as much.
OFTEN = "windlass_often"
NOT_BY_ITSELF = 1_000_000_000

NOTIFY = text(f"select pg_notify('{CHANNEL}', :who)")
LOCK_MILLISECONDS = "1000"
CONFLICTS = {"40001", "40P01", "55P03"}
OUTAGES = {"57P01", "57P02", "57P03", "57014", "53100", "53200", "53300", "25P03", "25006"}


def often(statement: str) -> TextClause:
    """A statement that is planned once for each connection."""
    return text(statement).execution_options(**{OFTEN: True})


def listed(query: str) -> str:
    """Rows by primary key. The planner thinks of such a list as short, and so takes the index
    whatever its statistics say of a table that grows and shrinks by the second."""
    return f"any(array({query}))"


TAKE_NUMBERS = text("select nextval('windlass_number_id') from generate_series(1, :blocks)")

NEXT_NUMBER = text(
    f"select last_value + case when is_called then {BLOCK} else 0 end from windlass_number_id"
)
BEGIN_NUMBERS = text("select setval('windlass_number_id', :first, false)")

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
COPY_ROWS = 1_000

COPY_ITEMS = """
copy windlass_task
    (id, kind, task_key, bucket, due_at, status, priority, payload, created_at) from stdin
"""

INSERT_ITEMS = text(f"""
with made as (
    insert into windlass_task
        (id, kind, task_key, bucket, status, priority, due_at, payload, created_at)
    select id, :kind, code, bucket, 0, :priority, due_at, cast('{PAYLOAD}' as json), :created_at
    from unnest(cast(:ids as bigint[]), cast(:codes as text[]), cast(:buckets as smallint[]),
        cast(:due_at as bigint[])) as r (id, code, bucket, due_at)
    on conflict do nothing returning 1
)
select count(*) from made
""")

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

ALIVE = often("""
select id, set_config('idle_in_transaction_session_timeout', :idle, true),
    set_config('lock_timeout', :lock, true)
from windlass_worker where id = :worker and left_at is null for key share
""")

# The settings come first: they bound the wait for the rows.
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

# One statement, so one round trip and one commit. The rows are picked in a materialised part of
# their own: a limit inside an `in` would not be obeyed when the plan repeats it. What comes back is
# the rows as they were before.
CLAIM = text(f"""
with alive as materialized (
    select id from windlass_worker where id = :worker and left_at is null for key share
), picked as materialized (
    select {COLUMNS}
    from windlass_task
    where status = 0 and kind = :kind and priority = :priority
      and due_at between :due_from and :due_until and bucket between :bucket_from and :bucket_to
      and batch is null and lost_in_a_row between :lost_from and :lost_to
      and exists (select from alive)
    order by due_at limit :limit for update skip locked
), stamped as (
    update windlass_task
    set status = 1, batch = :batch, worker = :worker, due_at = :lease_end, attempt = attempt + 1,
        started_at = greatest(:now, coalesce(started_at, 0) + 1)
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
where t.id = {listed("select unnest(cast(:ids as bigint[]))")}
  and t.id = c.id and {{as_taken}} c.fence
returning t.id, t.prune_at
"""

# By the id alone, as REMOVE: a join of a thousand rows might be planned for one.
VISIT = f"""
with visited as (
    update windlass_task as t
    set {VISITED}, started_at = cast(cast(:began as jsonb) ->> cast(t.id as text) as bigint)
    where t.id = {listed("select unnest(cast(:ids as bigint[]))")}
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
    where t.id = {listed("select unnest(cast(:ids as bigint[]))")}
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


class PostgreSQL(Dialect):
    """The server that most teams have."""

    name = "postgresql"
    payload = "cast(:payload as json)"
    hold_shared = "for share"
    has_shard = "select to_regclass('windlass_shard') is not null"
    commits_alone = True
    wakes = True

    def __init__(self) -> None:
        kinds = "(select unnest(cast(:kinds as text[])) as kind)"
        self._lanes = text(LANES.format(hint="", kinds=kinds))
        self._abandoned = text(
            FALLEN.format(
                hint="",
                kinds="= " + listed("select unnest(cast(:kinds as text[]))"),
                lock="for update skip locked",
            )
        )
        self._read = text(PICK.format(hint="", lock=""))
        self._read_ids = text(PICK_IDS.format(hint="", lock=""))
        self._change = {way: often(CHANGE.format(as_taken=AS_TAKEN[way])) for way in AS_TAKEN}
        self._visit = {way: often(VISIT.format(as_taken=AS_TAKEN[way])) for way in AS_TAKEN}
        self._remove = {way: often(REMOVE.format(as_taken=AS_TAKEN[way])) for way in AS_TAKEN}
        by_id = "= " + listed("select unnest(cast(:ids as bigint[]))")
        self._stamp = text(STAMP.format(greatest="greatest", ids=by_id))
        self._rescue = text(
            RESCUE.format(
                greatest="greatest", ids="= " + listed("select unnest(cast(:ids as bigint[]))")
            )
        )

    def engine_options(self, url: URL) -> dict[str, Any]:
        return {
            "pool_size": 8,
            "max_overflow": 8,
            "isolation_level": "READ COMMITTED",
            # Prepared statements live in a session, and a pooler may change it under us: they are
            # used where there is none.
            "connect_args": {
                "prepare_threshold": None,
                "connect_timeout": 5,
                "keepalives_idle": 5,
                "keepalives_interval": 2,
                "keepalives_count": 3,
                "tcp_user_timeout": 10_000,
            },
        }

    def prepare(self, engine: Engine) -> None:
        from psycopg import ClientCursor
        from psycopg.types.string import TextLoader

        self._insert_one = str(INSERT_ONE.compile(dialect=engine.dialect))
        self._insert_and_notify = str(INSERT_AND_NOTIFY.compile(dialect=engine.dialect))

        @event.listens_for(engine, "connect")
        def on_connect(raw: Any, _record: object) -> None:
            raw.adapters.register_loader("json", TextLoader)
            if _is_direct(raw):
                raw.prepare_threshold = NOT_BY_ITSELF

        @event.listens_for(engine, "do_execute")
        def prepared(cursor: Any, statement: str, given: Any, context: Any) -> bool:
            if not context.execution_options.get(OFTEN):
                return False
            cursor.execute(statement, given, prepare=True)
            return True

        @event.listens_for(engine, "do_executemany")
        def in_one_message(cursor: Any, statement: str, rows: Any, _context: object) -> bool:
            if "windlass_" not in statement:
                # Somebody else's, who may count what it touched.
                return False
            # psycopg would end its pipeline with a flush, by which the server forgets to count how
            # long the transaction is idle: one that stops there would hold its locks for ever.
            bound = ClientCursor(cursor.connection)
            cursor.execute(";".join([bound.mogrify(statement, row) for row in rows]))
            return True

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

    def is_conflict(self, problem: Exception) -> bool:
        return getattr(original(problem), "sqlstate", None) in CONFLICTS

    def is_locked(self, problem: Exception) -> bool:
        return getattr(original(problem), "sqlstate", None) == "55P03"

    def is_outage(self, problem: Exception) -> bool:
        cause = original(problem)
        state = getattr(cause, "sqlstate", None)
        if state is None:
            # psycopg has no state for a connection that could not be made or was cut.
            return type(cause).__name__ == "OperationalError"
        return state in OUTAGES or state.startswith("08")

    def is_duplicate(self, problem: Exception) -> bool:
        return getattr(original(problem), "sqlstate", None) == "23505"

    def is_elsewhere(self, problem: Exception) -> bool:
        return getattr(original(problem), "sqlstate", None) == "42P01"

    def measure(self, connection: Connection) -> int:
        now = text("select cast(extract(epoch from clock_timestamp()) * 1000000 as bigint)")
        return int(connection.execute(now).scalar_one())

    def take_numbers(self, executor: Executor, count: int) -> list[range]:
        # The sequence counts in blocks, and gives them out for good without waiting for a commit.
        rows = executor.execute(TAKE_NUMBERS, {"blocks": -(-count // BLOCK)}).fetchall()
        return [range(row[0], row[0] + BLOCK) for row in rows]

    def next_number(self, connection: Connection) -> int:
        return int(connection.execute(NEXT_NUMBER).scalar_one())

    def begin_numbers(self, connection: Connection, first: int) -> None:
        connection.execute(BEGIN_NUMBERS, {"first": first})

    def insert(self, executor: Executor, rows: Sequence[NewTask]) -> set[int]:
        if len(rows) == 1:
            inserted = executor.execute(INSERT_ONE, _fields(rows[0]))
        else:
            inserted = executor.execute(INSERT, {"rows": encode(rows).decode()})
        return {row[0] for row in inserted.fetchall()}

    def insert_alone(self, connection: Connection, row: NewTask, *, notify: bool) -> bool:
        raw = _driver(connection)
        if raw is None:
            statement = INSERT_AND_NOTIFY if notify else INSERT_ONE
            return connection.execute(statement, _fields(row)).first() is not None
        # Past SQLAlchemy: for one small row, its care costs more than the row.
        query = self._insert_and_notify if notify else self._insert_one
        with _told(connection, raw):
            return raw.execute(query, _fields(row)).fetchone() is not None

    def copy(self, executor: Executor, rows: Sequence[NewTask]) -> bool:
        raw = _driver(executor)
        if raw is None or not isinstance(executor, Connection):
            return False
        with _told(executor, raw), raw.cursor() as cursor, cursor.copy(COPY) as copy:
            # The server works on one part while the next is being written.
            for begin in range(0, len(rows), COPY_ROWS):
                copy.write("".join(map(_line, rows[begin : begin + COPY_ROWS])))
        return True

    copies_items = True

    def copy_items(self, connection: Connection, new: NewItems) -> None:
        raw = _driver(connection)
        assert raw is not None
        kind = _escaped(new.kind)
        end = f"\t0\t{new.priority}\t{PAYLOAD}\t{new.created_at}\n"
        with _told(connection, raw), raw.cursor() as cursor, cursor.copy(COPY_ITEMS) as copy:
            for begin in range(0, len(new.rows), COPY_ROWS):
                part = new.rows[begin : begin + COPY_ROWS]
                copy.write("".join([_item_line(row, kind, end) for row in part]))

    def insert_items(self, connection: Connection, new: NewItems) -> int:
        numbers, codes, buckets, due_at = zip(*new.rows, strict=True)
        parameters = {
            "kind": new.kind,
            "priority": new.priority,
            "created_at": new.created_at,
            "ids": list(numbers),
            "codes": list(codes),
            "buckets": list(buckets),
            "due_at": list(due_at),
        }
        return int(connection.execute(INSERT_ITEMS, parameters).scalar_one())

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

    def alive(self, connection: Connection, worker: int, *, patient: bool = True) -> bool:
        return connection.execute(ALIVE, self._patience(worker, patient)).first() is not None

    def alive_with(
        self, connection: Connection, worker: int, runs: Collection[int], *, patient: bool = True
    ) -> dict[int, int] | None:
        asked = {**self._patience(worker, patient), "runs": _array(runs)}
        rows = connection.execute(ALIVE_WITH, asked).fetchall()
        return {run: left for _, run, left in rows if run is not None} if rows else None

    def lock_worker(self, connection: Connection, worker: int, *, patient: bool = True) -> bool:
        return connection.execute(LOCK_WORKER, self._patience(worker, patient)).first() is not None

    def _patience(self, worker: int, patient: bool) -> dict[str, Any]:
        lock = "0" if patient else LOCK_MILLISECONDS
        return {"worker": worker, "idle": str(self.idle_milliseconds), "lock": lock}

    def free(self, connection: Connection, ids: Collection[int]) -> set[int]:
        return {row[0] for row in connection.execute(FREE, {"ids": _array(sorted(ids))}).fetchall()}

    def read(self, connection: Connection, lane: Lane, most: Most) -> list[Sequence[Any]]:
        return tuples(connection.execute(self._read, wanted(lane, most)))

    def read_ids(self, connection: Connection, lane: Lane, most: Most) -> list[int]:
        rows = tuples(connection.execute(self._read_ids, wanted(lane, most)))
        return [row[0] for row in rows]

    def claim(self, connection: Connection, lane: Lane, stamp: Stamp, most: Most) -> list[Claimed]:
        rows = connection.execute(CLAIM, {**stamp._asdict(), **wanted(lane, most)})
        return [stamped(row, stamp) for row in rows.fetchall()]

    def stamp(self, connection: Connection, ids: Collection[int], stamp: Stamp) -> None:
        connection.execute(self._stamp, {**stamp._asdict(), "ids": _array(ids)})

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
        connection.execute(
            self._rescue, {**stamp._asdict(), "ids": _array(ids), "attempt": attempt}
        )

    def change(
        self, connection: Connection, changes: Sequence[Change], *, worker: int, is_read: bool
    ) -> dict[int, int | None]:
        ids = _array(change.id for change in changes)
        asked = {"changes": encode(changes).decode(), "ids": ids, "worker": worker}
        rows = connection.execute(self._change[is_read], asked)
        return dict(map(tuple, rows.fetchall()))

    def visit(
        self, connection: Connection, visits: Visits, *, worker: int, is_read: bool
    ) -> dict[int, int | None]:
        asked = {
            **visited(visits, worker),
            "ids": _array(row.id for row in visits.rows),
            "fences": encode({row.id: row.fence for row in visits.rows}).decode(),
            "began": encode({row.id: row.started_at for row in visits.rows}).decode(),
        }
        ids, going = connection.execute(self._visit[is_read], asked).one()
        return dict.fromkeys(_numbers(ids)) | dict.fromkeys(_numbers(going), GOES)

    def remove(
        self, connection: Connection, fences: Mapping[int, int], *, is_read: bool
    ) -> set[int]:
        asked = {"ids": _array(fences), "fences": encode(fences).decode()}
        gone = connection.execute(self._remove[is_read], asked).scalar_one()
        return set(_numbers(gone))

    def count(self, connection: Connection, counts: Sequence[Count]) -> None:
        connection.execute(COUNT, {"counts": encode(counts).decode()})

    def notify(self, executor: Executor, who: str = "") -> None:
        executor.execute(NOTIFY, {"who": who})

    def raw_cursor(self, raw: Any) -> Any:
        from psycopg.rows import tuple_row

        return raw.cursor(row_factory=tuple_row) if hasattr(raw, "row_factory") else raw.cursor()


def _driver(executor: Executor) -> Any:
    """The psycopg connection under a SQLAlchemy one; None where there is none, or an async one."""
    import psycopg

    if not isinstance(executor, Connection):
        return None
    raw = executor.connection.driver_connection
    return raw if isinstance(raw, psycopg.Connection) else None


def _is_direct(raw: Any) -> bool:
    """Whether no pooler stands between: it would have told a number of its own as the server's."""
    (server,) = raw.execute("select pg_backend_pid()").fetchone()
    raw.rollback()
    return bool(server == raw.info.backend_pid)


@contextmanager
def _told(connection: Connection, raw: Any) -> Iterator[None]:
    """Make errors of the driver the ones that SQLAlchemy would have made of them."""
    try:
        yield
    except raw.Error as problem:
        if raw.closed:
            connection.invalidate(problem)
        raise OperationalError("insert into windlass_task", {}, problem) from problem


def _array(numbers: Iterable[int]) -> str:
    """An array as text, which the driver would make of it too, but number by number."""
    return "{" + ",".join(map(str, numbers)) + "}"


def _numbers(listed: str | None) -> Iterator[int]:
    """The numbers that `string_agg` put into one text."""
    return map(int, listed.split(",")) if listed else iter(())


def _escaped(text: str) -> str:
    """Text for COPY."""
    if "\\" not in text and text.isprintable():
        return text
    text = text.replace("\\", "\\\\").replace("\t", "\\t")
    return text.replace("\n", "\\n").replace("\r", "\\r")


def _item_line(row: NewItem, kind: str, end: str) -> str:
    return f"{row.id}\t{kind}\t{_escaped(row.code)}\t{row.bucket}\t{row.due_at}{end}"


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
