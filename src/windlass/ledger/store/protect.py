"""Triggers that keep entries append-only: the database refuses to change or delete one."""

from __future__ import annotations

from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError

from windlass.database.database import first_line
from windlass.database.dialect import PerDialect
from windlass.database.dialect.base import Dialect
from windlass.errors import BadDatabase

WHAT = "entries of the ledger are only ever added"
NAME = "windlass_stock_entry_keep"
FUNCTION = "windlass_keep_entry"

FAIL = f"begin raise exception '{WHAT}' using errcode = 'restrict_violation'; end"
POSTGRESQL = (
    f"create or replace function {FUNCTION}() returns trigger language plpgsql as $$ {FAIL} $$",
    f"drop trigger if exists {NAME} on windlass_stock_entry",
    f"""create trigger {NAME} before update or delete or truncate on windlass_stock_entry
    for each statement execute function {FUNCTION}()""",
)
DROP = (f"drop trigger if exists {NAME}_update", f"drop trigger if exists {NAME}_delete")
# MySQL and MariaDB have no triggers on truncate, which needs the right to drop tables.
MYSQL = (
    *DROP,
    *(
        f"""create trigger {NAME}_{verb} before {verb} on windlass_stock_entry for each row
        signal sqlstate '45000' set message_text = '{WHAT}'"""
        for verb in ("update", "delete")
    ),
)
SQLITE = (
    *DROP,
    *(
        f"""create trigger {NAME}_{verb} before {verb} on windlass_stock_entry
        begin select raise(abort, '{WHAT}'); end"""
        for verb in ("update", "delete")
    ),
)
PROTECT = PerDialect(sqlite=SQLITE, postgresql=POSTGRESQL, mysql=MYSQL)

UNPROTECT = PerDialect(
    sqlite=DROP,
    postgresql=(
        f"drop trigger if exists {NAME} on windlass_stock_entry",
        f"drop function if exists {FUNCTION}()",
    ),
    mysql=DROP,
)
FOUND = PerDialect(
    sqlite="select count(*) from sqlite_master where type = 'trigger' and name like :name",
    postgresql="""select count(*) from pg_trigger where tgname like :name
    and tgenabled <> 'D' and tgrelid = cast('windlass_stock_entry' as regclass)""",
    mysql="""select count(*) from information_schema.triggers
    where trigger_schema = database() and trigger_name like :name""",
)
TRIGGERS = PerDialect(sqlite=2, postgresql=1, mysql=2)


def protect(connection: Connection, dialect: Dialect) -> None:
    """Create the triggers, or replace them."""
    _run(connection, PROTECT.of(dialect))


def unprotect(connection: Connection, dialect: Dialect) -> None:
    """Remove the triggers that are there."""
    _run(connection, UNPROTECT.of(dialect))


def is_protected(connection: Connection, dialect: Dialect) -> bool:
    """Whether all triggers are there."""
    found = connection.scalar(text(FOUND.of(dialect)), {"name": f"{NAME}%"})
    return bool(found == TRIGGERS.of(dialect))


def _run(connection: Connection, statements: tuple[str, ...]) -> None:
    try:
        for statement in statements:
            connection.exec_driver_sql(statement)
    except DBAPIError as problem:
        if problem.connection_invalidated:
            raise
        raise BadDatabase(
            f"the triggers on windlass_stock_entry cannot be changed: {first_line(problem)}; "
            "the user of the URL needs the right to create triggers there"
        ) from problem
