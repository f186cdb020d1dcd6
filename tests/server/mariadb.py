"""A private MariaDB server."""

import contextlib
from collections.abc import Iterator

import pymysql
from pymysql.cursors import Cursor

from scripts import newer_servers
from tests.server.process import Server, find_program, is_newest_wanted, require_account

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
# The tables of a new server, and the user root without a password.
BEGINNING = """
create database mysql;
use mysql;
set @auth_root_socket = null;
set @skip_auth_anonymous = 1;
"""
SYSTEM_TABLES = (
    "mariadb_system_tables.sql",
    "mariadb_performance_tables.sql",
    "mariadb_system_tables_data.sql",
)


class MariaDB(Server):
    account = "mysql"

    def find(self) -> None:
        self.mariadbd = find_program("mariadbd", of="mariadb")
        if not is_newest_wanted():
            self.install = find_program("mariadb-install-db")
        require_account(self.account)

    # Each has a scratch directory of its own: one that starts clears it of what the last one left.

    def create(self) -> None:
        if is_newest_wanted():
            self._bootstrap()
            return
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
            *self._where(),
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

    def _where(self) -> list[str]:
        """Where a server that was unpacked finds what belongs to it."""
        if not is_newest_wanted():
            return []
        root = newer_servers.root_of("mariadb")
        share = root / "usr/share/mariadb"
        return [
            f"--basedir={root / 'usr'}",
            f"--lc-messages-dir={share}",
            f"--character-sets-dir={share / 'charsets'}",
            f"--plugin-dir={root / 'usr/lib/mysql/plugin'}",
        ]

    def _bootstrap(self) -> None:
        """What mariadb-install-db does: it finds only programs of the system."""
        self.run(["mkdir", str(self.data)])
        share = newer_servers.root_of("mariadb") / "usr/share/mariadb"
        script = BEGINNING + "".join((share / name).read_text() for name in SYSTEM_TABLES)
        self.run([*self.command(), "--bootstrap"], given=script)

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
