"""Crons: one standing row for each, however many workers there are."""

import asyncio
import threading
from contextlib import closing
from datetime import UTC, datetime

import pytest

from tests.core.fetch.dead import Doomed, lose
from tests.table import count, failures, tasks
from windlass import App, BadDeclaration, Snooze, Status, context
from windlass.clock import from_datetime

pytestmark = pytest.mark.mostly("sqlite", "postgresql")


def at(hour, minute=0, *, day=1, month=1):
    return from_datetime(datetime(2026, month, day, hour, minute, tzinfo=UTC))


def declare(app, expression="0 * * * *", seen=None, **options):
    """A cron named `tick` that notes the turn of each of its runs."""

    @app.cron(expression, **options)
    def tick() -> None:
        if seen is not None:
            seen.append(context().due_at.strftime("%H:%M"))

    return tick


def standing(app):
    (row,) = tasks(app)
    return row


def test_a_cron_gets_its_standing_row_when_a_worker_starts(app):
    declare(app)

    app.drain()

    row = standing(app)
    assert (row["kind"], row["status"], row["due_at"]) == ("tick", Status.WAITING, at(1))


def test_a_cron_runs_at_its_turn_and_waits_for_the_next(app, clock):
    seen = []
    declare(app, seen=seen)
    app.drain()
    app.drain()
    assert seen == []

    clock.forward("1h")
    app.drain()
    app.drain()
    assert seen == ["01:00"]
    assert standing(app)["due_at"] == at(2)

    clock.forward("1h")
    app.drain()
    assert seen == ["01:00", "02:00"]
    row = standing(app)
    assert (row["due_at"], row["attempt"], row["last_status"]) == (at(3), 0, Status.SUCCEEDED)


def test_an_async_cron_is_an_equal(app, clock):
    seen = []

    @app.cron("0 * * * *")
    async def tick() -> None:
        seen.append(context().due_at.hour)

    app.drain()
    clock.forward("1h")
    app.drain()

    assert seen == [1]


def test_turns_are_in_the_crons_time_zone(app):
    declare(app, "0 3 * * *", tz="Asia/Shanghai")

    app.drain()

    assert standing(app)["due_at"] == at(19)


@pytest.mark.timeout(60)
def test_a_late_turn_runs_once_while_the_clocks_repeat_its_hour(app, clock):
    seen = []
    declare(app, "30 2 * * *", seen, tz="Europe/Berlin")
    clock.advance(at(0, 25, day=25, month=10) - at(0))
    app.drain()

    # In Berlin it is ten past two for the second time: half past two is over.
    clock.forward("45m")
    app.drain()

    assert seen == ["00:30"]
    assert standing(app)["due_at"] == at(1, 30, day=26, month=10)


def test_two_apps_discover_the_same_row(app, database_url, clock):
    seen = []
    declare(app, seen=seen)
    with closing(App(database_url, clock=clock)) as other:
        declare(other, seen=seen)
        app.drain()
        other.drain()
        assert count(app) == 1

        clock.forward("1h")
        other.drain()
        app.drain()

    assert seen == ["01:00"]
    assert count(app) == 1


def test_many_workers_that_start_at_once_make_one_row(app, database_url, clock):
    declare(app)
    apps = [App(database_url, clock=clock) for _ in range(4)]
    errors = []

    def drain(one):
        try:
            one.drain()
        except Exception as error:  # noqa: BLE001
            errors.append(error)

    for one in apps:
        declare(one)
    threads = [threading.Thread(target=drain, args=[one]) for one in apps]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for one in apps:
        one.close()

    assert errors == []
    assert count(app) == 1


def test_missed_turns_collapse_into_one(app, clock):
    seen = []
    declare(app, seen=seen)
    app.drain()

    clock.forward("5h30m")
    app.drain()

    assert seen == ["01:00"]
    assert standing(app)["due_at"] == at(6)


def test_catchup_runs_every_missed_turn(app, clock):
    seen = []
    declare(app, seen=seen, catchup=True)
    app.drain()

    clock.forward("5h30m")
    app.drain()

    assert seen == ["01:00", "02:00", "03:00", "04:00", "05:00"]
    assert standing(app)["due_at"] == at(6)


def test_catchup_loses_no_turn_to_a_retry(app, clock):
    seen, failed = [], []

    @app.cron("0 * * * *", catchup=True, retries=1, backoff="90m")
    def tick() -> None:
        if not failed:
            failed.append(1)
            raise ValueError
        seen.append(context().due_at.strftime("%H:%M"))

    app.drain()
    clock.forward("1h")
    app.drain()
    clock.forward("2h5m")
    app.drain()

    assert seen == ["01:00", "02:00", "03:00"]
    assert standing(app)["due_at"] == at(4)


def test_catchup_loses_no_turn_to_a_dead_worker(app, clock):
    seen = []
    declare(app, seen=seen, catchup=True)
    app.drain()
    clock.forward("1h")
    doomed = Doomed(app)
    doomed.take()
    clock.forward("2h5m")
    doomed.die()

    app.drain()

    assert seen == ["01:00", "02:00", "03:00"]


def test_a_turn_whose_worker_died_runs_again(app, clock):
    seen = []
    declare(app, seen=seen)
    app.drain()
    clock.forward("1h")
    lose(app)

    app.drain()

    assert len(seen) == 1
    row = standing(app)
    assert (row["due_at"], row["attempt"], row["lost"]) == (at(2), 0, 0)


def test_a_cron_that_fails_waits_for_its_next_turn(app, clock):
    @app.cron("0 * * * *")
    def tick() -> None:
        raise ValueError("no report")

    app.drain()
    clock.forward("1h")
    app.drain()

    row = standing(app)
    assert (row["status"], row["last_status"], row["due_at"]) == (0, Status.FAILED, at(2))
    assert row["remark"] == "ValueError: no report"
    assert len(failures(app)) == 1


def test_a_cron_is_retried_before_its_next_turn(app, clock):
    attempts = []

    @app.cron("0 * * * *", retries=1, backoff="1m")
    def tick() -> None:
        attempts.append(context().attempt)
        if len(attempts) == 1:
            raise ValueError

    app.drain()
    clock.forward("1h")
    app.drain()
    clock.forward("2m")
    app.drain()

    assert attempts == [1, 2]
    row = standing(app)
    assert (row["due_at"], row["attempt"], row["last_status"]) == (at(2), 0, Status.SUCCEEDED)


def test_a_cron_may_snooze_its_turn(app, clock):
    seen = []

    @app.cron("0 * * * *")
    def tick() -> None:
        seen.append(1)
        if len(seen) == 1:
            raise Snooze("10m")

    app.drain()
    clock.forward("1h")
    app.drain()
    assert standing(app)["due_at"] < at(2)
    clock.forward("10m")
    app.drain()

    assert len(seen) == 2
    assert standing(app)["due_at"] == at(2)


def test_a_cron_that_is_no_longer_declared_stops(app, database_url, clock):
    seen = []
    declare(app, seen=seen)
    app.drain()

    with closing(App(database_url, clock=clock)) as later:

        @later.task
        def something_else() -> None: ...

        later.drain()
        row = standing(app)
        assert (row["status"], row["due_at"]) == (Status.CANCELLED, None)
        assert row["remark"] == "no longer declared"
        clock.forward("3h")
        later.drain()

    assert seen == []


def test_a_cron_that_comes_back_goes_on(app, database_url, clock):
    seen = []
    declare(app, seen=seen)
    app.drain()
    with closing(App(database_url, clock=clock)) as without:
        without.drain()
    clock.forward("2h30m")

    app.drain()

    assert len(seen) == 1
    row = standing(app)
    assert (row["status"], row["due_at"], row["prune_at"]) == (Status.WAITING, at(3), None)


def test_a_cron_of_another_living_worker_is_left_alone(app, database_url, clock):
    declare(app)
    app.drain()
    Doomed(app)

    with closing(App(database_url, clock=clock)) as other:
        other.drain()

    assert standing(app)["status"] == Status.WAITING


def test_a_worker_for_other_kinds_leaves_the_crons_of_its_app_alone(app):
    declare(app)

    @app.task
    def mail() -> None: ...

    app.drain()
    asyncio.run(app.worker(kinds=["mail"], until_idle=True).run())

    assert standing(app)["status"] == Status.WAITING


def test_a_new_schedule_takes_the_place_of_the_old(app, database_url, clock):
    declare(app)
    app.drain()

    with closing(App(database_url, clock=clock)) as later:
        declare(later, "30 * * * *")
        later.drain()

    row = standing(app)
    assert (row["status"], row["due_at"]) == (Status.WAITING, at(0, 30))


def test_the_same_schedule_declared_again_moves_nothing(app, database_url, clock):
    declare(app)
    app.drain()
    before = standing(app)
    clock.forward("10m")

    with closing(App(database_url, clock=clock)) as later:
        declare(later)
        later.drain()

    assert standing(app) == before


def test_a_cron_may_also_be_enqueued_by_hand(app, clock):
    seen = []
    tick = declare(app, seen=seen)
    app.drain()
    before = standing(app)

    ref = tick.enqueue()
    app.drain()

    assert len(seen) == 1
    assert ref.status() is Status.SUCCEEDED
    assert standing(app) == before


def test_a_cron_may_have_parameters_with_defaults(app, clock):
    seen = []

    @app.cron("0 * * * *")
    def tick(size: int = 10) -> None:
        seen.append(size)

    app.drain()
    clock.forward("1h")
    app.drain()
    tick.enqueue(3)
    app.drain()

    assert seen == [10, 3]


def test_a_cron_cannot_need_arguments(app):
    with pytest.raises(BadDeclaration, match="parameter 'size' has no default"):

        @app.cron("0 * * * *")
        def tick(size: int) -> None: ...

    assert app.registry.kinds == {}
