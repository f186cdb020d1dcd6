"""Runs migrations: one process at a time, step by step, never queueing for a lock for long.

Who is the authority? The catalog. Each migration is written down before its first step and after
its last, and each step looks whether it was done. So a migration that was cut off anywhere goes on
where it stopped, also in MySQL and MariaDB, which commit each statement on tables by itself.

What is locked? In PostgreSQL and MySQL a statement that waits for its lock makes everyone else wait
behind it. So it waits a few seconds only, lets the others pass, and tries again. Indexes on tables
in use are built while they are used. SQLite has one writer: everything is one transaction.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from typing import TypeVar

from sqlalchemy import Connection, Index, text
from sqlalchemy.exc import DBAPIError, ProgrammingError
from sqlalchemy.schema import CreateTable, DropIndex

from windlass.database.column import server_of
from windlass.database.database import Database
from windlass.database.dialect.qualify import quoted
from windlass.database.migration.catalog import Catalog
from windlass.database.migration.history import ONE_AT_A_TIME, History, Migration
from windlass.database.migration.log import TABLES, Log, Statement
from windlass.database.migration.step import TableStep, Verb, beside, steps_of, undo
from windlass.database.version import Tables
from windlass.errors import BadDatabase, DatabaseUnavailable, SchemaMismatch

T = TypeVar("T")

# How long a statement waits for its lock, how often it tries, and the pauses in between.
LOCK_SECONDS = 5
LOCK_TRIES = 12
FIRST_PAUSE = 1.0
LONGEST_PAUSE = 15.0
# How long to wait for another process that migrates.
TURN_SECONDS = 60
TURN_PAUSE = 0.2

ADVISORY_LOCK = "select pg_try_advisory_xact_lock(2026111501)"
# Names of locks are the server's, not the database's, and have at most 64 characters.
LOCK_NAME = "concat('windlass_', left(sha2(database(), 256), 40))"


def run(
    database: Database, history: History, *, to: str | None = None, only_additions: bool = False
) -> Tables:
    """Bring the tables to version `to`, by default the newest; returns how far they are.

    With `only_additions` it stops before a migration that older code does not survive.
    """
    target = history.newest if to is None else to

    def work(hands: Hands) -> Tables:
        return _Run(hands, history, only_additions=only_additions).bring_to(target)

    with ONE_AT_A_TIME, database.unbounded() as unbounded:
        if database.dialect.is_embedded:
            return unbounded.write(lambda connection: work(Hands(unbounded, connection)))
        return unbounded.session(lambda connection: _alone(unbounded, connection, work))


class Hands:
    """How statements are executed: here, all in the transaction of the caller."""

    def __init__(self, database: Database, connection: Connection) -> None:
        self.database = database
        self.connection = connection

    def look(self, read: Callable[[Connection], T]) -> T:
        """Read something."""
        return read(self.connection)

    def together(self, statements: Sequence[Statement]) -> None:
        """Execute statements, in one transaction where the database can."""
        for statement in statements:
            self.connection.execute(statement)

    def beside(self, step: TableStep, *, is_invalid: bool) -> None:
        """Execute a step on a table that is in use."""
        self.together([beside(step, self.connection.dialect)])


class MySQLHands(Hands):
    """MySQL and MariaDB: a statement on tables is a transaction of its own."""

    def look(self, read: Callable[[Connection], T]) -> T:
        with self.connection.begin():
            return read(self.connection)

    def together(self, statements: Sequence[Statement]) -> None:
        with self.connection.begin():
            for statement in statements:
                self._patiently(statement)

    def _patiently(self, statement: Statement) -> None:
        until_unlocked(self.database, lambda: self.connection.execute(statement))


class PostgreSQLHands(Hands):
    """PostgreSQL: statements of one transaction, except for indexes that are built beside work."""

    def __init__(self, database: Database, connection: Connection, guard: Connection) -> None:
        super().__init__(database, connection)
        self._guard = guard

    def look(self, read: Callable[[Connection], T]) -> T:
        # Without this connection the lock is gone, and another process may migrate.
        self._guard.execute(text("select 1"))
        with self.connection.begin():
            return read(self.connection)

    def together(self, statements: Sequence[Statement]) -> None:
        def once() -> None:
            with self.connection.begin():
                self.connection.execute(text(f"set local lock_timeout = '{LOCK_SECONDS}s'"))
                for statement in statements:
                    self.connection.execute(statement)

        self._guard.execute(text("select 1"))
        until_unlocked(self.database, once)

    def beside(self, step: TableStep, *, is_invalid: bool) -> None:
        if step.verb is not Verb.CREATE_INDEX:
            super().beside(step, is_invalid=is_invalid)
            return
        # No time-out: a concurrent build waits for old transactions, and blocks no one meanwhile.
        build = beside(step, self.connection.dialect)
        with self.database.engine.connect() as connection:
            apart = connection.execution_options(isolation_level="AUTOCOMMIT")
            if is_invalid:
                assert isinstance(step.item, Index)
                apart.execute(DropIndex(step.item))
            apart.execute(build)


def until_unlocked(database: Database, once: Callable[[], object]) -> None:
    """Do `once`; if another transaction has the lock, let others pass and try again."""
    pause = FIRST_PAUSE
    for tried in range(1, LOCK_TRIES + 1):
        try:
            once()
            return
        except DBAPIError as problem:
            if not database.dialect.is_locked(problem):
                raise
            if tried == LOCK_TRIES:
                raise DatabaseUnavailable(
                    f"{database.name}: another transaction has locked a table for too long; the "
                    f"migration waited {LOCK_TRIES} times for {LOCK_SECONDS} s. Find and end that "
                    "transaction, then migrate again: it continues where it stopped"
                ) from problem
        time.sleep(pause * random.uniform(0.5, 1.0))
        pause = min(pause * 2, LONGEST_PAUSE)


def _alone(database: Database, connection: Connection, work: Callable[[Hands], T]) -> T:
    """Do `work` while no other process migrates this database."""
    if database.dialect.name == "mysql":
        with _mysql_lock(database, connection):
            return work(MySQLHands(database, connection))
    with database.engine.connect() as guard, _turn(database, guard):
        return work(PostgreSQLHands(database, connection, guard))


@contextmanager
def _mysql_lock(database: Database, connection: Connection) -> Iterator[None]:
    with connection.begin():
        taken = connection.execute(text(f"select get_lock({LOCK_NAME}, {TURN_SECONDS})")).scalar()
        connection.execute(text(f"set session lock_wait_timeout = {LOCK_SECONDS}"))
    if taken is None:
        raise DatabaseUnavailable(
            f"{database.name}: the server could not take the lock that keeps two processes from "
            "migrating at once (get_lock returned null); migrate again"
        )
    if taken != 1:
        raise _busy(database)
    try:
        yield
    finally:
        with connection.begin():
            connection.execute(text(f"select release_lock({LOCK_NAME})"))
            connection.execute(text("set session lock_wait_timeout = default"))


@contextmanager
def _turn(database: Database, guard: Connection) -> Iterator[None]:
    """Hold a lock that ends with the guard's transaction: a pooler may be in between.

    It asks again and again. A statement that waits would have a snapshot, and a concurrent build
    of an index would never end. A process that waits has no transaction open: through a pooler it
    would keep a connection that the one that migrates may need.
    """
    deadline = time.monotonic() + TURN_SECONDS
    while True:
        with guard.begin():
            guard.execute(text("set local idle_in_transaction_session_timeout = 0"))
            if guard.execute(text(ADVISORY_LOCK)).scalar():
                yield
                return
        if time.monotonic() > deadline:
            raise _busy(database)
        time.sleep(TURN_PAUSE)


def _busy(database: Database) -> DatabaseUnavailable:
    return DatabaseUnavailable(
        f"{database.name}: another process is migrating it, and has not ended within "
        f"{TURN_SECONDS} s; see what it does with `windlass migrate --plan`, and try again later"
    )


class _Run:
    """One process that migrates, alone."""

    def __init__(self, hands: Hands, history: History, *, only_additions: bool) -> None:
        self._hands = hands
        self._history = history
        self._only_additions = only_additions
        self._compiler = hands.connection.dialect
        self._log = Log(server_of(self._compiler))

    def bring_to(self, target: str) -> Tables:
        self._create_schema()
        self._keep_log()
        tables = self._hands.look(self._hands.database.tables)
        for migration in self._history.after(tables.version, until=target):
            if self._only_additions and migration.known_from is not None:
                break
            self._up(migration)
        newest = max(tables.ended + tables.begun, default=target)
        for migration in reversed(self._history.after(target, until=newest)):
            self._down(migration)
        return self._hands.look(self._hands.database.tables)

    def _catalog(self, connection: Connection) -> Catalog:
        return Catalog(connection, schema=self._hands.database.dialect.schema)

    def _create_schema(self) -> None:
        """Create the schema of the tables, if they have one of their own."""
        database = self._hands.database
        schema = database.dialect.schema
        if schema is None:
            return
        found = text("select 1 from pg_namespace where nspname = :schema").bindparams(schema=schema)
        if self._hands.look(lambda connection: connection.scalar(found)) is not None:
            return
        try:
            self._hands.together([text(f"create schema {quoted(schema)}")])
        except ProgrammingError as problem:
            raise BadDatabase(
                f"{database.name}: this user may not create the schema {schema!r}; have an "
                f"administrator run: create schema {quoted(schema)} authorization <user>"
            ) from problem

    def _keep_log(self) -> None:
        """Create the two tables that tell how far the tables are."""
        tables = self._hands.look(self._hands.database.tables)
        known = tables.known_from
        if known is not None and known not in {each.version for each in self._history.migrations}:
            raise SchemaMismatch(
                f"{self._hands.database.name} has tables of version {known}, which this Windlass "
                "does not know"
            )
        catalog = self._hands.look(self._catalog)
        missing = [table for table in TABLES if not catalog.has_table(table.name)]
        self._hands.together([CreateTable(table) for table in missing])
        if known is not None and known not in tables.ended:
            # Release 0.1.0 made these tables, without a log.
            made = self._history.after(None, until=known)
            self._hands.together([self._log.made(each.version) for each in made])

    def _up(self, migration: Migration) -> None:
        begun: list[Statement] = []
        if migration.version not in self._hands.look(self._hands.database.tables).begun:
            begun.append(self._log.began(migration.version))
        if migration.known_from is not None:
            # First, so that older code stops before what it needs is gone.
            known_from = self._history.known_from(migration.version)
            begun.append(self._log.known_from(known_from))
        self._hands.together(begun)
        self._do(steps_of(migration, self._compiler))
        ended = [self._log.ended(migration.version)]
        if self._hands.look(self._hands.database.tables).known_from is None:
            ended.append(self._log.first_known_from(migration.version))
        self._hands.together(ended)

    def _down(self, migration: Migration) -> None:
        version = migration.version
        taken_back = undo(steps_of(migration, self._compiler))
        # First, so that new code no longer uses what goes.
        self._hands.together([self._log.reopened(version)])
        self._do(taken_back)
        before = self._history.after(None, until=version)[-2].version
        known_from = self._history.known_from(before)
        self._hands.together([self._log.forgotten(version), self._log.known_from(known_from)])

    def _do(self, steps: list[TableStep]) -> None:
        """Do what was not done yet; steps on new tables are done together."""

        def find(connection: Connection) -> tuple[list[TableStep], set[str]]:
            catalog = self._catalog(connection)
            left = [step for step in steps if not catalog.is_done(step)]
            return left, {step.name for step in left if catalog.is_invalid(step)}

        left, invalid = self._hands.look(find)
        for is_new, some in groupby(left, key=lambda step: step.is_new):
            if is_new:
                self._hands.together([step.statement for step in some])
                continue
            for step in some:
                self._hands.beside(step, is_invalid=step.name in invalid)
