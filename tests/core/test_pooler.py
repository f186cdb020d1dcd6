"""Through a pooler, which gives each transaction to another session, everything works."""

import os
from urllib.parse import urlsplit

import pytest

from tests.server import PgBouncer, ServerMissing
from tests.server.process import WHICH
from windlass import App, Status
from windlass.database.database import Database

TASKS = 300
BESIDE_THE_POOLER = pytest.mark.skipif(
    os.environ.get(WHICH) == "pgbouncer", reason="this run reaches no server but by a pooler"
)


@pytest.fixture
def pooled_url(postgresql_url):
    """The same database, through PgBouncer."""
    place = urlsplit(postgresql_url)
    try:
        pooler = PgBouncer(place.port)
    except ServerMissing as error:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(error.reason)
    with pooler:
        yield pooler.url_of(place.path.lstrip("/"))


def prepared(url):
    database = Database(url)
    try:
        with database.engine.connect() as connection:
            raw = connection.connection.driver_connection
            assert raw is not None
            return raw.prepare_threshold is not None
    finally:
        database.close()


@BESIDE_THE_POOLER
def test_statements_are_prepared_only_where_a_session_is_ones_own(postgresql_url, pooled_url):
    assert prepared(postgresql_url)
    assert not prepared(pooled_url)


def test_tasks_and_flows_run_through_a_pooler(pooled_url):
    app = App(pooled_url)
    ran = []

    @app.task
    def step(number: int) -> int:
        ran.append(number)
        return number

    @app.flow
    def chain(flow):
        node = None
        for number in range(20):
            node = flow.add(step, -1 - number, after=node)

    step.enqueue_many([{"number": number} for number in range(TASKS)])
    run = chain.start()
    for number in range(20):
        step.enqueue(TASKS + number)
    app.drain()
    app.close()

    assert sorted(ran) == list(range(-20, TASKS + 20))
    assert [number for number in ran if number < 0] == list(range(-1, -21, -1))
    assert run.status() is Status.SUCCEEDED


@BESIDE_THE_POOLER
def test_the_bound_of_statements_is_set_only_where_a_session_is_ones_own(
    postgresql_url, pooled_url
):
    def limit_of(url: str) -> str:
        database = Database(url)
        try:
            return database.read(
                lambda connection: connection.exec_driver_sql("show statement_timeout").scalar_one()
            )
        finally:
            database.close()

    assert limit_of(postgresql_url) == "30s"
    assert limit_of(pooled_url) == "0"
