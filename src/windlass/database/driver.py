"""How to connect with the driver alone: for a small process that cannot load SQLAlchemy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from windlass.database.bound import Bounds
from windlass.database.database import Database

PLAIN = (str, int, float, bool, type(None))
# A server that does not answer soon is tried again.
BOUNDS = Bounds(connect=2.0, statement=1.0)

# What SQLAlchemy adds for psycopg.
OF_SQLALCHEMY = ("context",)

AUTOCOMMIT = {"sqlite": {"isolation_level": None}}
# Long: a wait that is begun anew comes after those who wait to mark the worker dead.
BEGIN = {"mysql": ["set session innodb_lock_wait_timeout = 30"]}


@dataclass(frozen=True)
class DriverCall:
    """What opens a connection in autocommit, as plain values. It may have a password in it."""

    module: str
    args: list[Any]
    named: dict[str, Any]
    # What it executes first, and how its statements mark a parameter.
    begin: list[str]
    mark: str


def driver_call(database: Database) -> DriverCall | None:
    """How the driver connects to `database`; None if another process cannot."""
    dialect, url = database.dialect, database.url
    if dialect.is_private(url):
        return None
    if database.password is not None:
        # Each connection asks for a new one, and only this process can.
        return None
    args, given = database.connect_args
    named = dict(given)
    named |= dialect.engine_options(url, BOUNDS)["connect_args"]
    named |= AUTOCOMMIT.get(dialect.name, {"autocommit": True})
    if any(not is_plain(value) for name, value in named.items() if name not in OF_SQLALCHEMY):
        # A TLS context, for example: without it the connection would not be encrypted.
        return None
    return DriverCall(
        module=database.engine.dialect.loaded_dbapi.__name__,
        args=list(args),
        named={name: value for name, value in named.items() if is_plain(value)},
        begin=BEGIN.get(dialect.name, []),
        mark="?" if database.engine.dialect.paramstyle == "qmark" else "%s",
    )


def is_plain(value: object) -> bool:
    """Whether it can be sent as JSON."""
    if isinstance(value, dict):
        return all(is_plain(each) for each in value.values())
    return isinstance(value, PLAIN)
