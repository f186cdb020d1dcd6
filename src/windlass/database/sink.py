"""The sink: in a target database, the ids of what was written there, in the same transaction.

A task runs at least once, so what it writes elsewhere may be written twice. `sink` writes one row
with the task's id into the target's own transaction: either both are committed, or none. When the
task runs again, the row is there, and the write is left out.

The target needs no other table of Windlass. All statements are plain SQL: the ids are hashed, so
nothing that a caller gives is part of them, and every driver takes them as they are.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from secrets import randbits
from typing import Any, TypeVar
from weakref import WeakSet

from sqlalchemy import Connection, text

from windlass.database.connection import backend_of, is_async, on_its_thread
from windlass.errors import BadConnection, BadInput
from windlass.value.duration import Duration, parse_duration

T = TypeVar("T", bound=str | int)

TABLE = "windlass_sink"
KEEP: Duration = "30d"
AT_ONCE = 1_000
PRUNE_SECONDS = 60.0
# A lock of PostgreSQL, so that two transactions do not make the table at once.
LOCK = 0x77696E646C617373 >> 1

COLUMNS = "id char(32) not null primary key, done_at bigint not null, mark bigint not null"
EXISTS = {
    "sqlite": f"select count(*) from sqlite_master where name = '{TABLE}'",
    "postgresql": f"select count(to_regclass('{TABLE}'))",
    "mysql": (
        "select count(*) from information_schema.tables "
        f"where table_schema = database() and table_name = '{TABLE}'"
    ),
}
MAKE = {
    "sqlite": [
        f"create table if not exists {TABLE} ({COLUMNS})",
        f"create index if not exists {TABLE}_done on {TABLE} (done_at)",
    ],
    "postgresql": [
        f"select pg_advisory_xact_lock({LOCK})",
        f"create table if not exists {TABLE} ({COLUMNS})",
        f"create index if not exists {TABLE}_done on {TABLE} (done_at)",
    ],
    "mysql": [f"create table if not exists {TABLE} ({COLUMNS}, index (done_at)) engine=InnoDB"],
}
ROWS = f"into {TABLE} (id, done_at, mark) values %s"
INSERT = {
    "sqlite": f"insert {ROWS} on conflict do nothing returning id",
    "postgresql": f"insert {ROWS} on conflict do nothing returning id",
    "mysql": f"insert ignore {ROWS}",
}

# Connections of drivers on which the table was seen, and when this process pruned last.
_seen: WeakSet[Any] = WeakSet()
_pruned = {"at": 0.0}


def sink(
    conn: object,
    id: str | int,  # noqa: A002
    *,
    of: str = "",
    keep: Duration = KEEP,
) -> bool:
    """Remember in the transaction of `conn` that `id` was done; False if it was before.

    Write your rows only if it is True, and commit both together. `of` names a set of ids; equal ids
    in other sets are others. An id is remembered for at least `keep`.
    """
    return bool(sink_many(conn, [id], of=of, keep=keep))


def sink_many(conn: object, ids: Iterable[T], *, of: str = "", keep: Duration = KEEP) -> list[T]:
    """`sink` for many ids in one statement: those that are new, in their order."""
    target = _target(conn)
    hashes: dict[str, T] = {}
    for each in ids:
        hashes.setdefault(_hash(of, each), each)
    seconds = parse_duration(keep, what="sink: keep") / 1e6
    if not hashes:
        return []
    _make_sure(target)
    new: set[str] = set()
    # In one order, so that two transactions wait for each other and never deadlock.
    ordered = sorted(hashes)
    for begin in range(0, len(ordered), AT_ONCE):
        new |= _insert(target, ordered[begin : begin + AT_ONCE])
    _prune(target, seconds)
    return [each for hashed, each in hashes.items() if hashed in new]


async def asink(
    conn: object,
    id: str | int,  # noqa: A002
    *,
    of: str = "",
    keep: Duration = KEEP,
) -> bool:
    """`sink`, awaited; `conn` may also be async."""
    return await on_its_thread(conn, lambda sync: sink(sync, id, of=of, keep=keep))


async def asink_many(
    conn: object, ids: Iterable[T], *, of: str = "", keep: Duration = KEEP
) -> list[T]:
    """`sink_many`, awaited; `conn` may also be async."""
    return await on_its_thread(conn, lambda sync: sink_many(sync, ids, of=of, keep=keep))


def make_sink(conn: object) -> None:
    """Make the table of `sink` in the database of `conn`, if it is not there.

    MySQL and MariaDB commit the transaction of `conn` for that; elsewhere commit it yourself.
    """
    target = _target(conn)
    for statement in MAKE[target.backend]:
        target.run(statement)


async def amake_sink(conn: object) -> None:
    """`make_sink`, awaited; `conn` may also be async."""
    await on_its_thread(conn, make_sink)


@dataclass(frozen=True)
class _Target:
    """A connection to the target database, in a transaction."""

    conn: Any
    backend: str

    @property
    def driver(self) -> Any:
        """The connection of the driver."""
        is_own = isinstance(self.conn, Connection)
        return self.conn.connection.driver_connection if is_own else self.conn

    def run(self, statement: str) -> tuple[list[str], int]:
        """The first column of each row that a statement returns, and how many it has changed."""
        if isinstance(self.conn, Connection):
            result = self.conn.execute(text(statement))
            rows = [str(row[0]) for row in result] if result.returns_rows else []
            return rows, result.rowcount
        cursor = _cursor(self.conn, self.backend)
        try:
            cursor.execute(statement)
            rows = [str(row[0]) for row in cursor.fetchall()] if cursor.description else []
            return rows, cursor.rowcount
        finally:
            cursor.close()


def _target(conn: Any) -> _Target:
    backend = backend_of(conn)
    if is_async(conn):
        raise BadConnection("conn is an async connection; await asink or asink_many")
    if backend not in MAKE or type(conn).__name__.startswith("Async"):
        raise BadConnection(
            f"conn={conn!r} is not a connection; give a SQLAlchemy Connection or Session, or a "
            "connection of sqlite3, psycopg or PyMySQL"
        )
    if hasattr(conn, "get_bind") and hasattr(conn, "connection"):
        conn = conn.connection()
    target = _Target(conn, backend)
    if _commits_alone(target.driver):
        raise BadConnection(
            "conn commits each statement by itself, so its row could be there without your write; "
            "begin a transaction, or turn autocommit off"
        )
    return target


def _commits_alone(driver: Any) -> bool:
    """Whether the next statement would be a transaction of its own."""
    if hasattr(driver, "in_transaction"):
        is_auto = getattr(driver, "autocommit", None) is True or driver.isolation_level is None
        return is_auto and not driver.in_transaction
    if hasattr(driver, "info"):
        return bool(driver.autocommit) and not driver.info.transaction_status
    if hasattr(driver, "get_autocommit"):
        return bool(driver.get_autocommit()) and not driver.server_status & 1
    return False


def _cursor(raw: Any, backend: str) -> Any:
    """A cursor that returns tuples, whatever the connection returns otherwise."""
    if backend == "postgresql" and hasattr(raw, "row_factory"):
        from psycopg.rows import tuple_row

        return raw.cursor(row_factory=tuple_row)
    if backend == "mysql" and type(raw).__module__.startswith("pymysql"):
        from pymysql.cursors import Cursor

        return raw.cursor(Cursor)
    cursor = raw.cursor()
    if backend == "sqlite":
        cursor.row_factory = None
    return cursor


def _hash(of: str, given: object) -> str:
    if isinstance(given, bool) or not isinstance(given, str | int) or given == "":
        raise BadInput(f"sink: id={given!r} is neither text nor a number")
    return blake2b(f"{of}\x00{given}".encode(), digest_size=16).hexdigest()


def _make_sure(target: _Target) -> None:
    """The table is there, or is made."""
    driver = target.driver
    if _has_seen(driver):
        return
    if target.backend == "mysql" and isinstance(target.conn, Connection):
        # A look in this transaction would be the moment that it sees from then on.
        with target.conn.engine.begin() as other:
            if not _is_there(_Target(other, "mysql")):
                make_sink(other)
    elif not _is_there(target):
        if target.backend == "mysql":
            raise BadConnection(
                f"the database of conn has no table {TABLE}, and making one here would commit "
                "your transaction; call windlass.make_sink(conn) once before it begins"
            )
        for statement in MAKE[target.backend]:
            target.run(statement)
        # It may be rolled back.
        return
    if target.backend != "sqlite":
        _seen.add(driver)


def _is_there(target: _Target) -> bool:
    return target.run(EXISTS[target.backend])[0] != ["0"]


def _has_seen(driver: Any) -> bool:
    try:
        return driver in _seen
    except TypeError:
        return False


def _insert(target: _Target, hashes: Sequence[str]) -> set[str]:
    """Insert those that are not there; a transaction that inserts the same now is waited for."""
    mark, now = randbits(62), round(time.time() * 1e6)
    values = ", ".join(f"('{each}', {now}, {mark})" for each in hashes)
    rows, changed = target.run(INSERT[target.backend] % values)
    if target.backend != "mysql":
        return set(rows)
    if changed == len(hashes):
        return set(hashes)
    # Only those of this call have its mark.
    listed = ", ".join(f"'{each}'" for each in hashes)
    return set(target.run(f"select id from {TABLE} where id in ({listed}) and mark = {mark}")[0])


def _prune(target: _Target, seconds: float) -> None:
    """Now and then, forget some of the ids that were remembered for long enough."""
    if time.monotonic() - _pruned["at"] < PRUNE_SECONDS:
        return
    _pruned["at"] = time.monotonic()
    before = round((time.time() - seconds) * 1e6)
    skip = "" if target.backend == "sqlite" else " for update skip locked"
    old, _ = target.run(
        f"select id from {TABLE} where done_at < {before} order by done_at limit {AT_ONCE}{skip}"
    )
    if old:
        listed = ", ".join(f"'{each}'" for each in old)
        target.run(f"delete from {TABLE} where id in ({listed})")
