"""What is wrong with the plans of statements, as each of the databases explains them."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, event

from windlass import App
from windlass.database.dialect.mysql_server import EXPLAIN

Statement = tuple[str, Any]
MOST_ROWS = 5_000

# They share most of their SQL.
MYSQL_AND_MARIADB = ("mysql", "mariadb")

# The numbers from 1 to {count}.
SERIES = {
    "sqlite": """(with recursive n (i) as (select 1 union all select i + 1 from n where i < {count})
                 select i from n)""",
    "postgresql": "(select i from generate_series(1, {count}) as g (i))",
    "mariadb": "(select seq as i from seq_1_to_{count})",
    "mysql": """(select i from json_table(concat('[0', repeat(',0', {count} - 1), ']'),
                 '$[*]' columns (i for ordinality)) as n)""",
}


# A plan for people, in rows.
EXPLAINS = {
    "sqlite": "explain query plan",
    "postgresql": "explain",
    **dict.fromkeys(MYSQL_AND_MARIADB, EXPLAIN),
}


def analyze(engine: str) -> str:
    """How the statistics of a table are made anew; its name follows."""
    return "analyze table" if engine in MYSQL_AND_MARIADB else "analyze"


@contextmanager
def statements(app: App, about: str = "task|worker") -> Iterator[list[Statement]]:
    """The statements about some tables that are executed meanwhile, each text once."""
    caught: dict[str, Any] = {}

    def on_execute(_connection, _cursor, statement, parameters, _context, _many) -> None:
        is_meant = re.search(rf"windlass_({about})\b", statement)
        if is_meant and "insert" not in statement.lower():
            caught.setdefault(statement, parameters)

    for engine in app.database.engines:
        event.listen(engine, "before_cursor_execute", on_execute)
    found: list[Statement] = []
    try:
        yield found
    finally:
        for engine in app.database.engines:
            event.remove(engine, "before_cursor_execute", on_execute)
        found += caught.items()


def explain(app: App, how: str, statement: Statement) -> list[Any]:
    with app.database.engine.connect() as connection:
        rows = connection.exec_driver_sql(f"{how} {statement[0]}", statement[1]).fetchall()
        connection.rollback()
    return list(rows)


def scans(engine: str, app: App, statement: Statement, tables: set[str]) -> list[str]:
    """Where a statement reads all of one of the tables, or expects to read much of it."""
    if statement[0].startswith("select exists ("):
        # Whether a table has rows at all: it ends at the first.
        return []
    found = SCANS[engine](app, statement, tables)
    return [f"{problem} in {statement[0].strip()}" for problem in found]


def scans_of_sqlite(app: App, statement: Statement, tables: set[str]) -> list[str]:
    names = "|".join(tables)
    details = [row[3] for row in explain(app, "explain query plan", statement)]
    return [detail for detail in details if re.match(rf"SCAN ({names})\b", detail)]


def scans_of_postgresql(app: App, statement: Statement, tables: set[str]) -> list[str]:
    ((plan,),) = explain(app, "explain (format json)", statement)
    found: list[str] = []

    def walk(node: dict[str, Any], most: float = float("inf")) -> None:
        kind, rows = node["Node Type"], min(node["Plan Rows"], most)
        for part in node.get("Plans", []):
            walk(part, rows if kind == "Limit" else float("inf"))
        if node.get("Relation Name") in tables and (kind == "Seq Scan" or rows > MOST_ROWS):
            found.append(f"{kind} of {rows} rows")

    walk((json.loads(plan) if isinstance(plan, str) else plan)[0]["Plan"])
    return found


def rows_of(told: object) -> int:
    """How many rows a plan reads; MariaDB may add what a filter leaves: "3 (0%)"."""
    return int(str(told).split()[0])


def scans_of_mysql(app: App, statement: Statement, tables: set[str]) -> list[str]:
    rows = [row._mapping for row in explain(app, EXPLAIN, statement)]
    found = [row for row in rows if row["table"] in tables and row["select_type"] != "INSERT"]
    problems = [
        f"{row['type']} of {row['rows']} rows"
        for row in found
        if row["type"] in ("ALL", "index") or rows_of(row["rows"]) > MOST_ROWS
    ]
    whole = any(row["type"] in ("ALL", "index") for row in found)
    # Plans do not tell that a limit ends a read early: then what is read is counted.
    if problems and not whole:
        with app.database.engine.connect() as connection:
            count = rows_read(connection, statement)
            connection.rollback()
        return [f"{count} rows read"] if count > MOST_ROWS else []
    return problems


def rows_read(connection: Connection, statement: Statement) -> int:
    """How many rows MySQL or MariaDB reads for a statement, which is executed."""
    before = _handler_reads(connection)
    connection.exec_driver_sql(*statement).close()
    return _handler_reads(connection) - before


def _handler_reads(connection: Connection) -> int:
    rows = connection.exec_driver_sql("show session status like 'Handler_read%%'").fetchall()
    return sum(int(value) for _, value in rows)


SCANS = {
    "sqlite": scans_of_sqlite,
    "postgresql": scans_of_postgresql,
    **dict.fromkeys(MYSQL_AND_MARIADB, scans_of_mysql),
}
