"""The plan: what pending migrations will do, what each step will lock, and for about how long."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection
from sqlalchemy import Dialect as Compiler

from windlass.database.dialect import PerDialect
from windlass.database.migration.catalog import Catalog
from windlass.database.migration.history import History
from windlass.database.migration.log import Statement
from windlass.database.migration.step import TableStep, Verb, beside, steps_of
from windlass.database.version import read_tables

NOTHING = "nothing"
WRITES = "writes"
ALL = "reads and writes"
# What a step on a table in use locks while it runs.
INDEX_LOCKS = PerDialect(sqlite=WRITES, postgresql=NOTHING, mysql=NOTHING)
OTHER_LOCKS = PerDialect(sqlite=WRITES, postgresql=ALL, mysql=ALL)
# How many rows an index takes in per second, measured on a small machine.
ROWS_PER_SECOND = PerDialect(sqlite=300_000, postgresql=200_000, mysql=150_000)


@dataclass(frozen=True)
class PlannedStep:
    """One step. `blocks` is what waits meanwhile: nothing, writes, or reads and writes.

    `is_online`: workers can go on working. `rows` and `seconds` are estimates; a step of 0 seconds
    takes a moment.
    """

    version: str
    operation: str
    table: str
    blocks: str
    is_online: bool
    rows: int
    seconds: float
    sql: str


def make_plan(
    connection: Connection,
    history: History,
    compiler: Compiler,
    *,
    until: str | None = None,
    schema: str | None = None,
) -> list[PlannedStep]:
    """The steps that `migrate` would do now."""
    tables = read_tables(connection, schema=schema)
    catalog = Catalog(connection, schema=schema)
    return [
        _planned(connection, catalog, migration.version, step, compiler)
        for migration in history.after(tables.version, until=until or history.newest)
        for step in steps_of(migration, connection.dialect)
        if not catalog.is_done(step)
    ]


def render(statement: Statement, compiler: Compiler) -> str:
    """A statement as text."""
    compiled = statement.compile(dialect=compiler, compile_kwargs={"literal_binds": True})
    return str(compiled).replace("\t", "    ").strip()


def _planned(
    connection: Connection, catalog: Catalog, version: str, step: TableStep, compiler: Compiler
) -> PlannedStep:
    rows, seconds, blocks, statement = 0, 0.0, NOTHING, step.statement
    # A table that an earlier migration of the plan will create is used by nobody yet.
    if not step.is_new and catalog.has_table(step.table):
        statement = beside(step, compiler)
        rows = catalog.rows(step.table)
        blocks = OTHER_LOCKS.on(connection)
        if step.verb is Verb.CREATE_INDEX:
            blocks = INDEX_LOCKS.on(connection)
            seconds = round(rows / ROWS_PER_SECOND.on(connection), 1)
    return PlannedStep(
        version=version,
        operation=step.words,
        table=step.table,
        blocks=blocks,
        is_online=blocks == NOTHING or seconds < 1,
        rows=rows,
        seconds=seconds,
        sql=render(statement, compiler),
    )
