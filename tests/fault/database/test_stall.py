"""The database server stalls: its connections stay open, and it does not answer."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest
from sqlalchemy import text

from tests.fault.jobs import Jobs
from tests.server import Server
from tests.server.process import children_of
from windlass.database.bound import Bounds
from windlass.database.database import Database
from windlass.errors import DatabaseUnavailable
from windlass.value.status import Status

SLEEP = {
    "postgresql": "select pg_sleep({})",
    "mariadb": "select sleep({})",
    # A bare sleep ends without an error.
    "mysql": "select 1 from information_schema.engines where sleep({}) = 0 limit 1",
}
TOO_LONG = "statement timeout|max_statement_time|maximum statement execution time"
SHORT = Bounds(connect=2.0, statement=0.5, socket=1.0)


@contextmanager
def stalled(server: Server) -> Iterator[None]:
    """Stop all processes of the server for this block."""
    # A stopped parent cannot start another child while its children are listed.
    signal_all([server.pid], signal.SIGSTOP)
    pids = [server.pid, *children_of(server.pid)]
    try:
        signal_all(pids, signal.SIGSTOP)
        yield
    finally:
        signal_all(pids, signal.SIGCONT)


def signal_all(pids: list[int], number: signal.Signals) -> None:
    """Tell each process; a connection's process may have ended since it was listed."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


@pytest.mark.parametrize("is_connected", [True, False], ids=["connected", "not connected"])
def test_enqueue_against_a_stalled_server_gives_up(server_site, tmp_path, is_connected):
    bounds = {"connect_timeout": "2s", "statement_timeout": "1s", "socket_timeout": "3s"}
    jobs = Jobs(server_site.url, tmp_path / "effects", **bounds)
    jobs.app.migrate()
    jobs.quick.enqueue(0)
    if not is_connected:
        jobs.app.close()

    began = time.monotonic()
    with stalled(server_site.server), pytest.raises(DatabaseUnavailable) as raised:
        jobs.quick.enqueue(1)

    assert time.monotonic() - began < 40.0
    assert "check that the database is up" in str(raised.value)
    assert jobs.quick.enqueue(2).status() is Status.WAITING
    jobs.app.close()


def test_a_statement_that_takes_too_long_is_ended_by_the_server(server_site):
    database = Database(server_site.url, bounds=Bounds(statement=0.5, socket=60.0))
    sleep = text(SLEEP[server_site.engine].format(30))

    with pytest.raises(DatabaseUnavailable, match=TOO_LONG):
        database.read(lambda connection: connection.execute(sleep).all(), tries=1)

    assert database.measure() > 0
    database.close()


def test_long_work_may_ask_for_statements_without_a_bound(server_site):
    database = Database(server_site.url, bounds=SHORT)
    sleep = text(SLEEP[server_site.engine].format(1.5))

    with database.unbounded() as unbounded:
        found = unbounded.read(lambda connection: connection.execute(sleep).all(), tries=1)

    assert len(found) == 1
    database.close()
