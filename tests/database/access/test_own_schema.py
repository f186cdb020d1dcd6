"""`schema=`: on PostgreSQL the tables of Windlass may be in a schema of their own."""

import asyncio
import os

import psycopg
import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.orm import Session

from tests.core.run.working import working
from tests.server import PgBouncer, ServerMissing
from tests.wait import eventually
from windlass import App, BadDatabase, BadInput, SchemaMismatch, Status, Table, context
from windlass.database.database import Database, normalise
from windlass.database.dialect.qualify import qualifier
from windlass.ledger import Ledger

PLACES = """
    select distinct table_schema from information_schema.tables where table_name like 'windlass%'
"""


@pytest.fixture
def server(tls_postgresql):
    return tls_postgresql


@pytest.fixture
def url(server):
    """An empty database."""
    url = server.create_database("own")
    yield url
    server.drop_database("own")


@pytest.fixture
def app(url):
    app = App(url, schema="jobs")
    app.migrate()
    yield app
    app.close()


def ask(url, statement, *, options=""):
    with psycopg.connect(url, autocommit=True, options=options) as connection:
        cursor = connection.execute(statement)
        return cursor.fetchall() if cursor.description else []


def counted(app):
    """A task that notes its numbers, and what it noted."""
    ran = []

    @app.task
    def note(number: int) -> int:
        ran.append(number)
        return number

    return note, ran


def test_all_tables_are_in_the_schema(app, url):
    assert ask(url, PLACES) == [("jobs",)]
    assert ask(url, "select version_num from jobs.windlass_version") != []
    assert app.migrate() == app.migrate()


def test_everything_works_in_the_schema(app, url):
    note, ran = counted(app)

    @app.flow
    def chain(flow):
        flow.add(note, -2, after=[flow.add(note, -1)])

    with working(app):
        refs = note.enqueue_many([{"number": number} for number in range(500)])
        run = chain.start()
        note.using(key="one").enqueue(1000)
        eventually(lambda: len(ran) == 503, what="all tasks")
        eventually(lambda: run.status() is Status.SUCCEEDED, what="the flow")

    assert refs[0].result() == 0
    assert ask(url, PLACES) == [("jobs",)]


@pytest.mark.parametrize("how", ["argument", "url", "environment"])
def test_the_schema_is_named_in_three_ways(how, url, monkeypatch):
    monkeypatch.setenv("WINDLASS_SCHEMA", "jobs" if how == "environment" else "other")
    given = f"{url}?schema={'jobs' if how == 'url' else 'other'}"
    app = {
        "argument": lambda: App(given, schema="jobs"),
        "url": lambda: App(given),
        "environment": lambda: App(url),
    }[how]()

    app.migrate()

    assert ask(url, PLACES) == [("jobs",)]
    assert app.database.name.endswith("schema=jobs")
    app.close()


def test_two_apps_in_two_schemas_do_not_see_each_other(url):
    apps = [App(url, schema="jobs"), App(url, schema="other"), App(url)]
    notes = []
    for app in apps:
        app.migrate()
        notes.append(counted(app))
    for number, (note, _) in enumerate(notes):
        note.using(key="same").enqueue(number)
        note.enqueue_many([{"number": number}] * 200)

    apps[0].drain()

    assert [len(ran) for _, ran in notes] == [201, 0, 0]
    for app in apps[1:]:
        app.drain()
        app.close()
    assert [set(ran) for _, ran in notes] == [{0}, {1}, {2}]
    apps[0].close()


def test_tables_elsewhere_are_not_taken_for_ours(url):
    public = App(url)
    public.migrate()

    app = App(url, schema="jobs")

    with pytest.raises(SchemaMismatch, match="has no Windlass tables yet; run: windlass migrate"):
        app.prepare()
    app.migrate()
    assert sorted(ask(url, PLACES)) == [("jobs",), ("public",)]
    app.close()
    public.close()


def test_a_ledger_has_a_schema_too(url):
    ledgers = [Ledger(url, schema="jobs"), Ledger(f"{url}?schema=other")]
    for number, ledger in enumerate(ledgers, start=1):
        ledger.migrate()
        ledger.restock("delivery-1", {"bolt": number})

    assert [ledger.stock("bolt").available for ledger in ledgers] == [1, 2]
    assert ledgers[0].audit().ok
    for ledger in ledgers:
        ledger.close()


# The caller's own connection


@pytest.fixture
def caller(app, url):
    """The caller's search path leads to a table of another app, which must stay as it is."""
    other = App(url)
    other.migrate()
    other.close()
    path = "-csearch_path=public"
    engine = create_engine(normalise(url), connect_args={"options": path})
    yield engine
    engine.dispose()


def rows(url, schema):
    return ask(url, f"select count(*) from {schema}.windlass_task")[0][0]


@pytest.mark.parametrize("many", [1, 2_000])
@pytest.mark.parametrize("way", ["Connection", "Session", "psycopg"])
def test_a_task_joins_the_callers_transaction(app, url, caller, way, many):
    note, ran = counted(app)
    calls = [{"number": number} for number in range(many)]

    def enqueue(conn):
        note.using(conn=conn).enqueue_many(calls)
        note.using(conn=conn, key="one").enqueue(-1)

    if way == "psycopg":
        with psycopg.connect(url, options="-csearch_path=public") as connection:
            enqueue(connection)
            path = connection.execute("show search_path").fetchone()[0]
            seen = connection.execute("select count(*) from windlass_task").fetchone()[0]
    elif way == "Session":
        with Session(caller) as session, session.begin():
            enqueue(session)
            path = session.scalar(text("show search_path"))
            seen = session.scalar(text("select count(*) from windlass_task"))
    else:
        with caller.begin() as connection:
            enqueue(connection)
            path = connection.scalar(text("show search_path"))
            seen = connection.scalar(text("select count(*) from windlass_task"))

    assert path == "public"
    assert seen == 0
    assert (rows(url, "jobs"), rows(url, "public")) == (many + 1, 0)
    app.drain()
    assert len(ran) == many + 1


def test_a_task_joins_an_async_transaction(app, url, caller):
    note, ran = counted(app)

    async def enqueue():
        engine = create_async_engine(
            normalise(url), connect_args={"options": "-csearch_path=public"}
        )
        async with engine.begin() as connection:
            await note.using(conn=connection).aenqueue(7)
            path = (await connection.execute(text("show search_path"))).scalar_one()
            own = "select count(*) from windlass_task"
            seen = (await connection.execute(text(own))).scalar_one()
        await engine.dispose()
        return path, seen

    assert asyncio.run(enqueue()) == ("public", 0)
    app.drain()
    assert ran == [7]


def test_a_ledger_joins_the_callers_transaction(url, caller):
    ledger = Ledger(url, schema="jobs")
    ledger.restock("delivery-1", {"bolt": 5})

    with caller.begin() as connection:
        ledger.deduct("order-1", {"bolt": 2}, conn=connection)
        assert ledger.stock("bolt", conn=connection).available == 3
        assert connection.scalar(text("show search_path")) == "public"
        assert connection.scalar(text("select count(*) from windlass_stock")) == 0

    assert ledger.stock("bolt").available == 3
    ledger.close()


def test_two_schemas_may_be_two_shards(url):
    app = App(f"{url}?schema=one", f"{url}?schema=two")
    app.migrate()
    note, ran = counted(app)
    engine = create_engine(normalise(url))

    note.enqueue_many([{"number": number} for number in range(100)])
    with engine.begin() as connection:
        note.using(conn=connection).enqueue(1000)
    app.drain()

    assert sorted(ran) == [*range(100), 1000]
    engine.dispose()
    app.close()


def test_a_callback_in_the_finish_sees_the_tables_of_its_user(app, url):
    ask(url, "create table paid (number int)")
    later = []

    @app.task
    def after(number: int) -> None:
        later.append(number)

    @app.task
    def pay(number: int) -> None:
        def write(connection):
            connection.execute(text("insert into paid values (:number)"), {"number": number})
            after.using(conn=connection).enqueue(number)

        context().on_finish(write)

    pay.enqueue(7)
    app.drain()
    app.drain()

    assert ask(url, "select number from paid") == [(7,)]
    assert later == [7]


# Triggers


def test_triggers_write_into_the_schema_whatever_the_writers_path_is(app, url):
    ask(url, "create table product (code text primary key)")
    App(url).migrate()

    @app.rolling(every="10d")
    def stock(code: str) -> None: ...

    stock.follow(Table(url, "product", key="code"))
    for path, code in (("public", "a"), ("pg_catalog", "b"), ("jobs", "c")):
        ask(url, f"insert into public.product values ('{code}')", options=f"-csearch_path={path}")
    ask(url, "delete from product where code = 'a'")

    found = ask(url, "select task_key from jobs.windlass_task order by task_key")
    assert found == [("b",), ("c",)]
    assert rows(url, "public") == 0
    assert stock.freshness().total == 2
    assert stock.mirror(Table(url, "product", key="code")).added == 0
    assert stock.unfollow(Table(url, "product", key="code"))


# Who makes the schema


@pytest.fixture
def clerk(server, url):
    """A user who may not create schemas."""
    server.execute("create role clerk login")
    yield
    server.execute("drop owned by clerk", "drop role clerk")


def clerks_app(server, **options):
    """An app of a user without rights, who comes by the socket."""
    return App(f"postgresql://clerk@/own?host={server.directory}&port={server.port}", **options)


@pytest.mark.usefixtures("clerk")
def test_a_user_who_may_not_create_a_schema_is_told_what_to_do(server):
    app = clerks_app(server, schema="jobs")

    with pytest.raises(BadDatabase, match='run: create schema "jobs" authorization <user>'):
        app.migrate()
    app.close()


@pytest.mark.usefixtures("clerk")
def test_a_schema_that_is_there_needs_no_right_to_create_one(server, url):
    ask(url, "create schema jobs authorization clerk")
    app = clerks_app(server, schema="jobs")

    app.migrate()

    note, ran = counted(app)
    note.enqueue(7)
    app.drain()
    assert ran == [7]
    app.close()
    ask(url, "drop schema jobs cascade")


def test_the_printed_sql_makes_the_schema(url, windlass, monkeypatch):
    monkeypatch.setenv("WINDLASS_DATABASE_URL", url)
    monkeypatch.setenv("WINDLASS_SCHEMA", "jobs")

    ask(url, windlass("migrate", "--sql").out)

    assert ask(url, PLACES) == [("jobs",)]
    app = App()
    note, ran = counted(app)
    note.enqueue(7)
    app.drain()
    assert ran == [7]
    app.close()


# Names


@pytest.mark.parametrize("name", ["Jobs", "select", "jöbs", "a-b$c", "_" * 63])
def test_a_name_is_taken_to_the_letter(name, url):
    app = App(url, schema=name)
    app.migrate()
    note, ran = counted(app)

    note.enqueue_many([{"number": number} for number in range(300)])
    app.drain()

    assert ask(url, PLACES) == [(name,)]
    assert len(ran) == 300
    app.close()


@pytest.mark.parametrize(
    "name", ["", "1st", 'a"b', "a'b", "a b", "a;b", "a.b", "x" * 64, "%s", ":a"]
)
def test_what_is_not_a_name_is_refused(name):
    with pytest.raises(BadDatabase, match="is not the name of a schema"):
        App("postgresql://host/shop", schema=name)


@pytest.mark.parametrize("name", ["pg_catalog", "pg_jobs", "information_schema"])
def test_a_schema_of_postgresql_itself_is_refused(name):
    with pytest.raises(BadDatabase, match="belongs to PostgreSQL itself"):
        App("postgresql://host/shop", schema=name)


@pytest.mark.parametrize("made", [App, Ledger])
def test_elsewhere_a_schema_is_refused_with_the_cure(made, monkeypatch):
    with pytest.raises(BadDatabase, match=r"only for PostgreSQL.* name a database of its own"):
        made("mysql://host/shop", schema="jobs")
    with pytest.raises(BadDatabase, match="SQLite has no schemas; give Windlass a file of its own"):
        made("sqlite:///shop.db", schema="jobs")
    with pytest.raises(BadDatabase, match="SQLite has no schemas"):
        made("sqlite:///shop.db?schema=jobs")
    monkeypatch.setenv("WINDLASS_SCHEMA", "jobs")
    with pytest.raises(BadDatabase, match="only for PostgreSQL"):
        made("mariadb://host/shop")


def test_a_file_has_no_schema_whatever_the_environment_says(tmp_path, monkeypatch):
    """So that tests on SQLite run where the program itself is set up for PostgreSQL."""
    monkeypatch.setenv("WINDLASS_SCHEMA", "jobs")

    app = App(f"sqlite:///{tmp_path / 'shop.db'}")

    assert app.migrate()
    app.close()


def test_an_engine_has_its_own_search_path(url):
    database = Database(url, schema="jobs")

    with pytest.raises(BadInput, match="schema: an Engine has its own"):
        Ledger(database.engine, schema="jobs")
    database.close()


@pytest.mark.parametrize(
    ("statement", "sent"),
    [
        ("select * from windlass_task", 'select * from "jobs".windlass_task'),
        ("windlass_task.id, windlass_task_due", '"jobs".windlass_task.id, windlass_task_due'),
        ("nextval('windlass_number_id')", "nextval('\"jobs\".windlass_number_id')"),
        (
            '"other".windlass_task other."windlass_task"',
            '"other".windlass_task other."windlass_task"',
        ),
        ("for update of windlass_task", "for update of windlass_task"),
        ("my_windlass_task windlass_tasks", "my_windlass_task windlass_tasks"),
    ],
)
def test_only_the_tables_of_windlass_get_the_schema(statement, sent):
    qualify = qualifier("jobs")

    assert qualify(statement) == sent
    assert qualify(sent) == sent


# Behind a pooler


@pytest.fixture
def pooled(server, url):
    """The same database through PgBouncer, which gives each transaction to another session."""
    try:
        pooler = PgBouncer(server.port)
    except ServerMissing as error:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(error.reason)
    with pooler:
        yield pooler.url_of("own")


def test_a_schema_works_through_a_pooler(pooled, url):
    app = App(pooled, schema="jobs")
    other = App(pooled, schema="other")
    for each in (app, other):
        each.migrate()
    note, ran = counted(app)
    unseen, _ = counted(other)

    with working(app):
        note.enqueue_many([{"number": number} for number in range(300)])
        unseen.enqueue(1)
        eventually(lambda: len(ran) == 300, what="all tasks")
    with psycopg.connect(pooled, prepare_threshold=None) as connection:
        note.using(conn=connection).enqueue(300)
        assert "jobs" not in connection.execute("show search_path").fetchone()[0]
    app.drain()

    assert sorted(ran) == list(range(301))
    assert rows(url, "other") == 1
    app.close()
    other.close()


def test_a_search_path_of_the_role_works_without_the_option(pooled, server, url):
    """The way of those who want everything of a role in one schema."""
    ask(url, "create schema jobs")
    server.execute("alter role postgres in database own set search_path = jobs")
    app = App(pooled)

    app.migrate()

    assert ask(url, PLACES) == [("jobs",)]
    app.close()
