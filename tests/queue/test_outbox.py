"""The outbox: messages are rows of a transaction, and are sent after its commit."""

import json
import threading

import pytest
from sqlalchemy import text

import windlass
from tests.fixture.broker import fresh_queue, skip_without_broker
from tests.queue.engine.hand import running
from tests.queue.sending import depth, received
from tests.server import RabbitMQ, Redis
from tests.table import count
from tests.wait import eventually
from windlass.database.schema import outbox
from windlass.queue import Queue
from windlass.queue.broker import amqp
from windlass.queue.engine import contact, publish
from windlass.queue.engine import outbox as engine
from windlass.queue.model.message import Outgoing
from windlass.queue.operate import operate
from windlass.queue.store.outbox import OutboxRow


def shown(app, queue):
    """The queue as operators see it."""
    return operate.show(app.fleet, app.registry, queue.name, ask=False)


def test_a_message_is_sent_after_the_commit_with_a_stable_id(app, queue):
    name = app.publish(queue, {"code": "bolt"}, key="bolt", headers={"tenant": "a"})
    assert depth(queue) == 0

    app.drain()

    (message,) = received(queue, 1)
    assert (message.id, json.loads(message.body)) == (name, {"code": "bolt"})
    assert message.headers["tenant"] == "a"
    assert count(app, outbox) == 0


def test_a_message_is_part_of_the_callers_transaction(app, queue):
    with app.database.engine.connect() as connection:
        writing = app.database.dialect.writing(connection)
        with writing.begin():
            app.publish(queue, {"n": 1}, conn=writing)
        with writing.begin() as transaction:
            app.publish(queue, {"n": 2}, conn=writing)
            transaction.rollback()
    app.drain()

    (message,) = received(queue, 1)
    assert json.loads(message.body) == {"n": 1}
    assert depth(queue) == 0


@pytest.mark.mostly("sqlite")
async def test_the_async_twin_publishes_too(app, queue):
    await app.apublish(queue, {"n": 1})
    assert await app.apublish_many(queue, [{"n": 2}, {"n": 3}]) == 2

    await app.adrain()

    assert [json.loads(each.body)["n"] for each in received(queue, 3)] == [1, 2, 3]


def test_messages_with_one_key_are_sent_in_order(app, queue):
    app.publish_many(
        queue,
        [{"key": key, "n": n} for n in range(20) for key in "abc"],
        key=lambda each: each["key"],
    )
    app.drain()

    found = [json.loads(each.body) for each in received(queue, 60)]
    for key in "abc":
        assert [each["n"] for each in found if each["key"] == key] == list(range(20))


@pytest.mark.mostly("sqlite")
def test_no_two_messages_of_one_key_are_under_way_at_once():
    rows = [OutboxRow(n, 0, key, Outgoing(str(n), b"")) for n, key in enumerate("aab-a-")]
    rows = [row._replace(key=None) if row.key == "-" else row for row in rows]

    waves = engine._waves(rows)

    assert [[row.id for row in wave] for wave in waves] == [[0, 2, 3, 5], [1], [4]]


@pytest.mark.mostly("sqlite")
@pytest.mark.mostly("sqlite")
def test_pages_grow_while_messages_are_small_and_shrink_when_they_are_large():
    limit = engine.FIRST_PAGE
    for _ in range(3):
        limit = engine.next_limit(limit, [100] * limit)
    assert limit == engine.AT_ONCE

    assert engine.next_limit(limit, [256_000] * 10) * 256_000 < engine.PAGE_BYTES
    assert engine.next_limit(10, [50_000_000]) == 1
    assert engine.next_limit(1, [100]) > 1


def test_many_large_messages_are_written_and_sent_in_parts(app, queue):
    bodies = [b"\xff" + bytes(200_000) for _ in range(100)]

    assert app.publish_many(queue, bodies, key=lambda _: "k") == 100

    app.drain()
    assert [each.body for each in received(queue, 100)] == bodies


def test_bytes_are_sent_as_they_are(app, queue):
    app.publish(queue, b"\xff\x00", content_type="image/png")
    app.drain()

    (message,) = received(queue, 1)
    assert (message.body, message.content_type) == (b"\xff\x00", "image/png")


@pytest.mark.mostly("sqlite")
def test_what_cannot_be_sent_is_refused(app, queue):
    wrong = [
        ({"body": object()}, "cannot be written as JSON"),
        ({"body": float("nan")}, "cannot be written as JSON"),
        ({"body": "x" * 300_000}, "over the limit"),
        ({"body": {}, "key": ""}, "key"),
        ({"body": {}, "id": 7}, "id"),
        ({"body": {}, "headers": ["a"]}, "headers"),
        ({"body": {}, "key": "a\0"}, "key"),
        ({"body": {}, "id": "é" * 200}, "255 bytes in UTF-8"),
        ({"body": {}, "id": "\ud800"}, "printable"),
        ({"body": {}, "content_type": "a" * 101}, "content_type"),
        ({"body": {}, "headers": {"h" * 300: 1}}, "has a name"),
        ({"body": {}, "headers": {"h": 2**70}}, "64 bits"),
        ({"body": {}, "headers": {"h": object()}}, "64 bits"),
        ({"body": {}, "headers": {"h": "\ud800"}}, "give text"),
        ({"body": {}, "headers": {"h": "x" * 40_000}}, "over the limit of 32,000"),
    ]
    for given, cure in wrong:
        with pytest.raises(windlass.BadInput, match=cure):
            app.publish(queue, given.pop("body"), **given)
    with pytest.raises(windlass.BadInput, match="is not a queue"):
        app.publish("product", {})
    with pytest.raises(windlass.BadInput, match="use publish"):
        app.publish_many(queue, "body")
    assert count(app, outbox) == 0


@pytest.mark.mostly("sqlite")
def test_a_message_that_rabbitmq_cannot_take_fails_and_the_others_are_sent_once(
    app, rabbitmq, monkeypatch
):
    """As an older release, or a statement by hand, may have written it."""
    queue = fresh_queue(rabbitmq)
    monkeypatch.setattr(publish, "check_headers", lambda *_: None)
    app.publish_many(queue, [{"n": n} for n in range(5)])
    app.publish(queue, {"n": "name"}, headers={"h" * 300: 1})
    app.publish(queue, {"n": "large"}, headers={"h": "x" * 200_000})
    app.publish_many(queue, [{"n": n} for n in range(5, 10)])

    app.drain()
    app.drain()

    found = [json.loads(each.body)["n"] for each in received(queue, 10)]
    assert sorted(set(found)) == list(range(10))
    assert depth(queue) <= 10
    with app.database.engine.connect() as connection:
        left = connection.execute(text("select status, error from windlass_outbox")).all()
    assert [row.status for row in left] == [3, 3]
    assert any("cannot be written in AMQP" in row.error for row in left)


def test_a_full_queue_holds_messages_back_and_loses_none(app, rabbitmq, events):
    queue = fresh_queue(rabbitmq, arguments={"x-max-length": 5, "x-overflow": "reject-publish"})
    app.publish_many(queue, [{"key": "a", "n": n} for n in range(12)], key=lambda each: each["key"])
    found = []

    def read():
        while len(found) < 12 and not over.wait(0.05):
            found.extend(json.loads(each.body)["n"] for each in received(queue, 1))

    over = threading.Event()
    reader = threading.Thread(target=read)
    reader.start()
    try:
        app.drain()
        reader.join(30)
    finally:
        over.set()
        reader.join(30)

    assert list(dict.fromkeys(found)) == list(range(12))
    assert any(name == "queue.full" for name, _ in events)
    assert count(app, outbox) == 0


@pytest.mark.mostly("sqlite")
def test_a_full_queue_is_told_once_and_shown_until_it_takes_messages_again(app, rabbitmq, events):
    queue = fresh_queue(rabbitmq, arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    app.publish_many(queue, [{"n": n} for n in range(4)])

    with running(app.worker()):
        eventually(lambda: shown(app, queue).error, 20, what="an error that is shown")
        assert "its queue may be full" in shown(app, queue).error
        for _ in range(3):
            received(queue, 1)
        eventually(lambda: count(app, outbox) == 0, 30, what="an empty outbox")
        eventually(lambda: shown(app, queue).error is None, 20, what="no error")

    assert [name for name, _ in events].count("queue.full") == 1


@pytest.mark.mostly("sqlite")
def test_a_drain_does_not_wait_for_a_queue_that_stays_full(app, rabbitmq, monkeypatch):
    monkeypatch.setattr(contact, "FULL_PAUSE", 0.05)
    queue = fresh_queue(rabbitmq, arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    app.publish_many(queue, [{"n": 1}, {"n": 2}])

    with pytest.raises(windlass.BrokerUnavailable, match="its queue may be full"):
        app.drain()

    assert count(app, outbox) == 1


@pytest.mark.mostly("sqlite")
def test_a_broker_that_holds_senders_back_is_told_about(app, pools, monkeypatch):
    skip_without_broker("rabbitmq", pools.missing)
    monkeypatch.setattr(amqp, "CONFIRM_SECONDS", 1.0)
    with RabbitMQ(settings="vm_memory_high_watermark.absolute = 1MB\n") as server:
        queue = fresh_queue(server.start())
        app.publish(queue, {"n": 1})

        with pytest.raises(windlass.BrokerUnavailable, match="short of memory or disk"):
            app.drain()

    assert count(app, outbox) == 1


def test_a_broker_that_is_away_is_an_error_of_a_drain_and_the_messages_stay(app):
    with Redis() as server:
        queue = fresh_queue(server)
        server.kill()
        app.publish(queue, {"n": 1})
        with pytest.raises(windlass.BrokerUnavailable):
            app.drain()
        assert count(app, outbox) == 1

        server.start()
        app.drain()
        assert [json.loads(each.body) for each in received(queue, 1)] == [{"n": 1}]


@pytest.mark.mostly("sqlite")
def test_a_message_that_the_broker_never_takes_fails_and_the_others_are_sent(
    app, queue, monkeypatch
):
    from windlass.queue.broker.redis import RedisBroker

    real = RedisBroker.publish

    def publish(self, queue, messages):
        if any(b"huge" in each.body for each in messages):
            raise windlass.BrokerRefused(queue.address, "message size is larger than the limit")
        return real(self, queue, messages)

    monkeypatch.setattr(RedisBroker, "publish", publish)
    app.publish_many(queue, ["one", "huge", "two"])
    app.drain()

    assert [json.loads(each.body) for each in received(queue, 2)] == ["one", "two"]
    with app.database.engine.connect() as connection:
        rows = connection.execute(text("select status, error from windlass_outbox")).fetchall()
    assert [(row[0], "larger" in row[1]) for row in rows] == [(3, True)]


@pytest.mark.mostly("sqlite")
def test_another_process_finds_the_queue_by_name_and_address(app, other, queue):
    assert other.find_queue(queue.name, queue.address) is queue
    assert other.find_queue(queue.name, "redis://elsewhere:6379/0") is queue
    assert other.find_queue("nothing", queue.address) is None
    twin = Queue("redis://twin:6379/0", queue.name)
    assert other.find_queue(queue.name, "redis://elsewhere:6379/0") is None
    assert other.find_queue(queue.name, twin.address) is twin


def test_with_several_shards_messages_of_one_key_keep_their_order(sharded, queue):
    sharded.publish_many(
        queue,
        [{"key": key, "n": n} for n in range(5) for key in "abcd"],
        key=lambda each: each["key"],
    )
    sharded.publish(queue, {"key": "none", "n": 0})
    sharded.drain()

    found = [json.loads(each.body) for each in received(queue, 21)]
    for key in "abcd":
        assert [each["n"] for each in found if each["key"] == key] == list(range(5))
