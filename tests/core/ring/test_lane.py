"""Lanes keep their order when buckets change hands, when workers die, and beside strangers."""

import pytest

from tests.core.ring.peer import Mate, die, pass_by, settle
from tests.table import task, tasks
from windlass import Status
from windlass.core.ring.ring import GIVE_UP_AFTER
from windlass.value.bucket import owned_with
from windlass.value.outcome import Retried

pytestmark = pytest.mark.usefixtures("one_clock")


@pytest.fixture
def laned(app):
    @app.task(keep="1d", retries=3, lane=lambda name: name[0])
    async def laned(name: str) -> None: ...

    return laned


@pytest.fixture
def plain(app):
    @app.task(keep="1d")
    async def plain() -> None: ...

    return plain


def enqueue(laned, *names: str) -> list[int]:
    return [laned.enqueue(name).id for name in names]


def taken_by(mate: Mate) -> list[int]:
    return [run.task.id for run in mate.take()]


def lane_of(app, laned, mate: Mate) -> str:
    """A lane in the buckets of a mate."""
    for letter in "abcdefghijklmnopqrstuvwxyz":
        ref = laned.enqueue(letter)
        bucket = owned_with(task(app, ref)["bucket"])
        ref.cancel()
        if bucket in mate.buckets:
            return letter
    raise AssertionError("no lane is there")


@pytest.mark.everywhere
def test_the_next_row_of_a_lane_starts_when_the_outcome_of_the_last_is_written(app, laned):
    mate = Mate(app)
    settle(mate)
    first, second = enqueue(laned, "a1", "a2")

    assert taken_by(mate) == [first]
    mate.end(mate.runs[0])
    assert taken_by(mate) == []
    mate.flush()

    assert taken_by(mate) == [second]


@pytest.mark.everywhere
def test_a_new_owner_waits_for_what_the_last_one_still_runs(app, laned, clock):
    old = Mate(app)
    settle(old)
    rows = {name: enqueue(laned, f"{name}1", f"{name}2") for name in "abcdefgh"}
    running = {run.task.id: run for run in old.take()}
    assert sorted(running) == sorted(first for first, _ in rows.values())

    new = Mate(app)
    settle(old, new)
    pass_by(clock, GIVE_UP_AFTER + 1)
    settle(old, new)
    assert taken_by(new) == []
    for run in running.values():
        assert old.finish(run)
    pass_by(clock, 1.1)
    seconds = sorted([*taken_by(new), *taken_by(old)])

    assert seconds == sorted(second for _, second in rows.values())


@pytest.mark.everywhere
def test_after_a_death_what_had_begun_comes_first_again(app, laned, clock):
    dead, heir = Mate(app), Mate(app)
    settle(dead, heir)
    lane = lane_of(app, laned, dead)
    first, second, third = enqueue(laned, f"{lane}1", f"{lane}2", f"{lane}3")
    assert taken_by(dead) == [first]
    assert taken_by(heir) == []

    die(dead, heir)
    settle(heir)
    order = []
    for _ in range(3):
        (run,) = heir.take()
        order.append(run.task.id)
        assert heir.take() == []
        assert heir.finish(run)
        pass_by(clock, 0.3)

    assert order == [first, second, third]


def test_after_a_death_a_long_run_keeps_its_lane_until_it_was_taken_over(app, laned, clock):
    dead, heir = Mate(app), Mate(app)
    settle(dead, heir)
    lane = lane_of(app, laned, dead)
    first, second = enqueue(laned, f"{lane}1", f"{lane}2")
    assert taken_by(dead) == [first]
    dead.run_long()
    assert task(app, first)["status"] == Status.RUNNING

    die(dead, heir)
    settle(heir)
    pass_by(clock, 1.1)
    order = []
    for _ in range(2):
        runs = heir.take()
        assert len(runs) == 1
        order.append(runs[0].task.id)
        assert heir.finish(runs[0])
        pass_by(clock, 1.1)

    assert order == [first, second]
    assert task(app, first)["lost"] == 1


def test_a_row_that_was_handed_back_is_the_next_of_its_lane(app, laned, clock):
    old = Mate(app)
    settle(old)
    first, _second = enqueue(laned, "a1", "a2")
    assert taken_by(old) == [first]
    old.run_long()
    old.leave()
    assert task(app, first)["status"] == Status.WAITING

    new = Mate(app)
    settle(new)
    pass_by(clock, 1.1)

    assert taken_by(new) == [first]


def test_a_held_lane_stays_held_when_its_bucket_changes_hands(app, laned, clock):
    old = Mate(app)
    settle(old)
    first, _second = enqueue(laned, "a1", "a2")
    (run,) = old.take()
    old.finish(run, Retried(60_000_000, "later", ""))
    old.leave()

    new = Mate(app)
    settle(new)
    assert taken_by(new) == []
    for _ in range(61):
        pass_by(clock, 1.0)
        new.beat()

    assert taken_by(new) == [first]


@pytest.mark.everywhere
def test_with_pass_a_row_that_was_handed_back_and_then_fails_does_not_hold_its_lane(app, clock):
    @app.task(retries=3, lane=lambda name: name[0], on_failure="pass")
    async def passing(name: str) -> None: ...

    old, new = Mate(app), Mate(app)
    settle(old, new)
    first, second = enqueue(passing, "a1", "a2")
    (owner,) = (mate for mate in (old, new) if mate.take())
    heir = new if owner is old else old
    owner.leave()
    settle(heir)
    pass_by(clock, 1.1)
    heir.beat()
    (run,) = heir.take()
    assert run.task.id == first

    assert heir.finish(run, Retried(60_000_000, "later", ""))
    pass_by(clock, 0.3)

    assert taken_by(heir) == [second]


@pytest.mark.everywhere
def test_others_run_lanes_in_order_whose_owner_does_not_serve_their_kind(app, laned, plain, clock):
    owner = Mate(app, kinds=["plain"])
    settle(owner)
    strangers = [Mate(app), Mate(app)]
    settle(owner, *strangers)
    lane = lane_of(app, laned, owner)
    rows = enqueue(laned, f"{lane}1", f"{lane}2", f"{lane}3")

    order = []
    for _ in range(3):
        taken = [(mate, run) for mate in strangers for run in mate.take()]
        assert len(taken) == 1
        mate, run = taken[0]
        assert not run.task.is_read
        order.append(run.task.id)
        mate.finish(run)
        pass_by(clock, 0.3)
        for each in (owner, *strangers):
            each.beat()

    assert order == rows
    assert owner.take() == []


def test_rows_of_lanes_are_never_offered(app, laned, clock):
    busy, idle = Mate(app, concurrency=1), Mate(app, concurrency=50)
    settle(busy, idle)
    letters = [chr(number) for number in range(0x4E00, 0x4E00 + 200)]
    enqueue(laned, *letters)
    busy.fetcher()
    for _ in range(6):
        pass_by(clock, 0.5)
        idle.beat()
        busy.beat()
        busy.fetcher()
        busy.offer()

    assert tasks(app, batch=0) == []


def test_a_worker_of_an_older_release_does_not_see_rows_of_lanes(app, laned, plain):
    (number,) = enqueue(laned, "a")

    assert task(app, number)["bucket"] >= 256
    assert task(app, plain.enqueue())["bucket"] < 256
