"""Every statement about promises that a watcher runs takes an index, among many other rows.

The statements are caught on their way to a database with many rows, and explained there.
"""

from contextlib import closing

import pytest
from sqlalchemy import Connection, text

from tests.database.plan import (
    MOST_ROWS,
    MYSQL_AND_MARIADB,
    SERIES,
    analyze,
    rows_read,
    scans,
    statements,
)
from tests.watch.promise.served import serve
from windlass import App, Keys
from windlass.clock import SECOND, ManualClock
from windlass.watch.promise.engine import promises_here

MANY = 60_000
TABLES = {
    *("windlass_task", "windlass_failure", "windlass_stat", "windlass_range", "windlass_round"),
    *("t", "task", "failure"),
}
ABOUT = "task|failure|stat|range|round|sweep"

# A third of the rows of two promised kinds wait and are due, a third waits for later, the others
# have ended; and many rows are of other kinds.
TASKS = """
insert into windlass_task (id, kind, task_key, bucket, status, priority, due_at, attempt, lost,
                           created_at, started_at, finished_at, flow_id, node, payload)
select 10000000 + i,
    case when i % 4 = 0 then 'send_mail' when i % 4 = 1 then 'stock_level'
         when i % 4 = 2 then 'load' else {other} end,
    case when i % 4 = 1 then {key} else null end, i % 256,
    case when i % 4 = 1 then 0 when i % 3 < 2 and i % 4 <> 2 then 0 when i % 8 = 2 then 1
         else 2 end, 0,
    case when i % 4 = 2 then null when i % 3 = 0 then :now - i when i % 3 = 1 then :now + i * 1000
         when i % 4 = 1 then :now + i else null end,
    i % 2, 0, :now - i, :now - i, :now - 5, case when i % 4 = 2 then 10000000 + i else null end,
    case when i % 4 = 2 then {key} else null end, {payload}
from {series} as series
"""
FAILURES = """
insert into windlass_failure (id, task_id, kind, attempt, failed_at, error, trace)
select i, 10000000 + i, case when i % 4 = 0 then 'send_mail' else {other} end, 1, i, 'no', 'no'
from {series} as series
"""
STATS = """
insert into windlass_stat (minute, kind, worker, done, failed, retried, milliseconds)
select :minute - {div}, {other}, i % 50, 1, 0, 0, 5 from {series} as series
"""


@pytest.fixture
def crowded(database_url):
    clock = ManualClock()
    with closing(App(database_url, clock=clock)) as app:

        @app.task(within="10m")
        def send_mail(to: str) -> None: ...

        @app.rolling(every="10d")
        def stock_level(code: str) -> None: ...

        @app.cron("0 3 * * *", within="1h")
        def report() -> None: ...

        @app.flow(within="1h")
        def load(flow) -> None:
            flow.add(send_mail, "a")

        @app.sweep(Keys(1, 1000), within="4h")
        def offer(number: int) -> None: ...

        app.drain()
        offer.start()
        serve(app, clock)
        app.database.write(lambda connection: fill(connection, app.database.dialect.server, clock))
        yield app, clock


def fill(connection: Connection, engine: str, clock: ManualClock) -> None:
    kinds = {"sqlite": "'k' || (i % 50)", "postgresql": "'k' || (i % 50)"}
    keys = {"sqlite": "'c' || i", "postgresql": "'c' || i"}
    division = {"sqlite": "i / 50", "postgresql": "i / 50"}
    series = SERIES[engine].format(count=MANY)
    words = {
        "other": kinds.get(engine, "concat('k', i % 50)"),
        "key": keys.get(engine, "concat('c', i)"),
        "div": division.get(engine, "i div 50"),
        "payload": "cast('{}' as json)" if engine == "postgresql" else "'{}'",
        "series": series,
    }
    now = clock.now()
    connection.execute(text(TASKS.format(**words)), {"now": now})
    connection.execute(text(FAILURES.format(**words)))
    connection.execute(text(STATS.format(**words)), {"minute": now // (60 * SECOND)})
    tally = "insert into windlass_tally (kind, delta) values ('stock_level', :count)"
    connection.execute(text(tally), {"count": MANY // 4})


def test_a_look_at_promises_takes_an_index_for_everything(crowded):
    app, clock = crowded
    engine = app.database.dialect.server
    with app.database.engine.connect() as connection:
        for name in ("task", "failure", "stat"):
            connection.exec_driver_sql(f"{analyze(engine)} windlass_{name}")
        connection.commit()
    dialect, now = app.database.dialect, clock.now()

    with statements(app, ABOUT) as caught:
        found = app.database.read(
            lambda connection: promises_here(connection, dialect, app.registry.kinds, now=now)
        )

    assert {each.kind for each in found} == set(app.registry.kinds)
    selects = [each for each in caught if not each[0].strip().startswith("explain")]
    assert len(selects) > 10
    assert [problem for each in selects for problem in problems_of(app, engine, each)] == []


def problems_of(app: App, engine: str, statement) -> list[str]:
    if engine not in MYSQL_AND_MARIADB:
        return scans(engine, app, statement, TABLES)
    # Their plans do not tell that a limit ends a read early: what is read is counted.
    with app.database.engine.connect() as connection:
        count = rows_read(connection, statement)
        connection.rollback()
    return [f"{count} rows in {statement[0]}"] if count > MOST_ROWS else []
