"""Database URLs: the driver that Windlass uses, and how a URL is shown without its password."""

from __future__ import annotations

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
KNOWN_DRIVERS = ("psycopg", "pymysql", "pysqlite")

# Text with one of these may have a password in it.
SEPARATORS = frozenset(":@=")


def show(url: URL) -> str:
    """The URL without its passwords, for people."""
    secrets = [name for name in url.query if "pass" in name.lower()]
    return url.difference_update_query(secrets).render_as_string(hide_password=True)


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
    backend = url.drivername.split("+")[0]
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
    if "+" not in url.drivername:
        return url.set(drivername=DRIVERS[backend])
    if url.drivername.split("+")[1] not in KNOWN_DRIVERS:
        raise BadDatabase(
            f"database {show(url)!r}: Windlass uses the drivers psycopg, PyMySQL and "
            "sqlite3; leave the driver out of the URL"
        )
    return url


def _show_malformed(given: object) -> str:
    """What was given, without anything that may be a password."""
    if not isinstance(given, str):
        return f"of type {type(given).__name__}"
    if SEPARATORS.isdisjoint(given):
        return repr(given)
    known = (name for name in sorted(DRIVERS, reverse=True) if given.startswith(name))
    return repr(f"{next(known, '')}...")
