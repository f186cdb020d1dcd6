"""Workers that die: their rows are taken over, counted apart, and fail as poison in the end."""

import pytest

from tests.core.fetch.dead import Doomed, lose
from tests.core.ring.silent import mark_dead
from tests.table import count, failures, task, tasks, workers
from windlass import Snooze, Status, TaskFailed, context
from windlass.app import FACES
from windlass.clock import SECOND
from windlass.core.face import Site
from windlass.core.fetch.claim import Rows, Triage
from windlass.core.finish.finish import write_group
from windlass.core.finish.store import Group
from windlass.core.ring.heartbeat import leave
from windlass.database.schema import alert, stat
from windlass.operate.task import operate
from windlass.value.outcome import Change


@pytest.fixture
def seen():
    return []


@pytest.fixture
def work(app, seen):
    @app.task
    def work(number: int = 0) -> str:
        seen.append((number, context().attempt))
        return "done"

    return work


def test_what_a_living_worker_holds_is_nobody_elses(app, work, seen, clock):
    ref = work.enqueue()
    Doomed(app).take()

    clock.forward("1h")
    app.drain()

    assert seen == []
    assert ref.status() is Status.RUNNING


def test_what_a_dead_worker_held_is_taken_over(app, work, seen):
    ref = work.enqueue()

    lose(app)
    row = task(app, ref)
    assert (row["status"], row["attempt"], row["lost"], row["batch"]) == (1, 1, 0, None)
    app.drain()

    assert seen == [(0, 2)]
    row = task(app, ref)
    assert (row["status"], row["attempt"], row["lost"]) == (Status.SUCCEEDED, 2, 1)


def test_a_lost_worker_costs_no_retry(app, clock):
    attempts = []

    @app.task(retries=1, backoff="1s")
    def fail() -> None:
        attempts.append(context().attempt)
        raise ValueError("no")

    ref = fail.enqueue()
    lose(app)
    app.drain()
    assert task(app, ref)["status"] == Status.WAITING
    clock.forward("2s")
    app.drain()

    assert attempts == [2, 3]
    row = task(app, ref)
    assert (row["status"], row["attempt"], row["lost"]) == (Status.FAILED, 3, 1)


def test_only_workers_that_died_in_a_row_make_poison(app, clock):
    attempts = []

    @app.task(retries=10, backoff="1s", max_lost=2)
    def fail() -> None:
        attempts.append(context().attempt)
        raise ValueError("no")

    ref = fail.enqueue()
    for _ in range(3):
        lose(app)
        app.drain()
        clock.forward("1h")

    assert attempts == [2, 4, 6]
    row = task(app, ref)
    assert (row["status"], row["attempt"], row["lost"]) == (Status.WAITING, 6, 3)

    lose(app)
    abandoned_again(app, ref)
    app.drain()

    assert attempts == [2, 4, 6]
    row = task(app, ref)
    assert (row["status"], row["attempt"], row["lost"]) == (Status.FAILED, 8, 5)
    assert "died 2 times in a row" in row["remark"]


def test_a_task_that_runs_again_by_hand_begins_with_all_its_lives(app, clock):
    @app.task(retries=10, backoff="1s", max_lost=2, keep_failed="1h")
    def fail() -> None:
        raise ValueError("no")

    ref = fail.enqueue()
    lose(app)
    app.drain()
    ref.cancel("enough")
    operate.retry(app.fleet, ref.id)

    row = task(app, ref)
    assert (row["status"], row["lost"], row["lost_in_a_row"]) == (Status.WAITING, 0, 0)


def test_a_task_that_outlives_two_dead_workers_is_run_alone(app, work, seen):
    ref = work.enqueue(7)
    lose(app)
    abandoned_again(app, ref)

    app.drain()

    assert seen == [(7, 3)]
    row = task(app, ref)
    assert (row["status"], row["attempt"], row["lost"]) == (Status.SUCCEEDED, 3, 2)


def write(app, group):
    """Finish what is in `group`."""
    site = Site.at(app.fleet.single, app.registry)
    return write_group(site, group, [], beside=lambda _connection, _accepted: None, tries=1)


def abandoned_again(app, ref):
    """Lose the abandoned row of `ref` a second time: a worker takes it over and dies too."""
    from windlass.database.dialect.base import Stamp

    second = Doomed(app)
    now = app.clock.now()
    stamp = Stamp(second.numbers.take()[0], second.number, now, now + 30 * SECOND)
    max_lost = {name: kind.max_lost for name, kind in app.registry.kinds.items()}
    fail = app.worker().finish.fail_as_poison
    triage = Triage(max_lost, alone=True)
    taken = Rows(app.database).rescue(stamp, triage, limit=10, fail_as_poison=fail)
    assert [held.id for held in taken.again] == [ref.id]
    assert second.die() == 1


@pytest.mark.parametrize("max_lost", [1, 2, 3])
def test_a_task_whose_worker_died_each_time_fails_as_poison(app, max_lost):
    seen = []

    @app.task(max_lost=max_lost, retries=10)
    def poison() -> None:
        seen.append(1)

    ref = poison.enqueue()
    app.database.write(
        lambda connection: connection.exec_driver_sql(
            f"update windlass_task set lost = {max_lost - 1}, lost_in_a_row = {max_lost - 1}, "
            f"attempt = {max_lost - 1}"
        )
    )
    lose(app)
    app.drain()

    assert seen == []
    row = task(app, ref)
    assert (row["status"], row["attempt"], row["lost"]) == (Status.FAILED, max_lost, max_lost)
    with pytest.raises(TaskFailed, match=f"poison: its worker died {max_lost} times"):
        ref.result()
    assert len(failures(app)) == 1


def test_poison_raises_an_alert_that_a_person_can_read(app):
    @app.task(max_lost=1)
    def poison() -> None: ...

    ref = poison.enqueue()
    lose(app)
    app.drain()

    (raised,) = app.alerts()
    assert (raised.what, raised.kind, raised.task_id) == ("poison", "poison", ref.id)
    assert f"task {ref.id} of kind 'poison'" in raised.text
    assert count(app, alert) == 1


async def test_alerts_have_an_async_twin_and_a_limit(app):
    for name in ("arsenic", "belladonna", "cyanide"):
        poison = app.task(max_lost=1, name=name)(lambda: None)
        await poison.aenqueue()
    doomed = Doomed(app)
    doomed.take(limit=3)
    doomed.die()
    await app.adrain()

    newest = await app.aalerts()
    assert len(newest) == 3
    assert [each.raised_at for each in newest] == sorted(
        (each.raised_at for each in newest), reverse=True
    )
    assert await app.aalerts(2) == newest[:2]


def test_a_dead_worker_changes_nothing_any_more(app, work, seen):
    ref = work.enqueue()
    doomed = Doomed(app)
    (held,) = doomed.take()
    doomed.die()
    before = tasks(app)
    done = Change(
        id=held.id,
        fence=held.fence,
        started_at=held.started_at,
        status=Status.SUCCEEDED,
        due_at=None,
        attempt=held.attempt,
        lost=0,
        finished_at=1,
        prune_at=None,
        last_status=None,
        result='"stale"',
        remark=None,
    )

    written = write(app, Group(worker=doomed.number, now=1, changes=[done]))
    removed = write(app, Group(worker=doomed.number, now=1, removals={held.id: held.batch}))

    assert (written, removed) == (None, None)
    assert tasks(app) == before
    assert count(app, stat) == 0
    app.drain()
    assert ref.result() == "done"


def test_a_stale_batch_changes_nothing_though_its_worker_lives(app, work):
    ref = work.enqueue()
    living = Doomed(app)
    (held,) = living.take()
    ref.cancel("changed my mind")
    before = tasks(app)

    accepted = write(app, Group(worker=living.number, now=1, removals={held.id: held.batch}))

    assert accepted == set()
    assert tasks(app) == before


def test_a_worker_with_a_valid_lease_cannot_be_marked_dead(app, work):
    work.enqueue()
    living = Doomed(app)
    living.take()

    abandoned = mark_dead(app.database, FACES, number=living.number, now=app.clock.now(), why="no")

    assert abandoned is None
    assert workers(app, id=living.number)[0]["left_at"] is None


def test_only_the_rows_of_the_dead_worker_are_abandoned(app, work):
    work.enqueue_many([{"number": number} for number in range(10)])
    living, doomed = Doomed(app), Doomed(app)
    living.take(limit=4)
    doomed.take(limit=3)

    assert doomed.die() == 3

    abandoned = [row["id"] for row in tasks(app, status=1) if row["batch"] is None]
    assert abandoned == [held.id for held in doomed.held]


def test_a_worker_that_leaves_hands_back_its_rows_without_counting(app, work, seen):
    work.enqueue()
    leaving = Doomed(app)
    leaving.take()

    handed_back = leave(
        app.database, FACES, number=leaving.number, now=app.clock.now(), why="stopped", due={}
    )

    assert handed_back == 1
    (row,) = tasks(app)
    assert (row["status"], row["attempt"], row["lost"], row["batch"]) == (0, 0, 0, None)
    app.drain()
    assert seen == [(0, 1)]


def test_leaving_or_dying_twice_happens_once(app, work):
    work.enqueue()
    gone = Doomed(app)
    gone.take()
    gone.die()

    assert gone.die() is None
    assert (
        leave(app.database, FACES, number=gone.number, now=app.clock.now(), why="x", due={}) is None
    )
    (row,) = workers(app)
    assert row["left_why"] == "test"


def test_many_poison_rows_fail_together(app):
    @app.task(max_lost=1)
    def fragile() -> None: ...

    refs = fragile.enqueue_many([{}] * 100)
    doomed = Doomed(app)
    doomed.take(limit=100)
    doomed.die()

    app.drain()

    assert {ref.status() for ref in refs} == {Status.FAILED}
    (alert,) = [each for each in app.alerts(limit=200) if each.what == "poison"]
    assert (alert.kind, alert.times) == ("fragile", 100)
    assert {(row["attempt"], row["lost"]) for row in tasks(app)} == {(1, 1)}


def test_a_row_that_snoozes_forgets_the_workers_it_lost(app):
    @app.task(max_lost=3)
    def poll() -> None:
        raise Snooze("1h")

    poll.enqueue()
    lose(app)

    app.drain()

    (row,) = tasks(app)
    assert (row["status"], row["attempt"], row["lost"]) == (Status.WAITING, 0, 0)
