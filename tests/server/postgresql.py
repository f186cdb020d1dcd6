"""A private PostgreSQL server."""

import contextlib
import glob
import signal
import subprocess
from pathlib import Path

import psycopg
from psycopg import sql

from tests.server.process import Server, find_program, require_account

FAST = ("fsync=off", "synchronous_commit=off", "full_page_writes=off", "autovacuum=off")
COMMON = (
    "listen_addresses=127.0.0.1",
    "unix_socket_directories=",
    "max_connections=200",
    "shared_buffers=64MB",
    "log_min_messages=warning",
)


class PostgreSQL(Server):
    account = "postgres"
    stop_signal = signal.SIGINT  # the fast shutdown; SIGTERM waits for the clients to go

    def find(self) -> None:
        # Debian keeps the server's programs off the PATH, one directory per version.
        installed = sorted(glob.glob("/usr/lib/postgresql/*/bin"), key=_version, reverse=True)
        self.initdb = find_program("initdb", beside=tuple(installed), of="postgresql")
        beside = (str(self.initdb.parent), *installed)
        self.postgres = find_program("postgres", beside=beside, of="postgresql")
        require_account(self.account)

    def create(self) -> None:
        options = ["-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync"]
        self.run([str(self.initdb), *options, "-D", str(self.data)])

    def command(self) -> list[str]:
        command = [str(self.postgres), "-D", str(self.data), "-p", str(self.port)]
        for setting in (*COMMON, *(FAST if self.fast else ())):
            command += ["-c", setting]
        return command

    def ping(self) -> None:
        psycopg.connect(self.url_of("postgres"), connect_timeout=2).close()

    def url_of(self, database: str) -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/{database}"

    def execute(self, *statements: str | sql.Composed) -> None:
        with psycopg.connect(self.url_of("postgres"), autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement)

    def create_database(self, name: str, *, template: str = "template1") -> str:
        statement = sql.SQL("create database {} template {}")
        self.execute(statement.format(sql.Identifier(name), sql.Identifier(template)))
        return self.url_of(name)

    def drop_database(self, name: str) -> None:
        self.execute(
            sql.SQL("drop database if exists {} with (force)").format(sql.Identifier(name))
        )

    def close(self) -> None:
        segment = self._left_behind()
        super().close()
        if segment is not None:
            subprocess.run(["ipcrm", "-m", segment], capture_output=True, check=False)

    def _left_behind(self) -> str | None:
        # A killed server cannot free its shared memory; the lock file names it.
        if self.is_running:
            return None
        with contextlib.suppress(OSError, IndexError):
            return (self.data / "postmaster.pid").read_text().splitlines()[6].split()[1]
        return None


def _version(directory: str) -> int:
    return int(Path(directory).parent.name.partition(".")[0])
