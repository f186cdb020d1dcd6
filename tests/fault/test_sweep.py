"""Sweeps whose workers are killed and stopped: no item is skipped, and repeats are counted."""

import random
import threading
import time
from collections import Counter
from contextlib import closing

import pytest

from tests.fault.walks import Walkers
from tests.wait import eventually


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


def test_the_ranges_of_a_killed_worker_go_on_within_seconds_from_their_breakpoints(walkers_of):
    walkers = walkers_of(last=20_000, seconds=0.004, ranges=12)
    victim, *heirs = walkers.start_many(3)
    eventually(busy(walkers, victim), 15.0, what="a worker that is busy")
    time.sleep(1.2)

    victim.kill()
    began = time.monotonic()
    eventually(
        lambda: any(heir.events("range.rescued") for heir in heirs), 15.0, what="a take-over"
    )
    taken_after = time.monotonic() - began
    walkers.wait_over(60.0)

    counted = walkers.check()
    assert taken_after < 7.0
    assert max(counted.values()) <= 2
    assert walkers.offer.failures() == []


def test_a_stopped_owner_is_replaced_and_its_late_saves_change_nothing(walkers_of):
    walkers = walkers_of(last=6_000, seconds=0.004, ranges=6)
    victim, heir = walkers.start_many(2)
    eventually(busy(walkers, victim), 15.0, what="a worker that is busy")

    victim.pause()
    walkers.wait_over(60.0)
    before = walkers.offer.ranges()
    victim.resume()
    eventually(lambda: victim.events("worker.lost"), 15.0, what="a worker that knows it is lost")
    eventually(lambda: victim.has_joined(2), 15.0)

    assert walkers.offer.ranges() == before
    walkers.check()
    assert heir.events("range.rescued")


def test_an_item_that_kills_its_workers_is_isolated_and_gone_past(walkers_of):
    walkers = walkers_of(last=3_000, seconds=0.001, ranges=4, deadly=777)
    walkers.start("--processes", "2", joined=False)

    walkers.wait_over(90.0)

    assert [each.key for each in walkers.offer.failures()] == [777]
    assert "poison" in walkers.offer.failures()[0].error
    assert [alert.what for alert in walkers.app.alerts()] == ["poison"]
    walkers.check()


def test_splits_and_theft_handle_every_key_exactly_once(walkers_of):
    walkers = walkers_of(last=10_000, seconds=0.002, ranges=3)
    walkers.start_many(3)
    eventually(lambda: len(walkers.done()) > 100, 20.0)

    for number in (10, 4, 25, 40, 8):
        walkers.offer.split(number)
        assert walkers.offer.audit().ok
        time.sleep(0.1)
    walkers.wait_over(60.0)

    assert Counter(walkers.check().values()) == {1: 10_000}
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
    killed = 0
    while killed < kills and not walkers.offer.rounds():
        time.sleep(chance.uniform(0.1, 2.0))
        alive = [process for process in walkers.processes if process.is_running]
        chance.choice(alive).kill()
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
    assert sum(count > 1 for count in counted.values()) <= progress.repeated + progress.failed


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_without_kills_every_key_exactly_once_with_splits_going_on(walkers_of):
    walkers = walkers_of(last=200_000, seconds=0.001, ranges=10, concurrency=50)
    walkers.start_many(3)
    chance = random.Random(7)

    while not walkers.offer.rounds():
        walkers.offer.split(chance.randint(3, 60))
        time.sleep(chance.uniform(0.2, 1.5))

    assert Counter(walkers.check().values()) == {1: 200_000}


def test_a_take_over_is_counted_in_the_round(walkers_of):
    walkers = walkers_of(last=4_000, seconds=0.005, ranges=2)
    first = walkers.start()
    eventually(lambda: len(walkers.done()) > 500, 15.0)

    first.kill()
    walkers.start()
    walkers.wait_over(60.0)

    walkers.check()
    (round_,) = walkers.offer.rounds()
    assert (round_.done, round_.repeated) == (4_000, walkers.offer.progress().repeated)
    assert round_.repeated > 0


def test_nothing_of_this_is_left_running(tmp_path):
    with closing(Walkers(tmp_path, f"sqlite:///{tmp_path / 'windlass.db'}", last=10)) as walkers:
        process = walkers.start()
        walkers.wait_over(20.0)
        assert process.terminate() == 0
    walkers.check()
