"""The protocol of ranges: who may do what to a range, and what a late hand changes: nothing."""

import threading

import pytest

from tests.sweep.manual_worker import (
    SWEEP,
    SweepHand,
    begin,
    failures,
    history,
    key,
    listing,
    look,
    merge,
    open_ranges,
    row,
    split,
)
from tests.table import count
from windlass.database.schema import alert
from windlass.sweep.model import RangeOrder, Tile, audit
from windlass.sweep.store import failed_item
from windlass.sweep.store import range as ranges
from windlass.sweep.store import sweep as rounds
from windlass.sweep.store.failed_item import FailedItem
from windlass.value.status import Status

LAST = 20
ALL = Tile(None, None, LAST)


@pytest.fixture
def hand(app):
    return SweepHand(app, LAST)


@pytest.fixture
def mate(app):
    return SweepHand(app, LAST)


def walk(hand, owner, most=100):
    """Run a range to its end."""
    while owner.read_to < owner.until:
        hand.reserve(owner, most)
        for item in list(owner.todo):
            owner.run(item)
    return hand.complete(owner)


def test_two_who_claim_never_have_the_same_range(app, hand, mate):
    begin(app, [10], LAST)

    one, other = hand.claim(), mate.claim()

    assert one.claimed.id != other.claimed.id
    assert hand.claim() is None
    assert {each.worker for each in listing(app)} == {hand.id, mate.id}


@pytest.mark.parametrize(("order", "first"), [(RangeOrder.ASC, None), (RangeOrder.DESC, "15")])
def test_ranges_are_begun_in_the_order_that_was_asked_for(app, hand, order, first):
    begin(app, [5, 10, 15], LAST)

    assert hand.claim(order=order).claimed.begin == first


def test_a_claim_that_is_done_again_finds_its_own_work(app, hand):
    begin(app, [10], LAST)
    batch = hand.numbers.take()[0]

    first, again = hand.claim_again(batch), hand.claim_again(batch)

    assert first.claimed.id == again.claimed.id
    assert len([each for each in listing(app) if each.batch == batch]) == 1


def test_a_worker_that_was_marked_left_claims_nothing(app, hand):
    begin(app, [], LAST)
    hand.die()

    assert hand.claim() is None
    assert listing(app)[0].status is Status.WAITING


def test_a_range_of_a_living_worker_is_nobody_elses_however_old(app, hand, mate, clock):
    begin(app, [], LAST)
    hand.claim()
    clock.forward("1d")

    assert mate.claim() is None


def test_a_successor_goes_on_from_the_breakpoint_and_knows_what_may_come_again(app, hand, mate):
    begin(app, [], LAST)
    owner = hand.claim()
    hand.reserve(owner, 8)
    for item in (1, 2, 3, 5):
        owner.run(item)
    hand.save(owner)
    hand.die()

    successor = mate.claim()

    assert (successor.breakpoint, successor.read_to) == (3, 3)
    assert successor.again_to == key(8)
    assert look(app, successor.claimed.id).lost == 1


def test_what_a_dead_owner_still_writes_changes_nothing(app, hand, mate):
    begin(app, [], LAST)
    owner = hand.claim()
    hand.reserve(owner, 5)
    hand.die()
    successor = mate.claim()
    before = listing(app)

    for item in list(owner.todo):
        owner.run(item)
    is_saved, is_reserved = hand.save(owner), hand.reserve(owner, 5)
    completed = hand.complete(owner)

    assert (is_saved, is_reserved, completed.is_done) == (False, False, False)
    assert listing(app) == before
    assert mate.reserve(successor, 5)


def test_a_stale_batch_changes_nothing_though_its_worker_lives(app, hand, mate):
    begin(app, [], LAST)
    owner = hand.claim()
    app.database.write(lambda connection: ranges.hand_back(connection, hand.id))
    mate.claim()
    before = listing(app)

    assert not hand.reserve(owner, 5)
    assert not hand.save(owner)
    assert listing(app) == before


def test_a_reservation_never_passes_an_end_that_was_lowered_meanwhile(app, hand):
    begin(app, [], LAST)
    owner = hand.claim()
    hand.reserve(owner, 5)
    assert split(app, look(app, owner.claimed.id), 7)

    assert not hand.reserve(owner, 10)
    assert owner.until == 7
    assert hand.reserve(owner, 10)

    assert owner.read_to == 7
    assert audit(listing(app)).ok


def test_a_split_never_reaches_into_what_was_reserved_meanwhile(app, hand):
    begin(app, [], LAST)
    owner = hand.claim()
    seen = look(app, owner.claimed.id)
    hand.reserve(owner, 10)

    assert not split(app, seen, 5)
    assert len(listing(app)) == 1


def test_of_two_splits_of_one_range_one_comes_to_nothing(app, hand):
    begin(app, [], LAST)
    (seen,) = listing(app)

    assert split(app, seen, 10)
    assert not split(app, seen, 10)
    assert not split(app, seen, 5)

    assert [(each.begin, each.end) for each in listing(app)] == [(None, "10"), ("10", None)]


def test_a_range_that_is_done_is_not_split(app, hand):
    begin(app, [10], LAST)
    seen = listing(app)[0]
    assert walk(hand, hand.claim()).is_done

    assert not split(app, look(app, seen.id), 5)


def test_a_split_leaves_alone_what_a_dead_worker_may_have_run(app, hand, mate):
    begin(app, [], LAST)
    owner = hand.claim()
    hand.reserve(owner, 8)
    hand.die()
    seen = listing(app)[0]
    mate.claim()

    assert not split(app, seen, 12)
    assert look(app, seen.id).floor == key(8)


def test_nothing_is_reserved_beyond_what_may_come_again_until_that_is_passed(app, hand, mate):
    """Or a split could reach into it: its floor would be below what is reserved."""
    begin(app, [], LAST)
    owner = hand.claim()
    hand.reserve(owner, 5)
    hand.die()
    mate = SweepHand(app, LAST)
    successor = mate.claim()

    mate.reserve(successor, 10)
    assert successor.read_to == 5
    successor.again_to = None
    assert not mate.reserve(successor, 10)
    for item in list(successor.todo):
        successor.run(item)
    assert mate.save(successor)
    assert mate.reserve(successor, 10)

    assert look(app, successor.claimed.id).floor == key(15)


def test_untouched_neighbours_become_one(app):
    one, other, last = begin(app, [5, 10], LAST)

    assert merge(app, one, other)

    first, second = listing(app)
    assert (first.begin, first.end, second.id) == (None, "10", last.id)
    assert first.rows == one.rows + other.rows


def test_ranges_that_were_touched_or_are_no_neighbours_stay_two(app, hand):
    one, other, last = begin(app, [5, 10], LAST)

    assert not merge(app, one, last)
    hand.claim()
    assert not merge(app, one, other)
    assert merge(app, other, last)
    assert not merge(app, other, last)
    assert audit(listing(app)).ok


def test_a_range_is_complete_only_when_all_of_it_is_done(app, hand):
    begin(app, [10], LAST)
    owner = hand.claim()
    hand.reserve(owner, 10)
    owner.run(1)

    assert not hand.complete(owner).is_done
    for item in list(owner.todo):
        owner.run(item)
    assert hand.complete(owner).is_done

    assert look(app, owner.claimed.id).status is Status.SUCCEEDED
    assert row(app).is_running


def test_a_range_that_was_split_meanwhile_is_not_complete_at_its_old_end(app, hand):
    begin(app, [], LAST)
    owner = hand.claim()
    hand.reserve(owner, 10)
    for item in list(owner.todo):
        owner.run(item)
    assert split(app, look(app, owner.claimed.id), 15)

    completed = hand.complete(owner)

    assert not completed.is_done
    assert len(open_ranges(app)) == 2


def test_the_last_range_ends_the_round_and_its_account_is_kept(app, hand, clock):
    begin(app, [10], LAST, redo=7)
    clock.forward("5s")

    first = walk(hand, hand.claim())
    last = walk(hand, hand.claim())

    assert (first.is_done, first.over) == (True, None)
    assert (last.over.round, last.over.done, last.over.ranges) == (1, LAST, 2)
    assert history(app) == [last.over]
    found = row(app)
    assert not found.is_running
    assert found.due_at == found.ended_at + 7


def test_two_that_end_at_once_do_not_both_leave_the_round_open(app, hand, mate):
    if app.database.dialect.is_embedded:
        pytest.skip("one transaction writes at a time")
    begin(app, [10], LAST)
    owners = [(hand, hand.claim()), (mate, mate.claim())]
    for worker, owner in owners:
        worker.reserve(owner, 10)
        for item in list(owner.todo):
            owner.run(item)
    answers, start = [], threading.Barrier(2)

    def complete(worker, owner):
        start.wait(10)
        answers.append(worker.complete(owner))

    threads = [threading.Thread(target=complete, args=pair) for pair in owners]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)

    assert [answer.is_done for answer in answers] == [True, True]
    assert len([answer for answer in answers if answer.over is not None]) == 1
    assert not row(app).is_running


def test_what_failed_in_an_earlier_round_and_not_again_is_forgotten_at_the_end(app, hand):
    begin(app, [], LAST)
    owner = hand.claim()
    hand.reserve(owner, LAST)
    owner.failures.append(FailedItem(1, key(3), "boom", 1, 1))
    for item in list(owner.todo):
        owner.run(item)
    assert hand.complete(owner).over is not None
    assert [failure.item_key for failure in failures(app)] == ["3"]

    reopen(app)
    walk(hand, hand.claim())

    assert failures(app) == []


def reopen(app):
    numbers = SweepHand(app, LAST).numbers.take(1)

    def work(connection):
        before = rounds.get(connection, SWEEP)
        now = app.clock.now()
        return rounds.open_round(connection, before, [ALL], numbers=numbers, rows=1, now=now)

    return app.database.write(work)


def test_of_two_who_begin_a_round_one_does(app, hand):
    begin(app, [], LAST)
    walk(hand, hand.claim())
    before = row(app)
    numbers = hand.numbers.take(2)

    def open_by(number_):
        return app.database.write(
            lambda connection: rounds.open_round(
                connection, before, [ALL], numbers=[number_], rows=1, now=app.clock.now()
            )
        )

    assert [open_by(each) for each in numbers] == [2, 2]
    assert [each.id for each in listing(app)] == [numbers[0]]


def test_whoever_takes_the_start_of_a_round_keeps_others_from_it_until_it_dies(app, hand, mate):
    begin(app, [], LAST, redo=0)
    walk(hand, hand.claim())

    def take(who):
        now = app.clock.now()
        return app.database.write(
            lambda connection: rounds.take_start(connection, SWEEP, worker=who.id, now=now)
        )

    assert take(hand) is not None
    assert take(mate) is None
    assert take(hand) is not None
    hand.die()
    assert take(SweepHand(app, LAST)) is not None


def test_a_worker_that_leaves_hands_its_ranges_back(app, hand, mate):
    begin(app, [], LAST)
    owner = hand.claim()
    hand.reserve(owner, 5)

    assert hand.leave() == 1

    (found,) = listing(app)
    assert (found.status, found.batch, found.worker) == (Status.WAITING, None, None)
    successor = mate.claim()
    assert (successor.read_to, look(app, found.id).lost) == (0, 0)


def test_a_claim_whose_answer_was_lost_is_handed_back(app, hand, mate):
    begin(app, [10], LAST)
    known = hand.claim()
    hand.claim()

    handed_back = app.database.write(
        lambda connection: ranges.hand_back(connection, hand.id, unless=[known.claimed.batch])
    )

    assert handed_back == 1
    assert hand.reserve(known, 5)
    assert mate.claim() is not None


def test_items_that_were_taken_to_be_tried_again_are_handed_back_if_that_answer_was_lost(
    app, hand, mate
):
    now = app.clock.now()
    app.database.write(
        lambda connection: failed_item.add(
            connection, SWEEP, [FailedItem(1, key(3), "boom", 1, 1, retry_at=now)], now=now
        )
    )

    def take(who, batch):
        return app.database.write_as(
            who.id,
            lambda connection: failed_item.claim(
                connection, SWEEP, batch=batch, worker=who.id, now=now, limit=10
            ),
            lost=[],
        )

    assert [each.id for each in take(hand, 77)] == [1]
    assert take(mate, 78) == []
    for known in (77, 5):
        app.database.write(
            lambda connection, known=known: ranges.hand_back(connection, hand.id, unless=[known])
        )
        is_held = known == 77
        held = app.database.read(lambda connection: ranges.held(connection, hand.id))
        assert held == ({77} if is_held else set())

    assert [each.id for each in take(mate, 79)] == [1]


def crash(app, owner_of):
    """A new worker claims, reads, and dies."""
    worker = SweepHand(app, LAST)
    owner = worker.claim()
    owner_of(worker, owner)
    worker.die()
    return owner


def test_a_range_that_kills_its_workers_at_one_place_runs_one_by_one_and_goes_past(app):
    begin(app, [], LAST)

    def read_five(worker, owner):
        worker.reserve(owner, 5)

    def read_one(worker, owner):
        worker.reserve(owner, 1)
        owner.run(1)
        worker.save(owner)
        worker.reserve(owner, 1)

    assert not crash(app, read_five).is_careful
    assert not crash(app, read_five).is_careful
    careful = crash(app, read_one)
    successor = SweepHand(app, LAST).claim()

    assert (careful.is_careful, careful.again_to) == (True, key(5))
    assert (successor.poison, successor.breakpoint, successor.is_careful) == (key(2), 2, True)
    assert [failure.item_key for failure in failures(app)] == [key(2)]
    assert look(app, successor.claimed.id).failed == 1
    assert count(app, alert) == 1


def test_in_a_range_to_be_careful_with_one_item_flies_at_a_time(app):
    begin(app, [], LAST)
    for _ in range(2):
        crash(app, lambda worker, owner: worker.reserve(owner, 5))
    successor = SweepHand(app, LAST)
    owner = successor.claim()

    assert successor.reserve(owner, 1)
    assert not successor.reserve(owner, 1)
    owner.run(1)
    assert not successor.reserve(owner, 1)
    successor.save(owner)
    assert successor.reserve(owner, 1)


def test_a_range_to_be_careful_with_is_left_to_one_who_has_nothing_else(app, mate):
    begin(app, [], LAST)
    for _ in range(2):
        crash(app, lambda worker, owner: worker.reserve(owner, 5))

    mate = SweepHand(app, LAST)
    assert mate.claim(is_alone=False) is None
    assert look(app, listing(app)[0].id).is_careful
    assert mate.claim(is_alone=True).is_careful
