"""Shards whose workers know each other by etcd or ZooKeeper: each has a ring of its own."""

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing

import pytest
from sqlalchemy import select

from tests.fault.conftest import Site
from tests.fault.ring.share import is_even, shares_in
from tests.fault.shard.test_shard import Fleet, fleet_over
from tests.fixture.coordinator import Coordinators
from tests.wait import eventually
from windlass.clock import SECOND
from windlass.core.ring.member import connect
from windlass.core.shard.shard import Shard
from windlass.database import schema
from windlass.value.status import Status

SECONDS = 60.0
STRANGER = 0


@pytest.fixture(params=["etcd", "zookeeper"])
def members(request, coordinators: Coordinators) -> str:
    return coordinators.of(request.param).url


@pytest.fixture
def sites(site_of) -> dict[str, Site]:
    return {engine: site_of(engine) for engine in ("postgresql", "mariadb", "mysql")}


@pytest.fixture
def fleet(members, sites, tmp_path) -> Iterator[Fleet]:
    """A shard on each server."""
    urls = [site.url for site in sites.values()]
    with fleet_over(tmp_path, *urls, members=members) as fleet:
        yield fleet


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["postgresql", "mariadb", "mysql"])
def test_shards_by_a_coordinator_survive_the_loss_of_a_worker_and_of_a_server(
    fleet, members, sites, engine
):
    server = sites[engine].server
    victim, *rest = [fleet.worker() for _ in range(3)]
    eventually(lambda: is_divided(fleet, 3), SECONDS, what="three even shares of each shard")
    refs = fleet.work.enqueue_many([{"number": number} for number in range(1_500)])

    victim.kill()
    refs += [fleet.work.enqueue(number) for number in range(40)]
    eventually(lambda: is_divided(fleet, 2), SECONDS, what="the share of the dead in each shard")
    server.kill()
    refs += [fleet.work.enqueue(number) for number in range(40)]
    # Longer than every lease.
    time.sleep(3.0)
    server.start()
    eventually(
        lambda: all(shard.is_up for shard in fleet.app.fleet.shards), SECONDS, what="a shard back"
    )
    refs += [fleet.work.enqueue(number) for number in range(40)]
    eventually(lambda: done(fleet) == Counter(ref.id for ref in refs), SECONDS, what="all tasks")
    eventually(lambda: is_divided(fleet, 2), SECONDS, what="two even shares of each shard")

    assert all(process.is_running for process in rest)
    assert sum(map(len, fleet.rows())) == len(refs)
    assert fleet.effects.count("begin").keys() == {ref.id for ref in refs}
    here, there = fleet.app.fleet.shards
    assert here.ring != there.ring
    assert [told(members, shard) for shard in (here, there)] == [
        workers_of(here),
        workers_of(there),
    ]


def done(fleet: Fleet) -> Counter[int]:
    """How often each task is written down as done."""
    rows = [row for shard in fleet.rows() for row in shard]
    return Counter(row["id"] for row in rows if row["status"] == Status.SUCCEEDED)


def is_divided(fleet: Fleet, count: int) -> bool:
    """Whether so many workers own all of each shard, each its even share."""
    shards = [(shares_in(shard.database), workers_of(shard)) for shard in fleet.app.fleet.shards]
    return all(len(workers) == count and is_even(found, workers) for found, workers in shards)


def workers_of(shard: Shard) -> set[int]:
    """The workers that are there in a shard, as its database says."""
    query = select(schema.worker.c.id).where(schema.worker.c.left_at.is_(None))
    return set(shard.database.read(lambda connection: connection.scalars(query).all()))


def told(url: str, shard: Shard) -> set[int]:
    """The workers that are there in a shard, as the coordinator says."""
    members = connect(url, dead_after=2 * SECOND)
    with closing(members):
        members.join(shard.ring, STRANGER)
        return (members.alive() or frozenset()) - {STRANGER}
