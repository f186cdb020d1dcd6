"""Rates: all workers together start no more than so many a second, and hardly less."""

import asyncio
import threading
import time
from collections import Counter
from contextlib import ExitStack, closing, contextmanager
from functools import wraps

import pytest

from tests.core.fetch.dead import Doomed
from tests.core.limit.pace import check_keeps_up, check_never_above, most_within
from tests.core.run.working import working
from tests.table import count
from tests.wait import eventually
from windlass import App, BadRate
from windlass.core.finish.finish import Finish
from windlass.core.limit import store as limit_store

RATE = 40


class Starts:
    """When each run of a kind began."""

    def __init__(self) -> None:
        self.moments: list[float] = []
        self._lock = threading.Lock()

    def note(self) -> None:
        with self._lock:
            self.moments.append(time.monotonic())

    def __len__(self) -> int:
        return len(self.moments)

    def since(self, moment: float) -> list[float]:
        return [start for start in list(self.moments) if start >= moment]


@pytest.fixture
def starts():
    return Starts()


def declare(app, starts, *, name="paced", rate=f"{RATE}/s"):
    @app.task(name=name, rate=rate)
    async def paced() -> None:
        starts.note()

    return paced


@contextmanager
def crowd_over(url):
    """Starts workers, each with an app of its own, that end with the block."""
    with ExitStack() as stack:

        def start(declare):
            app = App(url)
            stack.callback(app.close)
            kind = declare(app)
            stack.enter_context(working(app))
            return kind

        yield start


@pytest.fixture
def crowd(database_url):
    """Starts workers over a database of each engine."""
    with crowd_over(database_url) as start:
        yield start


@pytest.fixture
def sqlite_crowd(sqlite_url):
    """Starts workers over SQLite, for what is the same in every database."""
    with crowd_over(sqlite_url) as start:
        yield start


@pytest.fixture
def sqlite_app(sqlite_url):
    with closing(App(sqlite_url)) as app:
        yield app


@pytest.fixture
def sqlite_rescue(sqlite_url, clock):
    """An app whose workers die when the clock says so; rates go by a real clock all the same."""
    with closing(App(sqlite_url, clock=clock)) as app:
        yield app


def let_pass(seconds):
    """Measure for a while: what is looked at here is how much happens in that time."""
    time.sleep(seconds)


def test_workers_that_join_one_after_the_other_share_a_rate(crowd, starts):
    paced = crowd(lambda app: declare(app, starts))
    paced.enqueue_many([{}] * (RATE * 12))
    eventually(lambda: len(starts) > 0)
    begin = time.monotonic()

    let_pass(1.0)
    crowd(lambda app: declare(app, starts))
    let_pass(1.0)
    for _ in range(2):
        crowd(lambda app: declare(app, starts))
    let_pass(2.2)

    end = time.monotonic()
    check_never_above(starts.moments, RATE)
    check_keeps_up(starts.moments, RATE, begin=begin, end=end)


@pytest.mark.slow
@pytest.mark.parametrize("rate", [5, 40, 300])
@pytest.mark.parametrize("workers", [1, 2, 4])
def test_any_number_of_workers_keeps_a_rate(crowd, starts, workers, rate):
    kinds = [crowd(lambda app: declare(app, starts, rate=f"{rate}/s")) for _ in range(workers)]
    kinds[0].enqueue_many([{}] * (rate * 10))
    eventually(lambda: len(starts) > rate / 2)
    begin = time.monotonic()
    let_pass(6.0)
    end = time.monotonic()

    check_never_above(starts.moments, rate)
    check_keeps_up(starts.moments, rate, begin=begin, end=end)


def test_a_slow_rate_needs_few_reservations_and_commits(crowd, starts, monkeypatch):
    calls = Counter()
    for owner, name in ((limit_store, "reserve_starts"), (Finish, "_save")):
        monkeypatch.setattr(owner, name, counted(getattr(owner, name), calls))
    paced = crowd(lambda app: declare(app, starts))
    paced.enqueue_many([{}] * RATE * 4)

    eventually(lambda: len(starts) >= RATE * 2, 20.0)

    # One for each quarter of a second, and one for each 100 ms, would be twice as many.
    assert calls["reserve_starts"] <= len(starts) / 12
    assert calls["_save"] <= len(starts) / 6


def counted(function, calls):
    @wraps(function)
    def call(*args, **options):
        calls[function.__name__] += 1
        return function(*args, **options)

    return call


def test_a_rate_below_one_a_second_is_kept_by_several_workers(crowd, starts):
    first = crowd(lambda app: declare(app, starts, rate="50/m"))
    crowd(lambda app: declare(app, starts, rate="50/m"))
    first.enqueue_many([{}] * 10)

    eventually(lambda: len(starts) >= 4, 20.0, what="three more in about four seconds")

    # The first may be late on a busy machine, and the next are then soon after it.
    assert starts.moments[3] - starts.moments[0] > 1.8


def test_two_kinds_with_rates_do_not_disturb_each_other(sqlite_crowd, starts):
    other = Starts()

    def declare_both(app):
        return declare(app, starts), declare(app, other, name="other", rate="10/s")

    paced, slow = sqlite_crowd(declare_both)
    sqlite_crowd(declare_both)
    slow.enqueue_many([{}] * 100)
    paced.enqueue_many([{}] * (RATE * 6))
    eventually(lambda: len(starts) > 0 and len(other) > 0)
    begin = time.monotonic()
    let_pass(2.5)
    end = time.monotonic()

    for each, rate in ((starts, RATE), (other, 10)):
        check_never_above(each.moments, rate)
        check_keeps_up(each.moments, rate, begin=begin, end=end)


def test_a_kind_without_a_rate_is_not_slowed_down_by_one_that_has_one(sqlite_crowd, starts):
    free = Starts()

    def declare_both(app):
        return declare(app, starts, rate="1/s"), declare(app, free, name="free", rate=None)

    paced, unpaced = sqlite_crowd(declare_both)
    paced.enqueue_many([{}] * 20)
    unpaced.enqueue_many([{}] * 500)

    eventually(lambda: len(free) == 500, 5.0, what="all of the free kind")
    assert len(starts) <= 7


def test_a_rate_that_is_changed_while_it_runs_holds_within_a_second(sqlite_app, starts):
    app = sqlite_app
    paced = declare(app, starts, rate="5/s")
    paced.enqueue_many([{}] * 700)
    with working(app):
        eventually(lambda: len(starts) >= 3)
        app.set("paced", rate="100/s")
        eventually(lambda: len(starts) >= 100, 5.0, what="the faster rate")
        check_never_above(starts.moments, 100)

        app.set("paced", rate="5/s")
        let_pass(1.0)
        slow_since = time.monotonic()
        let_pass(2.2)
        check_never_above(starts.since(slow_since), 5)
        assert len(starts.since(slow_since)) >= 5


def test_a_very_slow_rate_is_over_at_once_when_a_faster_one_is_set(app, starts):
    paced = declare(app, starts, rate="1/h")
    paced.enqueue_many([{}] * 20)
    with working(app):
        eventually(lambda: len(starts) == 1)
        app.set("paced", rate="50/s")

        eventually(lambda: len(starts) == 20, 15.0, what="the faster rate")
    check_never_above(starts.moments, 50)


def test_a_rate_gives_no_credit_for_a_pause(sqlite_app, starts):
    app = sqlite_app
    paced = declare(app, starts, rate="10/s")
    with working(app):
        paced.enqueue()
        eventually(lambda: len(starts) == 1)
        let_pass(1.2)
        paced.enqueue_many([{}] * 60)
        let_pass(1.0)

        check_never_above(starts.moments, 10)
        assert most_within(starts.moments, 0.5) <= 0.5 * 10 * 1.15 + 2


def test_rescued_tasks_keep_the_rate(sqlite_rescue, starts):
    app = sqlite_rescue
    paced = declare(app, starts, rate="20/s")
    paced.enqueue_many([{}] * 90)
    doomed = Doomed(app)
    assert len(doomed.take(60)) == 60
    assert doomed.die() == 60

    with working(app):
        eventually(lambda: len(starts) > 0)
        let_pass(2.5)

    check_never_above(starts.moments, 20)
    assert len(starts) >= 20


def test_rescued_tasks_all_run_in_the_end(app, starts):
    paced = declare(app, starts, rate="100/s")
    paced.enqueue_many([{}] * 60)
    doomed = Doomed(app)
    doomed.take(40)
    doomed.die()

    app.drain()

    assert len(starts) == 60
    assert count(app) == 0


def test_a_worker_that_has_no_room_wastes_no_other_workers_share(sqlite_crowd, starts):
    release = threading.Event()

    def declare_stuck(app):
        @app.task(name="paced", rate=f"{RATE}/s", concurrency=1)
        def paced() -> None:
            release.wait(20)

        return paced

    with open_at_end(release):
        stuck = sqlite_crowd(declare_stuck)
        stuck.enqueue_many([{}] * (RATE * 8))
        sqlite_crowd(lambda app: declare(app, starts))
        eventually(lambda: len(starts) > 0)
        begin = time.monotonic()
        let_pass(2.0)

        # With half of the moments in the hands of the stuck one it would be half.
        end = time.monotonic()
        check_keeps_up(starts.moments, RATE, begin=begin, end=end, least=0.6)


@pytest.mark.mostly("sqlite")
def test_a_kind_whose_downstream_is_full_starts_as_many_as_that_allows(crowd, starts):
    def declare_limited(app):
        inventory = app.downstream("inventory", concurrency=2)

        @app.task(name="paced", rate="50/s", downstream=inventory)
        async def paced() -> None:
            starts.note()
            await asyncio.sleep(0.1)

        return paced

    paced = crowd(declare_limited)
    paced.enqueue_many([{}] * (300))
    eventually(lambda: len(starts) > 10)
    begin = time.monotonic()
    let_pass(2.5)

    check_never_above(starts.moments, 50)
    # Two at once, each for 100 ms.
    check_keeps_up(starts.moments, 20, begin=begin, end=time.monotonic())


@contextmanager
def open_at_end(event):
    try:
        yield
    finally:
        event.set()


def test_a_paused_kind_starts_with_its_rate_and_no_burst_when_it_is_resumed(sqlite_app, starts):
    app = sqlite_app
    paced = declare(app, starts, rate="20/s")
    app.pause("paced")
    paced.enqueue_many([{}] * 80)
    with working(app):
        app.resume("paced")
        eventually(lambda: len(starts) >= 20, 4.0)

    check_never_above(starts.moments, 20)
    assert most_within(starts.moments, 0.5) <= 0.5 * 20 * 1.15 + 2


@pytest.mark.parametrize("rate", ["fast", "0/s", "-1/s", "", 700])
def test_a_declared_rate_that_cannot_be_read_is_refused(app, starts, rate):
    with pytest.raises(BadRate, match="kind 'paced': rate: "):
        declare(app, starts, rate=rate)
