"""A private Redis server."""

import signal
from urllib.parse import quote, urlencode

from tests.server.certificate import Certificates
from tests.server.process import (
    Daemon,
    find_program,
    free_port,
    is_newest_wanted,
    require_account,
)

PASSWORD = "open sesame"


class Redis(Daemon):
    """Writes each change to its disk before it answers, unless it is `fast`."""

    account = "redis"
    quick_signal = signal.SIGKILL

    def __init__(self, *, fast: bool = True, certificates: Certificates | None = None) -> None:
        super().__init__(fast=fast)
        self.certificates = certificates
        self.tls_port = free_port()

    @property
    def url(self) -> str:
        return self.url_with(PASSWORD)

    def url_with(self, password: str) -> str:
        """Its URL with this password."""
        return f"redis://:{quote(password)}@127.0.0.1:{self.port}/0"

    def tls_url(self, host: str = "127.0.0.1", **files: object) -> str:
        """Its URL with TLS."""
        place = f"rediss://:{quote(PASSWORD)}@{host}:{self.tls_port}/0"
        return f"{place}?{urlencode(files)}".rstrip("?")

    def find(self) -> None:
        # Of Redis itself Debian has no newer release than the system; Valkey goes on from it.
        name, of = ("valkey-server", "valkey") if is_newest_wanted() else ("redis-server", "")
        self.program = find_program(name, of=of)
        require_account(self.account)

    def create(self) -> None:
        self.run(["mkdir", str(self.data)])

    def command(self) -> list[str]:
        durable = ["--appendonly", "no"]
        if not self.fast:
            durable = ["--appendonly", "yes", "--appendfsync", "always"]
        return [
            str(self.program),
            *("--bind", "127.0.0.1", "--port", str(self.port), "--dir", str(self.data)),
            *("--save", "", "--requirepass", PASSWORD, "--maxmemory-policy", "noeviction"),
            *durable,
            *self._tls(),
        ]

    def _tls(self) -> list[str]:
        if self.certificates is None:
            return []
        certificate, key = map(str, self.certificates.make("redis"))
        return [
            *("--tls-port", str(self.tls_port), "--tls-cert-file", certificate),
            *("--tls-key-file", key, "--tls-ca-cert-file", str(self.certificates.ca)),
            *("--tls-auth-clients", "no"),
        ]

    def ping(self) -> None:
        import redis

        with redis.Redis.from_url(self.url, socket_timeout=2) as client:
            client.ping()
