"""After a failover, connections survive and lead to a server that only allows reading."""

import threading
from collections.abc import Iterator
from contextlib import ExitStack
from urllib.parse import urlsplit

import pytest
from sqlalchemy import text

from tests.fault.conftest import Site
from tests.fault.crew import ids_of
from tests.fault.jobs import Jobs
from tests.server import MariaDB, PostgreSQL
from tests.server.process import free_port
from tests.wait import eventually
from windlass import App, Status
from windlass.core.wake.postgresql import Listener
from windlass.database.database import Database
from windlass.errors import DatabaseUnavailable

SESSIONS = {
    "postgresql": "select pid from pg_stat_activity where datname = current_database()"
    " and pid <> pg_backend_pid()",
    "mysql": "select id from information_schema.processlist where db = database()"
    " and id <> connection_id()",
}
INSERT = "insert into windlass_number (name, next) values ('mine', 1) on conflict do nothing"
ME = {"postgresql": "select pg_backend_pid()", "mysql": "select connection_id()"}


@pytest.fixture
def demoted(site_of) -> Iterator[Site]:
    """A PostgreSQL database for `demote`."""
    site = site_of("postgresql")
    assert isinstance(site.server, PostgreSQL)
    yield site
    site.server.execute("alter system reset default_transaction_read_only")
    site.server.execute("select pg_reload_conf()")


def demote(site: Site) -> None:
    """Sessions that exist become read-only; new ones are as on the new primary."""
    name = site.url.rpartition("/")[2]
    site.server.execute(
        f"alter database {name} set default_transaction_read_only = off",
        "alter system set default_transaction_read_only = on",
        "select pg_reload_conf()",
    )


def hold_several(database: Database, count: int) -> set[int]:
    """Open connections in all its pools; the sessions of the server."""
    held = set()
    with ExitStack() as stack:
        for engine in database.engines:
            for _ in range(count):
                connection = stack.enter_context(engine.connect())
                held.add(connection.execute(text(ME[database.dialect.name])).scalar())
    return held


def sessions(database: Database) -> set[int]:
    asked = text(SESSIONS[database.dialect.name])
    return set(database.read(lambda connection: connection.scalars(asked).all()))


def test_enqueue_goes_on_after_a_failover_that_connections_survive(demoted, tmp_path):
    jobs = Jobs(demoted.url, tmp_path / "effects")
    jobs.quick.enqueue(0)
    hold_several(jobs.app.database, 4)

    demote(demoted)
    eventually(lambda: jobs.app.database.renewals or not jobs.quick.enqueue(1), what="a renewal")

    ids = [jobs.quick.enqueue(number).id for number in range(3)]
    ids += ids_of(jobs.quick.enqueue_many([{"number": 3}] * 200))
    assert all(jobs.app.find(number) for number in ids)
    jobs.app.close()


def test_a_worker_goes_on_after_a_failover_that_connections_survive(demoted, crew_over):
    crew = crew_over(demoted.url)
    worker = crew.start("--concurrency", "10")
    crew.wait_done(ids_of(crew.jobs.nap.enqueue_many([{"seconds": 0.05}] * 100)))

    demote(demoted)
    ids = ids_of(crew.jobs.nap.enqueue_many([{"seconds": 0.05}] * 100))

    rows = crew.wait_done(ids)
    assert worker.is_running
    assert {row.lost for row in rows.values()} == {0}


def test_all_connections_are_thrown_away_when_one_only_allows_reading(demoted):
    database = Database(demoted.url)
    old = hold_several(database, 2)

    demote(demoted)

    def are_gone() -> bool:
        # A session hears of its new settings a moment later.
        database.write(lambda connection: connection.execute(text(INSERT)))
        return not old & sessions(database)

    eventually(are_gone, what="old sessions that have ended")
    database.close()


@pytest.fixture(params=["mariadb", "mysql"])
def user(request, site_of) -> Iterator[tuple[MariaDB, str]]:
    """A server, and the URL of a user who may not write while it is read-only."""
    site = site_of(request.param)
    assert isinstance(site.server, MariaDB)
    name = site.url.rpartition("/")[2].partition("?")[0]
    site.server.execute(
        "drop user if exists shop@'%'",
        "create user shop@'%' identified by ''",
        f"grant all on `{name}`.* to shop@'%'",
        f"create table `{name}`.fresh (id int)",
    )
    yield site.server, site.url.replace("root@", "shop@")
    site.server.execute("set global read_only = off")


def test_all_connections_to_a_read_only_server_are_thrown_away(user):
    server, url = user
    database = Database(url)
    old = hold_several(database, 2)

    server.execute("set global read_only = on")
    insert = text("insert into fresh values (1)")
    with pytest.raises(DatabaseUnavailable, match="leads to the primary"):
        database.write(lambda connection: connection.execute(insert), tries=2)

    eventually(lambda: not old & sessions(database), what="old sessions that have ended")
    server.execute("set global read_only = off")
    assert database.write(lambda connection: connection.execute(insert).rowcount) == 1
    database.close()


def test_of_several_hosts_the_one_that_allows_writing_is_found(site_of):
    site = site_of("postgresql")
    place = urlsplit(site.url)
    hosts = f"host=127.0.0.1:{free_port()}&host=127.0.0.1:{place.port}"
    url = f"postgresql://{place.path}?user=postgres&{hosts}&target_session_attrs=read-write"
    app = App(url)

    @app.task
    def work() -> None: ...

    assert work.enqueue().status() is Status.WAITING
    heard = threading.Event()
    listener = Listener(app.database, heard.set, me=lambda: 0)
    listener.start()
    eventually(heard.is_set, what="a listener that has connected")
    heard.clear()
    app.database.write(lambda it: it.execute(text("select pg_notify('windlass', 'other')")))
    eventually(heard.is_set, what="a listener that hears")
    listener.stop()
    app.close()
