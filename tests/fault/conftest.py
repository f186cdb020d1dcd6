"""Databases that tests may kill, and crews of workers over them."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import ClassVar

import pytest

from tests.fault.crew import Crew
from tests.fixture.coordinator import Coordinators, skip_if_missing
from tests.fixture.database import Pools, chosen_engines, migrate
from tests.server import EtcdCluster, MariaDB, MySQL, PostgreSQL, Server, ServerMissing

NAMES = count(1)
MEANS = ("database", "etcd", "zookeeper")
"""By what workers know each other."""


@dataclass(frozen=True)
class Site:
    """A database of a test's own, and the server that it may kill; SQLite has none."""

    engine: str
    url: str
    server: Server | None


class Durable:
    """Servers that keep what they commit, started on first use."""

    KINDS: ClassVar[dict[str, type[Server]]] = {
        "postgresql": PostgreSQL,
        "mariadb": MariaDB,
        "mysql": MySQL,
    }

    TEMPLATE = "fault_template"

    def __init__(self, pools: Pools) -> None:
        self._pools = pools
        self._servers: dict[str, Server] = {}

    def site(self, engine: str) -> Site:
        """A migrated database of its own; others than PostgreSQL are migrated by who uses them."""
        if engine == "sqlite":
            return Site(engine, self._pools.of(engine).create(), None)
        if engine not in self._servers:
            self._servers[engine] = self._begin(engine)
        server = self._servers[engine].start()
        like = {"template": self.TEMPLATE} if engine == "postgresql" else {}
        return Site(engine, server.create_database(f"fault_{next(NAMES)}", **like), server)

    def _begin(self, engine: str) -> Server:
        server = self.KINDS[engine]().start()
        if engine == "postgresql":
            migrate(server.create_database(self.TEMPLATE))
        return server

    def close(self) -> None:
        for server in self._servers.values():
            server.close()


@pytest.fixture(scope="session")
def durable(pools: Pools) -> Iterator[Durable]:
    durable = Durable(pools)
    yield durable
    durable.close()


@pytest.fixture
def site_of(durable: Durable, pools: Pools, pytestconfig: pytest.Config) -> Callable[[str], Site]:
    """Makes a new database of an engine, or skips the test."""

    def make(engine: str) -> Site:
        if engine not in chosen_engines(pytestconfig):
            pytest.skip(f"{engine} is left out by --database")
        try:
            return durable.site(engine)
        except ServerMissing as error:
            pools.missing[engine] = error.reason
            reason = f"{engine} is missing: {error.reason}"
        if os.environ.get("CI") == "true":
            pytest.fail(reason, pytrace=False)
        pytest.skip(reason)

    return make


@pytest.fixture
def crew_over(tmp_path: Path) -> Iterator[Callable[..., Crew]]:
    """Makes the crew over a URL, with the app's options."""
    crews: list[Crew] = []

    def make(url: str, **options: str) -> Crew:
        crews.append(Crew(tmp_path, url, **options))
        return crews[-1]

    yield make
    for crew in crews:
        crew.close()


@pytest.fixture
def cluster(pools: Pools) -> Iterator[EtcdCluster]:
    """An etcd of three nodes that the test may kill."""
    skip_if_missing("etcd", pools.missing)
    with EtcdCluster() as cluster:
        yield cluster


@pytest.fixture(params=MEANS)
def means(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def crew_by(
    coordinators: Coordinators, site_of: Callable[[str], Site], crew_over: Callable[..., Crew]
) -> Callable[..., Crew]:
    """Makes the crew whose workers know each other by the means that it is given."""

    def make(means: str, *, engine: str = "postgresql") -> Crew:
        options = {} if means == "database" else {"members": coordinators.of(means).url}
        return crew_over(site_of(engine).url, **options)

    return make


@pytest.fixture
def crew_of(
    database_engine: str, site_of: Callable[[str], Site], crew_over: Callable[..., Crew]
) -> Callable[..., Crew]:
    """Makes the crew over a new database of each engine, with the app's options."""

    def make(**options: str) -> Crew:
        return crew_over(site_of(database_engine).url, **options)

    return make


@pytest.fixture
def crew(crew_of: Callable[..., Crew]) -> Crew:
    """A crew over a new database of each engine: dead after 2 seconds, lease of 5 seconds."""
    return crew_of()


@pytest.fixture
def postgresql_crew(site_of: Callable[[str], Site], crew_over: Callable[..., Crew]) -> Crew:
    """Such a crew on PostgreSQL alone."""
    return crew_over(site_of("postgresql").url)


@pytest.fixture
def sqlite_crew(site_of: Callable[[str], Site], crew_over: Callable[..., Crew]) -> Crew:
    """Such a crew on SQLite alone."""
    return crew_over(site_of("sqlite").url)


@pytest.fixture
def server_site(server_engine: str, site_of: Callable[[str], Site]) -> Site:
    """A new database on a server that may be killed."""
    return site_of(server_engine)


@pytest.fixture
def server_crew(server_site: Site, crew_over: Callable[..., Crew]) -> Crew:
    """A crew over `server_site`."""
    return crew_over(server_site.url)
