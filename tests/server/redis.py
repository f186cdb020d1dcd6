"""A private Redis server."""

import signal
from urllib.parse import quote

from tests.server.process import Daemon, find_program, require_account

PASSWORD = "open sesame"


class Redis(Daemon):
    """Writes each change to its disk before it answers, unless it is `fast`."""

    account = "redis"
    quick_signal = signal.SIGKILL

    @property
    def url(self) -> str:
        return self.url_with(PASSWORD)

    def url_with(self, password: str) -> str:
        """Its URL with this password."""
        return f"redis://:{quote(password)}@127.0.0.1:{self.port}/0"

    def find(self) -> None:
        self.program = find_program("redis-server")
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
        ]

    def ping(self) -> None:
        import redis

        with redis.Redis.from_url(self.url, socket_timeout=2) as client:
            client.ping()
