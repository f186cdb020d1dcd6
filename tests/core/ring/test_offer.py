"""Rows that others run than the owner of their bucket: offered by it, or not its kind."""

from concurrent.futures import ThreadPoolExecutor, wait

import pytest
from sqlalchemy import insert, select

from tests.core.ring.peer import Mate, die, pass_by, settle
from tests.table import task, tasks, workers
from windlass import BadMembers, Status
from windlass.clock import SECOND
from windlass.core.fetch import store as fetch_store
from windlass.core.fetch.claim import Rows
from windlass.core.fetch.help import HELP_AGAIN_AFTER
from windlass.core.ring import store as ring_store
from windlass.database import schema
from windlass.database.dialect.base import Most, Tier

pytestmark = [pytest.mark.usefixtures("one_clock"), pytest.mark.mostly("postgresql")]


@pytest.fixture
def rare(app):
    @app.task(keep="1d")
    async def rare() -> None: ...

    return rare


def busy_and_idle(app, step, rows: int) -> tuple[Mate, Mate]:
    """One that has more than it can start, and one that has nothing to do."""
    busy, idle = Mate(app, concurrency=2), Mate(app, concurrency=50)
    settle(busy, idle)
    idle.fetcher()
    for number in range(1_000):
        ref = step.using(key=f"key-{number}").enqueue()
        if task(app, ref)["bucket"] not in busy.buckets:
            ref.cancel()
        elif (rows := rows - 1) == 0:
            break
    busy.fetcher()
    for _ in range(3):
        # One has found nothing and says so; the other has been behind for a while.
        pass_by(busy.clock, 0.5)
        idle.beat()
        busy.fetcher()
    busy.beat()
    return busy, idle


def test_a_busy_owner_offers_to_an_idle_worker_nothing_that_it_has_begun(app, step, clock):
    busy, _idle = busy_and_idle(app, step, 30)
    running = busy.start_all()
    assert len(running) == 2

    pass_by(clock, HELP_AGAIN_AFTER + 0.1)
    busy.fetcher()
    offered = {row["id"] for row in tasks(app, batch=0)}

    assert offered
    assert offered & busy.in_flight.rows.ids == set()
    assert count(app) == len(offered)
    assert all(busy.finish(run) for run in running)


def test_offered_rows_run_once(app, step, clock):
    busy, idle = busy_and_idle(app, step, 30)
    open_rows = {row["id"] for row in tasks(app, status=Status.WAITING)}
    began: list[int] = []
    for _ in range(60):
        pass_by(clock, 0.3)
        for mate in (busy, idle):
            mate.beat()
            mate.fetcher()
            runs = mate.start_all()
            began += [run.task.id for run in runs]
            assert all(mate.finish(run) for run in runs)

    assert sorted(began) == sorted(open_rows)
    assert idle.worker.finish.done > busy.worker.finish.done
    assert count(app) == 0


@pytest.mark.mostly("postgresql", "mariadb")
def test_an_owner_that_has_time_again_claims_what_it_offered(app, step, clock):
    busy, idle = busy_and_idle(app, step, 30)
    busy.start_all()
    pass_by(clock, HELP_AGAIN_AFTER + 0.1)
    busy.fetcher()
    offered = {row["id"] for row in tasks(app, batch=0)}
    idle.leave()

    done = set()
    for _ in range(60):
        pass_by(clock, 0.3)
        busy.beat()
        for run in list(busy.runs):
            if busy.finish(run):
                done.add(run.task.id)
        busy.fetcher()
        busy.start_all()

    assert offered
    assert offered <= done
    assert tasks(app, status=Status.WAITING) == []


def test_what_was_offered_is_not_forgotten_by_those_who_are_busy(app, step, clock):
    busy, idle = busy_and_idle(app, step, 60)
    busy.start_all()
    pass_by(clock, HELP_AGAIN_AFTER + 0.1)
    busy.fetcher()
    offered = {row["id"] for row in tasks(app, batch=0)}
    assert offered
    idle.leave()
    began = set()
    for _ in range(40):
        # There is always something that is its own.
        step.enqueue_many([{}] * 4)
        pass_by(clock, 0.3)
        busy.beat()
        began |= {run.task.id for run in busy.runs}
        for run in list(busy.runs):
            busy.finish(run)
        busy.fetcher()
        busy.start_all()

    assert len(offered & began) > 5


def test_a_row_that_its_owner_cannot_start_is_offered_even_if_it_is_the_only_one(app, step, clock):
    busy, idle = busy_and_idle(app, step, 3)
    assert len(busy.start_all()) == 2

    for _ in range(3):
        pass_by(clock, HELP_AGAIN_AFTER + 0.1)
        busy.fetcher()
        idle.beat()

    assert len(tasks(app, batch=0)) == 1


@pytest.mark.mostly("mariadb")
def test_no_more_is_offered_than_others_have_time_for(app, step, clock):
    busy, idle = busy_and_idle(app, step, 200)
    idle.in_flight.concurrency = 3
    busy.start_all()
    for _ in range(8):
        pass_by(clock, 0.3)
        idle.fetcher()
        idle.beat()
        busy.beat()
        busy.fetcher()

    assert 0 < len(tasks(app, batch=0)) <= 50


def test_an_entry_that_somebody_is_about_to_delete_is_not_an_offer(app, step, clock):
    if app.database.dialect.is_embedded:
        pytest.skip("SQLite lets nobody in while somebody writes")
    owner = Mate(app)
    settle(owner)
    ref = step.enqueue()
    kind, due_at = "step", task(app, ref)["due_at"]
    stale = {"task_id": ref.id, "kind": kind, "due_at": due_at}
    app.database.write(lambda connection: connection.execute(insert(schema.offer), [stale]))
    most = Most(10, clock.now(), range(3), range(256))
    tier, make = Tier(kind, 0, due_at), Rows(app.database).offer
    with ThreadPoolExecutor() as threads:
        with app.database.engine.connect() as helper, helper.begin():
            entry = select(schema.offer.c.task_id).with_for_update()
            assert helper.execute(entry).scalar_one() == ref.id
            offering = threads.submit(make, owner.id, tier, most, unless=())
            assert wait([offering], timeout=0.3).done == set()
            app.database.dialect.remove_offers(helper, [ref.id])
        made = offering.result(20)

    assert made.offered == [ref.id]
    assert task(app, ref)["batch"] == 0
    assert count(app) == 1


def test_an_offer_of_a_row_that_is_gone_meanwhile_is_worth_nothing(app, step, clock):
    busy, idle = busy_and_idle(app, step, 30)
    busy.start_all()
    pass_by(clock, HELP_AGAIN_AFTER + 0.1)
    busy.fetcher()
    offered = [row["id"] for row in tasks(app, batch=0)]
    assert offered
    for number in offered:
        assert app.cancel(number)

    assert idle.take() == []
    assert {task(app, number)["status"] for number in offered} == {Status.CANCELLED}
    assert count(app) == 0


def test_offers_of_one_that_died_are_claimed_by_others(app, step, clock):
    busy, idle = busy_and_idle(app, step, 30)
    busy.start_all()
    pass_by(clock, HELP_AGAIN_AFTER + 0.1)
    busy.fetcher()
    open_rows = {row["id"] for row in tasks(app, status=Status.WAITING)}
    die(busy, idle)
    settle(idle)

    done = set()
    for _ in range(20):
        runs = idle.take()
        done |= {run.task.id for run in runs if idle.finish(run)}
        pass_by(clock, 0.3)
        idle.beat()

    assert done == open_rows


def test_what_the_owner_does_not_serve_is_run_by_others_and_never_twice(app, step, rare, clock):
    owner, one, other = Mate(app, kinds=["step"]), Mate(app), Mate(app)
    mates = (owner, one, other)
    settle(*mates)
    refs = rare.enqueue_many([{}] * 60)
    began: list[int] = []
    for _ in range(20):
        for mate in mates:
            mate.beat()
            mate.fetcher()
        for mate in mates:
            runs = mate.start_all()
            began += [run.task.id for run in runs]
            assert all(mate.finish(run) for run in runs)
        pass_by(clock, 0.3)

    assert sorted(began) == sorted(ref.id for ref in refs)
    assert {ref.status() for ref in refs} == {Status.SUCCEEDED}


def test_rows_of_a_stranger_wait_for_a_worker_that_serves_them(app, step, rare, clock):
    stranger = Mate(app, kinds=["step"])
    settle(stranger)
    ref = rare.enqueue()
    pass_by(clock, 1.5)
    assert stranger.take() == []

    server = Mate(app, kinds=["rare"])
    server.beat()
    (run,) = server.take()

    assert not run.task.is_read
    assert server.finish(run)
    assert ref.status() is Status.SUCCEEDED


def test_what_its_owner_serves_is_not_for_strangers(app, step, rare, clock):
    """One joins who does not serve the kind: what the owner reads stays the owner's."""
    owner, other = Mate(app), Mate(app)
    settle(owner, other)
    stranger = Mate(app, kinds=["step"])
    rare.enqueue_many([{}] * 40)
    owner.fetcher()
    runs = owner.start_all()
    other.beat()
    others = other.take()

    assert {run.task.id for run in runs} & {run.task.id for run in others} == set()
    assert all(owner.finish(run) for run in runs)
    stranger.leave()


def test_workers_that_know_each_other_by_different_means_are_refused(app, step):
    member = Mate(app)
    now = app.clock.now()
    _ring, agreed = app.database.write(
        lambda connection: ring_store.agree(connection, "etcd", now=now, silent={})
    )
    assert agreed == "database"

    class Coordinator:
        kind = "etcd"

        def listen(self, _wake) -> None: ...

        def join(self, _ring, _number) -> None:
            raise AssertionError("it may not join")

    late = app.worker()
    late.heartbeat._members = Coordinator()
    with pytest.raises(BadMembers, match="use database for membership"):
        late.heartbeat.join_ring()

    member.leave()
    _ring, agreed = app.database.write(
        lambda connection: ring_store.agree(connection, "etcd", now=now, silent={})
    )
    assert agreed == "etcd"


def test_a_lease_that_ended_by_the_clock_alone_does_not_change_the_means(app, step):
    member = Mate(app)
    (lease,) = [row["lease_until"] for row in workers(app)]
    late = app.clock.now() + 3600 * SECOND

    def agreed(silent: dict[int, int]) -> str:
        return app.database.write(
            lambda connection: ring_store.agree(connection, "etcd", now=late, silent=silent)
        )[1]

    assert agreed({}) == "database"
    assert agreed({member.id: lease - 1}) == "database"
    assert agreed({member.id: lease}) == "etcd"


def count(app) -> int:
    """How many rows are offered."""
    return app.database.read(fetch_store.offered_count)
