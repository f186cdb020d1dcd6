"""SQLite: write-ahead log, one writer at a time, several processes."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import URL, Connection, Engine, Table, event, text
from sqlalchemy.dialects.sqlite import insert
from sqlalchemy.pool import QueuePool

from windlass.database.dialect.base import (
    ALIVE,
    AS_TAKEN,
    LANES,
    VISITED,
    Count,
    Executor,
    Lane,
    NewItems,
    PickAndStamp,
    encode,
    original,
    visited,
    visited_rows,
)
from windlass.errors import BadDatabase
from windlass.fork import watch_forks
from windlass.value.outcome import Change, Visits
from windlass.value.period import GOES, PAYLOAD
from windlass.value.task import NewTask

BUSY_SECONDS = 30.0
IN_MEMORY = (None, "", ":memory:")
OLDEST = (3, 38, 0)
DUPLICATES = {f"SQLITE_CONSTRAINT_{of}" for of in ("PRIMARYKEY", "UNIQUE", "ROWID")}
SYNCHRONOUS = ("FULL", "NORMAL", "EXTRA", "OFF")

TAKE_NUMBERS = text(
    "update windlass_number set next = next + :count where name = 'id' returning next - :count"
)

INSERT = text("""
insert into windlass_task
    (id, kind, task_key, bucket, status, priority, due_at, payload, created_at)
select value ->> 'id', value ->> 'kind', value ->> 'task_key', value ->> 'bucket', 0,
       value ->> 'priority', value ->> 'due_at', value ->> 'payload', value ->> 'created_at'
from json_each(:rows) where true
on conflict do nothing returning id
""")

INSERT_ITEMS = """
insert into windlass_task
    (id, task_key, bucket, due_at, kind, priority, payload, created_at, status)
values (?, ?, ?, ?, ?, ?, ?, ?, 0) on conflict do nothing
"""

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


class Turn:
    """One transaction that writes at a time. One inside another would wait for itself for ever."""

    def __init__(self) -> None:
        self.after_fork()
        watch_forks(self)

    def after_fork(self) -> None:
        """Whoever had the turn in the parent is not in this process."""
        self._lock = threading.Lock()
        self._owner: int | None = None

    def __enter__(self) -> None:
        assert self._owner != threading.get_ident(), "a transaction that writes inside another"
        self._lock.acquire()
        self._owner = threading.get_ident()

    def __exit__(self, *_: object) -> None:
        self._owner = None
        self._lock.release()


class SQLite(PickAndStamp):
    """The embedded database."""

    name = "sqlite"
    hint = "indexed by windlass_task_due"
    lock = ""
    greatest = "max"
    numbers_join = True
    has_shard = "select 1 from sqlite_master where name = 'windlass_shard'"
    is_embedded = True
    migrates_itself = True
    hold_alone = ""
    # It changes nothing, and locks the database as every statement does that might.
    keep_others_out = text("update windlass_shard set id = id where 0 = 1")

    def __init__(self) -> None:
        super().__init__()
        # Threads of this process wait here, where they are woken at once; SQLite itself would
        # have them sleep and look again.
        self.turn = Turn()
        self._lanes = text(
            LANES.format(hint=self.hint, kinds="(select value as kind from json_each(:kinds))")
        )
        self._alive = text(ALIVE)
        self._change = {way: text(CHANGE.format(as_taken=AS_TAKEN[way])) for way in AS_TAKEN}
        self._visit = {way: text(VISIT.format(as_taken=AS_TAKEN[way])) for way in AS_TAKEN}
        self._remove = {way: text(REMOVE.format(as_taken=AS_TAKEN[way])) for way in AS_TAKEN}

    def engine_options(self, url: URL) -> dict[str, Any]:
        in_memory = self.is_private(url)
        return {
            "connect_args": {"timeout": BUSY_SECONDS, "check_same_thread": False},
            "poolclass": QueuePool,
            "pool_size": 1 if in_memory else 8,
            "max_overflow": 0 if in_memory else 8,
            "pool_timeout": BUSY_SECONDS,
        }

    def clean(self, url: URL) -> URL:
        asked = str(url.query.get("synchronous", "FULL")).upper()
        if asked not in SYNCHRONOUS:
            raise BadDatabase(f"synchronous={asked!r} is not one of {', '.join(SYNCHRONOUS)}")
        self._synchronous = asked
        return url.difference_update_query(["synchronous"])

    def prepare(self, engine: Engine) -> None:
        if sqlite3.sqlite_version_info < OLDEST:
            raise BadDatabase(
                f"SQLite {sqlite3.sqlite_version} is too old; Windlass needs "
                f"{'.'.join(map(str, OLDEST))} or newer"
            )

        @event.listens_for(engine, "connect")
        def on_connect(raw: sqlite3.Connection, _record: object) -> None:
            # Windlass begins its transactions itself; the module would begin them too late.
            raw.isolation_level = None
            cursor = raw.cursor()
            cursor.execute("pragma journal_mode = wal")
            cursor.execute(f"pragma synchronous = {self._synchronous}")
            cursor.execute("pragma temp_store = memory")
            cursor.execute("pragma cache_size = -32000")
            cursor.close()

        @event.listens_for(engine, "begin")
        def on_begin(connection: Connection) -> None:
            if connection.get_execution_options().get("windlass_write"):
                connection.exec_driver_sql("begin immediate")

    def is_private(self, url: URL) -> bool:
        return url.database in IN_MEMORY

    def at_one_moment(self, connection: Connection) -> Connection:
        connection.exec_driver_sql("begin")
        return connection

    def writing(self, connection: Connection) -> Connection:
        return connection.execution_options(windlass_write=True)

    def is_conflict(self, problem: Exception) -> bool:
        cause = original(problem)
        return isinstance(cause, sqlite3.OperationalError) and (
            "locked" in str(cause) or "busy" in str(cause)
        )

    def is_outage(self, problem: Exception) -> bool:
        return False

    def is_duplicate(self, problem: Exception) -> bool:
        return getattr(original(problem), "sqlite_errorname", None) in DUPLICATES

    def is_elsewhere(self, problem: Exception) -> bool:
        return str(original(problem)).startswith("no such table: windlass_")

    def measure(self, connection: Connection) -> int:
        # The database is a file on this machine: its clock is this machine's.
        return time.time_ns() // 1_000

    def take_numbers(self, executor: Executor, count: int) -> list[range]:
        first = executor.execute(TAKE_NUMBERS, {"count": count}).fetchall()[0][0]
        return [range(first, first + count)]

    def insert(self, executor: Executor, rows: Sequence[NewTask]) -> set[int]:
        inserted = executor.execute(INSERT, {"rows": encode(rows).decode()})
        return {row[0] for row in inserted.fetchall()}

    def insert_items(self, connection: Connection, new: NewItems) -> int:
        shared = (new.kind, new.priority, PAYLOAD, new.created_at)
        rows = [(*row, *shared) for row in new.rows]
        return connection.exec_driver_sql(INSERT_ITEMS, rows).rowcount

    def ensure_all(
        self, connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]
    ) -> None:
        connection.execute(insert(table).on_conflict_do_nothing(), list(rows))

    def estimate_due(self, connection: Connection, lane: Lane, *, until: int) -> int:
        asked = {"kind": lane.kind, "priority": lane.priority, "until": until}
        return int(connection.execute(COUNT_DUE, asked | {"limit": COUNTED_AT_MOST}).scalar_one())

    def lanes(self, connection: Connection, kinds: Collection[str]) -> list[Lane]:
        rows = connection.execute(self._lanes, {"kinds": encode(list(kinds)).decode()})
        return [Lane(*row) for row in rows.fetchall()]

    def is_locked(self, problem: Exception) -> bool:
        return False

    def free(self, connection: Connection, ids: Collection[int]) -> set[int]:
        return set(ids)

    def alive(self, connection: Connection, worker: int, *, patient: bool = True) -> bool:
        # The write transaction has locked the whole database already.
        return connection.execute(self._alive, {"worker": worker}).first() is not None

    def lock_worker(self, connection: Connection, worker: int, *, patient: bool = True) -> bool:
        return self.alive(connection, worker)

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

    def ids(self, ids: Iterable[int]) -> tuple[str, dict[str, str]]:
        return "in (select value from json_each(:ids))", {"ids": encode(list(ids)).decode()}

    def texts(self, texts: Iterable[str]) -> tuple[str, dict[str, str]]:
        return "in (select value from json_each(:texts))", {"texts": encode(list(texts)).decode()}

    def raw_cursor(self, raw: Any) -> Any:
        cursor = raw.cursor()
        cursor.row_factory = None
        return cursor
