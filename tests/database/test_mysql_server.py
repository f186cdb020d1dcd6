"""MySQL and MariaDB: which one it is, which are too old, and what becomes of idle connections."""

import os
from contextlib import closing, suppress

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.exc import SQLAlchemyError

from tests.server import MariaDB, ServerMissing
from tests.wait import eventually
from windlass import App, telemetry
from windlass.database.database import Database, normalise
from windlass.database.dialect.mysql_server import Server, server_named
from windlass.errors import BadDatabase


@pytest.mark.parametrize(
    ("told", "server"),
    [
        ("9.7.4-2", Server("mysql", (9, 7, 4))),
        ("8.0.17", Server("mysql", (8, 0, 17))),
        ("8.4.5-5 Percona", Server("mysql", (8, 4, 5))),
        ("5.5.5-10.11.11-MariaDB-0+deb12u1", Server("mariadb", (10, 11, 11))),
        ("11.8.9-MariaDB-4 from Debian", Server("mariadb", (11, 8, 9))),
        ("10.6.0-MariaDB", Server("mariadb", (10, 6, 0))),
    ],
)
def test_the_version_that_a_server_tells_says_which_one_it_is(told, server):
    assert server_named(told) == server


@pytest.mark.parametrize(
    ("told", "why"),
    [
        ("5.7.44-log", r"MySQL 5\.7\.44, .* needs MySQL 8\.0\.17 or newer"),
        ("8.0.16", r"MySQL 8\.0\.16, .* needs MySQL 8\.0\.17 or newer"),
        ("5.5.5-10.5.29-MariaDB-log", r"MariaDB 10\.5\.29, .* needs MariaDB 10\.6\.0 or newer"),
    ],
)
def test_a_version_that_is_too_old_is_refused(told, why):
    with pytest.raises(BadDatabase, match=why):
        server_named(told)


class OldMariaDB(MariaDB):
    """A server that tells another version of itself."""

    def command(self):
        return [*super().command(), "--version=10.5.29-MariaDB"]


def test_a_server_that_is_too_old_is_refused_when_it_is_met(pytestconfig):
    if "mariadb" not in pytestconfig.getoption("--database"):
        pytest.skip("mariadb is left out by --database")
    try:
        old = OldMariaDB(fast=True)
    except ServerMissing as error:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(error.reason)
    with old, closing(App(old.url)) as app, pytest.raises(BadDatabase, match=r"10\.5\.29"):
        app.migrate()


def test_the_server_is_known_once_there_is_a_connection(server_engine, server_url):
    with closing(Database(server_url)) as database:
        database.measure()

        assert database.dialect.server == server_engine


def test_an_idle_connection_is_replaced_before_the_server_has_closed_it(mysql_url):
    failures = []
    stop = telemetry.subscribe(
        lambda event: failures.append(event.fields) if event.name == "database.failed" else None
    )
    database = Database(mysql_url)
    other = create_engine(normalise(mysql_url))
    # New connections may be idle for a second.
    database.dialect.idle_milliseconds = 1_000
    with closing(Database(mysql_url, like=database)) as brief:
        (session,) = brief.read(lambda connection: connection.execute(ME).one())
        eventually(lambda: session not in sessions(other), what="a session that was closed")

        (next_session,) = brief.read(lambda connection: connection.execute(ME).one())

        assert next_session != session
    stop()
    assert failures == []
    other.dispose()
    database.close()


def test_a_transaction_that_idles_loses_its_locks(server_engine, server_url):
    database, other = Database(server_url), Database(server_url)
    database.dialect.idle_milliseconds = 1_000
    with closing(database), closing(Database(server_url, like=database)) as idle, closing(other):
        connection = idle.engine.connect()
        connection.execute(LOCK)

        def is_free() -> bool:
            with suppress(SQLAlchemyError), other.engine.connect() as free:
                return free.execute(text(f"{LOCK} skip locked")).first() is not None
            return False

        if server_engine == "postgresql":
            connection.execute(text("set local idle_in_transaction_session_timeout = '1s'"))
        assert not is_free()
        eventually(is_free, what="a row that is free again")
        with pytest.raises(SQLAlchemyError):
            connection.execute(LOCK)
        connection.invalidate()
        connection.close()


ME = text("select connection_id()")
LOCK = text("select next from windlass_number where name = 'id' for update")


def sessions(engine) -> set[int]:
    with engine.connect() as connection:
        return set(connection.scalars(text("select id from information_schema.processlist")))
