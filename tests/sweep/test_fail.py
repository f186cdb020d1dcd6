"""Sweeps in trouble: items that fail, breakers, windows, switches, time-outs and dead workers."""

import asyncio
import threading
import time
from collections import Counter
from contextlib import closing

import pytest
from sqlalchemy import update
from sqlalchemy.exc import OperationalError

from tests.core.ring.silent import mark_dead
from tests.rolling.stock import serving
from tests.sweep.manual_worker import SweepHand
from tests.sweep.offer import Articles, declare, failing
from tests.wait import eventually, let_tick
from windlass import App, Cancel, Keys, Retry, Snooze, Status, Table, context
from windlass.app import FACES
from windlass.clock import SECOND
from windlass.database.schema import worker as worker_table
from windlass.sweep.engine import sweeper as sweep_engine
from windlass.sweep.store import failed_item

# What differs between the databases is proven by the protocol's tests, on all three.
pytestmark = pytest.mark.mostly("sqlite")
everywhere = pytest.mark.everywhere


@pytest.fixture
def seen():
    return []


@everywhere
def test_an_item_that_fails_is_listed_and_the_scan_goes_on(app, seen):
    offer = failing(app, seen, {7, 33})

    app.drain()

    assert sorted(seen) == list(range(1, 41))
    aside = sorted(offer.failures(), key=lambda each: each.key)
    assert [(each.key, each.error) for each in aside] == [
        (7, "ValueError: no offer for 7"),
        (33, "ValueError: no offer for 33"),
    ]
    progress = offer.progress()
    assert (progress.done, progress.failed, progress.is_running) == (38, 2, False)


@everywhere
def test_failed_items_run_again_when_that_is_asked_for(app, seen):
    bad = {7, 33}
    offer = failing(app, seen, bad)
    app.drain()
    bad.remove(7)
    seen.clear()

    assert offer.retry_failures() == 2

    assert sorted(seen) == [7, 33]
    assert [(each.key, each.tries) for each in offer.failures()] == [(33, 2)]
    bad.clear()
    assert offer.retry_failures() == 1
    assert offer.failures() == []
    assert offer.retry_failures() == 0


def test_a_live_worker_retries_failed_items(database_url):
    app = App(database_url)
    seen, bad = [], {7}
    offer = failing(app, seen, bad)

    with closing(app), serving(app):
        eventually(offer.failures, 10.0)
        eventually(offer.rounds, 10.0)
        bad.clear()
        assert offer.retry_failures() == 1
        eventually(lambda: not offer.failures(), 10.0, what="a retry by the worker")

    assert Counter(seen)[7] == 2


def test_a_retry_of_a_row_that_is_gone_forgets_it(app, database_url, seen):
    with closing(Articles(database_url, 5)) as articles:

        @app.sweep(Table(articles.engine.url, "article", key="id"), ranges=1)
        def offer(row):
            seen.append(row["id"])
            raise ValueError("always")

        app.drain()
        articles.execute("delete from article where id = 3")
        assert offer.retry_failures() == 5

    assert sorted(each.key for each in offer.failures()) == [1, 2, 4, 5]
    assert Counter(seen) == {1: 2, 2: 2, 3: 1, 4: 2, 5: 2}


def test_an_item_has_its_own_retries_before_it_is_listed_as_failed(app, clock):
    attempts = []

    @app.sweep(Keys(1, 5), ranges=1, retries=2, backoff="0s")
    def offer(number: int) -> None:
        attempts.append((number, context().attempt))
        if number == 3:
            raise ValueError("no")

    app.drain()

    assert [attempt for number, attempt in attempts if number == 3] == [1, 2, 3]
    assert [(each.key, each.tries) for each in offer.failures()] == [(3, 3)]
    assert len(attempts) == 7


def test_the_breakpoint_does_not_pass_an_item_that_waits_for_its_retry(app, clock):
    has_failed = []

    @app.sweep(Keys(1, 20), ranges=1, retries=1, backoff="5m", concurrency=2)
    def offer(number: int) -> None:
        if number == 3 and not has_failed:
            has_failed.append(number)
            raise ValueError("not yet")

    with serving(app) as worker:
        eventually(lambda: offer.ranges() and offer.ranges()[0].breakpoint == 2, 10.0)
        let_tick(worker.face_loops[0])
        (before,) = offer.ranges()
        clock.forward("10m")
        eventually(lambda: offer.progress().done == 20, 10.0)

    assert (before.breakpoint, before.done) == (2, 2)


def test_a_drain_does_not_wait_for_a_later_try_and_another_one_makes_it(app, clock, seen):
    bad = {3}

    @app.sweep(Keys(1, 20), ranges=2, retries=3, backoff="5m")
    def offer(number: int) -> None:
        seen.append(number)
        if number in bad:
            raise ValueError("not yet")

    app.drain()
    assert [(each.key, each.tries) for each in offer.failures()] == [(3, 1)]
    assert offer.progress().percent == 100.0
    app.drain()
    assert len(seen) == 20
    bad.clear()
    clock.forward("10m")
    app.drain()

    assert Counter(seen) == {**dict.fromkeys(range(1, 21), 1), 3: 2}
    assert offer.failures() == []


def test_a_worker_that_stops_while_an_item_waits_for_its_retry_repeats_nothing(database_url):
    app = App(database_url)
    seen = []

    @app.sweep(Keys(1, 500), ranges=1, retries=3, backoff="1h", concurrency=2)
    async def offer(number: int) -> None:
        seen.append(number)
        await asyncio.sleep(0.002)
        if number == 3 and seen.count(3) == 1:
            raise ValueError("not yet")

    with closing(app):
        worker = app.worker()
        thread = threading.Thread(target=lambda: asyncio.run(worker.run()), daemon=True)
        thread.start()
        eventually(lambda: len(seen) > 40, 10.0)
        worker.stop()
        thread.join(20)
        app.drain()
        assert [each.key for each in offer.failures()] == [3]
        offer.retry_failures()

    assert Counter(seen) == {**dict.fromkeys(range(1, 501), 1), 3: 2}
    assert offer.progress().repeated == 0


@pytest.mark.parametrize(
    ("signal", "aside"), [(Cancel("no use"), 0), (Retry("again", after="0s"), 1)]
)
def test_what_a_handler_says_of_its_item_is_heard(app, signal, aside):
    @app.sweep(Keys(1, 3), ranges=1, retries=0)
    def offer(number: int) -> None:
        if number == 2:
            raise signal

    app.drain()

    assert len(offer.failures()) == aside
    assert offer.progress().percent == 100.0


def test_an_item_that_is_put_off_comes_later_and_costs_no_attempt(app):
    attempts = []

    @app.sweep(Keys(1, 3), ranges=1)
    def offer(number: int) -> None:
        attempts.append((number, context().attempt))
        if number == 2 and len(attempts) < 4:
            raise Snooze("0s")

    app.drain()

    assert Counter(number for number, _ in attempts)[2] >= 2
    assert {attempt for _, attempt in attempts} == {1}
    assert offer.failures() == []


def test_all_rows_of_a_list_that_fails_are_listed_as_failed(app):
    @app.sweep(Keys(1, 20), ranges=1, many=True, batch=5)
    def offer(numbers: list[int]) -> None:
        if 7 in numbers:
            raise ValueError("one of them")

    app.drain()

    assert sorted(each.key for each in offer.failures()) == [6, 7, 8, 9, 10]
    assert (offer.progress().done, offer.progress().failed) == (15, 5)


def test_a_handler_that_never_returns_is_timed_out_and_listed_as_failed(app):
    @app.sweep(Keys(1, 10), ranges=2, timeout="200ms")
    async def offer(number: int) -> None:
        if number == 4:
            await asyncio.Event().wait()

    app.drain()

    (aside,) = offer.failures()
    assert aside.key == 4
    assert "TimeoutError" in aside.error


def test_a_thread_that_never_returns_is_timed_out_and_listed_as_failed(app):
    release = threading.Event()

    @app.sweep(Keys(1, 10), ranges=2, timeout="200ms", concurrency=2)
    def offer(number: int) -> None:
        if number == 4:
            release.wait(20)

    app.drain()
    release.set()

    assert [each.key for each in offer.failures()] == [4]


@everywhere
def test_too_many_errors_in_a_row_open_the_breaker_and_a_probe_closes_it(app, clock, seen):
    bad = set(range(1, 41))
    offer = failing(app, seen, bad, breaker="5 in a row, 5m", concurrency=1)

    app.drain()

    assert 5 <= len(seen) <= 8
    assert "breaker open" in offer.progress().why
    assert [alert.what for alert in app.alerts()] == ["breaker opened"]
    before = len(seen)
    app.drain()
    assert len(seen) == before
    bad.clear()
    clock.forward("6m")
    app.drain()

    assert set(seen) == set(range(1, 41))
    assert offer.progress().percent == 100.0
    told = {alert.what for alert in app.alerts()}
    assert told == {"breaker opened", "breaker closed", "failures"}


def test_progress_resets_the_errors_in_a_row(app, seen):
    offer = failing(app, seen, set(range(2, 41, 2)), breaker="3 in a row, 5m", concurrency=1)

    app.drain()

    assert len(offer.failures()) == 20
    assert "breaker opened" not in [alert.what for alert in app.alerts()]


def test_a_closed_window_keeps_a_sweep_from_beginning(app, clock, seen):
    offer = declare(app, seen, window="01:00-07:00")

    app.drain()
    assert seen == []
    assert "window closed" in offer.progress().why
    clock.forward("2h")
    app.drain()

    assert sorted(seen) == list(range(1, 101))


@everywhere
def test_a_window_that_closes_stops_a_range_in_the_middle_and_it_resumes_there(app, clock):
    seen, gate = [], threading.Semaphore(0)

    @app.sweep(Keys(1, 50), ranges=1, concurrency=1, window="00:00-07:00", batch=5)
    def offer(number: int) -> None:
        seen.append(number)
        if number == 10:
            clock.forward("8h")
            gate.acquire(timeout=10)

    with serving(app) as worker:
        eventually(lambda: len(seen) == 10, 10.0)
        eventually(lambda: not worker.in_flight.loads["offer"].is_open, 10.0)
        gate.release()
        eventually(lambda: not worker.in_flight.running, 10.0)
        let_tick(worker.face_loops[0])
        assert len(seen) <= 11
        clock.forward("17h")
        eventually(lambda: len(seen) == 50, 10.0)

    assert seen == list(range(1, 51))
    assert offer.failures() == []


def test_a_pause_stops_within_a_second_and_resume_goes_on_from_there(database_url):
    app = App(database_url)
    seen = []

    @app.sweep(Keys(1, 2_000), ranges=2, concurrency=4)
    async def offer(number: int) -> None:
        seen.append(number)
        await asyncio.sleep(0.002)

    with closing(app), serving(app) as worker:
        eventually(lambda: len(seen) > 20, 10.0)
        offer.pause("sale", who="ada")
        load = worker.in_flight.loads["offer"]
        eventually(lambda: not (load.is_open or worker.in_flight.running), 1.0)
        paused = len(seen)
        let_tick(worker.face_loops[0])
        assert len(seen) == paused < 2_000
        assert offer.progress().why.startswith("paused by ada")
        # What is reserved already is not cut.
        assert 2 <= offer.split(6) <= 6
        offer.resume()
        eventually(offer.rounds, 20.0)

    assert Counter(seen) == dict.fromkeys(range(1, 2_001), 1)
    assert offer.audit().ok


def test_a_rate_is_kept(database_url):
    app = App(database_url)
    began = []

    @app.sweep(Keys(1, 60), ranges=3, rate="50/s")
    def offer(_number: int) -> None:
        began.append(time.monotonic())

    with closing(app):
        app.drain()

    assert len(began) == 60
    assert began[-1] - began[0] > 0.95


def kill(app, worker):
    """Have a worker be marked dead, as if it had been silent."""
    number = worker.heartbeat.id
    worker.heartbeat.stop()
    worker.heartbeat.join(10)
    app.database.write(
        lambda connection: connection.execute(
            update(worker_table).where(worker_table.c.id == number).values(lease_until=0)
        )
    )
    now = app.clock.now()
    assert mark_dead(app.database, FACES, number=number, now=now, why="silent") is not None


def test_a_successor_goes_on_from_the_breakpoint_and_counts_what_it_repeats(database_url):
    app, successor = App(database_url), App(database_url)
    seen, again = [], []
    # One at a time, so that items are noted in their order.
    declare(successor, again, source=Keys(1, 200), ranges=1, concurrency=1)
    release = threading.Event()

    @app.sweep(Keys(1, 200), ranges=1, concurrency=5)
    def offer(number: int) -> None:
        seen.append(number)
        if number == 50:
            release.wait(20)

    with closing(app), closing(successor), serving(app) as worker:
        eventually(lambda: offer.ranges() and offer.ranges()[0].breakpoint == 49, 15.0)
        kill(app, worker)
        successor.drain()
        release.set()
        progress = offer.progress()

    assert again == list(range(50, 201))
    assert sorted(set(seen) | set(again)) == list(range(1, 201))
    assert progress.repeated >= len(seen) + len(again) - 200
    assert (progress.done, progress.percent) == (200, 100.0)


@everywhere
def test_an_item_that_kills_its_workers_is_isolated_and_gone_past(app, clock):
    """Three lives end in the same place; the fourth goes past what was in flight."""
    offer = declare(app, [], source=Keys(1, 20), ranges=1)
    offer.start()
    for count in (5, 5, 1):
        hand = SweepHand(app, 20)
        owner = hand.claim()
        hand.reserve(owner, count)
        hand.die()

    app.drain()

    (aside,) = offer.failures()
    assert (aside.key, aside.error.split(":")[0]) == (1, "poison")
    progress = offer.progress()
    assert (progress.done, progress.failed, progress.percent) == (19, 1, 100.0)
    assert [alert.what for alert in app.alerts()] == ["failures", "poison"]


def abandoned(app, count, *, times=1):
    """Have workers claim the first range, read so many items, and die."""
    for _ in range(times):
        hand = SweepHand(app, 0)
        hand.last = 10_000
        hand.reserve(hand.claim(), count)
        app.database.write(
            lambda connection, hand=hand: connection.execute(
                update(worker_table).where(worker_table.c.id == hand.id).values(lease_until=0)
            )
        )
        hand.be_marked_dead()


def slow(app, seen, **options):
    @app.sweep(Keys(1, 10_000), **{"ranges": 8, "concurrency": 8, **options})
    async def offer(number: int) -> None:
        seen.append(number)
        await asyncio.sleep(0.05)

    return offer


def test_one_who_has_enough_ranges_still_takes_those_of_the_dead(database_url):
    app = App(database_url)
    seen = []
    offer = slow(app, seen)

    with closing(app):
        offer.start()
        with serving(app):
            eventually(lambda: sum(each.owner is not None for each in offer.ranges()) == 4, 10.0)
            abandoned(app, 5)
            before = {each.id for each in offer.ranges() if each.status is Status.RUNNING}
            eventually(lambda: sum(each.owner is not None for each in offer.ranges()) == 5, 10.0)

    assert len(before) == 5


def test_one_who_has_others_makes_way_for_a_range_that_must_run_alone(database_url, monkeypatch):
    monkeypatch.setattr(sweep_engine, "WAY_SECONDS", (0.1, 0.2))
    app = App(database_url)
    seen = []
    offer = slow(app, seen)

    with closing(app):
        offer.start()
        abandoned(app, 5, times=2)
        with serving(app):
            eventually(lambda: {1, 2, 3, 4, 5} <= set(seen), 15.0, what="the suspects, run alone")
            eventually(lambda: len(seen) > 100, 10.0, what="the others, afterwards")

    assert Counter(seen)[1] == 1
    assert offer.failures() == []


def test_items_near_a_crash_run_one_by_one_until_all_of_them_are_passed(app, clock):
    running, most = set(), []

    @app.sweep(Keys(1, 20), ranges=1, concurrency=5)
    async def offer(number: int) -> None:
        running.add(number)
        most.append((number, len(running)))
        await asyncio.sleep(0.002)
        running.discard(number)

    offer.start()
    for _ in range(2):
        hand = SweepHand(app, 20)
        hand.reserve(hand.claim(), 8)
        hand.die()
    app.drain()

    at_once = dict(most)
    assert [at_once[number] for number in range(1, 9)] == [1] * 8
    assert max(at_once[number] for number in range(9, 21)) > 1
    assert offer.progress().repeated == 8
    assert offer.failures() == []


class Fading(Keys):
    """Numbers of which one is gone by the time that it is read."""

    def read(self, after, upto, limit):
        return [row for row in super().read(after, upto, limit) if row[0] != 3]


def test_a_row_that_is_gone_before_it_is_read_holds_nothing_up(app, seen):
    """Also where items run one by one: what flies must have been saved before the next one does."""
    offer = declare(app, seen, source=Fading(1, 20), ranges=1)
    offer.start()
    for _ in range(2):
        hand = SweepHand(app, 20)
        hand.reserve(hand.claim(), 5)
        hand.die()

    app.drain()

    assert sorted(seen) == [number for number in range(1, 21) if number != 3]
    assert offer.progress().percent == 100.0


def test_a_sweep_says_that_it_waits_for_a_worker(app, seen):
    offer = declare(app, seen)
    assert offer.progress().why == "no worker has found it yet"

    offer.start()

    assert offer.progress().why == "waiting for a worker"
    assert [each.status for each in offer.ranges()] == [Status.WAITING] * 4
    assert SECOND == 1_000_000


def test_a_retry_whose_end_could_not_be_written_is_written_later(app, seen, monkeypatch):
    """The database is away for the moment in which the outcomes of retries are written."""
    bad = {3}
    offer = failing(app, seen, bad)
    app.drain()
    bad.clear()
    settle, times = failed_item.settle, []

    def settle_late(connection, **values):
        times.append(1)
        if len(times) == 1:
            raise OperationalError("update", {}, Exception("the connection is gone"))
        return settle(connection, **values)

    monkeypatch.setattr(failed_item, "settle", settle_late)
    offer.retry_failures()

    assert len(times) == 2
    assert (offer.failures(), seen.count(3)) == ([], 2)
