"""Database URLs: the driver that Windlass uses, and how a URL is shown without its password.

A URL that names another driver of the same server, as SQLAlchemy has many, means the same database.
It is accepted; the options that only that driver knows are translated or left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from windlass.errors import BadDatabase

DRIVERS = {
    "postgres": "postgresql+psycopg",
    "postgresql": "postgresql+psycopg",
    "mysql": "mysql+pymysql",
    "mariadb": "mariadb+pymysql",
    "sqlite": "sqlite",
}
DEFAULT_PORTS = {"postgresql": 5432, "mysql": 3306}
KNOWN_DRIVERS = ("psycopg", "pymysql", "pysqlite")

# Other drivers, and the options that Windlass' own driver has under another name, or not at all.
_MYSQL: Mapping[str, Mapping[str, str | None]] = {
    "mysqldb": {"compress": None, "use_unicode": None},
    "mysqlconnector": {
        "connection_timeout": "connect_timeout",
        "use_pure": None,
        "use_unicode": None,
        "buffered": None,
    },
    "aiomysql": {"echo": None},
    "asyncmy": {"echo": None},
    "cymysql": {},
}
OTHER_DRIVERS: Mapping[str, Mapping[str, Mapping[str, str | None]]] = {
    "postgresql": {
        "asyncpg": {
            "ssl": "sslmode",
            "timeout": "connect_timeout",
            "prepared_statement_cache_size": None,
            "statement_cache_size": None,
        },
        "psycopg_async": {},
        "psycopg2": {},
        "psycopg2cffi": {},
        "pg8000": {},
    },
    "mysql": _MYSQL,
    "mariadb": {**_MYSQL, "mariadbconnector": {}},
    "sqlite": {"aiosqlite": {}},
}

# Text with one of these may have a password in it.
SEPARATORS = frozenset(":@=")


def show(url: URL) -> str:
    """The URL without its passwords, for people."""
    secrets = [name for name in url.query if "pass" in name.lower()]
    return url.difference_update_query(secrets).render_as_string(hide_password=True)


def place_of(url: URL) -> str:
    """Which database a URL leads to; users and options do not count."""
    family = url.get_backend_name().replace("mariadb", "mysql")
    if family == "sqlite":
        return f"sqlite:{file_of(url.database or '')}"
    return server_place(family, host_of(url), url.port or url.query.get("port"), url.database or "")


def server_place(family: str, host: str, port: object, database: str) -> str:
    """`place_of` a database on a server."""
    host = "localhost" if host in ("", "127.0.0.1") else host
    return f"{family}:{host}:{port or DEFAULT_PORTS[family]}/{database}"


def host_of(url: URL) -> str:
    """The host, or where the socket is; "" if the URL does not say it."""
    return str(url.host or url.query.get("host") or url.query.get("unix_socket") or "")


def file_of(path: str) -> str:
    """The file that a path leads to."""
    is_file = path and path != ":memory:" and not path.startswith("file:")
    return str(Path(path).resolve()) if is_file else path


def normalise(given: str | URL) -> URL:
    """The URL with the driver that Windlass uses; BadDatabase if that is impossible."""
    try:
        url = make_url(given)
    except (ArgumentError, ValueError):
        # Not chained: the error of SQLAlchemy may quote the password.
        raise BadDatabase(
            f"database {_show_malformed(given)} is not a URL; write it as sqlite:///shop.db, "
            "postgresql://user@host/name or mysql://user@host/name"
        ) from None
    backend, _, driver = url.drivername.partition("+")
    if "@" in (url.host or ""):
        raise BadDatabase(
            f"database '{backend}://...': there are two @ after the user's name; "
            "write an @ of the password as %40"
        )
    if backend not in DRIVERS:
        raise BadDatabase(
            f"database {show(url)!r}: {backend!r} is not supported; "
            "use sqlite, postgresql, mysql or mariadb"
        )
    if not driver:
        return url.set(drivername=DRIVERS[backend])
    if driver in KNOWN_DRIVERS:
        return url
    family = DRIVERS[backend].partition("+")[0]
    if driver not in OTHER_DRIVERS[family]:
        raise BadDatabase(
            f"database {show(url)!r}: Windlass uses the drivers psycopg, PyMySQL and sqlite3, and "
            f"cannot tell what {driver!r} would do; leave the driver out of the URL: "
            f"{backend}://..."
        )
    return _translated(url, OTHER_DRIVERS[family][driver]).set(drivername=DRIVERS[backend])


def _translated(url: URL, names: Mapping[str, str | None]) -> URL:
    """The URL with the options of Windlass' own driver."""
    query = dict(url.query)
    for name, new in names.items():
        value = query.pop(name, None)
        if new is not None and value is not None:
            # asyncpg takes "true" for the mode "require".
            query[new] = "require" if new == "sslmode" and value == "true" else value
    return url.set(query=query)


def _show_malformed(given: object) -> str:
    """What was given, without anything that may be a password."""
    if not isinstance(given, str):
        return f"of type {type(given).__name__}"
    if SEPARATORS.isdisjoint(given):
        return repr(given)
    known = (name for name in sorted(DRIVERS, reverse=True) if given.startswith(name))
    return repr(f"{next(known, '')}...")
