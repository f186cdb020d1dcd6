"""Database URLs, transactions, and what is done again."""

import time
import traceback

import pytest
from sqlalchemy import URL, text
from sqlalchemy.exc import DBAPIError

from windlass import App, BadDatabase, BadInput, DatabaseUnavailable
from windlass.database import database as module
from windlass.database.bound import Bounds, make_bounds
from windlass.database.connection import is_alike
from windlass.database.database import Database, normalise
from windlass.database.dialect import psycopg as direct


@pytest.mark.parametrize(
    ("given", "driver"),
    [
        ("sqlite:///shop.db", "sqlite"),
        ("postgresql://ada@host/shop", "postgresql+psycopg"),
        ("postgres://ada@host/shop", "postgresql+psycopg"),
        ("postgresql+psycopg://ada@host/shop", "postgresql+psycopg"),
        ("mysql://ada@host/shop", "mysql+pymysql"),
        ("mariadb://ada@host/shop", "mariadb+pymysql"),
        ("mysql+pymysql://ada@host/shop", "mysql+pymysql"),
    ],
)
def test_a_url_gets_the_driver_that_windlass_uses(given, driver):
    assert normalise(given).drivername == driver


def test_a_url_object_is_as_good_as_its_text(tmp_path):
    url = URL.create("sqlite", database=str(tmp_path / "shop.db"))

    app = App(url)

    assert app.migrate()
    assert (tmp_path / "shop.db").exists()
    app.close()


def test_a_url_that_says_nothing_of_encryption_reaches_a_server_without_it(mariadb_url):
    database = Database(mariadb_url.partition("?")[0])

    assert database.measure() > 0
    database.close()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("", "is not a URL"),
        ("shop.db", "is not a URL; write it as sqlite:///shop.db"),
        ("oracle://ada:secret@host/shop", "'oracle' is not supported"),
        ("mssql+pyodbc://host/shop", "'mssql' is not supported"),
        ("postgresql+nothing://ada:secret@host/shop", "leave the driver out of the URL"),
        ("sqlite:///shop.db?synchronous=MAYBE", "synchronous='MAYBE' is not one of FULL"),
        (7, "is not a URL"),
    ],
)
def test_a_url_that_cannot_be_used_is_refused_with_the_cure(given, said):
    with pytest.raises(BadDatabase) as raised:
        App(given) if given != "" else normalise(given)

    assert said in str(raised.value)
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize(
    "given",
    [
        "postgresql://ada:secret",
        "postgresql//ada:secret@host/shop",
        "postgresql:/ada:secret@host/shop",
        " postgresql://ada:secret@host/shop",
        "ada:secret@host/shop",
        "secret@host/shop",
        "host=db user=ada password=secret",
        "postgresql://ada:p@secret@host/shop",
        "postgresql://ada:secret@host:port/shop",
        "postgresql://ada@secret:host/shop",
        "postgresql://ada:secret@one:1,two:2/shop",
        "mysql://ada:secret@[::1/shop",
        "oracle://host/shop?password=secret",
        "mysql+nothing://host/shop?passwd=secret",
        b"postgresql://ada:secret@host/shop",
    ],
)
def test_a_malformed_url_never_shows_its_password(given):
    with pytest.raises(BadDatabase) as raised:
        App(given)

    assert "secret" not in "".join(traceback.format_exception(raised.value))


def test_a_password_among_the_parameters_of_a_url_is_hidden():
    database = Database("postgresql://host/shop?user=ada&password=secret")

    assert database.name == "postgresql+psycopg://host/shop?user=ada"


def test_without_a_url_the_environment_decides(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WINDLASS_DATABASE_URL", "sqlite:///from_environment.db")
    from_environment = App()
    monkeypatch.delenv("WINDLASS_DATABASE_URL")
    default = App()

    assert from_environment.database.url.database == "from_environment.db"
    assert default.database.url.database == "windlass.db"


def test_the_name_of_a_database_hides_its_password():
    assert Database("postgresql://ada:secret@host/shop").name == (
        "postgresql+psycopg://ada:***@host/shop"
    )


def test_a_database_in_memory_works(monkeypatch):
    app = App("sqlite://")

    @app.task
    def work() -> int:
        return 7

    refs = [work.enqueue() for _ in range(20)]
    app.drain()

    assert [ref.result() for ref in refs] == [7] * 20
    app.close()


def test_sqlite_is_in_write_ahead_mode_and_durable(sqlite_url):
    database = Database(sqlite_url)

    mode, synchronous = database.read(
        lambda connection: (
            connection.exec_driver_sql("pragma journal_mode").scalar(),
            connection.exec_driver_sql("pragma synchronous").scalar(),
        )
    )

    assert (mode, synchronous) == ("wal", 2)
    database.close()


def test_sqlite_may_be_asked_to_be_less_durable(sqlite_url):
    database = Database(f"{sqlite_url}?synchronous=normal")

    found = database.read(
        lambda connection: connection.exec_driver_sql("pragma synchronous").scalar()
    )

    assert found == 1
    database.close()


@pytest.fixture
def database(database_url):
    database = Database(database_url)
    yield database
    database.close()


def test_a_write_is_all_or_nothing(database):
    def work(connection):
        connection.execute(text("insert into windlass_number (name, next) values ('mine', 1)"))
        raise RuntimeError("no")

    with pytest.raises(RuntimeError):
        database.write(work)

    found = database.read(
        lambda connection: connection.scalar(
            text("select count(*) from windlass_number where name = 'mine'")
        )
    )
    assert found == 0


def test_an_error_that_cannot_be_helped_is_not_tried_again(database):
    tries = []

    def work(connection):
        tries.append(1)
        connection.execute(text("select * from no_such_table"))

    with pytest.raises(DBAPIError):
        database.write(work)

    assert tries == [1]


def test_a_lost_connection_is_answered_by_doing_all_of_it_again(database):
    if database.dialect.name == "sqlite":
        pytest.skip("SQLite has no server to lose")
    kill = {
        "postgresql": "select pg_terminate_backend(pg_backend_pid())",
        "mysql": "kill connection_id()",
    }[database.dialect.name]
    tries = []

    def work(connection):
        tries.append(1)
        if len(tries) == 1:
            connection.execute(text(kill))
        connection.execute(text("insert into windlass_number (name, next) values ('mine', 1)"))
        return "done"

    assert database.write(work) == "done"
    assert len(tries) == 2


def test_a_database_that_stays_away_is_given_up(monkeypatch):
    monkeypatch.setattr(module, "FIRST_PAUSE", 0.001)
    database = Database("postgresql://ada:secret@127.0.0.1:1/shop")

    with pytest.raises(DatabaseUnavailable, match=r"after 3 tries") as raised:
        database.read(lambda connection: None, tries=3)

    assert "secret" not in str(raised.value)


def test_the_databases_clock_is_the_real_time(database):
    before = time.time() * 1_000_000
    measured = database.measure()
    after = time.time() * 1_000_000

    assert before - 1_000_000 <= measured <= after + 1_000_000


def test_waiting_for_a_free_connection_has_a_bound(database_url):
    database = Database(database_url, bounds=Bounds(pool_size=1, pool_wait=0.1))

    with (
        database.engine.connect(),
        pytest.raises(DatabaseUnavailable, match=r"were in use for 0.1 s \(pool_size=1\)"),
    ):
        database.write(lambda connection: None)

    assert database.write(lambda connection: 7) == 7
    database.close()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"connect_timeout": "soon"}, "connect_timeout: cannot read 'soon'"),
        ({"statement_timeout": "0s"}, "statement_timeout: '0s' is too short"),
        ({"statement_timeout": "1m", "socket_timeout": "30s"}, "statement_timeout of 60 s"),
        ({"pool_size": 0}, "pool_size=0 is not a number from 1"),
        ({"pool_size": True}, "pool_size=True is not a number from 1"),
        ({"pool_timeout": 5}, "pool_timeout: 5 is an int"),
    ],
)
def test_bounds_that_cannot_be_used_are_refused(given, said):
    with pytest.raises(BadInput) as raised:
        App("sqlite://", **given)

    assert said in str(raised.value)


def test_the_server_gets_time_to_end_a_statement_before_its_connection_is_closed():
    bounds = make_bounds(statement_timeout="2s", pool_size=3)

    assert (bounds.statement, bounds.socket) == (2.0, 7.0)
    assert (bounds.pool["pool_size"], bounds.pool["max_overflow"]) == (2, 1)


def test_many_rows_are_copied_by_several_statements_of_bounded_length(postgresql_url, monkeypatch):
    monkeypatch.setattr(direct, "STATEMENT_ROWS", 70)
    monkeypatch.setattr(direct, "COPY_ROWS", 30)
    app = App(postgresql_url)

    @app.task
    def work(number: int) -> None: ...

    refs = work.enqueue_many([{"number": number} for number in range(250)])

    rows = app.database.read(
        lambda connection: connection.execute(text("select id from windlass_task")).scalars().all()
    )
    assert sorted(rows) == sorted(ref.id for ref in refs)
    app.close()


def test_a_drivers_connection_that_windlass_opened_can_be_joined(database):
    with database.engine.connect() as connection:
        assert is_alike(connection.connection.driver_connection, database.dialect)
