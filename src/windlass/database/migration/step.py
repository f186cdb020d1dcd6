"""Steps: what a migration file does, one statement each.

The `upgrade` of a file runs once with Alembic's `op`, and only its operations are recorded. The
plan, the printed SQL, the upgrade and the downgrade are all made from this list. Each step can tell
from the catalog whether it was done, so a migration that was cut off goes on where it stopped. An
operation that cannot tell is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from alembic.ddl.base import AddColumn, DropColumn
from alembic.operations import MigrateOperation, Operations, ops
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Column, Dialect, Index, MetaData, Table, insert, text
from sqlalchemy.schema import CreateIndex, CreateTable, DropIndex, DropTable

from windlass.database.column import server_of
from windlass.database.migration.history import Migration
from windlass.database.migration.log import Statement
from windlass.database.migration.quiet import quietly
from windlass.errors import NotPossible


class Verb(StrEnum):
    """What a step does."""

    CREATE_TABLE = "create table"
    CREATE_INDEX = "create index"
    CREATE_VIEW = "create view"
    CREATE_SEQUENCE = "create sequence"
    ADD_COLUMN = "add column"
    INSERT = "insert rows"
    DROP_TABLE = "drop table"
    DROP_INDEX = "drop index"
    DROP_VIEW = "drop view"
    DROP_SEQUENCE = "drop sequence"
    DROP_COLUMN = "drop column"

    @property
    def is_drop(self) -> bool:
        return self.startswith("drop")


MYSQL_ONLINE = {
    Verb.CREATE_INDEX: " algorithm=inplace lock=none",
    Verb.ADD_COLUMN: ", algorithm=instant",
}
ONLINE = {"mysql": MYSQL_ONLINE, "mariadb": MYSQL_ONLINE}
TEXT = re.compile(r"\s*(create view|create sequence|drop view|drop sequence|insert into) (\w+)")
UNDO = {
    Verb.CREATE_VIEW: Verb.DROP_VIEW,
    Verb.CREATE_SEQUENCE: Verb.DROP_SEQUENCE,
}


@dataclass(frozen=True)
class TableStep:
    """One statement: on `table`, about its index, column or itself, which has this `name`."""

    verb: Verb
    table: str
    name: str
    statement: Statement
    # The index or column that is created.
    item: Index | Column[Any] | None = None
    # Whether the same migration creates the table, so that nobody uses it yet.
    is_new: bool = False

    @property
    def words(self) -> str:
        """The step for people."""
        place = "" if self.name == self.table else f" on {self.table}"
        return f"{self.verb} {self.name}{place}"

    @property
    def noun(self) -> str:
        """What is created or dropped."""
        return self.verb.split()[1]


def steps_of(migration: Migration, dialect: Dialect) -> list[TableStep]:
    """The steps of a migration file for this database, in their order."""
    with quietly():
        context = MigrationContext.configure(dialect=dialect, opts={"as_sql": True})
    found: list[TableStep] = []

    def record(operation: MigrateOperation) -> Table | None:
        table = None
        if isinstance(operation, ops.CreateTableOp):
            table = operation.to_table(context)
            found.extend(_create(table))
        else:
            found.extend(_steps(operation, context, migration.version))
        return table

    with Operations.context(context) as operations:
        # Operations are recorded instead of invoked.
        vars(operations)["invoke"] = record
        migration.upgrade()
    new = {step.table for step in found if step.verb is Verb.CREATE_TABLE}
    return [_placed(step, new) for step in found]


def beside(step: TableStep, dialect: Dialect) -> Statement:
    """The statement of a step on a table that is in use, so that others wait as little as can be.

    MySQL and MariaDB refuse it if they would have to copy the table, or keep others from writing.
    """
    server = server_of(dialect)
    if server == "postgresql" and step.verb is Verb.CREATE_INDEX:
        assert isinstance(step.item, Index)
        step.item.dialect_options["postgresql"]["concurrently"] = True
        return CreateIndex(step.item)
    if server in ONLINE and step.verb in ONLINE[server]:
        said = str(step.statement.compile(dialect=dialect))
        return text(said.replace(":", r"\:") + ONLINE[server][step.verb])
    return step.statement


def undo(steps: list[TableStep]) -> list[TableStep]:
    """The steps that take these back. What the new tables and columns have is lost."""
    return [each for step in reversed(steps) for each in _undo(step)]


def _placed(step: TableStep, new: set[str]) -> TableStep:
    is_apart = step.verb in (Verb.CREATE_VIEW, Verb.CREATE_SEQUENCE)
    is_new = is_apart or step.table in new
    # Names of SQLAlchemy are a kind of text that others do not know.
    return replace(step, table=str(step.table), name=str(step.name), is_new=is_new)


def _create(table: Table) -> Iterator[TableStep]:
    yield TableStep(Verb.CREATE_TABLE, table.name, table.name, CreateTable(table))
    for index in sorted(table.indexes, key=lambda index: str(index.name)):
        yield _create_index(index)


def _create_index(index: Index) -> TableStep:
    assert index.table is not None
    return TableStep(
        Verb.CREATE_INDEX, index.table.name, str(index.name), CreateIndex(index), index
    )


def _steps(
    operation: MigrateOperation, context: MigrationContext, version: str
) -> Iterator[TableStep]:
    match operation:
        case ops.CreateIndexOp():
            yield _create_index(operation.to_index(context))
        case ops.AddColumnOp():
            column = operation.column
            if not column.nullable and column.server_default is None:
                raise NotPossible(
                    f"migration {version}: older code does not fill column {column.name!r}; make "
                    "it nullable, or give it a server default"
                )
            added = AddColumn(operation.table_name, column)
            yield TableStep(Verb.ADD_COLUMN, operation.table_name, column.name, added, column)
        case ops.BulkInsertOp():
            rows = insert(operation.table).values(operation.rows)
            yield TableStep(Verb.INSERT, operation.table.name, operation.table.name, rows)
        case ops.DropTableOp():
            dropped = DropTable(operation.to_table(context))
            yield TableStep(Verb.DROP_TABLE, operation.table_name, operation.table_name, dropped)
        case ops.DropIndexOp():
            index = operation.to_index(context)
            yield TableStep(
                Verb.DROP_INDEX, str(operation.table_name), str(index.name), DropIndex(index), index
            )
        case ops.DropColumnOp():
            gone = operation.to_column(context)
            lost = DropColumn(operation.table_name, gone)
            yield TableStep(Verb.DROP_COLUMN, operation.table_name, gone.name, lost)
        case ops.ExecuteSQLOp(sqltext=CreateIndex(element=Index() as made)):
            yield _create_index(made)
        case ops.ExecuteSQLOp(sqltext=str() as sql) if (found := TEXT.match(sql)) is not None:
            verb, name = found.groups()
            known = Verb.INSERT if verb == "insert into" else Verb(verb)
            yield TableStep(known, name, name, text(sql))
        case ops.ExecuteSQLOp(sqltext=sql):
            raise NotPossible(
                f"migration {version}: nobody can tell from the catalog whether {str(sql)[:60]!r} "
                "was done when a migration was cut off; use operations of Alembic"
            )
        case _:
            raise NotPossible(
                f"migration {version}: {type(operation).__name__} cannot be repeated safely when a "
                "migration was cut off; use another operation, or teach it to "
                "database/migration/step.py"
            )


def _undo(step: TableStep) -> Iterator[TableStep]:
    match step.verb:
        case Verb.CREATE_TABLE:
            gone = DropTable(Table(step.table, MetaData()))
            yield TableStep(Verb.DROP_TABLE, step.table, step.table, gone)
        case Verb.CREATE_INDEX if not step.is_new:
            assert isinstance(step.item, Index)
            yield TableStep(Verb.DROP_INDEX, step.table, step.name, DropIndex(step.item), step.item)
        case Verb.ADD_COLUMN:
            assert isinstance(step.item, Column)
            yield TableStep(
                Verb.DROP_COLUMN, step.table, step.name, DropColumn(step.table, step.item)
            )
        case Verb.CREATE_VIEW | Verb.CREATE_SEQUENCE:
            verb = UNDO[step.verb]
            yield TableStep(verb, step.table, step.name, text(f"{verb} {step.name}"))
        case Verb.CREATE_INDEX | Verb.INSERT:
            # They go with their table.
            return
        case _:
            raise NotPossible(f"'{step.words}' cannot be taken back; restore a backup instead")
