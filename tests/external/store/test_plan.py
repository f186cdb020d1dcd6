"""What is asked of the externals many times a second takes an index, however many there are."""

from sqlalchemy import text

from tests.core.fetch.store.test_plan import PROBLEMS
from tests.database.plan import MYSQL_AND_MARIADB, SERIES, analyze, scans, statements
from windlass import App
from windlass.external import store as external
from windlass.value.status import Status

MANY = {"sqlite": 50_000, "postgresql": 50_000, "mariadb": 20_000, "mysql": 20_000}

TASKS = """
insert into windlass_task (id, kind, bucket, status, priority, due_at, payload, created_at)
select i, 'spark', i % 256, {status}, i % 3, case when i % 2 = 0 then i else 9000000000 + i end,
    {payload}, 1
from {series} as series
"""

EXTERNALS = """
insert into windlass_external (task_id, submission, kind, handle, secret, began_at, cancel_at)
select i, 1, 'spark', {handle}, 'secret', 1, case when i % 1000 = 0 then i else null end
from {series} as series
"""

HANDLES = {
    "sqlite": "'handle-' || i",
    "postgresql": "'handle-' || i",
    **dict.fromkeys(MYSQL_AND_MARIADB, "concat('handle-', i)"),
}


def test_no_statement_about_externals_reads_or_sorts_a_whole_table(database_engine, database_url):
    app = App(database_url)
    fill(app, database_engine)

    with statements(app, about="task|external") as caught:
        app.database.write(act)

    problems = [
        problem
        for statement in caught
        for problem in (
            *PROBLEMS[database_engine](app, statement),
            *scans(database_engine, app, statement, {"windlass_external"}),
        )
    ]
    assert len(caught) >= 10
    assert problems == []
    app.close()


def act(connection):
    due = external.due(
        connection, "spark", now=1_000_000, buckets=[range(128)], worker=1, limit=100
    )
    assert len(due) == 100
    assert not external.due(connection, "spark", now=1, buckets=[range(128)], worker=1, limit=100)
    ids = [row.task.id for row in due]
    external.lock(connection, ids)
    external.put_off(connection, ids, due_at=10_000_000, asked=True)
    external.find(connection, "handle-7")
    external.find(connection, 7)
    external.stop(connection, ids, now=5)
    assert external.has_stops(connection, "spark", now=10_000)
    taken = external.take_stops(connection, "spark", now=10_000, until=20_000, limit=8)
    external.stopped(connection, taken[:4])
    external.put_off_stops(connection, taken[4:], until=20_000)
    external.fail(connection, ids)
    external.begin_again(connection, ids)


def fill(app, engine):
    app.prepare()
    series = SERIES[engine].format(count=MANY[engine])
    payload = "cast('{}' as json)" if engine == "postgresql" else "'{}'"
    tasks = TASKS.format(status=int(Status.EXTERNAL), payload=payload, series=series)
    externals = EXTERNALS.format(handle=HANDLES[engine], series=series)
    app.database.write(lambda connection: connection.execute(text(tasks)) and None)
    app.database.write(lambda connection: connection.execute(text(externals)) and None)
    with app.database.engine.connect() as connection:
        alone = connection.execution_options(isolation_level="AUTOCOMMIT")
        for table in ("task", "external"):
            alone.execute(text(f"{analyze(engine)} windlass_{table}")).close()
