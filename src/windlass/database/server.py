"""Which database server a connection or an engine uses."""

from __future__ import annotations

from sqlalchemy.engine import Dialect

MODULES = {
    "sqlite3": "sqlite",
    "psycopg": "postgresql",
    "psycopg2": "postgresql",
    "psycopg_binary": "postgresql",
    "pymysql": "mysql",
    "MySQLdb": "mysql",
}


def server_of(dialect: Dialect) -> str:
    """The server: sqlite, postgresql, mysql or mariadb.

    A mysql URL may lead to MariaDB, which is known after the first connection.
    """
    return "mariadb" if getattr(dialect, "is_mariadb", False) else dialect.name


def backend_of(conn: object) -> str | None:
    """The family of a connection's server: sqlite, postgresql or mysql; None if unknown."""
    if hasattr(conn, "get_bind") and hasattr(conn, "connection"):
        conn = conn.get_bind()
    named = getattr(getattr(conn, "dialect", None), "name", None)
    if named is None:
        named = MODULES.get(type(conn).__module__.split(".")[0])
    return None if named is None else str(named).replace("mariadb", "mysql")
