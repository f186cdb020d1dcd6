"""Connections, error codes and the worker's fence on PostgreSQL.

Nothing here needs a session, so pgbouncer may be in between.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import URL, Connection, Engine, TextClause, event, text

from windlass.database.dialect.base import BLOCK, Dialect, Executor, original
from windlass.database.dialect.postgresql.driver import array, is_direct

CHANNEL = "windlass"
NOTIFY = text(f"select pg_notify('{CHANNEL}', :who)")

# Marks short statements that run often: they are prepared, because planning would cost as much.
OFTEN = "windlass_often"
NEVER_BY_ITSELF = 1_000_000_000

LOCK_MILLISECONDS = "1000"
# SQL states of connection errors start with this.
CONNECTION = "08"


def often(statement: str) -> TextClause:
    """A statement that each connection prepares once."""
    return text(statement).execution_options(**{OFTEN: True})


TAKE_NUMBERS = text("select nextval('windlass_number_id') from generate_series(1, :blocks)")

NEXT_NUMBER = text(
    f"select last_value + case when is_called then {BLOCK} else 0 end from windlass_number_id"
)

BEGIN_NUMBERS = text("select setval('windlass_number_id', :first, false)")

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


class PostgreSQLServer(Dialect):
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
        CONNECTION, "OperationalError", "25006", "25P03", "53100", "53200", "53300", "57014",
        "57P01", "57P02", "57P03",
    )
    # fmt: on
    duplicates = ("23505",)
    missing = ("42P01",)

    def engine_options(self, url: URL) -> dict[str, Any]:
        return {
            "pool_size": 8,
            "max_overflow": 8,
            "isolation_level": "READ COMMITTED",
            # Prepared statements belong to a session, so they are used only without a pooler.
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

        @event.listens_for(engine, "connect")
        def on_connect(raw: Any, _record: object) -> None:
            raw.adapters.register_loader("json", TextLoader)
            if is_direct(raw):
                raw.prepare_threshold = NEVER_BY_ITSELF

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

    def raw_cursor(self, raw: Any) -> Any:
        from psycopg.rows import tuple_row

        return raw.cursor(row_factory=tuple_row) if hasattr(raw, "row_factory") else raw.cursor()

    def code_of(self, problem: Exception) -> object:
        cause = original(problem)
        state: str = getattr(cause, "sqlstate", None) or type(cause).__name__
        return CONNECTION if state.startswith(CONNECTION) else state

    def measure(self, connection: Connection) -> int:
        now = text("select cast(extract(epoch from clock_timestamp()) * 1000000 as bigint)")
        return int(connection.execute(now).scalar_one())

    def notify(self, executor: Executor, who: str = "") -> None:
        executor.execute(NOTIFY, {"who": who})

    def take_numbers(self, executor: Executor, count: int) -> list[range]:
        # The sequence counts in blocks, and does not wait for a commit.
        rows = executor.execute(TAKE_NUMBERS, {"blocks": -(-count // BLOCK)}).fetchall()
        return [range(row[0], row[0] + BLOCK) for row in rows]

    def next_number(self, connection: Connection) -> int:
        return int(connection.execute(NEXT_NUMBER).scalar_one())

    def begin_numbers(self, connection: Connection, first: int) -> None:
        connection.execute(BEGIN_NUMBERS, {"first": first})

    def alive(self, connection: Connection, worker: int, *, patient: bool = True) -> bool:
        return connection.execute(ALIVE, self._patience(worker, patient)).first() is not None

    def alive_with(
        self, connection: Connection, worker: int, runs: Collection[int], *, patient: bool = True
    ) -> dict[int, int] | None:
        asked = {**self._patience(worker, patient), "runs": array(runs)}
        rows = connection.execute(ALIVE_WITH, asked).fetchall()
        return {run: left for _, run, left in rows if run is not None} if rows else None

    def lock_worker(self, connection: Connection, worker: int, *, patient: bool = True) -> bool:
        return connection.execute(LOCK_WORKER, self._patience(worker, patient)).first() is not None

    def _patience(self, worker: int, patient: bool) -> dict[str, Any]:
        lock = "0" if patient else LOCK_MILLISECONDS
        return {"worker": worker, "idle": str(self.idle_milliseconds), "lock": lock}
