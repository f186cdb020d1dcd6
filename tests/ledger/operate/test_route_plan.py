"""No list of the ledger reads a whole table: each takes an index, or some rows of one."""

import json
import re
from collections.abc import Mapping
from contextlib import closing
from typing import Any

from tests.database.plan import MYSQL_AND_MARIADB
from tests.fixture.console import opened
from tests.ledger.test_plan import explained, fill, statements
from windlass import App
from windlass.ledger import Ledger

# A call looks at some thousand rows at most, whatever the table has.
MOST_ROWS = 12_000
# The ledger of the test has as many deductions, each made at the same moment, and as many entries.
CALLS = [
    "stock",
    "stock?prefix=sku-7",
    "stock?after=sku-7&sold_out=true",
    "deductions",
    'deductions?after=[1,"id-7"]',
    "deductions?status=held",
    "deductions?prefix=id-7",
    "deductions?prefix=id-7&status=held",
    "returns",
    'returns?after=[1,"id-7","id-7"]',
    "returns?deduction=id-7",
    "entries",
    "entries?after=[10000007]",
    "entries?movement=deduct",
    "entries?sku=sku-7",
    "entries?sku=sku-7&movement=deduct&after=[10000007,8]",
    "ledger/stocks/sku-7",
    "ledger/deductions/id-7",
    "ledger/deductions/id-7/returns",
    "changes",
]
FROM_THE_END = re.compile(r"ORDER BY windlass_stock_entry.id DESC\s+LIMIT|max\(")


def test_no_list_of_the_ledger_reads_a_whole_table(database_url, database_engine):
    with closing(App(database_url)) as app:
        ledger = Ledger(app.database, clock=app.clock)
        ledger.prepare()
        fill(ledger, database_engine)
        console = opened(app)
        problems = {}

        for call in CALLS:
            with statements(ledger) as caught:
                assert console.client.get(f"/api/{call}").status_code == 200, call
            problems[call] = [
                f"{problem}: {statement}"
                for statement, parameters in caught.items()
                if is_of_the_ledger(statement)
                for problem in PROBLEMS[database_engine](
                    statement, explained(ledger, statement, parameters)
                )
            ]

        assert {call: found for call, found in problems.items() if found} == {}


def is_of_the_ledger(statement: str) -> bool:
    return bool(re.search(r"windlass_(stock|deduction|return)", statement))


def problems_of_sqlite(statement: str, rows: list) -> list[str]:
    whole = re.compile(r"SCAN windlass_\w+$|USE TEMP B-TREE FOR ORDER BY")
    if FROM_THE_END.search(statement):
        return []
    # What was looked at is bounded, and may be put in order.
    is_outside = {0} if "scanned" in statement else set()
    found = [
        row[3]
        for row in rows
        if whole.match(row[3]) and not ("B-TREE" in row[3] and row[1] in is_outside)
    ]
    # The returns of one deduction are put in order.
    return [] if re.search(r"windlass_stock_return.*deduction_id = ", statement, re.S) else found


def problems_of_postgresql(statement: str, rows: list) -> list[str]:
    found: list[str] = []

    def walk(node: dict, limit: float) -> None:
        # What is below a limit is read only as far as that.
        count = min(node["Plan Rows"], limit)
        if node["Node Type"] == "Limit":
            limit = count
        elif node["Node Type"] in ("Sort", "Hash"):
            limit = float("inf")
        if node["Node Type"] == "Seq Scan" or ("Relation Name" in node and count > MOST_ROWS):
            found.append(f"{node['Node Type']} of {count} rows of {node['Relation Name']}")
        for part in node.get("Plans", []):
            walk(part, limit)

    ((plan,),) = rows
    walk((json.loads(plan) if isinstance(plan, str) else plan)[0]["Plan"], float("inf"))
    return found


def problems_of_mysql(statement: str, rows: list) -> list[str]:
    parts = [row._mapping for row in rows]
    return [
        f"{part['type']} of {part['rows']} rows by {part['key']}"
        for part in parts
        if str(part["table"]).startswith("windlass_")
        and (part["type"] == "ALL" or (part["type"] == "index" and is_much(statement, part)))
    ]


def is_much(statement: str, part: Mapping[str, Any]) -> bool:
    """Whether an index is read further than 10,000 rows that come in its order."""
    is_bounded = "scanned" in statement and "filesort" not in str(part["Extra"])
    return int(part["rows"]) > MOST_ROWS and not is_bounded


PROBLEMS = {
    "sqlite": problems_of_sqlite,
    "postgresql": problems_of_postgresql,
    **dict.fromkeys(MYSQL_AND_MARIADB, problems_of_mysql),
}
