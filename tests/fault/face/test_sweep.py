"""Sweeps whose workers are killed and stopped: no item is skipped, and repeats are counted."""

import random
import threading
import time
from collections import Counter

import pytest

from tests.fault.face.walks import Walkers
from tests.wait import eventually
from windlass import Keys

# What differs between the databases is proven by the protocol's tests, on all three.
pytestmark = pytest.mark.mostly("postgresql")


@pytest.fixture
def walkers_of(database_engine, site_of, tmp_path):
    """Makes worker processes over a new database of each engine."""
    made = []

    def make(**options):
        made.append(Walkers(tmp_path, site_of(database_engine).url, **options))
        return made[-1]

    yield make
    for walkers in made:
        walkers.close()


def busy(walkers, process):
    return lambda: any(pid == process.pid for _, pid in walkers.done())


def test_the_ranges_of_a_killed_worker_go_on_from_their_breakpoints(walkers_of):
    walkers = walkers_of(last=6_000, seconds=0.004, ranges=12)
    victim, successor = walkers.start_many(2)
    eventually(busy(walkers, victim), 15.0, what="a worker that is busy")

    victim.kill()
    in_flight = walkers.in_flight(victim.pid)
    eventually(lambda: successor.events("range.rescued"), 15.0, what="a take-over")
    walkers.wait_over(60.0)

    counted = walkers.check()
    assert sum(count - 1 for count in counted.values()) <= in_flight
    assert walkers.offer.failures() == []
    (round_,) = walkers.offer.rounds()
    assert (round_.done, round_.repeated) == (6_000, walkers.offer.progress().repeated)
    assert round_.repeated <= in_flight
    assert successor.terminate() == 0


def test_runs_over_given_sources_go_on_side_by_side_in_another_worker(walkers_of):
    walkers = walkers_of(last=4_000, seconds=0.004, ranges=4, auto=False)
    runs = [
        walkers.offer.start(source=Keys(1, 2_000), key="monday"),
        walkers.offer.start(source=Keys(2_001, 4_000), key="tuesday"),
    ]
    victim, successor = walkers.start_many(2)
    eventually(busy(walkers, victim), 15.0, what="a worker that is busy")
    halves = {key <= 2_000 for key, _ in walkers.done()}

    victim.kill()
    ended = [run.result(timeout=90) for run in runs]

    counted = Counter(key for key, _ in walkers.done())
    assert sorted(counted) == list(range(1, 4_001))
    assert halves == {True, False}, "both runs began before the first one ended"
    assert [each.done for each in ended] == [2_000, 2_000]
    assert sum(count > 1 for count in counted.values()) <= sum(each.repeated for each in ended)
    assert all(run.audit().ok for run in runs)
    assert successor.events("range.rescued")


def test_a_stopped_owner_is_replaced_and_its_late_saves_change_nothing(walkers_of):
    walkers = walkers_of(last=6_000, seconds=0.004, ranges=6)
    victim, successor = walkers.start_many(2)
    eventually(busy(walkers, victim), 15.0, what="a worker that is busy")

    victim.pause()
    walkers.wait_over(60.0)
    before = walkers.offer.ranges()
    victim.resume()
    eventually(lambda: victim.events("worker.lost"), 15.0, what="a worker that knows it is lost")
    eventually(lambda: victim.has_joined(2), 15.0)

    assert walkers.offer.ranges() == before
    walkers.check()
    assert successor.events("range.rescued")


@pytest.mark.slow
def test_an_item_that_kills_its_workers_is_isolated_and_gone_past(walkers_of):
    walkers = walkers_of(last=3_000, seconds=0.001, ranges=4, deadly=777)
    walkers.start("--processes", "2", joined=False)

    walkers.wait_over(90.0)

    assert [each.key for each in walkers.offer.failures()] == [777]
    assert "poison" in walkers.offer.failures()[0].error
    told = [alert.what for alert in walkers.app.alerts()]
    assert [what for what in told if "worker" not in what] == ["failures", "poison"]
    walkers.check()


@pytest.mark.slow
def test_splits_and_theft_handle_every_key_exactly_once(walkers_of):
    walkers = walkers_of(last=6_000, seconds=0.004, ranges=3)
    walkers.start_many(3)
    eventually(lambda: len(walkers.done()) > 100, 20.0)

    for number in (10, 4, 25, 40, 8):
        walkers.offer.split(number)
        assert walkers.offer.audit().ok
        before = len(walkers.done())
        eventually(lambda before=before: len(walkers.done()) > before + 50, 20.0)
    walkers.wait_over(60.0)

    assert Counter(walkers.check().values()) == {1: 6_000}
    assert walkers.offer.progress().repeated == 0


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_exact_coverage_in_a_long_campaign_of_kills_and_splits(walkers_of):
    """200,000 keys, 3 workers, 20 kills at random moments, 30 random splits."""
    walkers = walkers_of(last=200_000, seconds=0.002, ranges=10, concurrency=50)
    walkers.start_many(3)
    chance, kills, splits = random.Random(6), 20, 30
    over = threading.Event()

    def split_now_and_then():
        for _ in range(splits):
            if over.wait(chance.uniform(0.2, 2.0)):
                return
            walkers.offer.split(chance.randint(3, 60))
            assert walkers.offer.audit().ok

    splitter = threading.Thread(target=split_now_and_then)
    splitter.start()
    killed = in_flight = 0
    while killed < kills and not walkers.offer.rounds():
        time.sleep(chance.uniform(0.1, 2.0))
        alive = [process for process in walkers.processes if process.is_running]
        victim = chance.choice(alive)
        victim.kill()
        in_flight += walkers.in_flight(victim.pid)
        killed += 1
        walkers.start(joined=False)
    over.set()
    splitter.join(30)
    walkers.wait_over(600.0)
    if walkers.offer.failures():
        # Whatever flew alone when its worker was killed once too often was set aside.
        walkers.offer.retry_failures()
        eventually(lambda: not walkers.offer.failures(), 30.0)

    counted = Counter(key for key, _ in walkers.done())
    assert set(counted) == set(range(1, 200_001))
    assert killed == kills
    assert walkers.offer.audit().ok
    progress = walkers.offer.progress()
    repeats = sum(count - 1 for count in counted.values())
    assert repeats <= in_flight + progress.failed


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_without_kills_every_key_exactly_once_with_splits_going_on(walkers_of):
    # No worker is marked dead because a busy machine delays its heartbeat.
    walkers = walkers_of(
        last=200_000, seconds=0.001, ranges=10, concurrency=50, lease="90s", dead_after="60s"
    )
    walkers.start_many(3)
    chance = random.Random(7)

    while not walkers.offer.rounds():
        walkers.offer.split(chance.randint(3, 60))
        time.sleep(chance.uniform(0.2, 1.5))

    assert Counter(walkers.check().values()) == {1: 200_000}
