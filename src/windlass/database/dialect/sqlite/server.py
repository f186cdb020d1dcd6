"""Connections, error codes and the worker's fence on SQLite."""

from __future__ import annotations

import sqlite3
import threading
import time
from typing import Any

from sqlalchemy import URL, Connection, Engine, event, text
from sqlalchemy.pool import QueuePool

from windlass.database.dialect.base import Dialect, Executor, original
from windlass.database.dialect.statement import ALIVE
from windlass.errors import BadDatabase
from windlass.fork import watch_forks

BUSY_SECONDS = 30.0
IN_MEMORY = (None, "", ":memory:")
OLDEST = (3, 38, 0)
SYNCHRONOUS = ("FULL", "NORMAL", "EXTRA", "OFF")

IS_ALIVE = text(ALIVE)
TAKE_NUMBERS = text(
    "update windlass_number set next = next + :count where name = 'id' returning next - :count"
)


class Turn:
    """Lets one transaction write at a time. A nested one would deadlock, so it is an error."""

    def __init__(self) -> None:
        self.after_fork()
        watch_forks(self)

    def after_fork(self) -> None:
        """Start anew: the thread that had the turn in the parent is not in this process."""
        self._lock = threading.Lock()
        self._owner: int | None = None

    def __enter__(self) -> None:
        assert self._owner != threading.get_ident(), "a transaction that writes inside another"
        self._lock.acquire()
        self._owner = threading.get_ident()

    def __exit__(self, *_: object) -> None:
        self._owner = None
        self._lock.release()


class SQLiteServer(Dialect):
    """SQLite, a file on this machine."""

    name = "sqlite"
    migrates_itself = True
    is_embedded = True
    numbers_join = True
    hold_alone = ""
    has_shard = "select 1 from sqlite_master where name = 'windlass_shard'"
    # Changes nothing, but locks the database for writing.
    keep_others_out = text("update windlass_shard set id = id where 0 = 1")

    conflicts = ("busy",)
    duplicates = tuple(f"SQLITE_CONSTRAINT_{of}" for of in ("PRIMARYKEY", "UNIQUE", "ROWID"))
    missing = ("missing",)

    def __init__(self) -> None:
        super().__init__()
        # Threads of this process wait here and are woken at once. SQLite itself would sleep and
        # try again.
        self.turn = Turn()

    def engine_options(self, url: URL) -> dict[str, Any]:
        is_private = self.is_private(url)
        return {
            "connect_args": {"timeout": BUSY_SECONDS, "check_same_thread": False},
            "poolclass": QueuePool,
            "pool_size": 1 if is_private else 8,
            "max_overflow": 0 if is_private else 8,
            "pool_timeout": BUSY_SECONDS,
        }

    def clean(self, url: URL) -> URL:
        asked = str(url.query.get("synchronous", "FULL")).upper()
        if asked not in SYNCHRONOUS:
            raise BadDatabase(f"synchronous={asked!r} is not one of {', '.join(SYNCHRONOUS)}")
        self._synchronous = asked
        return url.difference_update_query(["synchronous"])

    def is_private(self, url: URL) -> bool:
        return url.database in IN_MEMORY

    def prepare(self, engine: Engine) -> None:
        if sqlite3.sqlite_version_info < OLDEST:
            raise BadDatabase(
                f"SQLite {sqlite3.sqlite_version} is too old; Windlass needs "
                f"{'.'.join(map(str, OLDEST))} or newer"
            )

        @event.listens_for(engine, "connect")
        def on_connect(raw: sqlite3.Connection, _record: object) -> None:
            # Windlass begins its transactions itself; sqlite3 would begin them too late.
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

    def writing(self, connection: Connection) -> Connection:
        return connection.execution_options(windlass_write=True)

    def at_one_moment(self, connection: Connection) -> Connection:
        connection.exec_driver_sql("begin")
        return connection

    def raw_cursor(self, raw: Any) -> Any:
        cursor = raw.cursor()
        cursor.row_factory = None
        return cursor

    def code_of(self, problem: Exception) -> object:
        cause = original(problem)
        said = str(cause)
        if isinstance(cause, sqlite3.OperationalError) and ("locked" in said or "busy" in said):
            return "busy"
        if said.startswith("no such table: windlass_"):
            return "missing"
        return getattr(cause, "sqlite_errorname", None)

    def measure(self, connection: Connection) -> int:
        # The file is on this machine, so this machine's clock counts.
        return time.time_ns() // 1_000

    def take_numbers(self, executor: Executor, count: int) -> list[range]:
        first = executor.execute(TAKE_NUMBERS, {"count": count}).fetchall()[0][0]
        return [range(first, first + count)]

    def alive(self, connection: Connection, worker: int, *, patient: bool = True) -> bool:
        # The write transaction has locked the whole database already.
        return connection.execute(IS_ALIVE, {"worker": worker}).first() is not None

    def lock_worker(self, connection: Connection, worker: int, *, patient: bool = True) -> bool:
        return self.alive(connection, worker)
