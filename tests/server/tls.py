"""PostgreSQL and MariaDB that want TLS of their users, and perhaps a certificate.

`shop` has a password, `certain` shows a certificate; neither may come in clear text over TCP. Both
may also come by the server's socket.
"""

import shutil
from pathlib import Path
from urllib.parse import quote, urlencode

import pymysql

from tests.server.certificate import Certificates
from tests.server.mariadb import MariaDB
from tests.server.postgresql import PostgreSQL
from tests.server.process import Server

USER, CERTAIN = "shop", "certain"
PASSWORD = "it's/a:secret@"

HBA = f"""
local   all all trust
host    all postgres 127.0.0.1/32 trust
hostssl all {USER} all scram-sha-256
hostssl all {CERTAIN} all cert
"""


class Tls(Server):
    """What they share: certificates of a CA of their own, for 127.0.0.1 and no other name."""

    scheme: str

    def __init__(self) -> None:
        self.find()
        self.certificates = Certificates()
        self.stranger = Certificates("stranger")
        self.server_files = self.certificates.make("server")
        self.client_files = self.certificates.make(CERTAIN)
        # libpq uses a key only if nobody else can read it.
        self.client_files[1].chmod(0o600)
        super().__init__(fast=True)

    @property
    def ca(self) -> str:
        return str(self.certificates.ca)

    @property
    def client(self) -> dict[str, str]:
        """The certificate of `certain`, by the names of the options in the URL."""
        return dict(zip(("cert", "key"), map(str, self.client_files), strict=True))

    def at(
        self,
        database: str,
        *,
        user: str = USER,
        password: str | None = PASSWORD,
        host: str = "127.0.0.1",
        **options: str,
    ) -> str:
        """The URL of a database over TCP."""
        secret = "" if password is None else f":{quote(password, safe='')}"
        place = f"{self.scheme}://{user}{secret}@{host}:{self.port}/{quote(database, safe='')}"
        return f"{place}?{urlencode(options)}".rstrip("?")

    def set_password(self, password: str) -> None:
        raise NotImplementedError

    def close(self) -> None:
        super().close()
        self.certificates.close()
        self.stranger.close()


class TlsPostgreSQL(Tls, PostgreSQL):
    scheme = "postgresql"

    def create(self) -> None:
        super().create()
        (self.data / "pg_hba.conf").write_text(HBA)
        for path in self.server_files:
            # It wants files that only it can read.
            own = Path(shutil.copy(path, self.directory))
            own.chmod(0o600)
            if self._user:
                shutil.chown(own, self._user, self._user)

    def command(self) -> list[str]:
        certificate, key = (self.directory / path.name for path in self.server_files)
        settings = {
            "ssl": "on",
            "ssl_cert_file": certificate,
            "ssl_key_file": key,
            "ssl_ca_file": self.ca,
            "unix_socket_directories": self.directory,
        }
        return [*super().command(), *(f"--{name}={value}" for name, value in settings.items())]

    def prepare(self) -> None:
        self.execute(f"create role {USER} login superuser", f"create role {CERTAIN} login")
        self.execute(f"grant all on schema public to {CERTAIN}")
        self.set_password(PASSWORD)

    def set_password(self, password: str) -> None:
        secret = password.replace("'", "''")
        self.execute(f"alter role {USER} password '{secret}'")


class TlsMariaDB(Tls, MariaDB):
    scheme = "mysql"

    def command(self) -> list[str]:
        certificate, key = self.server_files
        files = {"cert": certificate, "key": key, "ca": self.ca}
        return [*super().command(), *(f"--ssl-{name}={path}" for name, path in files.items())]

    def prepare(self) -> None:
        for user, wants in ((USER, "ssl"), (CERTAIN, "x509")):
            self.execute(f"create user '{user}'@'%' require {wants}")
            self.execute(f"grant all on *.* to '{user}'@'%'")
            self.execute(f"create user '{user}'@'localhost'")
            self.execute(f"grant all on *.* to '{user}'@'localhost'")
        self.set_password(PASSWORD)

    def set_password(self, password: str) -> None:
        secret = pymysql.converters.escape_string(password)
        for host in ("%", "localhost"):
            self.execute(f"alter user '{USER}'@'{host}' identified by '{secret}'")

    @property
    def socket(self) -> Path:
        return self.directory / "socket"
