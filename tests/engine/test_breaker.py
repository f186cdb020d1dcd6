"""Circuit breakers: too many errors in a row stop a kind; one task at a time tries it again."""

import threading
import time
from contextlib import closing

import pytest

from tests.engine.dead import Doomed
from tests.engine.shift import listening, switch_of, working
from tests.table import count, task, tasks
from tests.wait import eventually
from windlass import App, BadBreaker, Cancel, Retry, Snooze, Status
from windlass.clock import SECOND
from windlass.engine.gate import SwitchGate
from windlass.engine.rate import Rates
from windlass.model.breaker import State
from windlass.model.outcome import Failed, Succeeded
from windlass.store import worker as worker_store

MINUTE = 60 * SECOND


class Service:
    """The other side, which is down until it is mended."""

    def __init__(self) -> None:
        self.is_down = True
        self.calls = 0

    def call(self) -> None:
        self.calls += 1
        if self.is_down:
            raise ConnectionError("the service is down")


@pytest.fixture
def service():
    return Service()


def declare(app, service, **options):
    """A kind `work` that calls the service, with a breaker."""
    settings = {"breaker": "3 in a row, 1m", "keep_failed": "1d", **options}

    @app.task(name="work", **settings)
    def work() -> None:
        service.call()

    return work


@pytest.fixture
def work(app, service):
    return declare(app, service)


@pytest.fixture
def other(app):
    """A kind that has no breaker; what it has run."""
    seen = []

    @app.task
    def other() -> None:
        seen.append(1)

    other.seen = seen
    return other


def state(app, kind="work"):
    row = switch_of(app, kind)
    return State.CLOSED if row is None else State(row["breaker"])


def fail(app, work, times=3):
    """Let that many tasks fail, one after the other."""
    for _ in range(times):
        work.enqueue()
        app.drain()


def waiting(app):
    return len(tasks(app, kind="work", status=Status.WAITING))


def alerts(app):
    return [(alert.what, alert.kind) for alert in reversed(app.alerts())]


# Opening


def test_it_opens_after_so_many_errors_in_a_row_and_not_before(app, work):
    fail(app, work, 2)
    assert state(app) is State.CLOSED

    fail(app, work, 1)

    row = switch_of(app, "work")
    assert state(app) is State.OPEN
    assert (row["errors_in_a_row"], row["pause"]) == (3, MINUTE)
    assert row["probe_at"] == row["opened_at"] + MINUTE


def test_errors_that_end_together_count_in_a_row_too(app, work, service):
    work.enqueue_many([{}] * 3)
    app.drain()

    assert service.calls == 3
    assert state(app) is State.OPEN


def test_a_success_in_between_begins_the_count_anew(app, work, service):
    fail(app, work, 2)
    service.is_down = False
    fail(app, work, 1)
    service.is_down = True

    fail(app, work, 2)
    assert state(app) is State.CLOSED

    fail(app, work, 1)
    assert state(app) is State.OPEN


def test_errors_that_are_retried_count(app, service):
    work = declare(app, service, retries=10, backoff="1ms")
    work.enqueue()

    for _ in range(6):
        app.drain()
        app.clock.forward("1s")

    assert service.calls == 3
    assert state(app) is State.OPEN
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
    assert state(app) is State.OPEN


@pytest.mark.parametrize("signal", [Snooze("1h"), Cancel("no need")], ids=["snooze", "cancel"])
def test_what_is_no_error_does_not_open_it(app, signal):
    @app.task(breaker="3 in a row, 1m")
    def work() -> None:
        raise signal

    work.enqueue_many([{}] * 5)
    app.drain()

    assert state(app) is State.CLOSED


def test_visits_of_a_rolling_kind_count(app, service, clock):
    @app.rolling(every="1d", breaker="3 in a row, 1m", name="work")
    def work(code: str) -> None:
        service.call()

    work.add(["a", "b", "c"], now=True)
    app.drain()
    assert state(app) is State.OPEN
    work.add(["d"], now=True)
    app.drain()
    assert service.calls == 3

    service.is_down = False
    clock.forward("1m")
    app.drain()
    assert (service.calls, state(app)) == (4, State.CLOSED)


def test_turns_of_a_cron_count(app, service, clock):
    @app.cron("* * * * *", breaker="2 in a row, 10m", name="work")
    def work() -> None:
        service.call()

    app.drain()
    for _ in range(5):
        clock.forward("1m")
        app.drain()
    assert (service.calls, state(app)) == (2, State.OPEN)

    service.is_down = False
    clock.forward("10m")
    app.drain()
    assert (service.calls, state(app)) == (3, State.CLOSED)


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
    assert (state(app), state(app, "steady")) == (State.OPEN, State.CLOSED)


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
    worker.feed.tick()
    for _ in range(3):
        end_next(worker, Failed("no", "no"))
    worker.finish.flush()
    assert state(app, "step") is State.OPEN

    worker.switchboard.obey()

    rows = tasks(app, status=Status.WAITING)
    assert [(row["attempt"], row["due_at"]) for row in rows] == [(0, at) for at in due[3:]]
    assert worker.hold.is_empty


def test_outcomes_of_runs_that_began_before_it_opened_change_nothing(app):
    @app.task(breaker="3 in a row, 1m")
    async def step() -> None: ...

    step.enqueue_many([{}] * 6)
    worker = begin(app)
    worker.feed.tick()
    runs = [worker.hold.start_next(is_async=True) for _ in range(6)]
    for run in runs[:3]:
        worker.hold.end(run, Failed("no", "no"))
    worker.finish.flush()
    opened = switch_of(app, "step")

    for run, outcome in zip(runs[3:], [Failed("no", "no"), Succeeded(), Succeeded()], strict=True):
        worker.hold.end(run, outcome)
        worker.finish.flush()

    assert switch_of(app, "step") == opened
    assert alerts(app) == [("breaker opened", "step")]


# Alerts and events


def test_alerts_tell_that_it_opened_and_closed(app, work, service, clock):
    before = clock.now()
    fail(app, work)
    assert alerts(app) == [("breaker opened", "work")]
    (opened,) = app.alerts()
    assert opened.text == (
        "breaker of 'work' opened after 3 errors in a row; it is tried again in 1m"
    )
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


# Probing


def test_after_the_pause_exactly_one_task_tries_again(app, work, service, clock):
    fail(app, work)
    work.enqueue_many([{}] * 10)

    clock.forward("1m")
    app.drain()
    app.drain()

    assert service.calls == 4
    assert waiting(app) == 9
    assert state(app) is State.OPEN


def test_a_probe_that_succeeds_closes_it_and_the_rest_runs(app, work, service, clock):
    fail(app, work)
    work.enqueue_many([{}] * 10)
    service.is_down = False

    clock.forward("1m")
    app.drain()

    assert service.calls == 13
    assert waiting(app) == 0
    row = switch_of(app, "work")
    assert (row["breaker"], row["errors_in_a_row"], row["opened_at"]) == (State.CLOSED, 0, None)
    assert (row["probe_at"], row["pause"], row["probe_worker"]) == (None, None, None)


def test_a_probe_is_taken_from_the_lane_of_highest_priority(app, work, service, clock):
    fail(app, work)
    refs = [work.using(priority=priority).enqueue() for priority in (0, 9, 5)]

    clock.forward("1m")
    app.drain()

    assert [ref.status() for ref in refs] == [Status.WAITING, Status.FAILED, Status.WAITING]


def test_tasks_of_several_priorities_do_not_hide_how_the_probe_ended(app, work, service, clock):
    fail(app, work)
    for priority in (0, 9, 5):
        work.using(priority=priority).enqueue()
    service.is_down = False

    clock.forward("1m")
    app.drain()

    assert state(app) is State.CLOSED
    assert service.calls == 6


def test_a_probe_that_fails_doubles_the_pause_up_to_the_longest(app, service, clock):
    work = declare(app, service, breaker="3 in a row, 1m, up to 3m")
    fail(app, work)
    work.enqueue_many([{}] * 10)

    calls = []
    for minutes in (1, 2, 3, 3):
        clock.forward(f"{minutes * 60 - 1}s")
        app.drain()
        calls.append(service.calls)
        clock.forward("1s")
        app.drain()
        calls.append(service.calls)

    assert calls == [3, 4, 4, 5, 5, 6, 6, 7]


def test_after_it_was_closed_it_opens_with_the_first_pause_again(app, work, service, clock):
    fail(app, work)
    clock.forward("1m")
    fail(app, work, 1)
    service.is_down = False
    clock.forward("2m")
    fail(app, work, 1)
    assert state(app) is State.CLOSED

    service.is_down = True
    fail(app, work)

    row = switch_of(app, "work")
    assert (row["breaker"], row["pause"], row["errors_in_a_row"]) == (State.OPEN, MINUTE, 3)


def test_nothing_to_probe_with_costs_nothing_and_the_next_task_is_the_probe(
    app, work, service, clock
):
    fail(app, work)
    clock.forward("1h")
    app.drain()
    assert state(app) is State.OPEN

    service.is_down = False
    work.enqueue()
    app.drain()

    assert (service.calls, state(app)) == (4, State.CLOSED)


def test_a_probe_that_finds_nothing_is_given_back_for_the_next_worker(app, work, clock):
    fail(app, work)
    clock.forward("1m")
    first, second = begin(app), begin(app)

    assert gate_of(app, first).allow("work", 50) == 1
    assert switch_of(app, "work")["probe_worker"] == first.life.id
    assert gate_of(app, second).allow("work", 50) == 0
    gate_of(app, first).took("work", 0)

    row = switch_of(app, "work")
    assert (row["breaker"], row["probe_worker"], row["pause"]) == (State.OPEN, None, MINUTE)
    second.switchboard.obey()
    assert gate_of(app, second).allow("work", 50) == 1


def test_a_snoozed_probe_says_nothing_and_the_next_task_probes(app, clock):
    outcomes = [ValueError(), ValueError(), ValueError(), Snooze("1h"), None, None]
    calls = []

    @app.task(breaker="3 in a row, 1m", concurrency=1)
    def work() -> None:
        calls.append(1)
        outcome = outcomes[len(calls) - 1]
        if outcome is not None:
            raise outcome

    fail(app, work)
    work.enqueue_many([{}] * 3)
    clock.forward("1m")
    app.drain()

    assert len(calls) == 6
    assert state(app) is State.CLOSED
    assert waiting(app) == 1


def test_a_snoozed_probe_alone_leaves_it_open(app, clock):
    calls = []

    @app.task(breaker="3 in a row, 1m")
    def work() -> None:
        calls.append(1)
        raise ValueError if len(calls) <= 3 else Snooze("1h")

    fail(app, work)
    clock.forward("1m")
    work.enqueue()
    app.drain()

    row = switch_of(app, "work")
    assert (row["breaker"], row["pause"], row["probe_worker"]) == (State.OPEN, MINUTE, None)
    assert len(calls) == 4


def test_a_queued_probe_is_not_forgotten_when_the_switches_are_looked_at(app, clock):
    worker = open_by_hand(app, clock)
    worker.switchboard.obey()
    worker.feed.tick()
    assert state(app, "step") is State.PROBING

    worker.switchboard.obey()
    worker.feed.tick()
    end_next(worker, Succeeded())
    worker.finish.flush()

    assert state(app, "step") is State.CLOSED


def test_resume_closes_it(app, work, service, clock):
    fail(app, work)
    work.enqueue_many([{}] * 4)
    service.is_down = False

    app.resume("work")
    app.drain()

    assert (service.calls, state(app)) == (7, State.CLOSED)
    assert switch_of(app, "work")["errors_in_a_row"] == 0


def test_resume_closes_it_for_a_running_worker(app, work, service):
    with working(app):
        work.enqueue_many([{}] * 3)
        eventually(lambda: state(app) is State.OPEN)
        service.is_down = False
        work.enqueue_many([{}] * 4)

        app.resume("work")

        eventually(lambda: service.calls == 7, 3.0, what="the kind running again")


def test_a_paused_kind_is_not_probed(app, work, service, clock):
    fail(app, work)
    work.enqueue()
    app.pause("work")

    clock.forward("1h")
    app.drain()

    assert service.calls == 3


# Step by step


def begin(app):
    """A worker that has joined and knows the switches, to be moved by hand."""
    worker = app.worker()
    worker.switchboard.obey()
    worker.life.join_ring()
    return worker


def gate_of(app, worker):
    return SwitchGate(worker.hold, Rates(app.database), worker.breakers)


def end_next(worker, outcome):
    run = worker.hold.start_next(is_async=True)
    assert run is not None
    worker.hold.end(run, outcome)
    return run


def open_by_hand(app, clock, tasks=6):
    """A worker with an open breaker whose probe is due, and `tasks - 3` tasks to probe with."""

    @app.task(breaker="3 in a row, 1m")
    async def step() -> None: ...

    worker = begin(app)
    step.enqueue_many([{}] * 3)
    worker.feed.tick()
    for _ in range(3):
        end_next(worker, Failed("no", "no"))
    worker.finish.flush()
    step.enqueue_many([{}] * (tasks - 3))
    clock.forward("1m")
    return worker


def bury(app, worker):
    """What others do who saw no sign of life of `worker`."""
    app.clock.forward("10s")
    fallen = worker_store.mark_dead(
        app.database, number=worker.life.id, now=app.clock.now(), why="silent"
    )
    assert fallen is not None


def test_when_the_prober_dies_another_worker_probes_later(app, clock):
    prober = open_by_hand(app, clock)
    prober.feed.tick()
    assert switch_of(app, "step")["probe_worker"] == prober.life.id
    bury(app, prober)

    heir = begin(app)
    heir.feed.tick()
    assert heir.hold.start_next(is_async=True) is None

    clock.forward("1m")
    heir.feed.tick()
    assert switch_of(app, "step")["probe_worker"] == heir.life.id
    end_next(heir, Succeeded())
    heir.finish.flush()
    assert state(app, "step") is State.CLOSED


def test_a_task_whose_worker_died_probing_is_not_lost_even_if_it_is_the_only_one(
    app, work, service, clock
):
    fail(app, work)
    clock.forward("1m")
    ref = work.enqueue()
    prober = Doomed(app)
    breakers = begin(app).breakers
    assert breakers.take_probe("work")
    assert len(prober.take()) == 1
    prober.die()

    service.is_down = False
    clock.forward("1h")
    app.drain()

    assert ref.status() is Status.SUCCEEDED
    assert state(app) is State.CLOSED


def test_a_late_success_of_a_probe_that_was_taken_over_closes_it(app, clock):
    slow = open_by_hand(app, clock)
    slow.feed.tick()
    run = slow.hold.start_next(is_async=True)
    clock.forward("1m")
    hasty = begin(app)
    hasty.feed.tick()
    end_next(hasty, Failed("no", "no"))
    hasty.finish.flush()
    row = switch_of(app, "step")
    assert (row["breaker"], row["pause"]) == (State.OPEN, 2 * MINUTE)

    slow.hold.end(run, Succeeded())
    slow.finish.flush()

    assert state(app, "step") is State.CLOSED
    assert alerts(app)[-1] == ("breaker closed", "step")


def test_a_late_failure_of_a_probe_that_was_taken_over_changes_nothing(app, clock):
    slow = open_by_hand(app, clock)
    slow.feed.tick()
    run = slow.hold.start_next(is_async=True)
    clock.forward("1m")
    heir = begin(app)
    heir.feed.tick()
    before = switch_of(app, "step")
    assert before["probe_worker"] == heir.life.id

    slow.hold.end(run, Failed("no", "no"))
    slow.finish.flush()

    assert switch_of(app, "step") == before


# Several workers


def test_its_state_survives_a_new_app(app, work, service, database_url, clock):
    fail(app, work, 2)
    with closing(App(database_url, clock=clock)) as second:
        again = declare(second, service)
        fail(second, again, 1)
    assert state(app) is State.OPEN

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
    done = [[], []]

    def declare_on(app, mine):
        @app.task(breaker="3 in a row, 1m")
        def work() -> None:
            with lock:
                calls.append(1)
            if len(calls) <= 3:
                raise ConnectionError
            release.wait(20)

        @app.task
        def other() -> None:
            mine.append(1)

        return work, other

    (work, other), _ = [declare_on(app, mine) for app, mine in zip(apps, done, strict=True)]
    with working(apps[0]) as first, working(apps[1]) as second:
        work.enqueue_many([{}] * 3)
        both = (first.breakers, second.breakers)
        eventually(lambda: all(each.is_open("work") for each in both), 3.0, what="both knowing")
        work.enqueue_many([{}] * 20)
        clock.forward("1m")
        eventually(lambda: len(calls) == 4, what="the probe")
        for mine in done:
            mine.clear()

        def have_both_claimed():
            other.enqueue_many([{}] * 5)
            return all(done)

        eventually(have_both_claimed, what="both workers claiming, but nothing of this kind")
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
    assert state(app) is State.CLOSED


def test_a_breaker_that_cannot_be_read_is_refused(app, service):
    with pytest.raises(BadBreaker, match="kind 'work': breaker: cannot read 'often'"):
        declare(app, service, breaker="often")
