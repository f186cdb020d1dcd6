"""A private RabbitMQ server, with a port mapper of its own."""

import os
import signal
import socket
from typing import Any
from urllib.parse import quote, urlencode

from scripts import newer_servers
from tests.server.certificate import Certificates
from tests.server.process import (
    Daemon,
    find_program,
    free_port,
    is_newest_wanted,
    require_account,
)

USER, PASSWORD = "windlass", "open sesame"

SETTINGS = """\
default_user = {user}
default_pass = {password}
listeners.tcp.1 = 127.0.0.1:{port}
disk_free_limit.absolute = 1MB
log.file.level = warning
"""
TLS_SETTINGS = """\
listeners.ssl.1 = 127.0.0.1:{port}
ssl_options.cacertfile = {ca}
ssl_options.certfile = {certificate}
ssl_options.keyfile = {key}
"""
# Erlang's port mapper would outlive the broker; this one ends with it.
WITH_MAPPER = """
setpriv --pdeathsig KILL epmd -port "$ERL_EPMD_PORT" -address 127.0.0.1 &
exec "$0"
"""


class RabbitMQ(Daemon):
    account = "rabbitmq"
    quick_signal = signal.SIGKILL

    def __init__(
        self, *, fast: bool = True, certificates: Certificates | None = None, settings: str = ""
    ) -> None:
        super().__init__(fast=fast)
        self.settings = settings
        self.certificates = certificates
        self.tls_port = free_port()
        self.mapper_port = free_port()
        self.node_port = free_port()

    @property
    def url(self) -> str:
        return self.url_as(USER, PASSWORD)

    def url_as(self, user: str, password: str) -> str:
        """Its URL for this user."""
        return f"amqp://{quote(user)}:{quote(password)}@127.0.0.1:{self.port}//"

    def tls_url(self, host: str = "127.0.0.1", **files: object) -> str:
        """Its URL with TLS."""
        place = f"amqps://{quote(USER)}:{quote(PASSWORD)}@{host}:{self.tls_port}//"
        return f"{place}?{urlencode(files)}".rstrip("?")

    def find(self) -> None:
        # Not the one on the PATH, which changes the user.
        self.program = find_program(
            "rabbitmq-server", beside=("/usr/lib/rabbitmq/bin",), of="rabbitmq"
        )
        self.erlang = ""
        if is_newest_wanted():
            self.erlang = str(newer_servers.root_of("rabbitmq") / "usr/lib/erlang/bin")
        else:
            find_program("epmd")
        find_program("setpriv")
        require_account(self.account)

    def create(self) -> None:
        settings = SETTINGS.format(user=USER, password=PASSWORD, port=self.port)
        if self.certificates is not None:
            certificate, key = self.certificates.make("rabbitmq")
            settings += TLS_SETTINGS.format(
                port=self.tls_port, ca=self.certificates.ca, certificate=certificate, key=key
            )
        (self.directory / "rabbitmq.conf").write_text(settings + self.settings)
        self.run(["mkdir", "-p", str(self.data), str(self.directory / "log")])

    def command(self) -> list[str]:
        return ["/bin/sh", "-c", WITH_MAPPER, str(self.program)]

    def ping(self) -> None:
        import kombu

        with kombu.Connection(self.url, connect_timeout=2) as connection:
            connection.connect()
        if self.certificates is not None:
            # It listens here a moment later.
            socket.create_connection(("127.0.0.1", self.tls_port), timeout=2).close()

    def _as_account(self) -> dict[str, Any]:
        options: dict[str, Any] = super()._as_account()
        options["env"] = {
            **options["env"],
            "HOME": str(self.directory),
            "PATH": os.pathsep.join(filter(None, (self.erlang, os.environ.get("PATH")))),
            "ERL_EPMD_PORT": str(self.mapper_port),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODENAME": f"windlass{self.port}@localhost",
            "RABBITMQ_NODE_PORT": str(self.port),
            "RABBITMQ_DIST_PORT": str(self.node_port),
            "RABBITMQ_MNESIA_BASE": str(self.data),
            "RABBITMQ_LOG_BASE": str(self.directory / "log"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(self.directory / "plugins"),
            "RABBITMQ_CONFIG_FILE": str(self.directory / "rabbitmq.conf"),
            # Its threads sleep while there is nothing to do, as they should beside other programs.
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": f"{'+S 1:1 ' if self.fast else ''}+sbwt none",
            "RABBITMQ_CONF_ENV_FILE": str(self.directory / "none"),
            "RABBITMQ_PID_FILE": str(self.directory / "pid"),
            # Then the broker is this very process, and not a child of a script.
            "RUNNING_UNDER_SYSTEMD": "1",
        }
        return options
