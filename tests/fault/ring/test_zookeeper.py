"""What only ZooKeeper can do to its members: end a session, or lose a node of the tree."""

import contextlib

import pytest
from kazoo.client import KazooClient

from tests.fault.ring.circle import Circle, Watcher, stays_true
from tests.wait import eventually


@pytest.fixture
def circle(zookeeper):
    circle = Circle(zookeeper.url)
    yield circle
    circle.close()


@pytest.fixture
def client(zookeeper):
    """A client of our own."""
    client = KazooClient(f"127.0.0.1:{zookeeper.port}")
    client.start()
    yield client
    client.stop()
    client.close()


def test_only_membership_is_stored_and_every_node_is_ephemeral(circle, client):
    circle.members(1, 2)

    nodes = {
        name: client.get(f"/windlass/{circle.name}/{name}")
        for name in client.get_children(f"/windlass/{circle.name}")
    }

    assert nodes.keys() == {"1", "2"}
    assert {(data, stat.ephemeralOwner != 0) for data, stat in nodes.values()} == {(b"", True)}


def test_a_node_that_somebody_deleted_is_made_again(circle, client):
    first, second = circle.members(1, 2)

    client.delete(f"/windlass/{circle.name}/2")

    eventually(lambda: client.exists(f"/windlass/{circle.name}/2"), what="a new node")
    first.wait_for(1, 2)
    second.wait_for(1, 2)


def test_a_node_that_another_session_left_behind_is_replaced(circle, client):
    (here,) = circle.members(1)
    client.create(f"/windlass/{circle.name}/2", b"", ephemeral=True)
    here.wait_for(1, 2)

    late = circle.member(2)

    late.wait_for(1, 2)
    client.stop()
    assert stays_true(lambda: here.sees(1, 2), 0.3)


def test_nodes_that_are_no_ids_are_left_alone(circle, client):
    (here,) = circle.members(1)

    client.create(f"/windlass/{circle.name}/note", b"")

    assert stays_true(lambda: here.sees(1), 0.3)
    circle.member(2)
    here.wait_for(1, 2)


def test_a_root_of_its_own_is_made_and_kept_apart(circle, client, zookeeper):
    (here,) = circle.members(1)
    apart = Watcher(f"{zookeeper.url}/some/team", 2)

    with contextlib.closing(apart.members):
        apart.members.join(circle.name, 2)

        assert apart.sees(2)
        assert here.sees(1)
        assert client.get_children(f"/some/team/windlass/{circle.name}") == ["2"]
