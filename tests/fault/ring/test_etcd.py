"""What only etcd can do to its members: lose a node, a lease or a key."""

import asyncio
import contextlib
import random
import subprocess
import sys

import pytest

from tests.fault.ring.circle import Circle, stays_true
from tests.server.relay import Relay


@pytest.fixture
def circle(etcd):
    circle = Circle(etcd.url)
    yield circle
    circle.close()


def ask(etcd, work):
    """Do something with a client of our own."""
    # Not at the top of the file: gRPC must be imported by Windlass first.
    import aetcd

    async def run():
        async with aetcd.Client("127.0.0.1", etcd.port, timeout=5) as client:
            return await work(client)

    return asyncio.run(run())


def keys_of(circle: Circle, etcd) -> list:
    return list(ask(etcd, lambda client: client.get_prefix(f"/windlass/{circle.name}/".encode())))


def test_only_membership_is_stored_and_every_key_has_a_lease(circle, etcd):
    circle.members(1, 2)

    keys = keys_of(circle, etcd)

    assert {key.key.decode().rpartition("/")[2] for key in keys} == {"1", "2"}
    assert {(key.value, key.lease != 0) for key in keys} == {(b"", True)}


def test_a_key_that_somebody_deleted_is_put_again(circle, etcd):
    first, second = circle.members(1, 2)
    second.said.clear()

    ask(etcd, lambda client: client.delete(f"/windlass/{circle.name}/2".encode()))

    second.wait_until_unknown()
    first.wait_for(1, 2)
    second.wait_for(1, 2)
    assert set(second.said) == {None, frozenset({1, 2})}


@pytest.mark.slow
def test_a_lease_that_somebody_revoked_is_granted_anew(circle, etcd):
    first, second = circle.members(1, 2)
    (key,) = [key for key in keys_of(circle, etcd) if key.key.endswith(b"/2")]

    ask(etcd, lambda client: client.revoke_lease(key.lease))

    second.wait_until_unknown()
    first.wait_for(1, 2)
    second.wait_for(1, 2)


def test_keys_that_are_no_ids_are_left_alone(circle, etcd):
    (here,) = circle.members(1)

    ask(etcd, lambda client: client.put(f"/windlass/{circle.name}/note".encode(), b""))

    assert stays_true(lambda: here.sees(1), 0.3)
    circle.member(2)
    here.wait_for(1, 2)


def test_a_host_that_is_down_is_passed_over_without_a_word(circle, etcd):
    with Relay(etcd.port) as dead:
        dead.refuse()

        watchers = [
            circle.member(number, url=f"etcd://127.0.0.1:{dead.port},{etcd.address}")
            for number in range(1, 5)
        ]

        for watcher in watchers:
            watcher.wait_for(1, 2, 3, 4)
    assert circle.events == []


FORK = """
import subprocess, sys
from windlass.core.ring.member import connect
members = [connect(sys.argv[1], dead_after=2_000_000) for _ in range(3)]
for worker, one in enumerate(members):
    one.join(sys.argv[2], worker)
command = [sys.executable, "-c", ""]
ended = [subprocess.run(command, preexec_fn=lambda: None).returncode for _ in range(60)]
for one in members:
    one.close()
sys.exit(any(ended))
"""


@pytest.mark.slow
def test_a_member_may_start_programs(circle, etcd):
    ended = subprocess.run(
        [sys.executable, "-c", FORK, etcd.url, circle.name],
        timeout=60,
        capture_output=True,
        check=False,
    )

    assert (ended.returncode, ended.stderr) == (0, b"")


def in_given_order(hosts: list) -> None:
    """Instead of shuffling the endpoints: everyone connects to the first node."""


def test_three_nodes_survive_the_loss_of_the_one_that_all_are_connected_to(cluster, monkeypatch):
    monkeypatch.setattr(random, "shuffle", in_given_order)
    with contextlib.closing(Circle(cluster.url)) as circle:
        watchers = circle.members(1, 2, 3)
        for watcher in watchers:
            watcher.said.clear()

        cluster.nodes[0].kill()

        for watcher in watchers:
            watcher.wait_until_unknown()
        circle.member(4)
        for watcher in watchers:
            watcher.wait_for(1, 2, 3, 4)
            assert set(watcher.said) <= {None, frozenset({1, 2, 3}), frozenset({1, 2, 3, 4})}


@pytest.mark.slow
def test_every_node_may_be_lost_in_turn(cluster):
    with contextlib.closing(Circle(cluster.url)) as circle:
        watchers = circle.members(1, 2, 3, 4, 5, 6)
        everyone = [watcher.worker for watcher in watchers]
        for watcher in watchers:
            watcher.said.clear()

        for node in cluster.nodes:
            node.kill()
            late = circle.member(7)
            for watcher in watchers:
                watcher.wait_for(*everyone, 7)
            late.members.leave()
            cluster.start()

        for watcher in watchers:
            watcher.wait_for(*everyone)
            assert set(watcher.said) <= {None, frozenset(everyone), frozenset({*everyone, 7})}
