"""A private etcd server, and a cluster of them."""

import contextlib
import http.client
import json
import shutil
import signal
from collections.abc import Sequence
from typing import Self

from tests.server.process import Daemon, find_program, free_port, require_account

# A quick election, and so a lease of two seconds instead of four.
QUICK = ("--heartbeat-interval=20", "--election-timeout=200")


class Etcd(Daemon):
    account = "etcd"
    quick_signal = signal.SIGKILL
    pace: Sequence[str] = QUICK

    def __init__(self, *, name: str = "only", fast: bool = True) -> None:
        super().__init__(fast=fast)
        self.name = name
        self.peer_port = free_port()
        self.peers = [self]

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        return f"etcd://{self.address}"

    def find(self) -> None:
        self.etcd = find_program("etcd", of="etcd")
        require_account(self.account)

    def create(self) -> None:
        """Nothing: it makes its data itself."""

    def lose_data(self) -> None:
        """Forget everything that was ever stored; only while it is down."""
        shutil.rmtree(self.data)

    def command(self) -> list[str]:
        here, peer = f"http://{self.address}", f"http://127.0.0.1:{self.peer_port}"
        peers = [f"{node.name}=http://127.0.0.1:{node.peer_port}" for node in self.peers]
        return [
            str(self.etcd),
            f"--name={self.name}",
            f"--data-dir={self.data}",
            f"--listen-client-urls={here}",
            f"--advertise-client-urls={here}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster={','.join(peers)}",
            "--initial-cluster-token=windlass",
            *self.pace,
        ]

    def ping(self) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=2)
        with contextlib.closing(connection):
            connection.request("GET", "/health")
            answer = json.load(connection.getresponse())
        if answer["health"] != "true":
            raise RuntimeError("it has no leader yet")


class EtcdCluster:
    """Nodes that are one etcd, of which a minority may be lost."""

    def __init__(self, count: int = 3) -> None:
        self.nodes = [Etcd(name=f"node{number}") for number in range(1, count + 1)]
        for node in self.nodes:
            node.peers = self.nodes

    @property
    def url(self) -> str:
        return "etcd://" + ",".join(node.address for node in self.nodes)

    def start(self) -> Self:
        """Start those that are down. A node answers when most of them are up."""
        down = [node for node in self.nodes if not node.is_running]
        for node in down:
            node.launch()
        for node in down:
            node.wait()
        return self

    def close(self) -> None:
        for node in self.nodes:
            node.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()
