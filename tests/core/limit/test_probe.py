"""Probes: one task at a time tries whether the other side of an open breaker is back."""

import pytest

from tests.core.fetch.dead import Doomed
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
from tests.core.ring import silent
from tests.core.run.working import listening, sql, switch_of, working
from tests.wait import eventually
from windlass import Snooze, Status
from windlass.app import FACES
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


def open_by_hand(app, clock, tasks=6):
    """A worker with an open breaker whose probe is due, and `tasks - 3` tasks to probe with."""

    @app.task(breaker="3 in a row, 1m")
    async def step() -> None: ...

    worker = begin(app)
    step.enqueue_many([{}] * 3)
    worker.fetcher.tick()
    for _ in range(3):
        end_next(worker, Failed("no", "no"))
    worker.finish.flush()
    step.enqueue_many([{}] * (tasks - 3))
    clock.forward("1m")
    return worker


def join(app, first):
    """A second worker, to which the first gives up its share."""
    second = begin(app)
    first.heartbeat.tick()
    first.ring.settle()
    return second


def mark_dead(app, worker):
    """What others do who saw no sign of life of `worker`."""
    app.clock.forward("10s")
    abandoned = silent.mark_dead(
        app.database, FACES, number=worker.heartbeat.id, now=app.clock.now(), why="silent"
    )
    assert abandoned is not None


def test_after_the_pause_exactly_one_task_tries_again(app, work, service, clock):
    fail(app, work)
    work.enqueue_many([{}] * 10)

    clock.forward("1m")
    app.drain()
    app.drain()

    assert service.calls == 4
    assert waiting(app) == 9
    assert state(app) is BreakerState.OPEN


def test_a_probe_that_succeeds_closes_it_and_the_rest_runs(app, work, service, clock):
    fail(app, work)
    work.enqueue_many([{}] * 10)
    service.is_down = False

    clock.forward("1m")
    app.drain()

    assert service.calls == 13
    assert waiting(app) == 0
    row = switch_of(app, "work")
    assert (row["breaker"], row["errors_in_a_row"], row["opened_at"]) == (
        BreakerState.CLOSED,
        0,
        None,
    )
    assert (row["probe_at"], row["pause"], row["probe_worker"]) == (None, None, None)


def test_a_probe_is_taken_from_the_tier_of_highest_priority(app, work, service, clock):
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

    assert state(app) is BreakerState.CLOSED
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
    assert state(app) is BreakerState.CLOSED

    service.is_down = True
    fail(app, work)

    row = switch_of(app, "work")
    assert (row["breaker"], row["pause"], row["errors_in_a_row"]) == (BreakerState.OPEN, MINUTE, 3)


def test_nothing_to_probe_with_costs_nothing_and_the_next_task_is_the_probe(
    app, work, service, clock
):
    fail(app, work)
    clock.forward("1h")
    app.drain()
    assert state(app) is BreakerState.OPEN

    service.is_down = False
    work.enqueue()
    app.drain()

    assert (service.calls, state(app)) == (4, BreakerState.CLOSED)


def test_a_probe_that_finds_nothing_is_given_back_for_the_next_worker(app, work, clock):
    fail(app, work)
    work.enqueue()
    make_it_run_alone(app)
    clock.forward("1m")
    first, second = begin(app), begin(app)

    with listening("breaker.probing") as heard:
        taken = first.fetcher._claims.take(first.in_flight.capacity.room())

    assert (len(heard), taken.tasks) == (1, [])
    row = switch_of(app, "work")
    assert (row["breaker"], row["probe_worker"], row["pause"]) == (BreakerState.OPEN, None, MINUTE)
    assert second.gate.breakers.take_probe("work")


def test_a_task_that_must_run_alone_can_be_the_probe(app, work, service, clock):
    fail(app, work)
    work.enqueue()
    make_it_run_alone(app)
    service.is_down = False

    clock.forward("1m")
    app.drain()

    assert (service.calls, state(app)) == (4, BreakerState.CLOSED)


def make_it_run_alone(app):
    """What waits has been lost so often that the next time may be its last."""
    sql(app, "update windlass_task set attempt = 2, lost = 2 where status = 0")


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
    assert state(app) is BreakerState.CLOSED
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
    assert (row["breaker"], row["pause"], row["probe_worker"]) == (BreakerState.OPEN, MINUTE, None)
    assert len(calls) == 4


def test_a_queued_probe_is_not_forgotten_when_the_switches_are_looked_at(app, clock):
    worker = open_by_hand(app, clock)
    worker.switchboard.obey()
    worker.fetcher.tick()
    assert state(app, "step") is BreakerState.PROBING

    worker.switchboard.obey()
    worker.fetcher.tick()
    end_next(worker, Succeeded())
    worker.finish.flush()

    assert state(app, "step") is BreakerState.CLOSED


def test_a_queued_probe_is_given_back_when_its_kind_is_paused(app, clock):
    worker = open_by_hand(app, clock)
    worker.switchboard.obey()
    worker.fetcher.tick()
    assert len(worker.in_flight.rows) == 1

    app.pause("step")
    worker.switchboard.obey()

    assert worker.in_flight.is_empty


def test_resume_closes_it(app, work, service, clock):
    fail(app, work)
    work.enqueue_many([{}] * 4)
    service.is_down = False

    app.resume("work")
    app.drain()

    assert (service.calls, state(app)) == (7, BreakerState.CLOSED)
    assert switch_of(app, "work")["errors_in_a_row"] == 0


def test_resume_closes_it_for_a_running_worker(app, work, service):
    with working(app):
        work.enqueue_many([{}] * 3)
        eventually(lambda: state(app) is BreakerState.OPEN)
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


def test_when_the_prober_dies_another_worker_probes_later(app, clock):
    prober = open_by_hand(app, clock)
    prober.fetcher.tick()
    assert switch_of(app, "step")["probe_worker"] == prober.heartbeat.id
    mark_dead(app, prober)

    successor = begin(app)
    successor.fetcher.tick()
    assert successor.in_flight.advance(None, None, is_async=True) is None

    clock.forward("1m")
    successor.fetcher.tick()
    assert switch_of(app, "step")["probe_worker"] == successor.heartbeat.id
    end_next(successor, Succeeded())
    successor.finish.flush()
    assert state(app, "step") is BreakerState.CLOSED


def test_a_task_whose_worker_died_probing_is_not_lost_even_if_it_is_the_only_one(
    app, work, service, clock
):
    fail(app, work)
    clock.forward("1m")
    ref = work.enqueue()
    prober = Doomed(app)
    breakers = begin(app).gate.breakers
    assert breakers.take_probe("work")
    assert len(prober.take()) == 1
    prober.die()

    service.is_down = False
    clock.forward("1h")
    app.drain()

    assert ref.status() is Status.SUCCEEDED
    assert state(app) is BreakerState.CLOSED


def test_a_late_success_of_a_probe_that_was_taken_over_closes_it(app, clock):
    slow = open_by_hand(app, clock, tasks=50)
    slow.fetcher.tick()
    run = slow.in_flight.advance(None, None, is_async=True)
    clock.forward("1m")
    hasty = join(app, slow)
    hasty.fetcher.tick()
    end_next(hasty, Failed("no", "no"))
    hasty.finish.flush()
    row = switch_of(app, "step")
    assert (row["breaker"], row["pause"]) == (BreakerState.OPEN, 2 * MINUTE)

    slow.in_flight.end(run, Succeeded())
    slow.finish.flush()

    assert state(app, "step") is BreakerState.CLOSED
    assert alerts(app)[-1] == ("breaker closed", "step")


def test_a_late_failure_of_a_probe_that_was_taken_over_changes_nothing(app, clock):
    slow = open_by_hand(app, clock, tasks=50)
    slow.fetcher.tick()
    run = slow.in_flight.advance(None, None, is_async=True)
    clock.forward("1m")
    successor = join(app, slow)
    successor.fetcher.tick()
    before = switch_of(app, "step")
    assert before["probe_worker"] == successor.heartbeat.id

    slow.in_flight.end(run, Failed("no", "no"))
    slow.finish.flush()

    assert switch_of(app, "step") == before
