"""The caller's connection, `conn=`: which kinds are allowed, and how statements run on it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from sqlalchemy import URL, Connection, Engine, TextClause

from windlass import lent
from windlass.database.dialect.base import Dialect, Executor
from windlass.database.dialect.qualify import qualified
from windlass.database.url import file_of, host_of, server_place, show
from windlass.errors import BadConnection

__all__ = [
    "URL",
    "Connection",
    "Engine",
    "Executor",
    "has_begun",
    "is_alike",
    "is_async",
    "join",
    "joined",
    "on_its_thread",
]

# The family of a driver's server.
MODULES = {
    "sqlite3": "sqlite",
    "psycopg": "postgresql",
    "psycopg2": "postgresql",
    "psycopg_binary": "postgresql",
    "pymysql": "mysql",
    "MySQLdb": "mysql",
}
# Which database a connection is on.
ASK_WHERE = {
    "sqlite": "select file from pragma_database_list where name = 'main'",
    "postgresql": "select current_database()",
    "mysql": "select database()",
}
T = TypeVar("T")

# The modules of Django's connections: one of a database, and `django.db.connection`, which stands
# for the one of the thread.
DJANGO = ("django.db.backends.", "django.utils.connection")

# The option of our own connections that knows which migrations the tables have.
TABLES = "windlass_tables"

# Flags in the server status of MySQL and MariaDB.
IN_TRANSACTION, COMMITS_ALONE = 1, 2


def is_async(conn: object) -> bool:
    """Whether `conn` can only be used from a coroutine."""
    # By module name: importing it needs greenlet, which may not be installed.
    return any(base.__module__.startswith("sqlalchemy.ext.asyncio") for base in type(conn).__mro__)


async def on_its_thread(conn: Any, call: Callable[[object], T]) -> T:
    """`call(conn)`, awaited; an async `conn` is given as its sync one."""
    if not is_async(conn):
        # A sync connection belongs to the thread that uses it: stay on it.
        return call(conn)
    # An `async_scoped_session` stands for the session that it returns.
    session = conn if hasattr(conn, "run_sync") else conn()
    answer: T = await session.run_sync(call)
    return answer


def is_alike(conn: object, dialect: Dialect) -> bool:
    """Whether `conn` is a connection to a database of this family."""
    return backend_of(conn) == dialect.name


def drivers(conn: Any) -> Any:
    """The driver's connection of one of Django's; any other `conn` as it is.

    Django's connection is opened if it is not open, and refuses to be used if its transaction is
    broken, or on another thread than its own.
    """
    bases = type(conn).__mro__
    if not any(base.__module__.startswith(DJANGO) for base in bases):
        return conn
    conn.validate_thread_sharing()
    conn.validate_no_broken_transaction()
    if conn.connection is None:
        conn.ensure_connection()
    return conn.connection


def backend_of(conn: object) -> str | None:
    """The family of a connection's server: sqlite, postgresql or mysql; None if unknown."""
    conn = drivers(conn)
    if hasattr(conn, "get_bind") and hasattr(conn, "connection"):
        conn = conn.get_bind()
    named = getattr(getattr(conn, "dialect", None), "name", None)
    if named is None:
        modules = (base.__module__.split(".")[0] for base in type(conn).__mro__)
        named = next((MODULES[module] for module in modules if module in MODULES), None)
    return None if named is None else str(named).replace("mariadb", "mysql")


def join(conn: object, engine: Engine, dialect: Dialect) -> Executor:
    """An executor that runs statements in the transaction of `conn` and never ends it."""
    if is_async(conn):
        raise BadConnection(
            "conn is an async connection; await the method whose name starts with a"
        )
    conn = drivers(conn)
    if hasattr(conn, "get_bind") and hasattr(conn, "connection"):
        conn = conn.connection()
    if isinstance(conn, Connection):
        _check_lent(conn)
        _check(conn, dialect)
        return conn
    if (
        backend_of(conn) is None
        or not hasattr(conn, "cursor")
        or type(conn).__name__.startswith("Async")
    ):
        raise BadConnection(
            f"conn={conn!r} is not a connection; give a SQLAlchemy Connection or Session, or "
            "a connection of Django, sqlite3, psycopg or PyMySQL"
        )
    _check_lent(conn)
    _check(conn, dialect)
    return _Raw(conn, engine, dialect)


@contextmanager
def joined(conn: object, engine: Engine, dialect: Dialect) -> Iterator[Executor]:
    """`join` for a block; a database without Windlass tables is a BadConnection."""
    try:
        executor = join(conn, engine, dialect)
        if not isinstance(executor, Connection):
            yield executor
            return
        with qualified(executor, dialect.qualify):
            yield executor
    except Exception as problem:
        if not dialect.is_elsewhere(problem):
            raise
        raise BadConnection(
            "conn is on a database that has no Windlass tables; give a connection to "
            f"{show(engine.url)}, or leave conn out"
        ) from problem


def has_begun(executor: Executor) -> bool:
    """Whether `executor` is in a transaction, not in autocommit."""
    driver: Any = executor
    if isinstance(executor, Connection):
        driver = executor.connection.driver_connection
    elif isinstance(executor, _Raw):
        driver = executor.raw
    if hasattr(driver, "in_transaction"):
        return bool(driver.in_transaction)
    if hasattr(driver, "info"):
        return bool(driver.info.transaction_status)
    if hasattr(driver, "server_status"):
        return bool(driver.server_status & (IN_TRANSACTION | COMMITS_ALONE) != COMMITS_ALONE)
    return True


def _check(conn: object, dialect: Dialect) -> None:
    if not is_alike(conn, dialect):
        raise BadConnection(
            f"conn is a {backend_of(conn)} connection, but this app keeps its tasks in "
            f"{dialect.name}; a task can only join a transaction of its own database"
        )


def _check_lent(conn: Any) -> None:
    """Raise OutsideTest if a test is running and `conn` is on a database that it may not use."""
    family = backend_of(conn)
    if not lent.LOANS or family not in ASK_WHERE:
        return
    if isinstance(conn, Connection):
        found = conn.exec_driver_sql(ASK_WHERE[family]).first()
    else:
        cursor = conn.cursor()
        cursor.execute(ASK_WHERE[family])
        found = cursor.fetchone()
    values = list(found.values() if isinstance(found, Mapping) else found or ("",))
    name = str(values[-1] or "")
    if family == "sqlite":
        where = f"sqlite:{file_of(name)}"
        lent.check(lambda: where, lambda: f"conn=, which is on sqlite:///{name}")
        return
    host, port = _server_of(conn)
    where = server_place(family, host, port, name)
    if not host:
        # The driver does not say which server it is.
        known = [each for each in lent.LOANS[-1].allowed if each.endswith(f"/{name}")]
        where = known[0] if known else where
    lent.check(lambda: where, lambda: f"conn=, which is on the {family} database {name!r}")


def _server_of(conn: Any) -> tuple[str, int | None]:
    """The host, or the folder of the socket, and the port; "" if that is unknown."""
    if isinstance(conn, Connection):
        return host_of(conn.engine.url), conn.engine.url.port
    about = getattr(conn, "info", conn)
    host = getattr(about, "unix_socket", None) or getattr(about, "host", "")
    return str(host or ""), getattr(about, "port", None)


@dataclass(eq=False)
class _Raw:
    """Runs SQLAlchemy statements on a driver's connection."""

    raw: Any
    engine: Engine
    dialect: Dialect

    def execute(self, statement: TextClause, parameters: Mapping[str, Any]) -> Any:
        compiled = statement.compile(dialect=self.engine.dialect)
        sent = self.dialect.qualified(str(compiled))
        values = {**compiled.params, **parameters}
        cursor = self.dialect.raw_cursor(self.raw)
        if compiled.positional:
            cursor.execute(sent, [values[name] for name in compiled.positiontup or []])
        else:
            cursor.execute(sent, values)
        return cursor
