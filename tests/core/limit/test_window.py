"""Time-of-day windows: a kind runs while its window is open, and only waits while it is not."""

import time
from contextlib import closing
from datetime import UTC, datetime

import pytest

from tests.core.run.working import listening, working
from tests.table import count, task, tasks
from tests.wait import eventually
from windlass import App, BadWindow, Status
from windlass.clock import from_datetime, to_datetime
from windlass.operate.switch import operate
from windlass.value.outcome import Succeeded


@pytest.fixture
def database_url(sqlite_url):
    """Windows are the same in every database; the switch tests set some in all of them."""
    return sqlite_url


@pytest.fixture
def seen():
    return []


def declare(app, seen, **options):
    """A task kind `work` that notes its runs."""

    @app.task(name="work", keep="1h", **options)
    def work() -> None:
        seen.append("work")

    return work


def go_to(clock, hour, minute=0, *, day=1):
    """Move the clock to a moment of January 2026, which began on a Thursday."""
    moment = from_datetime(datetime(2026, 1, day, hour, minute, tzinfo=UTC))
    clock.advance(moment - clock.now())


def test_a_closed_window_holds_a_task_back_until_it_opens(app, clock, seen):
    ref = declare(app, seen, window="01:00-07:00").enqueue()
    before = task(app, ref)

    app.drain()
    assert seen == []
    assert task(app, ref) == before

    go_to(clock, 1)
    app.drain()
    assert seen == ["work"]


def test_the_edges_belong_to_the_begin_and_not_to_the_end(app, clock, seen):
    work = declare(app, seen, window="01:00-07:00")
    runs = {}

    for hour, minute in [(0, 59), (1, 0), (6, 59), (7, 0), (7, 1)]:
        go_to(clock, hour, minute)
        work.enqueue()
        app.drain()
        runs[hour, minute] = len(seen)

    # What had to wait before it opened ran together with the next one.
    assert list(runs.values()) == [0, 2, 3, 3, 3]


def test_a_window_over_midnight_is_open_on_both_sides_of_it(app, clock, seen):
    work = declare(app, seen, window="22:00-06:00")
    runs = []

    for hour, day in [(5, 1), (6, 1), (12, 1), (22, 1), (0, 2), (5, 2), (7, 2)]:
        go_to(clock, hour, day=day)
        work.enqueue()
        app.drain()
        runs.append(len(seen))

    assert runs == [1, 1, 1, 4, 5, 6, 6]


def test_a_window_is_in_its_own_time_zone(app, clock, seen):
    declare(app, seen, window="01:00-02:00 Asia/Shanghai").enqueue()

    for hour in (0, 1, 12, 16):
        go_to(clock, hour, 59)
        app.drain()
    assert seen == []

    go_to(clock, 17)
    app.drain()
    assert seen == ["work"]


def test_a_window_may_name_days(app, clock, seen):
    declare(app, seen, window="Sat-Sun").enqueue()

    go_to(clock, 23, 59, day=2)
    app.drain()
    assert seen == []

    go_to(clock, 0, day=3)
    app.drain()
    assert seen == ["work"]


@pytest.mark.timeout(30)
def test_drain_leaves_closed_kinds_and_ends(app, seen):
    work = declare(app, seen, window="12:00-13:00")

    @app.task
    def other() -> None:
        seen.append("other")

    work.enqueue_many([{}] * 3)
    other.enqueue_many([{}] * 3)
    began = time.monotonic()
    app.drain()

    assert seen == ["other"] * 3
    assert time.monotonic() - began < 10
    assert {row["status"] for row in tasks(app, kind="work")} == {Status.WAITING}


def test_a_higher_priority_does_not_open_a_window(app, seen):
    declare(app, seen, window="12:00-13:00", priority=10).using(priority=100).enqueue()

    app.drain()

    assert seen == []


def test_a_task_is_retried_when_the_window_is_open_again(app, clock):
    attempts = []

    @app.task(retries=3, backoff="5m", window="00:00-00:10")
    def fail() -> None:
        attempts.append(clock.now())
        raise ValueError

    fail.enqueue()
    app.drain()
    go_to(clock, 12)
    app.drain()
    assert len(attempts) == 1

    go_to(clock, 0, day=2)
    app.drain()
    assert len(attempts) == 2


def test_missed_turns_of_a_cron_run_once_when_its_window_opens(app, clock, seen):
    @app.cron("*/10 * * * *", window="06:00-07:00")
    def tick() -> None:
        seen.append("tick")

    app.drain()
    go_to(clock, 5, 59)
    app.drain()
    assert seen == []

    go_to(clock, 6)
    app.drain()
    assert seen == ["tick"]


def test_items_that_fall_due_wait_for_the_window(app, clock, seen):
    @app.rolling(every="1d", window="06:00-07:00")
    def visit(code: str) -> None:
        seen.append(code)

    visit.add(["a", "b"], now=True)
    app.drain()
    assert seen == []

    go_to(clock, 6, 30)
    app.drain()
    assert sorted(seen) == ["a", "b"]
    go_to(clock, 7, 30, day=2)
    app.drain()
    assert len(seen) == 2
    go_to(clock, 6, day=3)
    app.drain()
    assert len(seen) == 4


def test_a_set_window_replaces_the_declared_one(app, clock, seen):
    declare(app, seen, window="01:00-02:00").enqueue()
    app.set("work", window="03:00-04:00")

    go_to(clock, 1, 30)
    app.drain()
    assert seen == []

    go_to(clock, 3, 30)
    app.drain()
    assert seen == ["work"]


def test_a_window_that_is_taken_away_leaves_the_kind_open(app, seen):
    declare(app, seen, window="01:00-02:00").enqueue()

    app.set("work", window="none")
    app.drain()

    assert seen == ["work"]


def test_a_set_window_that_is_given_up_leaves_the_declared_one(app, clock, seen):
    declare(app, seen, window="01:00-02:00").enqueue()
    app.set("work", window="00:00-01:00")
    app.set("work", window=None)

    app.drain()
    assert seen == []

    go_to(clock, 1)
    app.drain()
    assert seen == ["work"]


def test_a_set_window_holds_for_an_app_that_declares_none(app, database_url, clock, seen):
    declare(app, seen).enqueue()
    app.set("work", window="01:00-02:00")

    with closing(App(database_url, clock=clock)) as second:
        declare(second, seen)
        second.drain()
        assert seen == []

        go_to(clock, 1)
        second.drain()
        assert seen == ["work"]


def test_resume_does_not_open_a_window(app, seen):
    declare(app, seen, window="01:00-02:00").enqueue()

    app.pause("work")
    app.resume("work")
    app.drain()

    assert seen == []


def test_an_open_window_does_not_resume_a_paused_kind(app, clock, seen):
    declare(app, seen, window="01:00-02:00").enqueue()
    app.pause("work")

    go_to(clock, 1)
    app.drain()

    assert seen == []


def test_a_declared_window_that_cannot_be_read_is_refused(app):
    with pytest.raises(BadWindow, match="kind 'work': window: cannot read 'late'"):
        declare(app, [], window="late")


def test_a_worker_takes_up_what_waited_when_the_window_opens(app, clock, seen):
    work = declare(app, seen, window="01:00-07:00")
    work.enqueue_many([{}] * 3)

    with working(app), listening("kind.opened", "kind.held_back") as heard:
        go_to(clock, 1)
        eventually(lambda: len(seen) == 3, 3.0, what="the window's opening")

        go_to(clock, 7)
        eventually(lambda: heard[-1].name == "kind.held_back", 3.0, what="its closing")
        ref = work.enqueue()
        go_to(clock, 12)
        assert ref.status() is Status.WAITING

        go_to(clock, 1, day=2)
        eventually(lambda: len(seen) == 4, 3.0, what="its opening on the next day")
    assert [event.name for event in heard] == ["kind.opened", "kind.held_back", "kind.opened"]


def test_what_runs_when_the_window_closes_finishes_and_the_rest_is_given_back(app, clock):
    @app.task(keep="1h", window="00:00-01:00")
    async def step() -> None: ...

    refs = step.enqueue_many([{}] * 4)
    due = [row["due_at"] for row in tasks(app)]
    worker = app.worker()
    worker.heartbeat.join_ring()
    worker.fetcher.tick()
    run = worker.in_flight.advance(None, None, is_async=True)

    go_to(clock, 1)
    worker.switchboard.obey()
    worker.in_flight.end(run, Succeeded())
    worker.finish.flush()

    assert [ref.status() for ref in refs] == [Status.SUCCEEDED] + [Status.WAITING] * 3
    rows = tasks(app, status=Status.WAITING)
    assert [(row["attempt"], row["due_at"]) for row in rows] == [(0, at) for at in due[1:]]
    assert count(app) == 4


def test_a_window_of_past_dates_says_that_it_does_not_open_again(app):
    @app.rolling(every="10d", window="2020-01-01 - 2020-01-31")
    def stock(code: str) -> None: ...

    @app.task(window="2020-01-01", within="1h")
    def mail() -> None: ...

    stock.add(["a"])
    mail.enqueue()
    app.drain()

    held = operate.show(app.fleet, app.registry, app.clock, kind="mail")
    assert held.held_back == "window closed, and it does not open again"
    assert held.ahead.opens_at is None
    assert stock.freshness().forecast is not None
    promises = {each.kind: each.state for each in app.promises()}
    assert promises["mail"] == "at risk"


def test_a_day_that_is_off_holds_a_kind_and_the_next_day_lets_it_run(app, clock):
    seen = []
    today = to_datetime(clock.now()).date()

    @app.task(window=f"00:00-24:00, not {today}")
    def mail() -> None:
        seen.append(1)

    mail.enqueue()
    app.drain()
    assert seen == []

    clock.forward("1d")
    app.drain()
    assert seen == [1]
