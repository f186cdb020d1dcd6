"""A private PgBouncer before a PostgreSQL server: nobody who comes through it has a session."""

import psycopg

from tests.server.process import Daemon, find_program, require_account

CONFIGURATION = """
[databases]
* = host=127.0.0.1 port={behind} user=postgres

[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 4
max_client_conn = 200
"""


class PgBouncer(Daemon):
    account = "postgres"

    def __init__(self, behind: int) -> None:
        super().__init__(fast=True)
        self.behind = behind

    def find(self) -> None:
        self.pgbouncer = find_program("pgbouncer", of="pgbouncer")
        require_account(self.account)

    def create(self) -> None:
        text = CONFIGURATION.format(behind=self.behind, port=self.port)
        (self.directory / "pgbouncer.ini").write_text(text)

    def command(self) -> list[str]:
        return [str(self.pgbouncer), str(self.directory / "pgbouncer.ini")]

    def ping(self) -> None:
        psycopg.connect(self.url, connect_timeout=2, prepare_threshold=None).close()

    @property
    def url(self) -> str:
        return self.url_of("postgres")

    def url_of(self, database: str) -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/{database}"
