"""Steps of the database's clock: recorded once, and nothing is pruned because of them."""

import pytest
from sqlalchemy import update

from tests.table import count
from windlass.app import FACES
from windlass.clock import SECOND, ClockStep, DatabaseClock
from windlass.core.clock import step as steps
from windlass.core.clock import store
from windlass.core.cron.discover import discover
from windlass.core.maintenance import Maintenance
from windlass.core.shard.shard import Shard
from windlass.database.schema import alert, clock_step, task

HOUR = 3600 * SECOND
DAY = 24 * HOUR


@pytest.mark.parametrize(
    ("stepped", "gained"),
    [
        ([], 0),
        ([5], 5),
        ([-5], 0),
        ([5, -5], 0),
        # What was written between the two is in danger.
        ([-5, 5], 5),
        ([5, 5, -3], 7),
        ([-9, 4, -1, 3], 6),
    ],
)
def test_what_the_clock_has_gained_is_the_worst_case(stepped, gained):
    assert store.gained(stepped) == gained


class Steppable:
    """An app's database whose clock a test steps: every process of it measures the same time."""

    def __init__(self, app) -> None:
        self.app = app
        self.off = 0

    def measure(self) -> int:
        return self.app.database.measure() + self.off

    def process(self) -> Maintenance:
        """The maintenance of another process, which has been there for a while."""
        app = self.app
        clock = DatabaseClock(self.measure)
        clock.now()
        shard = Shard(1, app.database, clock, faces=FACES, max_payload=1000)

        def went_back() -> None:
            discover(app.database, app.registry.kinds, clock, shard.numbers)

        return Maintenance(app.database, clock, FACES, numbers=shard.numbers, went_back=went_back)

    def step(self, by: int, *processes: Maintenance) -> None:
        """ClockStep, and let these notice it."""
        self.off += by
        for process in processes:
            process._clock.synchronise()


@pytest.fixture
def steppable(app) -> Steppable:
    app.prepare()
    return Steppable(app)


def rows(app, table) -> list:
    return app.database.read(lambda connection: connection.execute(table.select()).all())


@pytest.mark.parametrize("by", [SECOND, HOUR, DAY, -SECOND, -HOUR, -DAY])
def test_a_step_that_three_processes_notice_is_one_step_and_one_alert(app, steppable, by):
    processes = [steppable.process() for _ in range(3)]

    steppable.step(by, *processes)
    for process in processes:
        process.tick()

    (found,) = rows(app, clock_step)
    assert found.microseconds == pytest.approx(by, abs=SECOND / 2)
    (told,) = rows(app, alert)
    assert (told.what, told.kind) == ("clock stepped", None)
    assert ("forward" if by > 0 else "back") in told.text


def test_a_step_and_the_step_back_are_two(app, steppable):
    processes = [steppable.process() for _ in range(2)]

    for by in (HOUR, -HOUR):
        steppable.step(by, *processes)
        for process in processes:
            process.tick()

    assert [round(row.microseconds / HOUR) for row in rows(app, clock_step)] == [1, -1]
    assert len(rows(app, alert)) == 2


def test_a_cron_that_ended_at_the_step_back_and_is_written_after_it_does_not_wait(app, steppable):
    @app.cron("* * * * *")
    def minutely() -> None: ...

    process = steppable.process()
    steppable.step(HOUR, process)
    process._went_back()
    steppable.step(-HOUR, process)
    process.tick()

    # A worker that has not noticed the step ended a turn of the old time.
    schedule = app.registry.kinds["minutely"].schedule
    turn = schedule.next_after(app.database.measure() + HOUR)
    late = update(task).values(due_at=turn, payload=schedule.as_payload(turn=turn))
    app.database.write(lambda connection: connection.execute(late))
    process.tick()

    (row,) = rows(app, task)
    assert row.due_at <= app.database.measure() + 61 * SECOND


def test_a_process_that_notices_late_is_not_mistaken(app, steppable):
    early, late = steppable.process(), steppable.process()
    steppable.step(HOUR, early)
    early.tick()

    # It had not asked for the time for long.
    step = ClockStep(HOUR, late._clock._measure() + 40 * SECOND, 60 * SECOND)
    app.database.write(lambda connection: store.record(connection, step, alert=-1))

    assert len(rows(app, clock_step)) == 1


def test_the_alert_of_a_step_back_is_open_although_its_time_was_seen(app, steppable):
    process = steppable.process()
    steppable.step(HOUR, process)
    process.tick()
    (first,) = app.alerts()
    acknowledge(app, first.raised_at + 1)

    steppable.step(-HOUR, process)
    process.tick()

    assert {each.text.split(" by ")[0].split()[-1]: each.is_open for each in app.alerts()}["back"]


def acknowledge(app, seen_at: int) -> None:
    insert = "insert into windlass_acknowledgement (what, kind, who, seen_at) values "
    app.database.write(
        lambda connection: connection.exec_driver_sql(
            f"{insert} ('clock stepped', '', 'me', {seen_at})"
        )
    )


@pytest.fixture
def kept(app):
    """A kind whose rows are kept for half an hour."""

    @app.task(keep="30m", retries=0)
    def work(fails: bool = False) -> int:
        if fails:
            raise ValueError("no")
        return 1

    return work


def finish(app, kept, at: int) -> None:
    """Two rows that ended at that time: one succeeded, one failed."""
    kept.enqueue()
    kept.enqueue(fails=True)
    app.drain()
    app.database.write(
        lambda connection: connection.exec_driver_sql(
            f"update windlass_task set finished_at = {at}, prune_at = {at + HOUR // 2}"
        )
    )


@pytest.mark.parametrize("by", [HOUR, DAY])
def test_nothing_is_pruned_because_of_a_step(app, steppable, kept, by):
    old, later = steppable.process(), None
    finish(app, kept, steppable.measure())
    steppable.step(by, old)

    old.tick()
    # A worker that joins after the step knows of it, too.
    later = steppable.process()
    later.tick()

    assert count(app) == 2


def test_what_is_old_without_the_step_is_pruned(app, steppable, kept):
    process = steppable.process()
    finish(app, kept, steppable.measure() - HOUR)
    steppable.step(HOUR, process)

    process.tick()

    assert count(app) == 0


def test_after_the_way_back_pruning_is_as_before(app, steppable, kept):
    process = steppable.process()
    finish(app, kept, steppable.measure())
    for by in (HOUR, -HOUR):
        steppable.step(by, process)
        process.tick()
    assert count(app) == 2

    finish(app, kept, steppable.measure() - HOUR)
    process.tick()

    assert count(app) == 0


def test_what_was_written_while_the_clock_was_behind_is_kept(app, steppable, kept):
    process = steppable.process()
    steppable.step(-HOUR, process)
    process.tick()
    finish(app, kept, steppable.measure())

    steppable.step(HOUR, process)
    process.tick()

    assert count(app) == 2


def test_while_a_step_is_not_recorded_nothing_is_pruned(app, steppable, kept):
    process = steppable.process()
    finish(app, kept, steppable.measure() - HOUR)
    steppable.step(DAY, process)

    assert steps.prune_time(app.database, process._clock) is None


def test_steps_are_forgotten_after_long(app, steppable):
    process = steppable.process()
    steppable.step(HOUR, process)
    process.tick()

    now = steppable.measure() + store.KEEP + HOUR
    gone = app.database.write(lambda connection: store.prune(connection, now=now))

    assert gone == 1
    assert rows(app, clock_step) == []
