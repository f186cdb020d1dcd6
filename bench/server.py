"""The stores of a run: durable PostgreSQL, MariaDB, MySQL and SQLite, and Redis without a disk.

And etcd and ZooKeeper, which tell workers who is alive.
"""

from __future__ import annotations

import contextlib
import shutil
import socket
import sqlite3
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import psycopg

from tests.server import Etcd, MariaDB, MySQL, PostgreSQL, Server, ZooKeeper
from tests.server.process import find_program, require_account

POSTGRESQL_SETTINGS = ("shared_buffers=256MB", "max_wal_size=4GB")
MARIADB_SETTINGS = ("--innodb-buffer-pool-size=512M", "--innodb-log-file-size=512M")
MYSQL_SETTINGS = ("--innodb-buffer-pool-size=512M", "--innodb-redo-log-capacity=1G")
REDIS_SETTINGS = ("--save", "", "--appendonly", "no")


class Store(Protocol):
    """Where a system keeps its tasks; each trial gets an empty database of its own."""

    def start(self) -> object: ...
    def close(self) -> None: ...
    def create_database(self, name: str) -> str: ...
    def drop_database(self, name: str) -> None: ...
    def settle(self, name: str) -> None: ...
    def version(self) -> str: ...


class BenchPostgreSQL(PostgreSQL):
    """fsync and synchronous_commit are on, as PostgreSQL comes."""

    def command(self) -> list[str]:
        command = super().command()
        for setting in POSTGRESQL_SETTINGS:
            command += ["-c", setting]
        return command

    def settle(self, name: str) -> None:
        """Do at once what autovacuum does within a minute, and leave no checkpoint pending."""
        with psycopg.connect(self.url_of(name), autocommit=True) as connection:
            connection.execute("vacuum (analyze)")
            connection.execute("checkpoint")

    def version(self) -> str:
        with psycopg.connect(self.url_of("postgres")) as connection:
            return f"PostgreSQL {connection.info.server_version // 10_000}"


class BenchMariaDB(MariaDB):
    """The log is flushed to disk at every commit."""

    def command(self) -> list[str]:
        return [*super().command(), *MARIADB_SETTINGS]

    def settle(self, name: str) -> None:
        """Nothing: InnoDB keeps its statistics by itself."""

    def version(self) -> str:
        with self.cursor() as cursor:
            cursor.execute("select version()")
            (version,) = cursor.fetchone()
        return f"MariaDB {version.partition('-')[0]}"


class BenchMySQL(MySQL):
    """The log is flushed to disk at every commit."""

    def command(self) -> list[str]:
        return [*super().command(), *MYSQL_SETTINGS]

    def settle(self, name: str) -> None:
        """Nothing: InnoDB keeps its statistics by itself."""

    def version(self) -> str:
        with self.cursor() as cursor:
            cursor.execute("select version()")
            (version,) = cursor.fetchone()
        return f"MySQL {version.partition('-')[0]}"


class Redis(Server):
    """Nothing is saved to disk: the fastest Redis there is, and the least durable."""

    account = "redis"

    def find(self) -> None:
        self.redis = find_program("redis-server")
        require_account(self.account)

    def create(self) -> None:
        self.data.mkdir()

    def command(self) -> list[str]:
        place = ["--bind", "127.0.0.1", "--port", str(self.port), "--dir", str(self.directory)]
        return [str(self.redis), *place, *REDIS_SETTINGS]

    def ping(self) -> None:
        self.execute("PING")

    def url_of(self, database: str) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def execute(self, *statements: str) -> None:
        for statement in statements:
            self._ask(statement)

    def create_database(self, name: str) -> str:
        self.execute("FLUSHALL")
        return self.url_of(name)

    def drop_database(self, name: str) -> None:
        self.execute("FLUSHALL")

    def settle(self, name: str) -> None:
        """Nothing to settle in memory."""

    def version(self) -> str:
        facts = self._ask("INFO server").splitlines()
        return "Redis " + next(fact[14:] for fact in facts if fact.startswith("redis_version:"))

    def _ask(self, command: str) -> str:
        with socket.create_connection(("127.0.0.1", self.port), timeout=10) as connection:
            connection.sendall(f"{command}\r\nQUIT\r\n".encode())
            answer = b"".join(iter(lambda: connection.recv(65_536), b"")).decode()
        if answer.startswith("-"):
            raise RuntimeError(f"Redis refused {command!r}: {answer.strip()}")
        return answer


class SQLite:
    """A folder of database files."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="windlass-bench-"))

    def start(self) -> None:
        """Nothing: a file needs no server."""

    def close(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def create_database(self, name: str) -> str:
        return f"sqlite:///{self.folder / name}.db"

    def drop_database(self, name: str) -> None:
        for path in self.folder.glob(f"{name}.db*"):
            path.unlink()

    def settle(self, name: str) -> None:
        with contextlib.closing(sqlite3.connect(self.folder / f"{name}.db")) as connection:
            connection.execute("pragma wal_checkpoint(truncate)")

    def version(self) -> str:
        return f"SQLite {sqlite3.sqlite_version}"


class BenchEtcd(Etcd):
    """With the heartbeat and the elections that etcd comes with."""

    pace = ()


class BenchZooKeeper(ZooKeeper):
    """With the tick of 2 s that ZooKeeper comes with, and sessions of 4 s at least."""

    pace = "tickTime=2000"


STORES: dict[str, Callable[[], Store]] = {
    "postgresql": BenchPostgreSQL,
    "mariadb": BenchMariaDB,
    "mysql": BenchMySQL,
    "sqlite": SQLite,
    "redis": Redis,
}
