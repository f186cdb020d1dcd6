"""Buckets that change hands: acquired, given up, left behind, and inherited."""

import pytest
from sqlalchemy import select

from tests.core.fetch.manual_worker import snapshot
from tests.core.ring.peer import Mate, die, pass_by, settle
from tests.table import task, tasks, workers
from windlass import Status
from windlass.core.fetch.claim import Rows
from windlass.core.ring import store as ring_store
from windlass.core.ring.ring import GIVE_UP_AFTER
from windlass.core.run.ready import Run
from windlass.database import schema
from windlass.database.dialect.base import Most, Tier

BUCKETS = set(range(256))


pytestmark = pytest.mark.usefixtures("one_clock")


@pytest.fixture
def second(app):
    @app.task(keep="1d")
    async def second() -> None: ...

    return second


def test_only_what_is_free_is_acquired(app, step):
    first = Mate(app)
    settle(first)
    joining = Mate(app)

    joining.fetcher()

    assert joining.buckets == set()
    assert owners(app) == dict.fromkeys(BUCKETS, first.id)
    settle(first, joining)
    assert joining.buckets | first.buckets == BUCKETS
    assert joining.buckets & first.buckets == set()
    assert set(owners(app).values()) == {first.id, joining.id}


def test_members_that_see_different_lists_never_own_one_bucket_together(app, step):
    mates = [Mate(app) for _ in range(4)]
    for round_ in range(12):
        # Only some of them look who is there.
        mates[round_ % 4].beat()
        for mate in mates:
            mate.fetcher()
        pass_by(mates[0].clock, 0.3)
        owned = [number for mate in mates for number in mate.buckets]
        assert len(owned) == len(set(owned))
    settle(*mates)
    assert set().union(*(mate.buckets for mate in mates)) == BUCKETS


def test_what_runs_is_marked_before_its_bucket_is_given_up(app, step):
    giver, taker, runs = one_that_gives_up(app, step)
    given = [run for run in runs if run.task.bucket not in giver.ring._wanted]
    assert {run.task.is_read for run in given} == {True}

    settle(giver, taker)

    assert {task(app, run.task.id)["status"] for run in given} == {Status.RUNNING}
    assert taker.take() == []
    assert all(giver.finish(run) for run in runs)


def test_what_ended_and_is_not_written_is_marked_before_its_bucket_is_given_up(app, step):
    giver, taker, runs = one_that_gives_up(app, step)
    given = [run for run in runs if run.task.bucket not in giver.ring._wanted]
    for run in runs:
        giver.end(run)

    settle(giver, taker)
    assert taker.take() == []
    assert {run.task.is_read for run in given} == {False}
    giver.flush()

    assert {task(app, run.task.id)["status"] for run in runs} == {Status.SUCCEEDED}
    assert {task(app, run.task.id)["attempt"] for run in runs} == {1}


def test_what_is_being_written_is_marked_before_its_bucket_is_given_up(app, step):
    giver, taker, runs = one_that_gives_up(app, step)
    for run in runs:
        giver.end(run)
    committing = giver.in_flight.take_ended(100)

    settle(giver, taker)
    assert taker.take() == []
    giver.in_flight.put_back(committing)
    giver.flush()

    assert {task(app, run.task.id)["status"] for run in runs} == {Status.SUCCEEDED}


def test_what_has_not_begun_is_forgotten_when_its_bucket_is_given_up(app, step):
    giver = Mate(app)
    settle(giver)
    refs = step.enqueue_many([{}] * 40)
    giver.fetcher()
    taker = Mate(app)
    settle(giver, taker)

    here, there = giver.take(), taker.take()

    ours, theirs = ({run.task.id for run in runs} for runs in (here, there))
    assert ours
    assert theirs
    assert ours & theirs == set()
    assert ours | theirs == {ref.id for ref in refs}
    assert {run.task.is_read for run in (*here, *there)} == {True}


def test_what_runs_gets_a_moment_to_end_before_it_is_marked(app, step, clock):
    giver, taker, runs = one_that_gives_up(app, step)
    giver.fetcher()
    given = [run for run in runs if run.task.bucket not in giver.ring._wanted]
    before = snapshot(app)

    pass_by(clock, GIVE_UP_AFTER / 2)
    giver.fetcher()
    assert snapshot(app) == before
    for run in given:
        assert giver.finish(run)
    giver.fetcher()

    taker.fetcher()
    assert taker.buckets | giver.buckets == BUCKETS
    assert {run.task.is_read for run in given} == {True}


def test_a_bucket_that_was_to_be_given_up_and_is_ours_again_is_read_again(app, step):
    worker = Mate(app)
    settle(worker)
    step.enqueue_many([{}] * 40)
    runs = worker.take()
    other = Mate(app)
    worker.beat()
    worker.fetcher()
    other.leave()
    worker.beat()
    for run in runs:
        assert worker.finish(run)

    worker.fetcher()
    settle(worker)

    assert worker.buckets == BUCKETS


def test_the_dead_lose_their_buckets_and_their_heirs_are_told_in_one_transaction(
    app, step, clock, monkeypatch
):
    step.enqueue_many([{}] * 4)
    dead = Mate(app)
    settle(dead)
    dead.take()
    dead.run_long()
    pass_by(clock, 10)

    def broken(_number: int) -> None:
        raise RuntimeError("in the middle")

    before = snapshot(app)
    with monkeypatch.context() as patch:
        patch.setattr(ring_store, "claimed_by", broken)
        with pytest.raises(RuntimeError):
            dead.be_marked_dead()
    assert set(owners(app).values()) == {dead.id}
    assert workers(app, id=dead.id)[0]["left_at"] is None
    assert snapshot(app) == before

    assert dead.be_marked_dead() == 4
    (row,) = workers(app, id=dead.id)
    assert set(owners(app).values()) == {None}
    assert careful(app) == {row["left_at"]}
    assert {(values["due_at"], values["batch"]) for values in tasks(app)} == {
        (row["left_at"], None)
    }


def test_rows_of_the_dead_are_claimed_and_counted_when_they_are_lost_again(app, step, clock):
    refs = step.enqueue_many([{}] * 3)
    dead = Mate(app)
    settle(dead)
    dead.take()
    heir = Mate(app)
    die(dead, heir)
    settle(heir)

    claimed = heir.take()
    assert {(run.task.is_read, run.task.lost, run.task.attempt) for run in claimed} == {
        (False, 0, 1)
    }
    last = Mate(app)
    die(heir, last)
    settle(last)
    inherited = last.take()

    assert {run.task.id for run in inherited} == {ref.id for ref in refs}
    assert {(run.task.lost, run.task.attempt, run.task.tries) for run in inherited} == {(1, 2, 1)}
    assert all(last.finish(run) for run in inherited)


def test_a_clean_exit_hands_back_claims_uncounted_and_frees_its_buckets_at_once(
    app, step, clock, monkeypatch
):
    step.enqueue_many([{}] * 6)
    leaver = Mate(app)
    settle(leaver)
    leaver.take()
    leaver.run_long()
    (*_, ended) = leaver.runs
    leaver.end(ended)

    def broken(*_asked: object, **_options: object) -> None:
        raise RuntimeError("in the middle")

    with monkeypatch.context() as patch:
        patch.setattr(ring_store, "hand_back", broken)
        with pytest.raises(RuntimeError):
            leaver.heartbeat._leave("broken")
    assert set(owners(app).values()) == {leaver.id}

    leaver.leave()
    assert set(owners(app).values()) == {None}
    assert careful(app) == {0}
    assert workers(app, id=leaver.id)[0]["left_why"] == "stopped"
    rows = {row["id"]: row for row in tasks(app)}
    assert rows.pop(ended.task.id)["status"] == Status.SUCCEEDED
    assert {
        (row["status"], row["attempt"], row["lost"], row["batch"], row["worker"])
        for row in rows.values()
    } == {(Status.WAITING, 0, 0, None, None)}


def test_a_clean_exit_hands_back_what_it_claimed_in_buckets_of_others(app, step):
    owner = Mate(app)
    settle(owner)
    step.enqueue_many([{}] * 6)
    leaver = Mate(app)
    owner.beat()
    taken = claim_foreign_rows(app, owner, leaver)
    assert leaver.buckets == set()

    leaver.leave()

    assert {values["status"] for values in tasks(app)} == {Status.WAITING}
    owner.beat()
    settle(owner)
    assert {run.task.id for run in owner.take()} >= {run.task.id for run in taken}


def test_a_worker_that_joined_anew_reads_nothing_in_the_buckets_of_its_former_id(
    app, step, second, monkeypatch
):
    zombie, heir = Mate(app), Mate(app)
    settle(zombie, heir)
    for kind in (step, second):
        kind.enqueue_many([{}] * 20)
    read = Rows.read
    stops = iter([True])

    def stopped(*asked):
        rows = read(*asked)
        if next(stops, False):
            # Its process is stopped here. When it wakes up, the first to move is its heartbeat.
            die(zombie, heir)
            settle(heir)
            for kind in (step, second):
                kind.enqueue_many([{}] * 20)
            heir.take()
            zombie.beat()
        return rows

    monkeypatch.setattr(Rows, "read", stopped)
    zombie.fetcher()
    zombie.start_all()

    assert set(zombie.running) & set(heir.running) == set()
    assert len(heir.running) == 80


def test_a_worker_that_joined_anew_owns_nothing_that_it_acquired_under_its_former_id(
    app, step, monkeypatch
):
    zombie, heir = Mate(app), Mate(app)
    write = app.database.write_as
    stops = iter([True])

    def slow(worker, work, **options):
        answer = write(worker, work, **options)
        if "_take" in work.__qualname__ and next(stops, False):
            # It has acquired its buckets, and the answer takes longer than its life.
            die(zombie, heir)
            settle(heir)
            zombie.beat()
        return answer

    monkeypatch.setattr(app.database, "write_as", slow)
    zombie.worker.fetcher._claims.tend()

    assert next(stops, None) is None
    assert zombie.buckets & heir.buckets == set()
    assert heir.buckets == BUCKETS


def one_that_gives_up(app, step) -> tuple[Mate, Mate, list[Run]]:
    """One that owned everything and runs some of it, and one that has just joined."""
    giver = Mate(app)
    settle(giver)
    step.enqueue_many([{}] * 40)
    runs = giver.take()
    taker = Mate(app)
    giver.beat()
    return giver, taker, runs


def claim_foreign_rows(app, owner: Mate, other: Mate) -> list[Run]:
    """Let another worker claim what the owner offers."""
    most = Most(100, app.clock.now())
    Rows(app.database).offer(owner.id, Tier("step", 0, 0), most, unless=())
    return other.take()


def owners(app) -> dict[int, int | None]:
    found = app.database.read(ring_store.buckets)
    return {number: each.owner for number, each in found.items()}


def careful(app) -> set[int]:
    query = select(schema.bucket.c.careful_to).distinct()
    return set(app.database.read(lambda connection: connection.scalars(query).all()))
