"""Servers that speak TLS and listen on a socket, one of each kind for the whole run."""

import os

import pytest

from tests.server import ServerMissing
from tests.server.tls import Tls, TlsMariaDB, TlsPostgreSQL

KINDS = {"postgresql": TlsPostgreSQL, "mariadb": TlsMariaDB}


@pytest.fixture(scope="session")
def tls_servers():
    servers: dict[str, Tls] = {}
    yield servers
    for server in servers.values():
        server.close()


@pytest.fixture(params=sorted(KINDS))
def tls_server(request, tls_servers):
    """PostgreSQL and MariaDB in turn, with TLS."""
    return started(request.param, tls_servers)


@pytest.fixture
def tls_postgresql(tls_servers):
    return started("postgresql", tls_servers)


@pytest.fixture
def tls_mariadb(tls_servers):
    return started("mariadb", tls_servers)


@pytest.fixture
def tls_database(tls_server, request):
    """The name of an empty database on `tls_server`."""
    name = f"shop_{abs(hash(request.node.nodeid)):x}"
    tls_server.create_database(name)
    yield name
    tls_server.drop_database(name)


def started(kind, servers):
    if kind not in servers:
        try:
            servers[kind] = KINDS[kind]().start()
        except ServerMissing as error:
            if os.environ.get("CI") == "true":
                raise
            pytest.skip(f"{kind} is missing: {error.reason}")
    return servers[kind]
