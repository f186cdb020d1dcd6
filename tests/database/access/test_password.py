"""`password=`: a function that gives the password of each new connection, as tokens need it."""

import asyncio
import logging
import traceback

import psycopg
import pymysql
import pytest

from tests.core.run.working import listening, working
from tests.server.tls import PASSWORD, USER
from tests.wait import eventually
from windlass import App, BadDatabase, BadInput, DatabaseUnavailable, Table
from windlass.database.database import Database
from windlass.ledger import Ledger


class Tokens:
    """Gives the password that holds, as often as it is asked, and remembers for which URL."""

    def __init__(self, server):
        self.server = server
        self.now = PASSWORD
        self.asked = []

    def __call__(self, url):
        self.asked.append(url)
        return self.now

    def change(self, password):
        self.server.set_password(password)
        self.now = password


@pytest.fixture
def tokens(tls_server):
    tokens = Tokens(tls_server)
    yield tokens
    tokens.change(PASSWORD)


@pytest.fixture
def url(tls_server, tls_database):
    return tls_server.at(tls_database, password=None, ca=tls_server.ca)


def test_each_new_connection_asks_for_the_password(url, tokens):
    database = Database(url, password=tokens)
    assert database.measure() > 0
    first = len(tokens.asked)

    tokens.change("the second secret")
    database.close()

    assert database.measure() > 0
    assert len(tokens.asked) > first > 0
    assert set(tokens.asked) == {database.name}
    database.close()


def test_the_password_that_held_before_is_not_used_again(url, tokens):
    database = Database(url, password=lambda _url: PASSWORD)
    assert database.measure() > 0
    database.close()

    tokens.change("the second secret")

    with pytest.raises(DatabaseUnavailable) as raised:
        database.measure(tries=1)
    assert PASSWORD not in "".join(traceback.format_exception(raised.value))


def test_an_app_lives_through_a_change_of_the_password(url, tokens, tls_server, tls_database):
    app = App(url, password=tokens)
    app.migrate()
    ran = []

    @app.task
    def note(number: int) -> None:
        ran.append(number)

    with working(app):
        note.enqueue(1)
        eventually(lambda: ran == [1], what="the first task")
        tokens.change("the second secret")
        _cut_off(tls_server, tls_database)
        note.enqueue(2)
        eventually(lambda: ran == [1, 2], what="the second task")

    assert set(tokens.asked) == {app.database.name}
    app.close()


def test_the_listener_and_the_heartbeat_ask_too(tls_postgresql):
    tls_postgresql.create_database("asking")
    url = tls_postgresql.at("asking", password=None, ca=tls_postgresql.ca)
    app = App(url, password=lambda _url: PASSWORD)
    app.migrate()
    watcher = Database(tls_postgresql.url_of("asking"))
    seen = f"select query from pg_stat_activity where usename = '{USER}'"

    def queries():
        return watcher.read(lambda connection: connection.exec_driver_sql(seen).scalars().all())

    with working(app):
        eventually(lambda: any("listen" in query for query in queries()), what="the listener")
        reserved = app.database.reserved.engine.pool
        eventually(lambda: reserved.checkedin() + reserved.checkedout(), what="the heartbeat")

    app.close()
    watcher.close()


def test_a_ledger_asks_too(url, tokens):
    ledger = Ledger(url, password=tokens)
    ledger.migrate()
    ledger.restock("delivery-1", {"bolt": 1})

    tokens.change("the second secret")
    ledger.close()

    assert ledger.stock("bolt").available == 1
    ledger.close()


def test_a_table_asks_too(tls_server, tls_database, tokens):
    url = tls_server.at(tls_database, password=None, ca=tls_server.ca)
    database = Database(url, password=tokens)
    with database.engine.begin() as connection:
        connection.exec_driver_sql("create table product (code varchar(20) primary key)")
        connection.exec_driver_sql("insert into product values ('bolt')")
    table = Table(url, "product", key="code", password=tokens)

    tokens.change("the second secret")

    assert list(table.keys()) == [["bolt"]]
    table.close()
    database.close()


def test_the_drivers_own_connect_gets_everything(url, tokens, tls_server):
    connect = {"postgresql": psycopg.connect, "mysql": pymysql.connect}[tls_server.scheme]
    database = Database(url, password=tokens)
    tokens.change("the second secret")

    connection = connect(**database.connect_arguments())

    with connection.cursor() as cursor:
        cursor.execute("select current_user")
        assert cursor.fetchone()[0].partition("@")[0] == USER
    connection.close()


def test_each_of_several_databases_asks_with_its_own_url(tls_server, tokens):
    names = ("one", "other")
    for name in names:
        tls_server.create_database(name)
    urls = [tls_server.at(name, password="wrong", ca=tls_server.ca) for name in names]
    app = App(*urls, password=tokens)

    app.migrate()

    shown = {shard.name for shard in app.fleet.shards}
    assert set(tokens.asked) == shown
    assert all("wrong" not in url for url in shown)
    app.close()
    for name in names:
        tls_server.drop_database(name)


def test_an_error_of_the_function_is_told_without_its_text(url):
    def password(_url):
        raise RuntimeError(f"cannot use {PASSWORD}")

    with pytest.raises(DatabaseUnavailable) as raised:
        Database(url, password=password).measure()

    assert "the function given as password= raised RuntimeError" in str(raised.value)
    assert PASSWORD not in str(raised.value)


def test_what_is_not_a_password_is_told_without_its_value(url):
    with pytest.raises(DatabaseUnavailable, match="password= returned bytes, not text") as raised:
        Database(url, password=lambda _url: PASSWORD.encode()).measure()

    assert PASSWORD not in str(raised.value)


def test_no_log_and_no_event_has_the_password(url, tokens, caplog):
    caplog.set_level(logging.DEBUG)
    app = App(url, password=tokens)
    with listening("database.failed", "worker.joined", "task.done") as heard:
        app.migrate()
        tokens.now = "a wrong secret"
        app.close()
        with pytest.raises(DatabaseUnavailable) as raised:
            app.database.measure(tries=2)

    told = f"{caplog.text} {heard} {raised.value} {app.database.name} {app.database.engine.url!r}"
    assert heard
    assert PASSWORD not in told
    assert "a wrong secret" not in told


@pytest.mark.parametrize("made", [App, Ledger])
def test_only_a_plain_function_is_taken(made):
    async def password(_url):
        return "secret"

    with pytest.raises(BadInput, match="password= is an async function; give a plain one"):
        made("postgresql://host/shop", password=password)
    with pytest.raises(BadInput, match="password= is not a function") as raised:
        made("postgresql://host/shop", password="secret")
    with pytest.raises(BadDatabase, match="a SQLite file has no password"):
        made("sqlite:///shop.db", password=lambda _url: "secret")
    assert "'secret'" not in str(raised.value)


def test_an_engine_has_its_own_password(sqlite_url):
    database = Database(sqlite_url)

    with pytest.raises(BadInput, match="password, schema: an Engine has its own"):
        Ledger(database.engine, password=lambda _url: "secret", schema="jobs")
    database.close()


def test_a_call_that_is_awaited_asks_on_a_thread(url, tokens):
    app = App(url, password=tokens)

    asyncio.run(app.amigrate())

    assert tokens.asked
    app.close()


def _cut_off(server, name):
    if server.scheme == "mysql":
        server.cut_off(name)
    else:
        server.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity "
            f"where datname = '{name}' and pid <> pg_backend_pid()"
        )
