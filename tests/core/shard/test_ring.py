"""Moving rows from a shard whose workers read them without a write."""

import asyncio
import threading
import time
from collections import Counter
from contextlib import contextmanager

import pytest
from sqlalchemy import select

from tests.core.fetch.manual_worker import Hand
from tests.core.shard.fleet import declare_mail, key_for, rows, rows_of
from tests.wait import eventually
from windlass.core.fetch.claim import Rows
from windlass.core.ring import store as ring_store
from windlass.core.shard import move as moving
from windlass.database import schema
from windlass.database.dialect.base import Most, Tier
from windlass.operate.ring import operate as ring
from windlass.operate.shard import operate
from windlass.value.bucket import BUCKETS

DEAD_AFTER = 5_000_000


pytestmark = pytest.mark.usefixtures("quick_moves")


def hand_in(app, shard):
    """A worker of one shard, which owns all of its buckets."""
    app.database, app.clock = shard.database, shard.clock
    hand = Hand(app)
    shard.database.write(lambda connection: ring_store.acquire(connection, hand.id, range(BUCKETS)))
    return hand


def move(app, shard, **options):
    return operate.move(app.fleet, str(shard.index), dead_after=DEAD_AFTER, wait=False, **options)


def offers_of(shard):
    return shard.database.read(
        lambda connection: list(connection.scalars(select(schema.offer.c.task_id)))
    )


def test_what_is_due_stays_where_an_owner_may_hold_it_with_nothing_written(sharded):
    mail, shard = declare_mail(sharded), sharded.fleet.shards[0]
    due = mail.using(key=key_for(sharded, shard, "mail", "due")).enqueue("due")
    mail.using(key=key_for(sharded, shard, "mail", "later"), delay="1h").enqueue("later")
    hand = hand_in(sharded, shard)
    operate.drain(sharded.fleet, "1")

    first, second = move(sharded, shard), move(sharded, shard, due=True)

    assert (first.moved, first.busy) == (1, 1)
    assert (second.moved, second.busy) == (0, 1)
    assert [(row["id"], row["batch"]) for row in rows_of(shard)] == [(due.id, None)]
    hand.leave()
    assert move(sharded, shard).is_done


def test_what_will_be_due_in_a_moment_stays_with_its_owner(sharded):
    mail, shard = declare_mail(sharded), sharded.fleet.shards[0]
    mail.using(key=key_for(sharded, shard, "mail"), delay="1s").enqueue("soon")
    hand_in(sharded, shard)
    operate.drain(sharded.fleet, "1")

    moved = move(sharded, shard, due=True)

    assert (moved.moved, moved.busy) == (0, 1)


def test_what_is_due_goes_from_buckets_whose_owner_does_not_serve_its_kind(sharded):
    shard = sharded.fleet.shards[0]
    sharded.prepare()
    hand_in(sharded, shard)
    mail = declare_mail(sharded)
    ref = mail.using(key=key_for(sharded, shard, "mail")).enqueue("due")
    operate.drain(sharded.fleet, "1")

    moved = move(sharded, shard, due=True)

    assert moved.is_done
    (row,) = [row for found in rows(sharded) for row in found]
    assert (row["id"], row["batch"]) == (ref.id, None)


def test_an_offered_row_is_moved_only_with_its_offer(sharded):
    mail, shard = declare_mail(sharded), sharded.fleet.shards[0]
    ids = [
        mail.using(key=key_for(sharded, shard, "mail", prefix)).enqueue("due").id
        for prefix in ("first", "second")
    ]
    hand = hand_in(sharded, shard)
    now = sharded.clock.now()
    Rows(shard.database).offer(hand.id, Tier("mail", 0, 0), Most(10, now), unless=())
    operate.drain(sharded.fleet, "1")

    (claimed,) = Rows(shard.database).claim_offered("mail", hand.stamp(), limit=1)
    left_alone = move(sharded, shard)
    taken = move(sharded, shard, due=True)

    assert (left_alone.moved, left_alone.busy) == (0, 2)
    assert (taken.moved, taken.busy) == (1, 1)
    assert offers_of(shard) == []
    assert [row["id"] for row in rows_of(shard)] == [claimed.id]
    (gone,) = [row for found in rows(sharded)[1:] for row in found]
    assert (gone["id"], gone["batch"]) == ((set(ids) - {claimed.id}).pop(), None)


def test_an_offer_that_its_worker_left_behind_is_moved(sharded):
    mail, shard = declare_mail(sharded), sharded.fleet.shards[0]
    ref = mail.using(key=key_for(sharded, shard, "mail")).enqueue("due")
    hand = hand_in(sharded, shard)
    now = sharded.clock.now()
    Rows(shard.database).offer(hand.id, Tier("mail", 0, 0), Most(10, now), unless=())
    hand.leave()
    operate.drain(sharded.fleet, "1")

    assert move(sharded, shard).is_done
    assert offers_of(shard) == []
    sharded.drain()
    assert ref.result() == "to due"


def test_rows_stay_if_marking_them_took_so_long_that_they_may_be_due(sharded, monkeypatch):
    mail, shard = declare_mail(sharded), sharded.fleet.shards[0]
    ref = mail.using(key=key_for(sharded, shard, "mail"), delay="1h").enqueue("later")
    operate.drain(sharded.fleet, "1")
    monkeypatch.setattr(moving, "MARK_SECONDS", -1.0)

    moved = move(sharded, shard)

    assert (moved.moved, moved.busy) == (0, 1)
    assert [(row["id"], row["batch"]) for row in rows_of(shard)] == [(ref.id, None)]
    assert [len(found) for found in rows(sharded)[1:]] == [0] * (len(sharded.fleet.shards) - 1)


@contextmanager
def working(app):
    """A worker of all shards, on a thread of its own."""
    worker = app.worker(concurrency=8)
    thread = threading.Thread(target=lambda: asyncio.run(worker.run()))
    thread.start()
    try:
        eventually(lambda: worker.has_joined, 20.0, what="a worker of all shards")
        yield worker
    finally:
        worker.stop()
        thread.join(30)


def test_nothing_runs_twice_or_not_at_all_while_its_shard_is_emptied(shard_urls, make_app):
    ran = []
    app = make_app(*shard_urls)

    @app.task(keep="0s")
    async def work(number: int) -> None:
        ran.append(number)
        await asyncio.sleep(0.01)

    mover = make_app(*shard_urls)
    mover.prepare()
    with working(app):
        work.enqueue_many(
            [{"number": number} for number in range(900)], keys=[f"k{n}" for n in range(900)]
        )
        eventually(lambda: len(ran) > 50, 20.0, what="work that is under way")
        operate.drain(mover.fleet, "1")
        deadline = time.monotonic() + 60
        while any(rows(app)) and time.monotonic() < deadline:
            operate.move(mover.fleet, "1", dead_after=DEAD_AFTER, due=True, wait=False)

    assert Counter(ran) == Counter(range(900))


def test_each_shard_has_a_ring_of_its_own(sharded):
    declare_mail(sharded)

    with working(sharded):

        def all_owned():
            found = ring.rings(sharded.fleet)
            return all(ring.owned == BUCKETS and len(ring.members) == 1 for ring in found)

        eventually(all_owned, 20.0, what="rings whose buckets are all owned")
        found = ring.rings(sharded.fleet)

    ids = {member.id for ring in found for member in ring.members}
    assert [ring.database for ring in found] == [shard.name for shard in sharded.fleet.shards]
    assert len(ids) == len(sharded.fleet.shards)
