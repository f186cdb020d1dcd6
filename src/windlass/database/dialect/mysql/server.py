"""Connections, error codes and the worker's fence on MySQL and MariaDB.

MySQL 8 and MariaDB 10.6 or newer, through PyMySQL, always in READ COMMITTED.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import URL, Connection, Engine, event, text

from windlass.database.dialect.base import Dialect, Executor, original
from windlass.database.dialect.statement import ALIVE

LOCK_SECONDS = 2
# Both servers accept this form of a shared lock.
SHARED = "lock in share mode"
IS_ALIVE = text(f"{ALIVE} {SHARED}")
LOCK_WORKER = text(f"{ALIVE} for update")
TAKE_NUMBERS = text(
    "update windlass_number set next = last_insert_id(next) + :count where name = 'id'"
)


class MySQLServer(Dialect):
    """MySQL or MariaDB."""

    name = "mysql"
    compares_rows = False
    read_now = SHARED
    hold_shared = SHARED
    in_key_index = "true"
    has_shard = (
        "select 1 from information_schema.tables "
        "where table_schema = database() and table_name = 'windlass_shard'"
    )
    conflicts = (1213, 1205, 1020)
    locked = (1205,)
    # fmt: off
    outages = (
        1040, 1053, 1077, 1114, 1152, 1158, 1159, 1160, 1161, 1290, 1792, 1836, 1927, 2002, 2003,
        2006, 2013, 2055, 4031,
    )
    # fmt: on
    duplicates = (1062,)
    # No database is selected, or the table does not exist.
    missing = (1046, 1146)

    def __init__(self) -> None:
        super().__init__()
        self._server = self.name

    @property
    def server(self) -> str:
        """mysql or mariadb, known after the first connection."""
        return self._server

    def engine_options(self, url: URL) -> dict[str, Any]:
        return {
            "pool_size": 8,
            "max_overflow": 8,
            "isolation_level": "READ COMMITTED",
            # A returned connection has ended its transaction; a reset would cost a round trip.
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
            with raw.cursor() as cursor:
                # A finish that waits too long delays the heartbeat of its worker.
                cursor.execute(f"set session innodb_lock_wait_timeout = {LOCK_SECONDS}")
                if "mariadb" in str(raw.get_server_info()).lower():
                    self._server = "mariadb"
                    # A frozen process must not hold its locks for long. MySQL has no such limit.
                    seconds = max(1, self.idle_milliseconds // 1_000)
                    cursor.execute(f"set session idle_transaction_timeout = {seconds}")

    def raw_cursor(self, raw: Any) -> Any:
        from pymysql.cursors import Cursor

        return raw.cursor(Cursor) if type(raw).__module__.startswith("pymysql") else raw.cursor()

    def code_of(self, problem: Exception) -> object:
        args = original(problem).args
        return args[0] if args and isinstance(args[0], int) else None

    def measure(self, connection: Connection) -> int:
        now = text("select timestampdiff(microsecond, '1970-01-01', utc_timestamp(6))")
        return int(connection.execute(now).scalar_one())

    def take_numbers(self, executor: Executor, count: int) -> list[range]:
        executor.execute(TAKE_NUMBERS, {"count": count})
        first = int(executor.execute(text("select last_insert_id()"), {}).fetchall()[0][0])
        return [range(first, first + count)]

    def alive(self, connection: Connection, worker: int, *, patient: bool = True) -> bool:
        return connection.execute(IS_ALIVE, {"worker": worker}).first() is not None

    def lock_worker(self, connection: Connection, worker: int, *, patient: bool = True) -> bool:
        return connection.execute(LOCK_WORKER, {"worker": worker}).first() is not None
