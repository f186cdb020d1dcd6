"""Sweeps go on: what waits, hangs or cannot be saved in one place holds nothing else up."""

import asyncio
import threading
import time
from collections import Counter
from contextlib import closing

import pytest
from sqlalchemy import select, update

from tests.core.fetch.manual_worker import Hand
from tests.core.run.working import listening
from tests.rolling.stock import serving
from tests.sweep.manual_worker import SweepHand
from tests.sweep.offer import declare, failing
from tests.wait import eventually
from windlass import App, BadKey, Keys
from windlass.database.schema import range_, sweep_failure
from windlass.sweep.engine import reader, runner
from windlass.sweep.engine import sweeper as engine
from windlass.sweep.store import failed_item
from windlass.sweep.store import range as ranges
from windlass.sweep.store import sweep as sweep_store

# What differs between the databases is proven by the protocol's tests, on all three.
pytestmark = pytest.mark.mostly("sqlite")
everywhere = pytest.mark.everywhere


@pytest.fixture
def seen():
    return []


def test_one_makes_way_also_while_an_item_waits_for_its_next_try(database_url, monkeypatch, seen):
    monkeypatch.setattr(engine, "WAY_SECONDS", (0.1, 0.2))
    app = App(database_url)

    @app.sweep(Keys(1, 10_000), ranges=6, concurrency=8, retries=3, backoff="1h")
    async def offer(number: int) -> None:
        seen.append(number)
        await asyncio.sleep(0.02)
        if number % 100 == 7:
            raise ValueError("not yet")

    with closing(app):
        offer.start()
        last = offer.ranges()[-1]
        suspect = last.begin + 1

        def suspect_waits(connection):
            values = {"careful": 1, "again_to": str(suspect)}
            connection.execute(update(range_).where(range_.c.id == last.id).values(values))

        with serving(app):
            eventually(lambda: 7 in seen and len(seen) > 40, 10.0)
            app.database.write(suspect_waits)
            eventually(lambda: suspect in seen, 15.0, what="the suspect, run alone")
            before = len(seen)
            eventually(lambda: len(seen) > before + 50, 10.0, what="the others, afterwards")

    assert Counter(seen)[7] == 1


class Unsaved(Keys):
    """Numbers, one of which turns out to be no key when it is to be written down."""

    def read(self, after, upto, limit):
        found = super().read(after, upto, limit)
        return [(0.5 if key == 25 else key, row) for key, row in found]


def test_a_range_that_cannot_be_saved_holds_up_no_other_sweep(database_url, monkeypatch, seen):
    monkeypatch.setattr(runner, "read_more", unchecked)
    app = App(database_url)

    @app.sweep(Unsaved(1, 50), ranges=1, concurrency=1)
    def broken(number: int) -> None:
        if number == 25:
            raise ValueError("no")

    @app.sweep(Keys(1, 300), ranges=2, concurrency=2)
    async def offer(number: int) -> None:
        seen.append(number)
        await asyncio.sleep(0.01)

    with closing(app), serving(app) as worker:
        eventually(lambda: broken.progress().error, 10.0, what="what is wrong, told")
        eventually(lambda: offer.progress().percent == 100.0, 20.0, what="the other sweep")
        alerts = [(alert.what, alert.kind) for alert in app.alerts()]
        assert worker.face_loops[0].problem is None

    assert "0.5 cannot be a key" in broken.progress().error
    assert alerts == [("source", "broken")]
    assert offer.progress().error is None


def unchecked(database, source, request):
    """As `read_more` would, if it let a bad key pass."""
    seen = request.range
    reading = reader.Reading(seen.read_to, seen.end)
    if seen.read_to == "50":
        reading.is_exhausted = True
        return reading
    after = 0 if seen.read_to is None else int(seen.read_to)
    upto = 50 if seen.end is None else int(seen.end)
    rows = source.read(after, upto, request.rows_wanted)
    if not rows:
        reading.is_exhausted = True
        return reading
    wanted = str(rows[-1][1])
    if reader.reserve(database, seen, wanted, reading=reading):
        reading.read_to, reading.has_reserved, reading.pages = wanted, True, [rows]
    return reading


def test_a_drain_says_that_a_range_cannot_be_saved(app, monkeypatch):
    monkeypatch.setattr(runner, "read_more", unchecked)

    @app.sweep(Unsaved(1, 50), ranges=1, concurrency=1)
    def broken(number: int) -> None:
        if number == 25:
            raise ValueError("no")

    with pytest.raises(BadKey, match=r"0\.5 cannot be a key"):
        app.drain()


def hand_that_retries(app):
    """A worker that has taken the one item of `offer` that is to be tried again."""
    hand, now = Hand(app), app.clock.now()
    app.database.write(lambda connection: failed_item.ask_retry(connection, "offer", now=now))

    def take(connection):
        return failed_item.claim(connection, "offer", batch=1, worker=hand.id, now=now, limit=9)

    assert len(app.database.write_as(hand.id, take, lost=[])) == 1
    return hand


def is_asked(app):
    now = app.clock.now()
    return app.database.read(
        lambda connection: "offer" in sweep_store.due_retries(connection, ["offer"], now=now)
    )


@everywhere
def test_a_retry_that_kills_its_worker_is_not_made_again_by_itself(app, seen):
    offer = failing(app, seen, {7})
    app.drain()
    hand = hand_that_retries(app)

    app.database.write(lambda connection: ranges.fall(connection, hand.id))

    assert not is_asked(app)
    (failure,) = offer.failures()
    assert (failure.key, failure.tries) == (7, 2)
    assert "its worker died while it was retried" in failure.error
    assert offer.retry_failures() == 1


def test_a_retry_that_was_handed_back_is_made_by_another_worker(app, seen):
    failing(app, seen, {7})
    app.drain()
    hand = hand_that_retries(app)

    app.database.write(lambda connection: ranges.hand_back(connection, hand.id))

    assert is_asked(app)
    tries = app.database.read(lambda connection: connection.scalar(select(sweep_failure.c.tries)))
    assert tries == 1


def test_a_drain_that_finds_a_round_running_begins_no_other(app, seen):
    offer = declare(app, seen, source=Keys(1, 20), ranges=3, redo="0s")
    offer.start()

    app.drain()

    assert sorted(seen) == list(range(1, 21))
    assert offer.progress().round == 1
    app.drain()
    assert offer.progress().round == 2


class Hanging(Keys):
    """Numbers that nobody gets to see, until it is let go."""

    def __init__(self, *given):
        super().__init__(*given)
        object.__setattr__(self, "let_go", threading.Event())

    def edge(self, after, upto, count):
        self.let_go.wait(30)
        return super().edge(after, upto, count)


def test_a_source_that_hangs_holds_up_its_own_sweep_only(database_url, seen):
    app = App(database_url)
    source = Hanging(1, 1_000)

    @app.sweep(source, ranges=8)
    def hanging(number: int) -> None: ...

    offer = declare(app, seen)
    with closing(app), serving(app) as worker:
        eventually(lambda: len(worker.face_loops[0].runners[0].ranges) == 4, 10.0)
        eventually(lambda: offer.progress().percent == 100.0, 10.0, what="the other sweep")
        source.let_go.set()

    assert sorted(seen) == list(range(1, 101))


class Broken(Keys):
    def edge(self, after, upto, count):
        raise OSError("no answer")


def test_the_pause_grows_with_each_try_and_not_with_each_range(database_url, monkeypatch):
    monkeypatch.setattr(reader, "FIRST_PAUSE", 0.4)
    app = App(database_url)
    offer = declare(app, [], source=Broken(1, 100), ranges=8)

    with closing(app), serving(app) as worker:
        (offers,) = worker.face_loops[0].runners
        eventually(lambda: len(offers.ranges) == 4 and offer.progress().error, 10.0)
        eventually(lambda: not offers._readings, 2.0)
        pause = offers.calls._pause

    assert pause <= 1.6


def test_ranges_that_were_begun_are_not_merged_even_if_nothing_was_passed(app):
    offer = declare(app, [], source=Keys(1, 20), ranges=2)
    offer.start()
    hand = SweepHand(app, 20)
    owner = hand.claim()
    hand.reserve(owner, 5)
    now = app.clock.now()
    app.database.write(
        lambda connection: ranges.release(
            connection, owner.save(), sweep="offer", again_to="5", now=now
        )
    )

    assert offer.split(1) == 2


def test_nothing_begins_once_a_stopping_worker_has_dropped_what_is_queued(
    database_url, seen, monkeypatch
):
    """A tick that is running then would add items: they would be cut off, and run again."""
    app = App(database_url)

    @app.sweep(Keys(1, 2_000), ranges=1, concurrency=2)
    async def offer(number: int) -> None:
        seen.append(number)
        await asyncio.sleep(2.0 if number == 25 else 0.005)

    with closing(app):
        worker = app.worker()
        inside, feed, drop = (
            threading.Event(),
            runner.SweepRunner._fill,
            worker.in_flight.drop_queued,
        )
        begun = []

        def feed_late(offers):
            if 25 in seen:
                inside.set()
                time.sleep(0.7)
            feed(offers)

        def drop_queued():
            drop()
            begun.append(len(seen))

        monkeypatch.setattr(runner.SweepRunner, "_fill", feed_late)
        monkeypatch.setattr(worker.in_flight, "drop_queued", drop_queued)
        thread = threading.Thread(target=lambda: asyncio.run(worker.run()), daemon=True)
        thread.start()
        assert inside.wait(10)
        worker.stop()
        thread.join(20)

    assert len(seen) == begun[0]


@pytest.mark.parametrize("error", [asyncio.CancelledError(), SystemExit(1)], ids=repr)
def test_a_source_that_ends_its_thread_is_read_again(database_url, monkeypatch, seen, error):
    monkeypatch.setattr(reader, "FIRST_PAUSE", 0.05)
    problems = [error, error]

    class Nervous(Keys):
        def read(self, after, upto, limit):
            if problems:
                raise problems.pop()
            return super().read(after, upto, limit)

    app = App(database_url)

    @app.sweep(Nervous(1, 20), ranges=2)
    def offer(number):
        seen.append(number)

    with closing(app), serving(app), listening("sweep.failed", "loop.failed") as heard:
        eventually(offer.rounds, 20.0, what="a round that is over")

    assert sorted(seen) == list(range(1, 21))
    assert {event.name for event in heard} == {"sweep.failed"}
    assert type(error).__name__ in heard[0].fields["error"]
