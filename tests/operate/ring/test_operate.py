"""What an operator sees of the ring."""

import pytest

from tests.core.fetch.manual_worker import DEAD_AFTER, Hand
from windlass.clock import SECOND
from windlass.core.fetch.claim import Rows
from windlass.core.ring import store as ring_store
from windlass.database.database import Numbers
from windlass.database.dialect.base import Most
from windlass.database.schema import bucket as bucket_table
from windlass.operate.ring import operate
from windlass.ring import assign, tokens_of


@pytest.fixture
def task(app):
    @app.task
    def work() -> None: ...

    return work


def look(app):
    return operate.look(app.database, app.clock)


def own(hand, buckets):
    hand.database.write(lambda connection: ring_store.acquire(connection, hand.id, buckets))


def pass_by(app):
    """Join and leave as somebody who is there for one row only."""
    number = Numbers(app.database).take()[0]
    now = app.clock.now()
    app.database.write(
        lambda connection: ring_store.join(
            connection,
            number=number,
            host="passing",
            pid=1,
            kinds=ring_store.Kinds(serves=[], declares=["work"]),
            now=now,
            lease_until=now + DEAD_AFTER,
        )
    )
    return number


def test_without_a_worker_nobody_owns_anything(app, task):
    app.prepare()

    found = look(app)

    assert (found.members, found.moves, found.offers) == ([], [], 0)
    assert (found.free, found.owned, found.moving) == ([range(256)], 0, 0)
    assert found.known_by == "database"


def test_a_share_is_what_is_owned_in_the_database_and_not_what_is_wanted(app, task):
    one, two = Hand(app), Hand(app)
    wanted = assign([one.id, two.id])
    own(one, wanted[one.id])
    first, *_, last = wanted[two.id]
    own(two, range(first, first + 10))
    own(two, range(last, last + 1))

    found = look(app)

    assert [member.id for member in found.members] == list(wanted)
    shares = {member.id: (member.share, member.wanted_share) for member in found.members}
    assert shares == {one.id: (50.0, 50.0), two.id: (100 * 11 / 256, 50.0)}
    (member,) = [member for member in found.members if member.id == two.id]
    assert member.buckets == [range(first, first + 10), range(last, last + 1)]
    assert member.wanted == wanted[two.id]
    assert found.free == [range(first + 10, last)]
    assert (found.owned, found.moving) == (139, 117)


def test_shares_and_what_is_free_make_the_whole(app, task):
    hands = [Hand(app) for _ in range(7)]
    for hand in hands[:5]:
        own(hand, assign(hand.id for hand in hands)[hand.id])

    found = look(app)

    free = sum(map(len, found.free))
    assert sum(member.share for member in found.members) + 100 * free / 256 == 100.0
    assert sum(member.wanted_share for member in found.members) == 100.0


def test_a_bucket_that_another_than_the_wanted_has_is_about_to_move(app, task):
    first = Hand(app)
    own(first, range(256))
    second = Hand(app)

    found = look(app)

    assert found.free == []
    assert found.moving == len(assign([first.id, second.id])[second.id])


def test_members_have_the_tokens_at_which_their_wanted_runs_end(app, task):
    hands = [Hand(app) for _ in range(3)]

    found = look(app)

    tokens = {member.id: member.token for member in found.members}
    assert tokens == tokens_of(hand.id for hand in hands)
    for member in found.members:
        last_point = (member.token - 1) % 2**32
        assert last_point >> 24 in (member.wanted[-1], member.wanted[-1] + 1)


def test_a_member_is_told_with_its_place_kinds_and_lease(app, clock, task):
    before = clock.now()
    hand = Hand(app)
    after = clock.now()
    app.database.write(
        lambda connection: ring_store.renew(
            connection, number=hand.id, lease_until=after + DEAD_AFTER, idle=37
        )
    )
    clock.forward("2s")

    (member,) = look(app).members

    assert (member.host, member.pid, member.kinds, member.idle) == ("hand", 1, ["work"], 37)
    assert before <= member.joined_at <= after
    assert member.lease_until == after + DEAD_AFTER


def test_a_silent_worker_is_a_member_until_it_is_marked_left(app, clock, task):
    hand = Hand(app)
    clock.forward("1m")

    found = look(app)
    hand.be_marked_dead()

    assert [member.lease_until < found.now for member in found.members] == [True]
    assert look(app).members == []


def test_who_is_there_for_one_row_is_neither_a_member_nor_a_move(app, task):
    hand = Hand(app)
    for _ in range(operate.MOVES + 1):
        pass_by(app)

    found = look(app)

    assert [member.id for member in found.members] == [hand.id]
    assert found.members[0].wanted == range(256)
    assert [(move.what, move.worker) for move in found.moves] == [("joined", hand.id)]


def test_joins_and_leaves_are_told_newest_first_with_their_reasons(app, clock, task):
    first = Hand(app)
    clock.forward("1s")
    second = Hand(app)
    clock.forward("1s")
    first.leave()
    second.die()

    moves = look(app).moves

    assert [(move.what, move.worker, move.why) for move in moves] == [
        ("left", second.id, "silent"),
        ("left", first.id, "left"),
        ("joined", second.id, None),
        ("joined", first.id, None),
    ]
    ago = [round((moves[0].at - move.at - DEAD_AFTER) / SECOND) for move in moves[1:]]
    assert ago == [1, 2, 3]


def test_only_the_last_moves_are_told_also_of_one_who_joined_long_ago(app, clock, task):
    old = Hand(app)
    for _ in range(operate.MOVES):
        clock.forward("1s")
        Hand(app)
    clock.forward("1s")
    old.leave()

    moves = look(app).moves

    assert len(moves) == operate.MOVES
    assert (moves[0].what, moves[0].worker) == ("left", old.id)
    assert {move.what for move in moves[1:]} == {"joined"}
    assert old.id not in {move.worker for move in moves[1:]}


def test_of_many_that_left_the_last_are_told(app, clock, task):
    hands = [Hand(app) for _ in range(operate.MOVES + 5)]
    for hand in reversed(hands):
        clock.forward("1s")
        hand.leave()

    moves = look(app).moves

    last = [hand.id for hand in hands[: operate.MOVES]]
    assert [(move.what, move.worker) for move in moves] == [("left", number) for number in last]


def test_one_who_comes_back_is_told_by_its_former_id(app, clock, task):
    before = Hand(app)
    before.die()
    after = Hand(app)

    joins = {move.worker: move.before for move in look(app).moves if move.what == "joined"}

    assert joins == {before.id: None, after.id: before.id}


def test_buckets_of_the_dead_are_careful_for_as_long_as_something_waits_from_before(
    app, clock, task
):
    task.enqueue()
    hand = Hand(app)
    own(hand, range(100, 110))
    hand.die()

    found = look(app)
    app.drain()
    clock.forward("1s")
    task.enqueue()

    assert (found.careful, found.careful_to) == ([range(100, 110)], found.moves[0].at)
    assert (look(app).careful, look(app).careful_to) == ([], None)


def test_who_left_in_good_order_leaves_nothing_to_be_careful_of(app, task):
    task.enqueue()
    hand = Hand(app)
    own(hand, range(256))
    hand.leave()

    assert look(app).careful == []


def test_offers_that_wait_are_counted(app, task):
    task.enqueue_many([{}] * 5)
    hand = Hand(app)
    (tier,) = Rows(app.database).tiers(["work"])
    Rows(app.database).offer(hand.id, tier, Most(3, app.clock.now()), unless=())

    assert look(app).offers == 3


def test_it_tells_by_what_members_know_each_other(app, clock, task):
    app.prepare()
    app.database.write(
        lambda connection: ring_store.agree(connection, "etcd", now=clock.now(), silent={})
    )

    assert look(app).known_by == "etcd"


def test_a_bucket_whose_owner_has_just_left_counts_as_free(app, task):
    hand = Hand(app)
    own(hand, range(256))
    nobody = Numbers(app.database).take()[0]
    app.database.write(
        lambda connection: connection.execute(
            bucket_table.update().where(bucket_table.c.bucket < 4).values(owner=nobody)
        )
    )

    found = look(app)

    assert found.free == [range(4)]
    assert found.members[0].share == 100 * 252 / 256
