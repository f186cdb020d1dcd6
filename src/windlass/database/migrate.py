"""Creates, upgrades and downgrades the tables, and refuses tables that this code cannot use."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from sqlalchemy import URL, text
from sqlalchemy.engine import Dialect as Compiler
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from windlass.database.column import server_of
from windlass.database.database import TRIES, Database
from windlass.database.dialect import PerDialect
from windlass.database.dialect.base import Executor
from windlass.database.dialect.qualify import quoted
from windlass.database.version import (
    OLDEST,
    RELEASES,
    VERSION,
    VERSION_TABLE,
    Tables,
)
from windlass.errors import BadInput, SchemaMismatch

if TYPE_CHECKING:
    from windlass.database.migration.history import History
    from windlass.database.migration.plan import PlannedStep

__all__ = [
    "OLDEST",
    "VERSION",
    "VERSION_TABLE",
    "check",
    "current",
    "downgrade",
    "losses",
    "migrate",
    "pending",
    "plan",
    "prepare",
    "script",
    "seen",
    "version_of",
    "warning",
]

# How long an upgrade by itself waits for others who write into SQLite.
BUSY_MILLISECONDS = 1_000
# Around a printed script, where statements on tables can be part of a transaction.
TRANSACTION = PerDialect(sqlite=("begin", "commit"), postgresql=("begin", "commit"), mysql=("", ""))


def migrate(
    database: Database, *, history: History | None = None, only_additions: bool = False
) -> str:
    """Create or upgrade the tables; any number of processes may call it at any time.

    Returns their version. A migration that was cut off goes on where it stopped.
    """
    tables = _look(database)
    if tables.known_from is not None and tables.known_from > VERSION and history is None:
        _refuse(database, tables)
    if history is not None or not _is_newest(tables):
        from windlass.database.migration.history import History
        from windlass.database.migration.run import run

        tables = run(database, history or History(), only_additions=only_additions)
        database.schema.learn(tables)
    return tables.version or ""


def downgrade(database: Database, *, to: str, history: History | None = None) -> str:
    """Take back migrations until the tables have version `to`. What only they have is lost.

    Processes with newer code must have ended.
    """
    from windlass.database.migration.history import History
    from windlass.database.migration.run import run

    known = history or History()
    _check_way_back(database, known, to)
    tables = run(database, known, to=to)
    database.schema.learn(tables)
    return tables.version or ""


def losses(database: Database, to: str, *, history: History | None = None) -> list[str]:
    """What `downgrade` would do, in words."""
    from windlass.database.migration.history import ONE_AT_A_TIME, History
    from windlass.database.migration.step import steps_of, undo

    known, compiler = history or History(), _compiler(database)
    newest = _check_way_back(database, known, to)
    with ONE_AT_A_TIME:
        steps = [steps_of(each, compiler) for each in known.after(to, until=newest)]
    return [step.words for each in reversed(steps) for step in undo(each)]


def _check_way_back(database: Database, history: History, to: str) -> str:
    """Refuse a version that the tables cannot go back to; returns the newest that they began."""
    tables = _look(database)
    history.check(to)
    newest = max(tables.ended + tables.begun, default=tables.version or "")
    if to < OLDEST or to > newest:
        raise BadInput(
            f"{database.name} has tables of version {tables.version or 'none'}; they can go back "
            f"to {OLDEST} at most, and not to {to}"
        )
    return newest


def prepare(database: Database, *, tries: int = TRIES) -> None:
    """Make sure that this code can use the tables. In SQLite they are created and upgraded.

    An upgrade that older processes on the same file do not survive is left to `migrate`.
    """
    if database.dialect.migrates_itself:
        tables = _look(database)
        # The caller itself may be in a transaction that would block the upgrade.
        if tables.problem() is not None or _is_newest(tables) or _can_write(database):
            migrate(database, only_additions=True)
    check(database, tries=tries)


def _can_write(database: Database) -> bool:
    """Whether nobody else is writing into SQLite, or stops soon."""
    with database.engine.connect() as connection:
        usual = connection.exec_driver_sql("pragma busy_timeout").scalar_one()
        connection.exec_driver_sql(f"pragma busy_timeout = {BUSY_MILLISECONDS}")
        try:
            connection.exec_driver_sql("begin immediate")
            connection.exec_driver_sql("rollback")
        except DBAPIError as problem:
            if not database.dialect.is_conflict(problem):
                raise
            return False
        finally:
            connection.exec_driver_sql(f"pragma busy_timeout = {usual}")
    return True


def check(database: Database, *, tries: int = TRIES) -> None:
    """Refuse tables that this code cannot use. Older and newer ones can fit, too."""
    tables = _look(database, tries=tries)
    if tables.problem() is not None:
        _refuse(database, tables)


def current(database: Database, *, tries: int = TRIES) -> str | None:
    """The version of the tables; None without tables."""
    return _look(database, tries=tries).version


def warning(database: Database) -> str | None:
    """What is not as it should be with tables that this code can use."""
    tables = _look(database)
    if tables.begun:
        begun = ", ".join(tables.begun)
        return f"has a migration that began and has not ended ({begun}); run: windlass migrate"
    lacking = pending(tables.version)
    if not lacking or database.dialect.migrates_itself:
        return None
    return (
        f"has tables of version {tables.version}; pending: {', '.join(lacking)}. What needs them "
        "does not work yet; see windlass migrate --plan, then run: windlass migrate"
    )


def pending(version: str | None) -> list[str]:
    """The migrations that tables of this version lack."""
    known = [f"{number:04}" for number in range(1, int(VERSION) + 1)]
    return [each for each in known if each > (version or "")]


def plan(database: Database, *, history: History | None = None) -> list[PlannedStep]:
    """What `migrate` would do now, and what each step would lock."""
    from windlass.database.migration.history import ONE_AT_A_TIME, History
    from windlass.database.migration.plan import make_plan

    known, compiler = history or History(), _compiler(database)
    with ONE_AT_A_TIME:
        return database.read(
            lambda connection: make_plan(
                connection, known, compiler, schema=database.dialect.schema
            )
        )


def script(database: Database) -> str:
    """The SQL that `migrate` would run on an empty database."""
    from windlass.database.migration.history import ONE_AT_A_TIME, History
    from windlass.database.migration.log import Log
    from windlass.database.migration.plan import render
    from windlass.database.migration.step import steps_of

    compiler, history = _compiler(database), History()
    log = Log(server_of(compiler))
    statements = log.create()
    with ONE_AT_A_TIME:
        for migration in history.migrations:
            statements += [step.statement for step in steps_of(migration, compiler)]
            statements.append(log.made(migration.version))
    statements.append(log.first_known_from(history.known_from(history.newest)))
    begin, end = TRANSACTION.of(database.dialect)
    lines = [begin, *_into(database), *(render(each, compiler) for each in statements), end]
    return "".join(f"{line};\n\n" for line in lines if line)


def _into(database: Database) -> list[str]:
    """The statements of a script that lead into the schema of the tables."""
    schema = database.dialect.schema
    if schema is None:
        return []
    home = quoted(schema)
    return [f"CREATE SCHEMA IF NOT EXISTS {home}", f"SET search_path TO {home}"]


def seen(executor: Executor) -> bool:
    """Whether the caller's connection sees tables of SQLite that this code can use."""
    there = text("select 1 from sqlite_master where name = :name")
    if not executor.execute(there, {"name": VERSION_TABLE}).fetchall():
        return False
    rows = executor.execute(text(f"select version_num from {VERSION_TABLE}"), {}).fetchall()
    return bool(rows) and OLDEST <= str(rows[0][0]) <= VERSION


def version_of(name: str) -> str:
    """The version of the tables that a release has, or the version itself."""
    return RELEASES.get(name, name)


def _look(database: Database, *, tries: int = TRIES) -> Tables:
    return database.schema.learn(database.read(database.tables, tries=tries))


def _is_newest(tables: Tables) -> bool:
    return tables.has_log and (tables.version or "") >= VERSION


def _refuse(database: Database, tables: Tables) -> None:
    raise SchemaMismatch(f"{database.name} {tables.problem()}")


def _compiler(database: Database) -> Compiler:
    """Compiles statements for people: without the marks of parameters."""
    kind: Any = _url_of_server(database).get_dialect()
    compiler: Compiler = kind(paramstyle="named")
    return compiler


def _url_of_server(database: Database) -> URL:
    """MySQL and MariaDB have different collations: connect to find out which server it is."""
    if database.url.get_backend_name() != "mysql":
        return database.url
    with suppress(SQLAlchemyError), database.engine.connect() as connection:
        if server_of(connection.dialect) == "mariadb":
            return database.url.set(drivername="mariadb+pymysql")
    return database.url
