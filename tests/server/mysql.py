"""A private MySQL server, of the release that `scripts/newer_servers.py` unpacked."""

import signal

from scripts import newer_servers
from tests.server.mariadb import DURABLE, FAST, MariaDB
from tests.server.process import newest_program, require_account

# What MariaDB does not know, or has off by itself.
QUIET = (
    "--mysqlx=OFF",
    "--performance-schema=OFF",
    "--disable-log-bin",
    "--secure-file-priv=",
)
NOT_HERE = {"--skip-log-bin"}


class MySQL(MariaDB):
    # It would write a core file.
    quick_signal = signal.SIGKILL

    def find(self) -> None:
        self.mysqld = newest_program("mysqld", of="mysql")
        self.root = newer_servers.root_of("mysql")
        require_account(self.account)

    def create(self) -> None:
        self.run([*self._program(), "--initialize-insecure", *FAST[:2]])

    def command(self) -> list[str]:
        settings = FAST if self.fast else DURABLE
        return [
            *self._program(),
            f"--socket={self.directory / 'socket'}",
            f"--pid-file={self.directory / 'pid'}",
            f"--port={self.port}",
            "--bind-address=127.0.0.1",
            "--character-set-server=utf8mb4",
            "--max-connections=300",
            *(each for each in settings if each not in NOT_HERE),
        ]

    def _program(self) -> list[str]:
        share = self.root / "usr/share/mysql"
        return [
            str(self.mysqld),
            "--no-defaults",
            f"--basedir={self.root / 'usr'}",
            f"--lc-messages-dir={share}",
            f"--character-sets-dir={share / 'charsets'}",
            f"--plugin-dir={self.root / 'usr/lib/mysql/plugin'}",
            f"--datadir={self.data}",
            f"--tmpdir={self.directory}",
            *QUIET,
        ]
