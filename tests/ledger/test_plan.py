"""No statement of a movement or a look reads a whole table, however large the ledger is."""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sqlalchemy import event, text

from tests.database.plan import MYSQL_AND_MARIADB, SERIES, analyze
from windlass.database.dialect.mysql_server import EXPLAIN
from windlass.ledger import Ledger

MANY = 20_000
FILL = (
    "insert into windlass_stock select {sku}, 90, 100, 10, 0 from {series} as s",
    "insert into windlass_deduction select {id}, 1, {body}, null, null, null, 1 from {series} as s",
    "insert into windlass_deduction_line select {id}, {sku}, 10, 0 from {series} as s",
    "insert into windlass_stock_return select {id}, {id}, {body}, null, 1 from {series} as s",
    "insert into windlass_return_line select {id}, {id}, {sku}, 1 from {series} as s",
    "insert into windlass_stock_receipt select 'restock', {id}, {body}, null, 1 from {series} as s",
    "insert into windlass_stock_entry select {entry}, null, 1 from {series} as s",
)

ACTS: dict[str, Callable[[Ledger], object]] = {
    "restock": lambda ledger: ledger.restock("new", {"sku-7": 1, "sku-9": 1, "other": 1}),
    "adjust": lambda ledger: ledger.adjust("new", {"sku-7": 1, "sku-9": -1}),
    "deduct": lambda ledger: ledger.deduct("new", {"sku-7": 1, "sku-9": 1}),
    "give_back": lambda ledger: ledger.give_back("id-7", "new", {"sku-7": 1}),
    "exchange": lambda ledger: ledger.exchange("id-8", "new", back={"sku-8": 1}, out={"sku-9": 1}),
    "void": lambda ledger: ledger.void("id-9"),
    "confirm": lambda ledger: ledger.confirm("id-11"),
    "stock": lambda ledger: (ledger.stock("sku-7"), ledger.stocks(["sku-7", "sku-9"])),
    "stocks": lambda ledger: ledger.stocks(after="sku-7", limit=10),
    "deduction": lambda ledger: ledger.deduction("id-7"),
    "entries": lambda ledger: ledger.entries("sku-7", limit=10),
}


def test_no_statement_of_the_ledger_reads_a_whole_table(ledger, database_engine):
    ledger.prepare()
    fill(ledger, database_engine)
    problems = {}

    for name, act in ACTS.items():
        with statements(ledger) as caught:
            act(ledger)
        assert caught, name
        problems[name] = [
            f"{problem}: {statement}"
            for statement, parameters in caught.items()
            for problem in PROBLEMS[database_engine](explained(ledger, statement, parameters))
        ]

    assert {name: found for name, found in problems.items() if found} == {}


def fill(ledger: Ledger, engine: str) -> None:
    glue = "concat('{}', i)" if engine in MYSQL_AND_MARIADB else "'{}' || i"
    body = "cast('{\"lines\":{}}' as json)" if engine == "postgresql" else "'{\"lines\":{}}'"
    series = SERIES[engine].format(count=MANY)
    entry = f"i + 9999999, {glue.format('sku-')}, 1, 'restock', {glue.format('id-')}"
    of = {
        "entry": entry,
        "sku": glue.format("sku-"),
        "id": glue.format("id-"),
        "body": body,
        "series": series,
    }

    def work(connection) -> None:
        for statement in FILL:
            connection.execute(text(statement.format(**of).replace(":{", "\\:{")))

    ledger.database.write(work)
    with ledger.database.engine.connect() as connection:
        alone = connection.execution_options(isolation_level="AUTOCOMMIT")
        for table in re.findall(r"into (\w+)", " ".join(FILL)):
            alone.execute(text(f"{analyze(engine)} {table}"))


@contextmanager
def statements(ledger: Ledger):
    """The statements that are executed meanwhile, each text once, with their parameters."""
    caught = {}

    def on_execute(_connection, _cursor, statement, parameters, _context, _many) -> None:
        block = re.match(r"begin not atomic (.*); end$", statement, re.DOTALL)
        for part in parts_of(block[1]) if block else [statement]:
            if "windlass_" in part:
                caught.setdefault(part, parameters)

    for engine in ledger.database.engines:
        event.listen(engine, "before_cursor_execute", on_execute)
    try:
        yield caught
    finally:
        for engine in ledger.database.engines:
            event.remove(engine, "before_cursor_execute", on_execute)


def parts_of(block: str) -> Iterator[str]:
    """The statements in a block of MariaDB; of a loop, the update."""
    for part in block.split("; "):
        loop = re.match(r"for (\w+) in \(.*\) do (.*)", part, re.DOTALL)
        yield re.sub(rf"\b{loop[1]}\.\w+", "'1'", loop[2]) if loop else part


def explained(ledger: Ledger, statement: str, parameters: object) -> list:
    words = {"sqlite": "explain query plan", "postgresql": "explain (format json)"}
    word = words.get(ledger.database.dialect.name, EXPLAIN)
    with ledger.database.engine.connect() as connection:
        rows = connection.exec_driver_sql(f"{word} {statement}", parameters).fetchall()
        connection.rollback()
    return list(rows)


def problems_of_sqlite(rows: list) -> list[str]:
    return [row[3] for row in rows if re.match(r"SCAN (t|l|d|windlass_\w+)$", row[3])]


def problems_of_postgresql(rows: list) -> list[str]:
    found: list[str] = []

    def walk(node: dict) -> None:
        for part in node.get("Plans", []):
            walk(part)
        if node["Node Type"] == "Seq Scan":
            found.append(f"Seq Scan on {node['Relation Name']}")

    ((plan,),) = rows
    walk((json.loads(plan) if isinstance(plan, str) else plan)[0]["Plan"])
    return found


def problems_of_mysql(rows: list) -> list[str]:
    plan = [row._mapping for row in rows]
    # MySQL names the table that is written, too.
    tables = [(row["table"], row["type"]) for row in plan if row["select_type"] != "INSERT"]
    return [
        f"{table} {how}"
        for table, how in tables
        if how in ("ALL", "index") and table in ("t", "l", "d", "windlass_stock_entry")
    ]


PROBLEMS = {
    "sqlite": problems_of_sqlite,
    "postgresql": problems_of_postgresql,
    **dict.fromkeys(MYSQL_AND_MARIADB, problems_of_mysql),
}
