"""Who is alive, by real etcd and real ZooKeeper, while processes and servers die and come back."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from tests.fault.ring.circle import SECONDS, Circle, stays_true
from tests.server.relay import Relay
from tests.wait import eventually
from windlass import MembersUnavailable
from windlass.core.ring.member import base, connect


@pytest.fixture
def circle(coordinator):
    circle = Circle(coordinator.url)
    yield circle
    circle.close()


def test_members_hear_of_each_other_and_of_whoever_leaves(circle):
    first = circle.member(1)
    assert first.sees(1)

    second = circle.member(2)
    assert second.sees(1, 2)
    first.wait_for(1, 2)

    second.members.leave()

    first.wait_for(1)
    assert second.members.alive() is None
    assert [said for said in first.said if said is not None] == [{1}, {1, 2}, {1}]


def test_joining_anew_withdraws_the_former_id(circle):
    first, second = circle.members(1, 2)

    second.members.join(circle.name, 3)

    first.wait_for(1, 3)
    assert second.sees(1, 3)


def test_leaving_under_a_former_id_does_not_withdraw_the_new_one(circle):
    first, second = circle.members(1, 2)
    second.members.join(circle.name, 3)
    first.wait_for(1, 3)

    second.members.leave(2)

    assert stays_true(lambda: first.sees(1, 3) and second.sees(1, 3), 0.3)
    second.members.leave(3)
    first.wait_for(1)


def test_rings_do_not_see_each_other(circle):
    (here,) = circle.members(1)
    near = circle.member(2, joined=False)

    near.members.join(f"{circle.name}/a b", 2)

    assert near.sees(2)
    assert stays_true(lambda: here.sees(1), 0.3)


def test_many_members_in_one_process_come_and_go_and_end_their_threads(circle):
    before = threading.active_count()
    watchers = circle.members(*range(1, 9))

    for watcher in watchers:
        watcher.members.close()

    assert watchers[0].members.alive() is None
    eventually(
        lambda: not [t for t in threading.enumerate() if t.name == "windlass-members"],
        what="the end of all threads",
    )
    assert threading.active_count() <= before + 1


def test_a_process_that_leaves_in_good_order_is_gone_at_once(circle):
    (here,) = circle.members(1)
    neighbour = circle.neighbour(2)
    here.wait_for(1, 2)

    assert neighbour.leave() == 0

    here.wait_for(1)


def test_a_killed_process_is_gone_when_its_lease_has_run_out(circle):
    (here,) = circle.members(1)
    neighbour = circle.neighbour(2)
    here.wait_for(1, 2)

    neighbour.process.kill()

    here.wait_for(1)
    assert None not in here.said[1:]


def test_a_process_that_was_stopped_for_long_comes_back_under_its_id(circle):
    (here,) = circle.members(1)
    neighbour = circle.neighbour(2)
    here.wait_for(1, 2)

    neighbour.process.send_signal(signal.SIGSTOP)
    here.wait_for(1)
    neighbour.process.send_signal(signal.SIGCONT)

    here.wait_for(1, 2)
    assert stays_true(lambda: here.sees(1, 2), 0.5)
    assert neighbour.leave() == 0


@pytest.mark.slow
def test_a_program_that_ends_without_a_word_ends_soon(circle, coordinator):
    (here,) = circle.members(1)
    program = (
        "from windlass.core.ring.member import connect\n"
        f"connect({coordinator.url!r}, dead_after=2_000_000).join({circle.name!r}, 2)\n"
    )

    ended = subprocess.run(
        [sys.executable, "-c", program], timeout=SECONDS, capture_output=True, check=False
    )

    assert (ended.returncode, ended.stderr) == (0, b"")
    here.wait_for(1)


@pytest.mark.parametrize("data", ["kept", "lost"])
def test_when_the_coordinator_was_away_everyone_is_back_and_nobody_was_missed(
    circle, coordinator, data
):
    watchers = circle.members(1, 2, 3)
    for watcher in watchers:
        watcher.said.clear()

    coordinator.kill()
    for watcher in watchers:
        watcher.wait_until_unknown()
    if data == "lost":
        coordinator.lose_data()
    coordinator.start()

    for watcher in watchers:
        watcher.wait_for(1, 2, 3)
    assert stays_true(lambda: all(watcher.sees(1, 2, 3) for watcher in watchers), 0.3)
    for watcher in watchers:
        assert set(watcher.said) == {None, frozenset({1, 2, 3})}
        assert circle.told("members.away", watcher.worker) >= 1
        assert circle.told("members.back", watcher.worker) >= 1


@pytest.mark.slow
def test_a_coordinator_that_was_stopped_for_longer_than_every_lease_costs_nobody(
    circle, coordinator
):
    watchers = circle.members(1, 2, 3)
    for watcher in watchers:
        watcher.said.clear()

    os.kill(coordinator.pid, signal.SIGSTOP)
    for watcher in watchers:
        watcher.wait_until_unknown()
    threading.Event().wait(3.0)
    os.kill(coordinator.pid, signal.SIGCONT)

    for watcher in watchers:
        watcher.wait_for(1, 2, 3)
        assert set(watcher.said) == {None, frozenset({1, 2, 3})}


@pytest.mark.slow
def test_whoever_dies_during_an_outage_is_missed_after_it(circle, coordinator):
    (here,) = circle.members(1)
    neighbour = circle.neighbour(2)
    here.wait_for(1, 2)

    coordinator.kill()
    here.wait_until_unknown()
    neighbour.process.kill()
    coordinator.start()

    here.wait_for(1)


def test_joining_without_a_coordinator_fails_and_can_be_tried_again(
    circle, coordinator, monkeypatch
):
    monkeypatch.setattr(base, "JOIN_SECONDS", 1.0)
    coordinator.kill()
    late = circle.member(1, joined=False)

    with pytest.raises(MembersUnavailable) as raised:
        late.members.join(circle.name, 1)

    assert raised.value.url == circle.url
    assert late.members.alive() is None
    coordinator.start()
    late.members.join(circle.name, 1)
    late.wait_for(1)


def test_leaving_without_a_coordinator_is_quick_and_silent(circle, coordinator):
    first, second = circle.members(1, 2)

    coordinator.kill()
    first.wait_until_unknown()
    first.members.leave()
    first.members.leave()
    first.members.close()
    coordinator.start()

    second.wait_for(2)


@pytest.mark.parametrize(
    "how",
    [
        "cut",
        pytest.param("stall", marks=pytest.mark.slow),
        pytest.param("refuse", marks=pytest.mark.slow),
    ],
)
def test_a_member_that_is_cut_off_heals_and_concludes_nothing_meanwhile(circle, coordinator, how):
    with Relay(coordinator.port) as relay:
        away = circle.member(1, url=relay.url(coordinator.url))
        here = circle.member(2)
        away.wait_for(1, 2)
        away.said.clear()

        getattr(relay, how)()
        away.wait_until_unknown()
        if how != "cut":
            here.wait_for(2)
        relay.heal()
        if how == "stall":
            relay.cut()

        away.wait_for(1, 2)
        here.wait_for(1, 2)
        assert set(away.said) == {None, frozenset({1, 2})}
        away.members.close()


def test_a_listener_that_fails_disturbs_nobody(circle, caplog):
    first = circle.member(1, joined=False)
    first.members.listen(lambda: 1 / 0)
    heard = threading.Event()
    first.members.listen(heard.set)

    first.members.join(circle.name, 1)
    circle.member(2)

    first.wait_for(1, 2)
    assert heard.is_set()
    assert "a listener to members failed" in caplog.text


@pytest.mark.slow
def test_an_idle_member_costs_next_to_nothing(circle):
    circle.members(1, 2)
    before = time.process_time()

    threading.Event().wait(2.0)

    assert time.process_time() - before < 0.5


def test_connecting_asks_nothing_of_anyone():
    members = connect("etcd://127.0.0.1:1", dead_after=2_000_000)

    assert members.alive() is None
    members.leave()
    members.close()
