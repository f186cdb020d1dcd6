"""Databases that are lent to one test after the other."""

from contextlib import ExitStack, closing

import pytest
from sqlalchemy import inspect, text

from windlass import App, BadDatabase
from windlass.database.scratch import ScratchFiles, ScratchServer
from windlass.operate.scratch import make_lender


@pytest.fixture
def lender(empty_database_url, tmp_path):
    lender = make_lender(empty_database_url, tmp_path)
    yield lender
    lender.close()


def test_what_is_lent_is_empty_every_time(lender):
    for _ in range(3):
        with lender.lend() as url:
            engine = App(url).database.engine
            with engine.begin() as connection:
                assert connection.scalar(text("select count(*) from windlass_task")) == 0
                connection.execute(text("create table orders (id integer primary key)"))
            engine.dispose()
            leave_a_task(url)


def test_two_are_lent_at_once(lender):
    with lender.lend() as first, lender.lend() as second:
        assert first != second
        leave_a_task(first)
        leave_a_task(second)


def test_nothing_stays_behind(lender, empty_database_url, tmp_path):
    with lender.lend() as url:
        leave_a_task(url)
    lender.close()

    if isinstance(lender, ScratchFiles):
        assert not tmp_path.exists()
        return
    engine = App(empty_database_url).database.engine
    assert inspect(engine).get_table_names() == []
    statement = "select datname from pg_database"
    if engine.dialect.name != "postgresql":
        statement = "show databases"
    with engine.connect() as connection:
        names = connection.scalars(text(statement)).all()
    engine.dispose()
    assert [name for name in names if name.startswith("windlass_test_")] == []


def test_a_server_that_lets_nobody_in_says_what_to_do(postgresql_url):
    lender = ScratchServer(postgresql_url.replace("/windlass_", "/no_such_"))

    with pytest.raises(BadDatabase, match="--windlass-database"), lender.lend():
        pass
    lender.close()


def test_a_database_that_cannot_be_emptied_is_not_lent_again(mysql_url, tmp_path, caplog):
    lender = make_lender(mysql_url, tmp_path)
    with ExitStack() as left:
        left.callback(lender.close)
        with lender.lend() as first:
            app = left.enter_context(closing(App(first)))
            connection = left.enter_context(app.database.engine.connect())
            connection.execute(text("select name from windlass_number for update"))

        with lender.lend() as second:
            leave_a_task(second)
        with lender.lend() as third:
            pass
        connection.invalidate()

    assert first != second == third
    assert "could not be emptied" in caplog.text


def leave_a_task(url: str) -> None:
    app = App(url)

    @app.task(keep="1d")
    def ping() -> None: ...

    ping.enqueue()
    app.drain()
    app.close()
