"""What is read of lanes whose rows follow each other, and when: no more than can start soon."""

import pytest

from tests.core.run.chained import Stepper
from windlass.clock import SECOND
from windlass.value.bucket import lane_number

pytestmark = pytest.mark.usefixtures("one_clock")

# Longer than a chain is fresh.
TOO_LONG = SECOND // 8


@pytest.fixture
def work(app):
    @app.task(retries=3, lane=lambda name, lane="one": lane)
    def work(name: str, lane: str = "one") -> None: ...

    return work


@pytest.fixture
def stepper(app, work, monkeypatch):
    stepper = Stepper(app)
    # How quick runs are stays as the stepper says, however slow the test is.
    monkeypatch.setattr(stepper.in_flight.speed, "measure", lambda _loads, *, is_idle: None)
    yield stepper
    stepper.leave()


@pytest.fixture
def looked(app, monkeypatch):
    """The lanes that were looked at, once for each time."""
    numbers = []
    chains = app.database.dialect.chains

    def chains_noted(connection, kind, lanes, *, most):
        numbers.extend(lanes)
        return chains(connection, kind, lanes, most=most)

    monkeypatch.setattr(app.database.dialect, "chains", chains_noted)
    return numbers


@pytest.mark.everywhere
def test_a_lane_that_was_read_to_its_end_is_not_read_again_when_it_is_free(stepper, work, looked):
    work.enqueue_many([{"name": f"row {index}"} for index in range(3)])
    stepper.fetch()
    assert len(stepper.run_chain()) == 3
    stepper.write()

    stepper.fetch()

    assert looked == [lane_number("work", "one")]


@pytest.mark.everywhere
def test_a_row_that_comes_while_the_last_of_its_lane_run_starts_when_they_have_ended(stepper, work):
    first, *_ = work.enqueue_many([{"name": f"row {index}"} for index in range(3)])
    run = start_beside_another_lane(stepper, work, first.id)

    new = work.enqueue("new").id
    stepper.look()
    stepper.end(run)
    stepper.run_chain()
    stepper.write()
    stepper.fetch()

    assert stepper.run_chain() == [new]


def test_a_lane_whose_chain_was_not_run_to_its_end_is_read_again(clock, stepper, work):
    first, *others = [ref.id for ref in work.enqueue_many([{"name": f"{n}"} for n in range(3)])]
    run = start_beside_another_lane(stepper, work, first)

    clock.advance(TOO_LONG)
    stepper.end(run)
    stepper.write()
    stepper.fetch()

    assert stepper.run_chain() == others


def start_beside_another_lane(stepper, work, first):
    """Start the first row of a lane, while one of another lane runs, and return its run.

    So there is something to wait for, and no reason to look through all lanes.
    """
    work.enqueue("it lasts", "other")
    stepper.fetch()
    runs = {run.number: run for run in stepper.start_all()}
    assert len(runs) == 2
    return runs[first]


@pytest.mark.everywhere
def test_a_lane_that_is_free_and_before_the_cursor_is_read_once(clock, stepper, work, looked):
    names = [{"name": "row", "lane": f"lane {number}"} for number in range(12)]
    work.enqueue_many(names)
    stepper.fetch()
    ended = stepper.start_all()
    for run in ended:
        # Each lane is looked at again.
        run.chain = None
        stepper.end(run)
    work.enqueue_many(names * 2)
    clock.advance(TOO_LONG)
    stepper.write()
    looked.clear()

    stepper.look()

    assert sorted(looked) == sorted({*looked})
    assert len(looked) == 12


def test_no_more_is_read_while_most_of_what_was_read_has_not_started(stepper, work, looked):
    work.enqueue_many([{"name": "row", "lane": f"lane {n % 40}"} for n in range(400)])
    stepper.fetch()
    waiting = len(looked)

    stepper.fetch()

    assert stepper.in_flight.capacity.room_for_chains("work").rows == 0
    assert len(looked) == waiting
    for run in stepper.start_all():
        stepper.end(run)
    while (run := stepper.start()) is not None:
        stepper.end(run)
    stepper.write()
    stepper.fetch()
    assert len(looked) > waiting


def test_what_follows_a_run_that_lasts_makes_room_when_it_is_no_longer_fresh(clock, stepper, work):
    work.enqueue_many([{"name": "row", "lane": f"lane {n % 8}"} for n in range(160)])
    stepper.fetch()
    assert len(stepper.start_all()) == 8
    assert stepper.in_flight.capacity.room_for_chains("work").rows == 0

    clock.advance(TOO_LONG)

    assert stepper.in_flight.capacity.room_for_chains("work").rows > 0
