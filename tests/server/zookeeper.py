"""A private ZooKeeper server."""

import glob
import shutil
import signal
import socket

from tests.server.process import Daemon, ServerMissing, find_program, require_account

# Ticks and sessions as short as they may be, so that the dead are noticed soon.
QUICK = """
tickTime=250
minSessionTimeout=500
"""
PORT = """
clientPort={port}
clientPortAddress=127.0.0.1
"""
SETTINGS = """
dataDir={data}
maxClientCnxns=0
admin.enableServer=false
4lw.commands.whitelist=ruok,srvr
"""
# A small machine that starts soon and writes no more than it must.
MACHINE = (
    "-Xmx128m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Xshare:auto",
    "-Dzookeeper.forceSync=no",
    "-Djava.net.preferIPv4Stack=true",
)


# What Debian's zookeeper.jar needs for TLS and does not name.
LIBRARIES = [f"/usr/share/java/netty-{name}.jar" for name in ("codec", "resolver")]


class ZooKeeper(Daemon):
    account = "zookeeper"
    quick_signal = signal.SIGKILL  # Java takes SIGQUIT for a question
    pace = QUICK

    def __init__(self, *, fast: bool = True) -> None:
        super().__init__(fast=fast)

    @property
    def url(self) -> str:
        return f"zookeeper://127.0.0.1:{self.port}"

    def find(self) -> None:
        self.java = find_program("java")
        jars = glob.glob("/usr/share/java/zookeeper.jar")
        if not jars:
            raise ServerMissing("zookeeper.jar not found; install its package: make servers")
        self.jar = jars[0]
        require_account(self.account)

    def create(self) -> None:
        self.run(["/bin/mkdir", str(self.data)])

    def lose_data(self) -> None:
        """Forget everything that was ever stored; only while it is down."""
        shutil.rmtree(self.data)

    def command(self) -> list[str]:
        settings = self.directory / "zoo.cfg"
        settings.write_text(self.pace + SETTINGS.format(data=self.data) + self.listens())
        main = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
        return [
            str(self.java),
            *MACHINE,
            "-cp",
            ":".join((self.jar, *LIBRARIES)),
            main,
            str(settings),
        ]

    def listens(self) -> str:
        """The settings of its port."""
        return PORT.format(port=self.port)

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=0.3)

    def ping(self) -> None:
        with self.connect() as connection:
            connection.sendall(b"srvr")
            answer = b"".join(iter(lambda: connection.recv(4096), b""))
        if b"Mode:" not in answer:
            raise RuntimeError(f"it does not serve yet: {answer!r}")
