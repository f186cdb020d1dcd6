"""No call of the API reads a whole table of tasks: each takes an index, or some rows of one."""

import json
import re
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from sqlalchemy import text

from tests.core.fetch.manual_worker import Hand
from tests.database.plan import (
    MYSQL_AND_MARIADB,
    SERIES,
    Statement,
    analyze,
    explain,
    statements,
)
from tests.fixture.console import Shop, opened
from windlass import App
from windlass.database.dialect.mysql_server import EXPLAIN

ROWS = 60_000
# A call looks at some thousand rows at most, whatever the table has.
MOST_ROWS = 12_000

# Of ten rows of send_mail 4 wait, 3 succeeded, 1 failed; 2 are items of stock.
FILL = """
insert into windlass_task (id, kind, task_key, bucket, status, priority, due_at, attempt, lost,
                           created_at, finished_at, prune_at, payload)
select 10000000 + i,
    case when i % 10 < 8 then 'send_mail' else 'stock' end,
    case when i % 10 < 8 then null else concat('SKU-', i) end, i % 256,
    case when i % 10 < 4 then 0 when i % 10 < 7 then 2 when i % 10 = 7 then 3 else 0 end, 0,
    case when i % 10 < 4 or i % 10 > 7 then :now + i * 1000 else null end, 1, 0, :now - i,
    case when i % 10 < 4 then null else :now - i end,
    case when i % 10 < 4 or i % 10 > 7 then null else :now + 86400000000 + i end, {payload}
from {series} as series
"""

# By the ids from the last one on, and not far.
FROM_THE_END = re.compile(r"ORDER BY windlass_task.id DESC\s+LIMIT|max\(windlass_task.id\)")

CALLS = [
    "overview",
    "kinds",
    "kinds/send_mail",
    "rolling",
    "rolling/stock",
    "rolling/stock/items",
    "rolling/stock/items?prefix=SKU-5",
    "rolling/stock/item?code=SKU-8",
    "rings",
    "shards",
    "tasks",
    "tasks?after=10005000",
    *(f"tasks?status={status}" for status in ("waiting", "running", "failed", "cancelled")),
    *(f"tasks?status={status}&kind=send_mail" for status in ("waiting", "running", "failed")),
    "tasks?status=failed&kind=send_mail&after=10005000",
    "tasks?status=failed&kind=stock",
    "tasks?status=blocked",
    "tasks?kind=none",
    "tasks?key=SKU-8",
    "tasks?status=failed&created_before=2020-01-01T00:00:00Z",
    "tasks?status=failed&kind=send_mail&created_before=2020-01-01T00:00:00Z",
    "tasks/10000001",
    "flows",
    *(f"flows?status={status}" for status in ("running", "failed", "succeeded")),
    "flows?flow=send_mail&status=failed",
    "flows?flow=send_mail&after=10005000",
    "changes",
]


@pytest.fixture
def crowded(database_engine: str, database_url: str) -> Iterator[Shop]:
    """The shop with many tasks and items."""
    with closing(App(database_url)) as app:
        web_shop = Shop(app)
        payload = "cast('{}' as json)" if database_engine == "postgresql" else "'{}'"
        fill = FILL.format(payload=payload, series=SERIES[database_engine].format(count=ROWS))
        if database_engine == "sqlite":
            fill = fill.replace("concat('SKU-', i)", "'SKU-' || i")

        def work(connection: Any) -> None:
            connection.execute(text(fill), {"now": app.clock.now()})
            tally = "insert into windlass_tally (kind, delta) values ('stock', :items)"
            connection.execute(text(tally), {"items": ROWS // 5})

        app.prepare()
        app.database.write(work)
        Hand(app)
        with app.database.engine.connect() as connection:
            connection.execution_options(isolation_level="AUTOCOMMIT").execute(
                text(f"{analyze(database_engine)} windlass_task")
            )
        yield web_shop


def test_no_call_reads_a_whole_table(crowded, database_engine):
    console = opened(crowded.app)
    problems: dict[str, list[str]] = {}

    for call in CALLS:
        with statements(crowded.app, about="task") as caught:
            console.get(call)
        problems[call] = [
            problem for each in caught for problem in PROBLEMS[database_engine](crowded.app, each)
        ]

    assert {call: found for call, found in problems.items() if found} == {}


def problems_of_sqlite(app: App, statement: Statement) -> list[str]:
    if FROM_THE_END.search(statement[0]):
        return []
    return [
        f"{row[3]} in {statement[0].strip()}"
        for row in explain(app, "explain query plan", statement)
        if re.match(r"SCAN (t|windlass_task)\b(?!.*USING (COVERING )?INDEX windlass)", row[3])
    ]


def problems_of_postgresql(app: App, statement: Statement) -> list[str]:
    if statement[0].startswith("explain"):
        return []
    ((plan,),) = explain(app, "explain (format json)", statement)
    found: list[str] = []

    def walk(node: dict[str, Any], limit: float) -> None:
        # What is below a limit is read only as far as that.
        rows = min(node["Plan Rows"], limit)
        if node["Node Type"] == "Limit":
            limit = rows
        elif "Sort" in node["Node Type"] or node["Node Type"] in ("Aggregate", "Hash"):
            limit = float("inf")
        if node.get("Relation Name") == "windlass_task" and (
            node["Node Type"] == "Seq Scan" or rows > MOST_ROWS
        ):
            found.append(f"{node['Node Type']} of {rows} rows in {statement[0].strip()}")
        for part in node.get("Plans", []):
            walk(part, limit)

    walk((json.loads(plan) if isinstance(plan, str) else plan)[0]["Plan"], float("inf"))
    return found


def problems_of_mysql(app: App, statement: Statement) -> list[str]:
    if statement[0].startswith("explain") or FROM_THE_END.search(statement[0]):
        return []
    rows = [row._mapping for row in explain(app, EXPLAIN, statement)]
    return [
        f"{row['type']} of {row['rows']} rows by {row['key']} in {statement[0].strip()}"
        for row in rows
        if row["table"] in ("t", "windlass_task")
        and (row["type"] == "ALL" or (row["type"] == "index" and int(row["rows"]) > MOST_ROWS))
    ]


PROBLEMS = {
    "sqlite": problems_of_sqlite,
    "postgresql": problems_of_postgresql,
    **dict.fromkeys(MYSQL_AND_MARIADB, problems_of_mysql),
}
