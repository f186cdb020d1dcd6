"""What is wrong with the plans of statements, as each of the three databases explains them."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import event

from windlass import App

Statement = tuple[str, Any]
MOST_ROWS = 5_000


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


def scans_of_mariadb(app: App, statement: Statement, tables: set[str]) -> list[str]:
    rows = [row._mapping for row in explain(app, "explain", statement)]
    return [
        f"{row['type']} of {row['rows']} rows"
        for row in rows
        if row["table"] in tables
        and (row["type"] in ("ALL", "index") or int(row["rows"]) > MOST_ROWS)
    ]


SCANS = {
    "sqlite": scans_of_sqlite,
    "postgresql": scans_of_postgresql,
    "mariadb": scans_of_mariadb,
}
