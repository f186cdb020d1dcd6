"""Workers without a master: real processes that join, leave, die and are stopped, by each means."""

import random
import signal
import sys
import time
from collections import Counter

import pytest

from tests.fault.crew import check_accounts, check_fences, ids_of
from tests.fault.ring.circle import stays_true
from tests.fault.ring.share import owned_by, shares
from tests.wait import eventually
from windlass.value.bucket import BUCKETS

CAMPAIGN_SECONDS = 60.0
CAMPAIGN_WORKERS = 8


@pytest.fixture
def crew(means, crew_by):
    """A crew on PostgreSQL whose workers know each other by each means in turn."""
    return crew_by(means)


def test_workers_divide_the_buckets_and_take_over_those_of_the_dead_and_of_the_gone(crew):
    first, second, third = crew.start_many(3, "--concurrency", "10")
    eventually(lambda: owned_by(crew, first, second, third), 20.0, what="three even shares")
    ids = ids_of(crew.jobs.nap.enqueue_many([{"seconds": 0.02}] * 600))
    crew.wait_busy()

    third.kill()
    eventually(lambda: owned_by(crew, first, second), 30.0, what="the share of the dead")
    assert second.terminate() == 0
    eventually(lambda: owned_by(crew, first), 20.0, what="the share of who left")

    crew.wait_done(ids, 60.0)
    check_accounts(crew, ids)
    assert crew.left()[second.workers[0]] == "stopped"
    assert sum(shares(crew).values()) == BUCKETS


@pytest.mark.parametrize("means", ["etcd", "zookeeper"])
def test_while_the_coordinator_is_away_workers_go_on_and_rejoin_when_it_is_back(
    means, request, site_of, crew_over
):
    coordinator = request.getfixturevalue(means)
    crew = crew_over(site_of("postgresql").url, members=coordinator.url)
    first, second = crew.start_many(2, "--concurrency", "10")
    eventually(lambda: owned_by(crew, first, second), 20.0, what="two even shares")

    coordinator.kill()
    try:
        ids = ids_of(crew.jobs.nap.enqueue_many([{"seconds": 0.01}] * 300))
        crew.wait_done(ids, 40.0)
        assert owned_by(crew, first, second)
    finally:
        coordinator.start()
    third = crew.start("--concurrency", "10")
    eventually(lambda: owned_by(crew, first, second, third), 40.0, what="three even shares")
    first.kill()
    eventually(lambda: owned_by(crew, second, third), 40.0, what="the share of the dead")

    check_accounts(crew, ids)
    assert not [process for process in (second, third) if process.events("worker.lost")]


@pytest.mark.slow
def test_workers_notice_nothing_when_an_etcd_of_three_nodes_loses_one_after_the_other(
    cluster, site_of, crew_over
):
    crew = crew_over(site_of("postgresql").url, members=cluster.url)
    first, second, third = crew.start_many(3, "--concurrency", "10")
    eventually(lambda: owned_by(crew, first, second, third), 20.0, what="three even shares")
    ids = []

    for node in cluster.nodes:
        cluster.start()
        node.kill()
        ids += ids_of(crew.jobs.nap.enqueue_many([{"seconds": 0.02}] * 600))
        crew.wait_done(ids, 40.0)
        assert stays_true(lambda: owned_by(crew, first, second, third), 3.0)
    first.kill()
    eventually(lambda: owned_by(crew, second, third), 40.0, what="the share of the dead")
    fourth = crew.start("--concurrency", "10")
    eventually(lambda: owned_by(crew, second, third, fourth), 40.0, what="the share of the new")

    check_accounts(crew, ids)
    lives = [process.workers for process in (first, second, third, fourth)]
    assert [len(workers) for workers in lives] == [1, 1, 1, 1]
    assert [
        event["worker"] for each in (second, third) for event in each.events("worker.marked_dead")
    ] == first.workers
    assert set(crew.effects.count("begin").values()) == {1}


def test_workers_that_would_know_each_other_by_other_means_are_refused(
    etcd, site_of, crew_over, tmp_path
):
    url = site_of("postgresql").url
    crew = crew_over(url)
    crew.start()
    served = (tmp_path / "served.py").read_text()
    (tmp_path / "served.py").write_text(
        served.replace("'grace'", f"'members': {etcd.url!r}, 'grace'")
    )

    stranger = crew.start(joined=False)

    assert stranger.wait(30.0) == 1
    assert "use database for membership, but this one uses etcd" in stranger.log
    assert len(shares(crew)) == 1


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_nothing_is_lost_or_done_twice_in_a_minute_of_comings_and_goings(crew):
    """Joins, kill -9, SIGSTOP and SIGCONT, SIGTERM at random, under load."""
    seed = random.randrange(1 << 32)
    chance = random.Random(seed)
    sys.stdout.write(f"seed {seed}\n")
    options = ("--concurrency", "20", "--grace", "5s")
    workers = crew.start_many(CAMPAIGN_WORKERS, *options)
    stopped: dict[object, float] = {}
    ids: list[int] = []
    events: Counter[str] = Counter()
    end = time.monotonic() + CAMPAIGN_SECONDS
    while time.monotonic() < end or events.total() < 30:
        ids += ids_of(crew.jobs.nap.enqueue_many([{"seconds": chance.choice([0, 0.05, 0.6])}] * 40))
        now = time.monotonic()
        for process in [each for each, until in stopped.items() if until < now]:
            process.resume()
            del stopped[process]
        running = [each for each in workers if each.is_running and each not in stopped]
        what = chance.choice(["kill", "stop", "leave", "join", "nothing"])
        if len(running) < 3:
            what = "join"
        if what == "join":
            workers.append(crew.start(*options, joined=False))
        elif what != "nothing":
            process = chance.choice(running)
            if what == "kill":
                process.kill()
            elif what == "stop":
                process.pause()
                stopped[process] = now + chance.choice([0.5, 1.0, 4.0])
            else:
                process.signal(signal.SIGTERM)
        events[what] += what != "nothing"
        time.sleep(0.5)
    for process in stopped:
        process.resume()
    workers.append(crew.start(*options))

    rows = crew.wait_done(ids, 120.0)

    lost = sum(row.lost for row in rows.values())
    sys.stdout.write(f"{len(ids)} tasks, {dict(events)}, lost {lost}\n")
    ended = crew.effects.count("end")
    assert {number for number in ids if not ended[number]} == set()
    assert {row.id for row in rows.values() if row.attempt > 1 + row.lost} == set()
    check_fences(crew)
