"""Rows of a lane that were read together follow each other, and everything still has its order."""

import pytest
from sqlalchemy import create_engine, text

from tests.core.run.chained import Stepper
from tests.table import count, task, tasks
from windlass import Status, telemetry
from windlass.clock import SECOND, to_datetime
from windlass.value.bucket import bucket_of_lane, lane_number, owned_with
from windlass.value.outcome import Failed, Retried

pytestmark = pytest.mark.usefixtures("one_clock")

# Longer than a chain is fresh, and shorter.
TOO_LONG = SECOND // 8
A_MOMENT = SECOND // 50
LANES = 16


@pytest.fixture
def work(app):
    @app.task(retries=3, lane=lambda name, lane="one": lane)
    def work(name: str, lane: str = "one") -> None: ...

    return work


@pytest.fixture
def rows(clock, work):
    """The ids of rows of one lane, in order; each is due a moment after the one before."""

    def rows(number, kind=work):
        ids = []
        for index in range(number):
            ids.append(kind.enqueue(f"row {index}").id)
            clock.advance(10)
        return ids

    return rows


@pytest.fixture
def stepper(app, work):
    stepper = Stepper(app)
    yield stepper
    stepper.leave()


@pytest.fixture
def refused():
    """The tasks whose outcomes were refused."""
    numbers = []
    stop = telemetry.subscribe(
        lambda event: numbers.append(event.fields["task"]) if event.name == "task.refused" else None
    )
    yield numbers
    stop()


@pytest.mark.everywhere
def test_rows_that_were_read_together_follow_each_other_in_order(app, stepper, rows):
    ids = rows(9)
    stepper.fetch()

    assert stepper.run_chain() == ids
    assert count(app) == 9

    stepper.write()
    assert count(app) == 0


@pytest.mark.everywhere
def test_nothing_overtakes_a_row_that_failed_in_the_middle_of_a_chain(clock, stepper, rows):
    _first, second, *others = rows(5)
    stepper.fetch()
    stepper.end(stepper.start())

    failing = stepper.start()
    assert failing.number == second
    stepper.end(failing, Retried(SECOND, "not now", ""))

    assert stepper.start() is None
    stepper.look()
    assert stepper.start() is None
    stepper.write()
    assert stepper.run_all() == []

    clock.advance(2 * SECOND)
    assert stepper.run_all() == [second, *others]


def test_the_rows_behind_one_that_failed_for_good_run_when_that_is_written(app, stepper, rows):
    first, *others = rows(4)
    stepper.fetch()
    stepper.end(stepper.start(), Failed("never", ""))

    stepper.look()
    assert stepper.start() is None

    stepper.write()
    assert stepper.run_all() == others
    assert task(app, first)["status"] == Status.FAILED


@pytest.mark.everywhere
def test_with_pass_others_go_on_when_the_failure_in_their_chain_is_written(app, clock, rows):
    @app.task(retries=3, lane=lambda name: "one", on_failure="pass")
    def passing(name: str) -> None: ...

    stepper = Stepper(app)
    _first, second, *others = rows(5, passing)
    stepper.fetch()
    stepper.end(stepper.start())
    stepper.end(stepper.start(), Retried(SECOND, "not now", ""))

    stepper.look()
    assert stepper.start() is None

    stepper.write()
    assert stepper.run_all() == others
    clock.advance(2 * SECOND)
    assert stepper.run_all() == [second]
    stepper.leave()


def test_nothing_follows_a_row_whose_callbacks_are_not_committed(stepper, rows):
    _first, second = rows(2)
    stepper.fetch()
    run = stepper.start()
    run.on_finish = [lambda _connection: None]

    stepper.end(run)

    assert stepper.start() is None
    stepper.worker.finish.flush_all()
    assert stepper.run_all() == [second]


@pytest.mark.everywhere
def test_a_row_of_a_chain_that_was_cancelled_does_not_run_after_a_moment(app, clock, stepper, rows):
    _first, second, third = rows(3)
    stepper.fetch()
    run = stepper.start()

    assert app.ref(second).cancel("changed my mind")
    clock.advance(TOO_LONG)
    stepper.end(run)
    ran = stepper.run_chain()
    stepper.write()

    assert ran + stepper.run_all() == [third]
    assert app.ref(second).status() is Status.CANCELLED


def test_a_row_of_a_chain_that_starts_as_it_is_cancelled_stays_cancelled(
    app, stepper, rows, refused
):
    _first, second, third = rows(3)
    stepper.fetch()
    run = stepper.start()

    assert app.ref(second).cancel("changed my mind")
    stepper.end(run)
    # Nobody has told the worker.
    assert stepper.run_chain() == [second, third]
    stepper.write()

    assert app.ref(second).status() is Status.CANCELLED
    assert refused == [second]
    assert [row["id"] for row in tasks(app)] == [second]


@pytest.mark.everywhere
def test_the_rest_of_a_chain_does_not_start_while_its_kind_is_paused(app, stepper, rows):
    _first, *others = rows(4)
    stepper.fetch()
    run = stepper.start()

    app.pause("work")
    stepper.obey()
    stepper.end(run)
    assert stepper.start() is None
    stepper.write()

    assert stepper.in_flight.is_empty
    assert stepper.run_all() == []
    app.resume("work")
    stepper.obey()
    assert stepper.run_all() == others


@pytest.mark.everywhere
def test_a_late_row_with_an_earlier_due_time_goes_before_the_rest_of_an_old_chain(
    clock, stepper, rows, work
):
    at = clock.now()
    clock.advance(SECOND // 2)
    _first, *others = rows(4)
    stepper.fetch()
    run = stepper.start()

    late = work.using(at=to_datetime(at)).enqueue("late").id
    clock.advance(TOO_LONG)
    stepper.end(run)
    ran = stepper.run_chain()
    stepper.write()

    assert ran + stepper.run_all() == [late, *others]


def test_a_row_that_follows_and_waits_too_long_for_its_start_is_read_again(
    clock, stepper, rows, work
):
    at = clock.now()
    clock.advance(SECOND // 2)
    _first, *others = rows(4)
    stepper.fetch()
    stepper.end(stepper.start())

    late = work.using(at=to_datetime(at)).enqueue("late").id
    clock.advance(TOO_LONG)
    ran = stepper.run_chain()
    stepper.write()

    assert ran + stepper.run_all() == [late, *others]
    assert stepper.in_flight.loads["work"].queued == 0


def test_a_row_that_is_not_due_does_not_follow(clock, stepper, work):
    first = work.enqueue("now").id
    later = work.using(delay="1s").enqueue("later").id
    clock.advance(10)
    stepper.fetch()

    assert stepper.run_chain() == [first]
    stepper.write()
    assert stepper.run_all() == []
    clock.advance(SECOND)
    assert stepper.run_all() == [later]


def test_a_chain_goes_on_while_its_read_is_fresh(clock, stepper, rows):
    ids = rows(4)
    stepper.fetch()
    run = stepper.start()

    clock.advance(A_MOMENT)
    stepper.end(run)

    assert stepper.run_chain() == ids[1:]


@pytest.mark.mostly("postgresql", "mariadb", "mysql")
def test_no_outcome_of_a_chain_is_committed_before_the_one_before_it(
    app, database_engine, stepper, rows
):
    if database_engine == "sqlite":
        pytest.skip("SQLite locks the whole database, and everybody waits for it")
    first, second, third = rows(3)
    stepper.fetch()
    stepper.end(stepper.start())
    stepper.end(stepper.start())
    # Not by the app's own connections: those may not rest inside a transaction.
    others = create_engine(app.database.url)
    with others.connect() as user, user.begin():
        lock = text("select id from windlass_task where id = :id for update")
        user.execute(lock, {"id": first})
        stepper.write()
        stepper.write()

        assert [row["id"] for row in tasks(app)] == [first, second, third]
        user.rollback()
    others.dispose()

    stepper.write()
    assert [row["id"] for row in tasks(app)] == [third]


@pytest.fixture
def moving(app, other, clock, work):
    """A worker with chains in many lanes; another, which is to own some of them; and these."""

    @other.task(name="work", retries=3, lane=lambda name, lane="one": lane)
    def same(name: str, lane: str = "one") -> None: ...

    ids = {f"lane {number}": [] for number in range(LANES)}
    for index in range(3):
        for lane, known in ids.items():
            known.append(work.enqueue(f"row {index}", lane).id)
        clock.advance(10)
    giver = Stepper(app)
    giver.fetch()
    runs = {run.number: run for run in giver.start_all()}
    assert sorted(runs) == sorted(known[0] for known in ids.values())
    taker = Stepper(other)
    giver.beat()
    stays = set(giver.worker.ring._wanted)
    moved = [
        known
        for lane, known in ids.items()
        if owned_with(bucket_of_lane(lane_number("work", lane))) not in stays
    ]
    assert 0 < len(moved) < LANES
    yield giver, taker, moved, runs
    taker.leave()
    giver.leave()


@pytest.mark.everywhere
def test_what_has_started_is_written_down_when_its_lane_moves_and_the_rest_follows_there(
    app, clock, moving
):
    giver, taker, moved, runs = moving
    giver.fetch()
    clock.advance(SECOND // 2)
    giver.fetch()
    statuses = {row["id"]: row["status"] for row in tasks(app)}
    for first, *others in moved:
        assert statuses[first] == Status.RUNNING
        assert [statuses[number] for number in others] == [Status.WAITING] * 2

    taker.look()
    assert taker.start() is None

    for first, *_ in moved:
        giver.end(runs[first])
    assert giver.start() is None
    giver.write()
    ran = run_lanes(taker)

    for first, *others in moved:
        assert [number for number in ran if number in others] == others
        assert first not in ran
    assert len(ran) == 2 * len(moved)


@pytest.mark.everywhere
def test_what_has_not_started_when_its_lane_moves_is_run_by_the_new_owner_alone(moving):
    giver, taker, moved, runs = moving
    giver.fetch()
    for first, *_ in moved:
        giver.end(runs[first])
    giver.write()
    giver.fetch()

    taker.look()
    begun = taker.start_all()

    assert sorted(run.number for run in begun) == sorted(second for _, second, _ in moved)
    assert giver.start_all() == []
    for run in begun:
        taker.end(run)
    ran = run_lanes(taker)
    assert sorted(ran) == sorted(third for *_, third in moved)


def run_lanes(stepper):
    """Run everything that a worker may start, several lanes at once; the rows in their order."""
    ran = []
    for _ in range(10):
        for run in stepper.start_all():
            ran.append(run.number)
            stepper.end(run)
        stepper.write()
        stepper.look()
    return ran
