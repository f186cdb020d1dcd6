"""The holes of a careless ring, each stepped by hand over the real store and engine.

Two or three workers, one tick at a time, no threads: what would break it happens on purpose.
"""

import pytest
from sqlalchemy import select
from sqlalchemy.exc import DBAPIError

from tests.core.fetch.manual_worker import snapshot
from tests.core.ring.peer import LEASE, Mate, die, pass_by, settle
from tests.table import task, workers
from tests.wait import eventually
from windlass import Status
from windlass.app import FACES
from windlass.clock import SECOND
from windlass.core.fetch.claim import Rows, Triage
from windlass.core.ring import store as ring_store
from windlass.core.ring.heartbeat import leave
from windlass.database import schema
from windlass.database.database import Numbers
from windlass.database.dialect.base import Most, Stamp, Tier
from windlass.value.outcome import Succeeded

pytestmark = pytest.mark.usefixtures("one_clock")


@pytest.fixture
def owner(app, step) -> Mate:
    """A worker that owns every bucket."""
    mate = Mate(app)
    settle(mate)
    return mate


def test_the_owner_does_not_read_a_lapsed_claim(app, step, owner, clock):
    ref = step.enqueue()
    helper = offered_to_helper(app, owner)
    (run,) = helper.take()

    for _ in range(8):
        pass_by(clock, LEASE / SECOND / 4)
        owner.beat()
        assert owner.take() == []
        # It is slow, and its heart beats late: too late for its claim, but not for itself.
        renew(helper)

    assert task(app, ref)["due_at"] < clock.now()
    assert helper.finish(run)


def test_a_lapsed_claim_of_a_living_worker_is_not_taken_over(app, step, owner, clock):
    step.enqueue()
    (run,) = owner.take()
    owner.run_long()
    other = Mate(app)
    for _ in range(8):
        pass_by(clock, LEASE / SECOND / 4)
        renew(owner)
        other.beat()
        other.fetcher()

    assert other.start_all() == []
    assert owner.finish(run)


def test_an_outcome_counts_only_for_the_life_that_it_belongs_to(app, step, owner, clock):
    ref = step.enqueue()
    (run,) = owner.take()
    owner.end(run)
    former = owner.id
    successor = Mate(app)
    die(owner, successor)
    owner.beat()
    assert owner.id != former

    before = snapshot(app)
    owner.flush()

    assert snapshot(app) == before
    assert ref.status() is Status.WAITING


def test_what_ended_under_a_former_id_is_refused_and_its_second_run_stays_known(
    app, step, owner, clock
):
    """The worker comes back, and takes the very row over whose outcome it still has to write."""
    ref = step.enqueue()
    (former,) = owner.take()
    owner.run_long()
    owner.end(former)
    die(owner)
    owner.beat()
    settle(owner)
    owner.fetcher()

    owner.flush()
    # It has to wait for its turn, for longer than its claim lasts.
    for _ in range(LEASE // SECOND + 12):
        pass_by(clock, 1)
        owner.beat()
    owner.fetcher()
    runs = owner.start_all()

    assert [run.task.id for run in runs] == [ref.id]
    assert owner.finish(runs[0])
    assert ref.status() is Status.SUCCEEDED


def test_who_owned_a_bucket_a_moment_ago_does_not_make_its_rows_anybodys(app, step):
    """A helper that thinks of the owner as one who does not serve the kind finds another."""

    @app.task
    async def other() -> None: ...

    stranger, helper = Mate(app, kinds=["other"]), Mate(app)
    settle(stranger, helper)
    helper.beat()
    stranger.leave()
    owner = Mate(app)
    settle(owner, helper)
    step.enqueue_many([{}] * 20)
    taken = owner.take()
    assert taken

    tier, most = Tier("step", 0, 0), Most(100, app.clock.now())
    owners = [stranger.id]
    claimed = Rows(app.database).claim_foreign(tier, stamp(app, helper), most, owners=owners)

    assert claimed == []
    assert all(owner.finish(run) for run in taken)


def test_a_row_that_was_moved_while_it_runs_is_not_a_helpers(app, step, owner):
    ref = step.using(key="k").enqueue(1)
    (run,) = owner.take()
    step.using(key="k", on_conflict="replace").enqueue(2)
    helper = Mate(app)
    helper.fetcher()

    assert helper.start_all() == []
    assert Rows(app.database).claim_offered("step", stamp(app, helper), limit=10) == []
    assert not owner.finish(run)
    assert ref.status() is Status.WAITING


def test_an_owner_reads_nothing_that_is_offered_or_about_to_be_claimed(app, step, owner):
    step.enqueue()
    tier, most = Tier("step", 0, 0), Most(100, app.clock.now())
    assert len(Rows(app.database).read(tier, stamp(app, owner), most)) == 1
    make_offers(app, owner)
    asked = stamp(app, owner)
    assert Rows(app.database).read(tier, asked, most) == []

    query = select(schema.task.c.id).with_for_update()
    with app.database.engine.connect() as connection:
        writing = app.database.dialect.writing(connection)
        with writing.begin():
            # A helper has found the row, and has not committed its claim yet.
            ids = list(writing.scalars(query))
            app.database.dialect.stamp(writing, ids, asked)
            assert Rows(app.database).read(tier, asked, most) == []
    assert Rows(app.database).read(tier, asked, most) == []


def test_rows_are_claimed_after_an_unclean_death_and_read_after_a_clean_exit(app, step, owner):
    step.enqueue()
    owner.take()
    successor = Mate(app)
    die(owner, successor)
    settle(successor)
    (claimed,) = successor.take()
    assert successor.finish(claimed)
    fresh = step.enqueue()
    (read,) = successor.take()

    assert not claimed.task.is_read
    assert read.task.is_read
    assert read.task.id == fresh.id
    successor.finish(read)
    last = step.enqueue()
    successor.leave()
    successor = Mate(app)
    settle(successor)
    (run,) = successor.take()
    assert (run.task.id, run.task.is_read) == (last.id, True)


def test_what_kills_its_workers_is_poison_in_the_end_and_the_innocent_get_done(app, step):
    poison, *innocent = step.enqueue_many([{}] * 6)
    deaths = 0
    worker = Mate(app, concurrency=10)
    settle(worker)
    for _ in range(200):
        worker.beat()
        worker.fetcher()
        runs = worker.start_all()
        if any(run.task.id == poison.id for run in runs):
            deaths += 1
            die(worker)
            worker = Mate(app, concurrency=10)
        else:
            assert all(worker.finish(run) for run in runs)
        pass_by(worker.clock, 0.3)

    # The first time it was only read, and nothing was counted.
    assert deaths in (3, 4)
    assert poison.status() is Status.FAILED
    assert "poison" in task(app, poison)["remark"]
    assert {ref.status() for ref in innocent} == {Status.SUCCEEDED}


def test_a_claim_whose_answer_was_lost_is_handed_back_and_run(app, step, owner, clock):
    ref = step.enqueue()
    tier, most = Tier("step", 0, 0), Most(100, clock.now())
    assert Rows(app.database).claim(tier, stamp(app, owner), most)
    assert owner.take() == []

    for _ in range(LEASE // SECOND + 12):
        pass_by(clock, 1)
        owner.beat()
    (run,) = owner.take()

    assert (run.task.id, run.task.attempt, run.task.lost) == (ref.id, 1, 0)
    assert owner.finish(run)


def test_a_zombie_changes_nothing(app, step, owner, clock):
    step.enqueue_many([{}] * 4)
    runs = owner.take()
    owner.in_flight.end(runs[0], Succeeded())
    successor = Mate(app)
    zombie = owner.id
    # Its heart would find out; everything else acts before that.
    die(owner, successor)
    settle(successor)
    step.enqueue_many([{}] * 4)
    before, then = snapshot(app), workers(app, id=zombie)

    owner.flush()
    owner.run_long()
    make_offers(app, owner)
    owner.worker.fetcher._claims.tend()
    owner.fetcher()
    owner.start_all()
    now, fail = clock.now(), successor.worker.finish.fail_as_poison
    abandoned = Rows(app.database).rescue(
        stamp(app, owner, zombie),
        Triage({"step": 3}, alone=True),
        limit=10,
        fail_as_poison=fail,
    )
    assert leave(app.database, FACES, number=zombie, now=now, why="late", due={}) is None

    assert (abandoned.again, abandoned.poison, abandoned.put_back) == ([], [], [])
    assert snapshot(app) == before
    assert workers(app, id=zombie) == then


def test_a_worker_that_stands_still_inside_a_transaction_is_marked_dead_all_the_same(
    app, step, owner, clock
):
    dialect = app.database.dialect
    if dialect.is_embedded:
        pytest.skip("a process that stands still in a transaction of SQLite keeps everyone out")
    dialect.idle_milliseconds = 500
    with app.database.engine.connect() as connection:
        transaction = connection.begin()
        assert dialect.alive(connection, owner.id)
        pass_by(clock, 10)
        # Those who care for the dead do not wait for long, but come again with each beat.
        eventually(lambda: owner.be_marked_dead() == 0, 20.0, what="the mark that it is dead")
        with pytest.raises(DBAPIError) as caught:
            connection.execute(select(schema.task.c.id))
        connection.invalidate()
        transaction.rollback()
    assert app.database.can_retry(caught.value)
    assert workers(app, id=owner.id)[0]["left_at"] is not None


def test_a_zombie_offers_nothing_that_its_successor_runs(app, step, clock):
    """Zombie, successor, helper: random walks seldom find it, as the zombie must live long."""
    zombie, successor = Mate(app), Mate(app)
    settle(zombie, successor)
    share, number = zombie.ring.share, zombie.id
    die(zombie, successor)
    settle(successor)
    step.enqueue_many([{}] * 60)
    theirs = [
        run for run in successor.take() if any(run.task.bucket in part for part in share.runs)
    ]
    helper = Mate(app)
    assert theirs
    assert {run.task.is_read for run in theirs} == {True}

    tier = Tier("step", 0, 0)
    made = [
        Rows(app.database).offer(number, tier, Most(100, clock.now(), buckets=part), unless=())
        for part in share.runs
    ]
    zombie.offer()

    assert [each.offered for each in made] == [[] for _ in share.runs]
    assert Rows(app.database).claim_offered("step", stamp(app, helper), limit=100) == []
    assert {run.task.id for run in helper.take()} & set(successor.running) == set()
    assert all(successor.finish(run) for run in theirs)


def offered_to_helper(app, owner: Mate) -> Mate:
    """Offer all that is due to another worker, which owns nothing yet."""
    make_offers(app, owner)
    return Mate(app)


def make_offers(app, owner: Mate) -> None:
    tier, most = Tier("step", 0, 0), Most(100, app.clock.now())
    Rows(app.database).offer(owner.id, tier, most, unless=owner.in_flight.rows.ids)


def renew(mate: Mate) -> None:
    """A sign of life, and nothing else."""
    until = mate.clock.now() + mate.app.settings.dead_after
    assert mate.app.database.write(
        lambda connection: ring_store.renew(connection, number=mate.id, lease_until=until)
    )


def stamp(app, mate: Mate, worker: int | None = None) -> Stamp:
    now = app.clock.now()
    return Stamp(Numbers(app.database).take()[0], worker or mate.id, now, now + LEASE)
