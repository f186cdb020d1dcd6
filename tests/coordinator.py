"""The private etcd and ZooKeeper of a run, each started on first use."""

import os

import pytest

from tests.server import Etcd, ServerMissing, ZooKeeper

KINDS = {"etcd": Etcd, "zookeeper": ZooKeeper}


class Coordinators:
    """Tests may kill them and lose their data; the next test finds them running again."""

    def __init__(self, missing: dict[str, str]) -> None:
        self._missing = missing
        self._servers: dict[str, Etcd | ZooKeeper] = {}

    def of(self, kind: str) -> Etcd | ZooKeeper:
        """A running server of that kind, or the test is skipped."""
        skip_if_missing(kind, self._missing)
        if kind not in self._servers:
            self._servers[kind] = KINDS[kind]()
        return self._servers[kind].start()

    def close(self) -> None:
        for server in self._servers.values():
            server.close()


def skip_if_missing(kind: str, missing: dict[str, str]) -> None:
    """Skip the test where the server is not installed, and note it in `missing`."""
    try:
        KINDS[kind].find(object.__new__(KINDS[kind]))
    except ServerMissing as error:
        missing[kind] = error.reason
        reason = f"{kind} is missing: {error.reason}"
    else:
        return
    if os.environ.get("CI") == "true":
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)
