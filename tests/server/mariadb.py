"""A private MariaDB server."""

import contextlib
from collections.abc import Iterator

import pymysql
from pymysql.cursors import Cursor

from tests.server.process import Server, find_program, require_account

FAST = (
    "--innodb-flush-log-at-trx-commit=0",
    "--innodb-doublewrite=OFF",
    "--innodb-flush-method=nosync",
    "--innodb-buffer-pool-size=64M",
    "--skip-log-bin",
)
DURABLE = (
    "--innodb-flush-log-at-trx-commit=1",
    "--innodb-buffer-pool-size=256M",
)


class MariaDB(Server):
    account = "mysql"

    def find(self) -> None:
        self.mariadbd = find_program("mariadbd")
        self.install = find_program("mariadb-install-db")
        require_account(self.account)

    # Each has a scratch directory of its own: one that starts clears it of what the last one left.

    def create(self) -> None:
        self.run(
            [
                str(self.install),
                "--no-defaults",
                f"--datadir={self.data}",
                f"--tmpdir={self.directory}",
                "--auth-root-authentication-method=normal",
                "--skip-test-db",
                "--skip-name-resolve",
                "--innodb-log-file-size=8M",
                "--innodb-flush-log-at-trx-commit=0",
            ]
        )

    def command(self) -> list[str]:
        return [
            str(self.mariadbd),
            "--no-defaults",
            f"--datadir={self.data}",
            f"--tmpdir={self.directory}",
            f"--socket={self.directory / 'socket'}",
            f"--pid-file={self.directory / 'pid'}",
            f"--port={self.port}",
            "--bind-address=127.0.0.1",
            "--skip-name-resolve",
            "--character-set-server=utf8mb4",
            "--innodb-log-file-size=64M",
            "--max-connections=300",
            *(FAST if self.fast else DURABLE),
        ]

    def ping(self) -> None:
        self._connect().close()

    # Without TLS, which it does not speak: PyMySQL would read all the system's certificates
    # for each connection before it asks.

    def url_of(self, database: str) -> str:
        return f"mysql://root@127.0.0.1:{self.port}/{database}?ssl_disabled=true"

    def execute(self, *statements: str) -> None:
        with self.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)

    def create_database(self, name: str) -> str:
        self.execute(f"create database `{name}`")
        return self.url_of(name)

    def drop_database(self, name: str) -> None:
        self.cut_off(name)
        self.execute(f"drop database if exists `{name}`")

    def cut_off(self, name: str) -> None:
        """End every connection to a database, so that nothing holds a lock in it."""
        with self.cursor() as cursor:
            cursor.execute("select id from information_schema.processlist where db = %s", [name])
            for (connected,) in cursor.fetchall():
                with contextlib.suppress(pymysql.MySQLError):  # it may have gone by itself
                    cursor.execute(f"kill connection {connected}")

    @contextlib.contextmanager
    def cursor(self) -> Iterator[Cursor]:
        """A cursor of a connection of its own, committing each statement."""
        connection = self._connect()
        try:
            with connection.cursor() as cursor:
                yield cursor
        finally:
            connection.close()

    def _connect(self) -> pymysql.Connection:
        return pymysql.connect(
            host="127.0.0.1",
            port=self.port,
            user="root",
            autocommit=True,
            connect_timeout=2,
            ssl_disabled=True,
        )
