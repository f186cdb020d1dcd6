"""Circuit breakers: too many errors in a row stop a kind, for all workers, until it is mended."""

import threading
import time
from contextlib import closing

import pytest

from tests.core.limit.service import (
    Service,
    alerts,
    begin,
    declare,
    end_next,
    fail,
    state,
    waiting,
)
from tests.core.run.working import listening, switch_of, working
from tests.table import count, task, tasks
from tests.wait import eventually
from windlass import App, BadBreaker, Cancel, Retry, Snooze, Status
from windlass.clock import SECOND
from windlass.value.breaker import BreakerState
from windlass.value.outcome import Failed, Succeeded

pytestmark = pytest.mark.mostly("sqlite", "postgresql")

MINUTE = 60 * SECOND


@pytest.fixture
def service():
    return Service()


@pytest.fixture
def work(app, service):
    return declare(app, service)


@pytest.fixture
def other(app):
    """A kind that has no breaker; `seen` is what it has run."""
    seen = []

    @app.task
    def other() -> None:
        seen.append(1)

    other.seen = seen
    return other


# Opening


def test_it_opens_after_that_many_errors_in_a_row_and_not_before(app, work):
    fail(app, work, 2)
    assert state(app) is BreakerState.CLOSED

    fail(app, work, 1)

    row = switch_of(app, "work")
    assert state(app) is BreakerState.OPEN
    assert (row["errors_in_a_row"], row["pause"]) == (3, MINUTE)
    assert row["probe_at"] == row["opened_at"] + MINUTE


def test_errors_that_end_together_count_in_a_row_too(app, work, service):
    work.enqueue_many([{}] * 3)
    app.drain()

    assert service.calls == 3
    assert state(app) is BreakerState.OPEN


def test_a_success_in_between_begins_the_count_anew(app, work, service):
    fail(app, work, 2)
    service.is_down = False
    fail(app, work, 1)
    service.is_down = True

    fail(app, work, 2)
    assert state(app) is BreakerState.CLOSED

    fail(app, work, 1)
    assert state(app) is BreakerState.OPEN


def test_errors_that_are_retried_count(app, service):
    work = declare(app, service, retries=10, backoff="1ms")
    work.enqueue()

    for _ in range(6):
        app.drain()
        app.clock.forward("1s")

    assert service.calls == 3
    assert state(app) is BreakerState.OPEN
    (row,) = tasks(app)
    assert (row["status"], row["attempt"]) == (Status.WAITING, 3)


def test_a_retry_that_the_handler_asks_for_counts(app):
    calls = []

    @app.task(breaker="3 in a row, 1m", retries=10)
    def work() -> None:
        calls.append(1)
        raise Retry(after="0s")

    work.enqueue()
    app.drain()

    assert len(calls) == 3
    assert state(app) is BreakerState.OPEN


@pytest.mark.parametrize("signal", [Snooze("1h"), Cancel("no need")], ids=["snooze", "cancel"])
def test_what_is_not_an_error_does_not_open_it(app, signal):
    @app.task(breaker="3 in a row, 1m")
    def work() -> None:
        raise signal

    work.enqueue_many([{}] * 5)
    app.drain()

    assert state(app) is BreakerState.CLOSED


def test_visits_of_a_rolling_kind_count(app, service, clock):
    @app.rolling(every="1d", breaker="3 in a row, 1m", name="work")
    def work(code: str) -> None:
        service.call()

    work.add(["a", "b", "c"], now=True)
    app.drain()
    assert state(app) is BreakerState.OPEN
    work.add(["d"], now=True)
    app.drain()
    assert service.calls == 3

    service.is_down = False
    clock.forward("1m")
    app.drain()
    assert (service.calls, state(app)) == (4, BreakerState.CLOSED)


def test_turns_of_a_cron_count(app, service, clock):
    @app.cron("* * * * *", breaker="2 in a row, 10m", name="work")
    def work() -> None:
        service.call()

    app.drain()
    for _ in range(5):
        clock.forward("1m")
        app.drain()
    assert (service.calls, state(app)) == (2, BreakerState.OPEN)

    service.is_down = False
    clock.forward("10m")
    app.drain()
    assert (service.calls, state(app)) == (3, BreakerState.CLOSED)


# While it is open


def test_an_open_breaker_stops_claims_and_leaves_the_rows_alone(app, work, service, clock):
    fail(app, work)
    refs = work.enqueue_many([{}] * 5)
    before = [task(app, ref) for ref in refs]

    clock.forward("59s")
    app.drain()

    assert service.calls == 3
    assert [task(app, ref) for ref in refs] == before


def test_other_kinds_go_on(app, work, other):
    fail(app, work)
    work.enqueue()

    other.enqueue_many([{}] * 5)
    app.drain()

    assert len(other.seen) == 5


def test_each_kind_has_a_breaker_of_its_own(app, work, service):
    calls = []

    @app.task(breaker="3 in a row, 1m")
    def steady() -> None:
        calls.append(1)

    fail(app, work)
    steady.enqueue_many([{}] * 4)
    app.drain()

    assert len(calls) == 4
    assert (state(app), state(app, "steady")) == (BreakerState.OPEN, BreakerState.CLOSED)


@pytest.mark.timeout(30)
def test_drain_ends_while_it_is_open(app, work):
    fail(app, work)
    work.enqueue_many([{}] * 20)

    began = time.monotonic()
    app.drain()

    assert time.monotonic() - began < 10
    assert waiting(app) == 20


def test_drain_runs_what_becomes_due_of_other_kinds_while_it_is_open(app, work):
    attempts = []

    @app.task(retries=5)
    def again() -> None:
        attempts.append(1)
        if len(attempts) < 4:
            raise Retry(after="0s")

    fail(app, work)
    work.enqueue()
    again.enqueue()
    app.drain()

    assert len(attempts) == 4
    assert waiting(app) == 1


def test_a_kind_that_no_longer_declares_a_breaker_is_not_held_back(app, work, database_url, clock):
    fail(app, work)
    mended = Service()
    mended.is_down = False

    with closing(App(database_url, clock=clock)) as newer:
        declare(newer, mended, breaker=None).enqueue()
        newer.drain()

    assert mended.calls == 1


def test_the_worker_that_opens_it_gives_back_what_it_has_not_begun(app):
    @app.task(breaker="3 in a row, 1m")
    async def step() -> None: ...

    step.enqueue_many([{}] * 10)
    due = [row["due_at"] for row in tasks(app)]
    worker = begin(app)
    worker.fetcher.tick()
    for _ in range(3):
        end_next(worker, Failed("no", "no"))
    worker.finish.flush()
    assert state(app, "step") is BreakerState.OPEN

    worker.switchboard.obey()

    rows = tasks(app, status=Status.WAITING)
    assert [(row["attempt"], row["due_at"]) for row in rows] == [(0, at) for at in due[3:]]
    assert worker.in_flight.is_empty


def test_outcomes_of_runs_that_began_before_it_opened_change_nothing(app):
    @app.task(breaker="3 in a row, 1m")
    async def step() -> None: ...

    step.enqueue_many([{}] * 6)
    worker = begin(app)
    worker.fetcher.tick()
    runs = [worker.in_flight.advance(None, None, is_async=True) for _ in range(6)]
    for run in runs[:3]:
        worker.in_flight.end(run, Failed("no", "no"))
    worker.finish.flush()
    opened = switch_of(app, "step")

    for run, outcome in zip(runs[3:], [Failed("no", "no"), Succeeded(), Succeeded()], strict=True):
        worker.in_flight.end(run, outcome)
        worker.finish.flush()

    assert switch_of(app, "step") == opened
    assert alerts(app) == [("breaker opened", "step")]


# Alerts and events


def test_alerts_tell_that_it_opened_and_closed(app, work, service, clock):
    before = clock.now()
    fail(app, work)
    assert alerts(app) == [("breaker opened", "work")]
    (opened,) = app.alerts()
    assert opened.text == ("breaker of 'work' opened after 3 errors in a row; next probe in 1m")
    assert before < opened.raised_at < clock.now()

    clock.forward("1m")
    work.enqueue()
    app.drain()
    assert alerts(app) == [("breaker opened", "work")]

    service.is_down = False
    clock.forward("2m")
    work.enqueue()
    app.drain()
    assert alerts(app) == [("breaker opened", "work"), ("breaker closed", "work")]
    assert app.alerts()[0].text == "breaker of 'work' closed: a probe succeeded"


def test_events_tell_the_same(app, work, service, clock):
    names = ("breaker.opened", "breaker.probing", "breaker.closed")
    with listening(*names) as heard:
        fail(app, work)
        service.is_down = False
        clock.forward("1m")
        work.enqueue()
        app.drain()

    assert [(event.name, event.fields["kind"]) for event in heard] == [
        (name, "work") for name in names
    ]


# Several workers


def test_its_state_survives_a_new_app(app, work, service, database_url, clock):
    fail(app, work, 2)
    with closing(App(database_url, clock=clock)) as second:
        again = declare(second, service)
        fail(second, again, 1)
    assert state(app) is BreakerState.OPEN

    with closing(App(database_url, clock=clock)) as third:
        declare(third, service).enqueue_many([{}] * 5)
        third.drain()
        assert service.calls == 3

        clock.forward("1m")
        third.drain()
        assert service.calls == 4


def test_running_workers_share_it_and_one_of_them_probes(database_url, clock):
    lock, release, calls = threading.Lock(), threading.Event(), []
    apps = [App(database_url, clock=clock, lease="1d", dead_after="1d") for _ in range(2)]

    def declare_on(app):
        @app.task(breaker="3 in a row, 1m")
        def work() -> None:
            with lock:
                calls.append(1)
            if len(calls) <= 3:
                raise ConnectionError
            release.wait(20)

        return work

    work, _ = [declare_on(app) for app in apps]
    with working(apps[0]) as first, working(apps[1]) as second:
        work.enqueue_many([{}] * 3)
        both = (first.gate.breakers, second.gate.breakers)
        eventually(lambda: all(each.is_open("work") for each in both), 3.0, what="both knowing")
        work.enqueue_many([{}] * 20)
        clock.forward("1m")
        eventually(lambda: len(calls) == 4, what="the probe")
        probed_at = time.monotonic()
        looked = [worker.fetcher._claims for worker in (first, second)]
        eventually(lambda: all(each._looked_at > probed_at for each in looked), what="both looking")
        eventually(lambda: all(each._refused == {"work"} for each in looked), what="both refused")
        assert len(calls) == 4
        release.set()
        eventually(lambda: len(calls) == 23, what="all tasks after the breaker closed")
    assert count(apps[0]) == 3
    assert alerts(apps[0]) == [("breaker opened", "work"), ("breaker closed", "work")]
    for app in apps:
        app.close()


def test_a_running_worker_probes_by_itself_when_the_pause_is_over(app, work, service, clock):
    fail(app, work)
    work.enqueue_many([{}] * 3)
    service.is_down = False

    with working(app):
        clock.forward("1m")

        eventually(lambda: service.calls == 6, 5.0, what="the probe and the rest")
    assert state(app) is BreakerState.CLOSED


def test_a_breaker_that_cannot_be_read_is_refused(app, service):
    with pytest.raises(BadBreaker, match="kind 'work': breaker: cannot read 'often'"):
        declare(app, service, breaker="often")
