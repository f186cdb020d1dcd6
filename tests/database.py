"""Clean databases for tests: migrated once, then handed out again and again.

A test that changes the schema, or leaves many rows behind, costs its database: the
next test gets a new one. Every other database is emptied in a few milliseconds.
"""

import shutil
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import count
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
from psycopg import sql

from tests.server import MariaDB, PostgreSQL, ServerMissing

ENGINES = ("sqlite", "postgresql", "mariadb")

# The version must stay, and numbers already given out must not be given out again.
KEPT = frozenset({"alembic_version", "windlass_sequence", "windlass_version"})

# Emptying more rows than this leaves a table slower than a new one.
WORN_ROWS = 1000


def migrate(url: str) -> None:
    from windlass import App

    with closing(App(url)) as app:
        app.migrate()


class Pool(ABC):
    """The databases of one engine; several may be out at the same time."""

    def __init__(self) -> None:
        self._free: list[str] = []
        self._free_empty: list[str] = []
        self._number = count(1)

    @contextmanager
    def migrated(self) -> Iterator[str]:
        """Lend a migrated database without a single task."""
        url = self._free.pop() if self._free else self.create()
        try:
            yield url
        finally:
            if self.clean(url):
                self._free.append(url)
            else:
                self.drop(url)

    @contextmanager
    def empty(self) -> Iterator[str]:
        """Lend a new database without any table."""
        url = self._free_empty.pop() if self._free_empty else self.create_empty()
        try:
            yield url
        finally:
            if self.clear(url):
                self._free_empty.append(url)
            else:
                self.drop(url)

    def next_name(self) -> str:
        return f"windlass_{next(self._number)}"

    @abstractmethod
    def create(self) -> str:
        """Create a migrated database."""

    @abstractmethod
    def create_empty(self) -> str:
        """Create a database without tables."""

    @abstractmethod
    def clean(self, url: str) -> bool:
        """Make a lent database as good as new; False when that is impossible or not worth it."""

    def clear(self, url: str) -> bool:
        """Drop every table of a lent database; False when dropping the database is quicker."""
        return False

    @abstractmethod
    def drop(self, url: str) -> None:
        """Drop a database, even while somebody is connected."""

    @abstractmethod
    def close(self) -> None:
        """Drop everything."""


class SQLitePool(Pool):
    def __init__(self, directory: Path) -> None:
        super().__init__()
        self.directory = directory
        self.template = directory / "template.db"

    def create(self) -> str:
        if not self.template.exists():
            migrate(f"sqlite:///{self.template}")
        path = self._new_path()
        for part in self.directory.glob("template.db*"):
            shutil.copyfile(part, path.with_name(part.name.replace("template", path.stem)))
        return f"sqlite:///{path}"

    def create_empty(self) -> str:
        return f"sqlite:///{self._new_path()}"

    def clean(self, url: str) -> bool:
        return False

    def drop(self, url: str) -> None:
        shutil.rmtree(Path(url.removeprefix("sqlite:///")).parent, ignore_errors=True)

    def close(self) -> None:
        shutil.rmtree(self.directory, ignore_errors=True)

    def _new_path(self) -> Path:
        folder = self.directory / self.next_name()
        folder.mkdir()
        return folder / "windlass.db"


class PostgreSQLPool(Pool):
    TEMPLATE = "windlass_template"

    CUT_OFF = """
        select pg_terminate_backend(pid, 5000) from pg_stat_activity
        where datname = current_database() and pid <> pg_backend_pid()
    """

    SHAPE = """
        select (select (count(*), sum(oid::bigint), sum(reltuples))::text
                from pg_class where oid >= 16384),
               (select count(*) from pg_attribute where attrelid >= 16384),
               (select (count(*), sum(oid::bigint))::text from pg_proc where oid >= 16384),
               (select (count(*), sum(oid::bigint))::text from pg_trigger where oid >= 16384)
    """

    def __init__(self) -> None:
        super().__init__()
        self.server = PostgreSQL(fast=True).start()
        self.shape: tuple[object, ...] | None = None
        self.tables: list[str] = []
        self.seed: dict[str, bytes] = {}

    def create(self) -> str:
        if self.shape is None:
            self._make_template()
        return self.server.create_database(self.next_name(), template=self.TEMPLATE)

    def create_empty(self) -> str:
        return self.server.create_database(self.next_name())

    def clean(self, url: str) -> bool:
        try:
            return self._clean(url)
        except psycopg.errors.DeadlockDetected:
            # Somebody who was cut off was in the middle of something, and is slow to die.
            return False

    def _clean(self, url: str) -> bool:
        with psycopg.connect(url) as connection:
            connection.execute(self.CUT_OFF)
            if connection.execute(self.SHAPE).fetchone() != self.shape:
                return False
            # Without this, foreign keys would dictate an order.
            connection.execute("set local session_replication_role = replica")
            (deleted,) = connection.execute(self._delete_all()).fetchone()
            for table, rows in self.seed.items():
                with connection.cursor().copy(_copy("copy {} from stdin", table)) as copy:
                    copy.write(rows)
        return deleted <= WORN_ROWS

    def clear(self, url: str) -> bool:
        with psycopg.connect(url) as connection:
            connection.execute(self.CUT_OFF)
            connection.execute("set local client_min_messages = warning")
            connection.execute("drop schema public cascade")
            connection.execute("create schema public authorization pg_database_owner")
        return True

    def drop(self, url: str) -> None:
        self.server.drop_database(name_in(url))

    def close(self) -> None:
        self.server.close()

    def _delete_all(self) -> sql.Composed:
        # One round trip for all tables.
        deletes = [
            sql.SQL("{} as (delete from {} returning 1)").format(*map(sql.Identifier, pair))
            for pair in ((f"from_{table}", table) for table in self.tables)
        ]
        counts = [
            sql.SQL("(select count(*) from {})").format(sql.Identifier(f"from_{table}"))
            for table in self.tables
        ]
        return sql.SQL("with {} select {}").format(
            sql.SQL(", ").join(deletes), sql.SQL(" + ").join(counts)
        )

    def _make_template(self) -> None:
        url = self.server.create_database(self.TEMPLATE)
        migrate(url)
        with psycopg.connect(url) as connection:
            self.shape = connection.execute(self.SHAPE).fetchone()
            listed = connection.execute(
                "select tablename from pg_tables where tablename ~ 'windlass'"
            )
            self.tables = [table for (table,) in listed if table not in KEPT]
            for table in self.tables:
                with connection.cursor().copy(_copy("copy {} to stdout", table)) as copy:
                    rows = b"".join(bytes(block) for block in copy)
                if rows:
                    self.seed[table] = rows


class MariaDBPool(Pool):
    SEED = "windlass_seed"

    def __init__(self) -> None:
        super().__init__()
        self.server = MariaDB(fast=True).start()
        self.shape: list[tuple[object, ...]] = []
        self.tables: list[str] = []
        self.seeded: list[str] = []

    def create(self) -> str:
        url = self.create_empty()
        migrate(url)
        if not self.shape:
            self._learn(name_in(url))
        return url

    def create_empty(self) -> str:
        return self.server.create_database(self.next_name())

    def clean(self, url: str) -> bool:
        name = name_in(url)
        self.server.cut_off(name)
        with self.server.cursor() as cursor:
            cursor.execute("set foreign_key_checks = 0")
            self._drop_additions(cursor, name)
            if self._shape_of(cursor, name) != self.shape:
                return False
            for table in self.tables:
                deleted = cursor.execute(f"delete from `{name}`.`{table}`")
                if deleted > WORN_ROWS:
                    cursor.execute(f"truncate table `{name}`.`{table}`")
            for table in self.seeded:
                cursor.execute(
                    f"insert into `{name}`.`{table}` select * from `{self.SEED}`.`{table}`"
                )
        return True

    def drop(self, url: str) -> None:
        self.server.drop_database(name_in(url))

    def close(self) -> None:
        self.server.close()

    def _learn(self, name: str) -> None:
        with self.server.cursor() as cursor:
            self.shape = self._shape_of(cursor, name)
            self.tables = [t for t in self._tables_of(cursor, name) if t not in KEPT]
            cursor.execute(f"create database {self.SEED}")
            for table in self.tables:
                cursor.execute(f"select exists (select 1 from `{name}`.`{table}`)")
                if cursor.fetchone()[0]:
                    cursor.execute(
                        f"create table `{self.SEED}`.`{table}` select * from `{name}`.`{table}`"
                    )
                    self.seeded.append(table)

    def _drop_additions(self, cursor, name: str) -> None:
        for table in self._tables_of(cursor, name):
            if table not in self.tables and table not in KEPT:
                cursor.execute(f"drop table `{name}`.`{table}`")

    @staticmethod
    def _tables_of(cursor, name: str) -> list[str]:
        cursor.execute(
            "select table_name from information_schema.tables"
            " where table_schema = %s and table_type = 'BASE TABLE'",
            [name],
        )
        return [table for (table,) in cursor.fetchall()]

    @staticmethod
    def _shape_of(cursor, name: str) -> list[tuple[object, ...]]:
        cursor.execute(
            "select table_name, column_name, column_type from information_schema.columns"
            " where table_schema = %(name)s"
            " union all select trigger_name, 'trigger', '' from information_schema.triggers"
            " where trigger_schema = %(name)s"
            " union all select routine_name, 'routine', '' from information_schema.routines"
            " where routine_schema = %(name)s",
            {"name": name},
        )
        return sorted(cursor.fetchall())


class Pools:
    """The pools of this run, each started on first use."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.missing: dict[str, str] = {}
        self._pools: dict[str, Pool] = {}

    def of(self, engine: str) -> Pool:
        """The pool of one engine, or `ServerMissing`."""
        if engine in self.missing:
            raise ServerMissing(self.missing[engine])
        if engine not in self._pools:
            try:
                self._pools[engine] = self._start(engine)
            except ServerMissing as error:
                self.missing[engine] = error.reason
                raise
        return self._pools[engine]

    def close(self) -> None:
        for pool in self._pools.values():
            pool.close()

    def _start(self, engine: str) -> Pool:
        match engine:
            case "sqlite":
                return SQLitePool(self.directory)
            case "postgresql":
                return PostgreSQLPool()
            case "mariadb":
                return MariaDBPool()
        raise ValueError(f"unknown database {engine!r}; choose from {', '.join(ENGINES)}")


def name_in(url: str) -> str:
    return urlsplit(url).path.removeprefix("/")


def _copy(statement: str, table: str) -> sql.Composed:
    return sql.SQL(statement).format(sql.Identifier(table))
