"""Every statement of flows and externals takes an index, among many runs, slots and handles.

The statements are caught on their way to a database with many rows, and explained there.
"""

import re
from collections.abc import Callable

import pytest
from sqlalchemy import Connection, text

from tests.database.plan import (
    EXPLAINS,
    MYSQL_AND_MARIADB,
    SERIES,
    analyze,
    explain,
    scans,
    statements,
)
from tests.flow.manual_worker import Noder
from windlass import App, Done, External
from windlass.app import FACES
from windlass.flow.model.graph import NodeEnd
from windlass.flow.store import flow

pytestmark = pytest.mark.mostly("sqlite", "postgresql")

MANY = 100_000
TABLES = {"windlass_task", "windlass_slot", "windlass_external", "t"}
ABOUT = "task|slot|external"

# Runs of 99 nodes in a line; of 1000 rows 30 are at an external system, and 10 are due.
TASKS = """
insert into windlass_task (id, kind, bucket, status, priority, due_at, attempt, lost, created_at,
                           flow_id, node, open_slots, payload)
select 10000000 + i, case when i % 100 = 0 then 'line' else {kind} end, i % 256,
    case when i % 100 = 0 then 1 when i % 1000 < 30 then 5 when i % 3 = 0 then 4 else 2 end, 0,
    case when i % 100 = 0 then null when i % 1000 < 10 then i when i % 1000 < 30 then :later + i
         else null end,
    0, 0, i, 10000000 + i - i % 100, {node}, 1, {payload}
from {series} as series
"""
ORDINARY = """
insert into windlass_task (id, kind, bucket, status, priority, attempt, lost, created_at, payload)
select 20000000 + i, 'other', i % 256, 2, 0, 0, 0, i, {payload}
from {series} as series
"""
SLOTS = """
insert into windlass_slot (dep_id, task_id, rule)
select 10000000 + i, 10000001 + i, 0 from {series} as series where i % 100 between 1 and 98
"""
EXTERNALS = """
insert into windlass_external (task_id, submission, kind, handle, secret, began_at)
select 10000000 + i, 1, 'spark', {node}, 'secret', 1 from {series} as series
"""
ALERTS = """
insert into windlass_alert (id, what, kind, raised_at, text)
select i, 'poison', 'step', i, 'no' from {series} as series
"""


class Spark(External):
    def submit(self, job: str) -> str:
        return job

    def poll(self, handles):
        return dict.fromkeys(handles, Done())


class Yard:
    """An app with many runs, and a hand that works on new ones."""

    def __init__(self, app: App) -> None:
        self.app = app

        @app.task
        async def step() -> None: ...

        @app.flow
        def line(flow):
            first = flow.add(step, name="first")
            second = flow.add(step, name="second", after=first)
            flow.add(step, name="third", after=second, trigger="all_done")

        self.line, self.step = line, step
        self.spark = app.external("spark", Spark(), every="1s")
        self.hand = Noder(app)

    def end_first(self, how: NodeEnd) -> object:
        run = self.line.start()
        (taken,) = self.hand.take()
        self.hand.end(taken, how)
        return run


ACTS: dict[str, Callable[[Yard], object]] = {}


def act(function: Callable[[Yard], object]) -> Callable[[Yard], object]:
    ACTS[function.__name__] = function
    return function


@act
def fill_a_slot(yard: Yard) -> object:
    return yard.end_first(NodeEnd.SUCCEEDED).cancel()


@act
def fail_what_is_below(yard: Yard) -> object:
    return yard.end_first(NodeEnd.FAILED).cancel()


@act
def skip_retry_and_edit(yard: Yard) -> object:
    run = yard.end_first(NodeEnd.FAILED)
    run.retry()
    run.edit(lambda edit: edit.add(yard.step, after="second", name="more"))
    run.skip("first")
    return run.cancel()


@act
def look_at_a_run(yard: Yard) -> object:
    run = yard.line.using(key="once").start()
    again = yard.line.using(key="once").start()
    seen = run.status(), run.nodes(), run.graph(), run.progress()
    return seen, again.cancel()


@act
def list_runs(yard: Yard) -> object:
    return yard.app.flows.runs(limit=300)


@act
def submit_and_be_told(yard: Yard) -> object:
    ref = yard.spark.enqueue("job")
    yard.app.drain()
    return yard.app.notify("job", ok=True), ref.status()


@act
def prune(yard: Yard) -> object:
    now = yard.app.clock.now() * 2
    return yard.app.database.write(
        lambda connection: flow.prune(
            connection, yard.app.database.dialect, now=now, limit=100, pruned=FACES.pruned
        )
    )


@pytest.fixture
def yard(database_engine, database_url):
    app = App(database_url)
    yard = Yard(app)
    fill(app, database_engine)
    yield yard
    app.close()


def fill(app: App, engine: str) -> None:
    series = SERIES[engine].format(count=MANY)
    node = "concat('n', i)" if engine in MYSQL_AND_MARIADB else "'n' || i"
    payload = "cast('{}' as json)" if engine == "postgresql" else "'{}'"
    kind = "case when i % 1000 < 30 then 'spark' else 'step' end"
    given = {"series": series, "node": node, "payload": payload, "kind": kind}

    def work(connection: Connection) -> None:
        for statement in (TASKS, ORDINARY, SLOTS, EXTERNALS, ALERTS):
            asked = {"later": app.clock.now() + 10**12} if ":later" in statement else {}
            connection.execute(text(statement.format(**given)), asked)

    app.database.write(work)
    with app.database.engine.connect() as connection:
        free = connection.execution_options(isolation_level="AUTOCOMMIT")
        for name in ("task", "slot", "external", "alert"):
            free.execute(text(f"{analyze(engine)} windlass_{name}"))


def test_no_statement_of_flows_reads_a_whole_table(database_engine, yard):
    problems: dict[str, list[str]] = {}
    for name, function in ACTS.items():
        with statements(yard.app, ABOUT) as caught:
            function(yard)
        assert caught, name
        problems[name] = [
            problem
            for statement in caught
            for problem in scans(database_engine, yard.app, statement, TABLES)
        ]

    assert {name: found for name, found in problems.items() if found} == {}


def test_the_last_alerts_are_found_without_reading_all(database_engine, yard):
    with statements(yard.app, "alert") as caught:
        assert len(yard.app.alerts(limit=50)) == 50

    (statement,) = caught
    plan = str(explain(yard.app, EXPLAINS[database_engine], statement))
    assert not re.search("TEMP B-TREE|Seq Scan|-> +Sort|filesort", plan), plan
