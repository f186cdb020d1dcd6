"""Every statement that runs per tick takes an index, sorts nothing and reads no whole table.

The statements are caught on their way to a database with many rows, and explained there.
"""

import json
import re
from collections.abc import Callable
from typing import Any

from sqlalchemy import text

from tests.core.fetch.manual_worker import Hand
from tests.core.ring.silent import mark_dead
from tests.database.plan import (
    MYSQL_AND_MARIADB,
    SERIES,
    Statement,
    analyze,
    explain,
    statements,
)
from windlass import App
from windlass.app import FACES
from windlass.clock import SECOND
from windlass.core.fetch.claim import Rows
from windlass.core.finish.store import Group
from windlass.core.task.store import task
from windlass.database.dialect.mysql_server import EXPLAIN
from windlass.value.outcome import Retried, Succeeded, settle_visits

MANY = {"sqlite": 1_000_000, "postgresql": 1_000_000, "mariadb": 100_000, "mysql": 100_000}

# Of 1000 rows: 1 runs, 19 are due, 280 are due later, 700 have ended, 1 of them long ago.
FILL = """
insert into windlass_task (id, kind, bucket, status, priority, due_at, batch, worker, attempt,
                           lost, created_at, finished_at, prune_at, payload)
select 10000000 + i, {kind}, i % 256,
    case when i % 1000 = 0 then 1 when i % 1000 < 300 then 0 else 2 end,
    case when i % 7 = 0 then 5 else 0 end,
    case when i % 1000 = 0 then :lease_end when i % 1000 < 20 then :now - i
         when i % 1000 < 300 then :now + 86400000000 + i else null end,
    case when i % 1000 = 0 then 1 else null end,
    case when i % 1000 = 0 then 1 else null end,
    case when i % 1000 = 0 then 1 else 0 end, 0, :now - i,
    case when i % 1000 >= 300 then :now - i else null end,
    case when i % 1000 = 999 then :now - i when i % 1000 >= 300 then :now + 86400000000 + i
         else null end,
    {payload}
from {series} as series
"""


ACTS: dict[str, Callable[[Hand], object]] = {}


def act(function: Callable[[Hand], object]) -> Callable[[Hand], object]:
    ACTS[function.__name__] = function
    return function


@act
def tiers(hand: Hand) -> object:
    return Rows(hand.database).tiers(hand.app.registry.kinds)


@act
def claim_some(hand: Hand) -> object:
    return hand.claim(20)


@act
def finish_and_remove(hand: Hand) -> object:
    return hand.finish([row for row in hand.claim(20) if row.kind == "fleeting"], Succeeded())


@act
def finish_and_change(hand: Hand) -> object:
    kept = [row for row in hand.claim(20) if row.kind != "fleeting"]
    return hand.finish(kept, Succeeded()), hand.finish(hand.claim(10), Retried(1, "no", "trace"))


@act
def finish_visits(hand: Hand) -> object:
    visited = [row for row in hand.claim(20) if row.kind == "visited"]
    terms = hand.app.registry.get("visited").terms
    visits = settle_visits(visited, terms, now=hand.app.clock.now(), is_hurried=False)
    assert visits.rows
    return hand.write(Group(worker=hand.id, now=1, visits=[visits]))


@act
def rescue(hand: Hand) -> object:
    return hand.rescue(), hand.rescue(alone=True)


@act
def beat(hand: Hand) -> object:
    beating = hand.app.worker()
    beating.heartbeat.join_ring()
    beating.fetcher.tick()
    run = beating.in_flight.advance(None, None, is_async=True)
    run.began = float("-inf")
    beating.heartbeat._steady_since = float("-inf")
    # The first beat pushes what runs and hands back what lapsed; the next only looks.
    return beating.heartbeat.tick(), beating.heartbeat.tick()


@act
def mark_dead_and_leave(hand: Hand) -> object:
    victim = Hand(hand.app)
    victim.claim(20)
    now = hand.app.clock.now() + 60 * SECOND
    mark_dead(hand.database, FACES, number=victim.id, now=now, why="silent")
    leaver = Hand(hand.app)
    leaver.claim(20)
    return leaver.leave()


@act
def prune(hand: Hand) -> object:
    now = hand.app.clock.now()
    return hand.database.write(lambda connection: task.prune(connection, now=now, limit=500))


@act
def cancel(hand: Hand) -> object:
    return hand.app.cancel(hand.claim(1)[0].id)


def test_no_statement_that_runs_per_tick_reads_or_sorts_a_whole_table(
    database_engine, database_url
):
    problems = explain_all(database_engine, database_url)

    assert {name: found for name, found in problems.items() if found} == {}


def explain_all(engine: str, url: str) -> dict[str, list[str]]:
    """For each act, what is wrong with the plans of its statements."""
    app = App(url)

    @app.task
    async def fleeting() -> None: ...

    @app.rolling(every="1d")
    async def visited(code: str) -> None: ...

    for kept in ("first", "second"):
        app.task(name=kept, keep="1h")(empty)
    fill(app, engine)
    problems: dict[str, list[str]] = {}
    for name, function in ACTS.items():
        hand = Hand(app)
        with statements(app) as caught:
            function(hand)
        assert caught, name
        problems[name] = [
            problem for statement in caught for problem in PROBLEMS[engine](app, statement)
        ]
    app.close()
    return problems


async def empty() -> None: ...


def fill(app: App, engine: str) -> None:
    count = MANY[engine]
    names = ["fleeting", "first", "second", "visited"]
    kind = "case i % 4 " + " ".join(f"when {i} then '{n}'" for i, n in enumerate(names)) + " end"
    payload = "cast('{}' as json)" if engine == "postgresql" else "'{}'"
    series = SERIES[engine].format(count=count)
    statement = text(FILL.format(kind=kind, payload=payload, series=series))
    now = app.clock.now()
    dead = Hand(app)

    def work(connection: Any) -> None:
        connection.execute(
            text("update windlass_worker set id = 1 where id = :id"), {"id": dead.id}
        )
        connection.execute(statement, {"now": now, "lease_end": now - SECOND})
        connection.execute(text("update windlass_worker set left_at = :now"), {"now": now})

    app.database.write(work)
    with app.database.engine.connect() as connection:
        connection.execution_options(isolation_level="AUTOCOMMIT").execute(
            text(f"{analyze(engine)} windlass_task")
        )


def problems_of_sqlite(app: App, statement: Statement) -> list[str]:
    details = [row[3] for row in explain(app, "explain query plan", statement)]
    of_tasks = any("windlass_task" in detail or " t " in detail for detail in details)
    return [
        f"{detail} in {statement[0].strip()}"
        for detail in details
        if ("TEMP B-TREE" in detail and of_tasks)
        or re.match(r"SCAN (t|windlass_task)\b(?!.*USING (COVERING )?INDEX windlass)", detail)
    ]


def problems_of_postgresql(app: App, statement: Statement) -> list[str]:
    ((plan,),) = explain(app, "explain (format json)", statement)
    found: list[str] = []

    def walk(node: dict[str, Any]) -> bool:
        """Whether tasks come out of `node`."""
        inner = [walk(part) for part in node.get("Plans", [])]
        of_tasks = node.get("Relation Name") == "windlass_task" or any(inner)
        if of_tasks and (node["Node Type"] == "Seq Scan" or "Sort" in node["Node Type"]):
            found.append(f"{node['Node Type']} in {statement[0].strip()}")
        return of_tasks

    walk((json.loads(plan) if isinstance(plan, str) else plan)[0]["Plan"])
    return found


def problems_of_mysql(app: App, statement: Statement) -> list[str]:
    plan = [row._mapping for row in explain(app, EXPLAIN, statement)]
    rows = [(row["table"], row["type"], row["Extra"] or "") for row in plan]
    if not any(table in ("t", "windlass_task") for table, _, _ in rows):
        return []
    return [
        f"{table} {how} {extra} in {statement[0].strip()}"
        for table, how, extra in rows
        # A sort is shown beside the first table, whichever it sorts.
        if (table in ("t", "windlass_task") and how in ("ALL", "index")) or "filesort" in extra
    ]


PROBLEMS = {
    "sqlite": problems_of_sqlite,
    "postgresql": problems_of_postgresql,
    **dict.fromkeys(MYSQL_AND_MARIADB, problems_of_mysql),
}
