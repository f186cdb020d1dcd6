"""What every broker must do: each test runs on RabbitMQ and on Redis."""

import json

import pytest

import windlass
from tests.fixture.broker import fresh_queue, skip_without_broker
from tests.server import RabbitMQ, Redis
from windlass.queue import Queue
from windlass.queue.broker import broker_of
from windlass.queue.model.message import Outgoing


@pytest.fixture
def queue(any_broker):
    return fresh_queue(any_broker)


@pytest.fixture
def broker(queue):
    with broker_of(queue) as broker:
        yield broker


def messages(count, **given):
    return [Outgoing(f"m{number}", b'{"n":%d}' % number, **given) for number in range(count)]


def taken(subscription, count):
    """So many messages, however the broker groups them."""
    found = []
    for _ in range(50):
        found += subscription.take(count - len(found), wait_seconds=2)
        if len(found) >= count:
            break
    return found


def test_messages_arrive_once_in_order_with_their_properties(broker, queue):
    sent = broker.publish(
        queue, messages(20, headers={"tenant": "a"}, reply_to="answers", correlation_id="7")
    )

    subscription = broker.subscribe(queue, prefetch=50)
    found = taken(subscription, 20)
    assert sent.confirmed == set(range(20))
    assert not sent.refused
    assert [(each.id, json.loads(each.body)["n"]) for each in found] == [
        (f"m{number}", number) for number in range(20)
    ]
    first = found[0]
    assert (first.headers["tenant"], first.reply_to, first.correlation_id) == ("a", "answers", "7")
    assert first.content_type == "application/json"
    assert subscription.acknowledge(found) == 20
    assert broker.depth(queue) == 0
    assert subscription.take(1, wait_seconds=0.1) == []


def test_bodies_are_bytes_as_they_were_sent(broker, queue):
    body = bytes(range(256)) * 1_000

    broker.publish(queue, [Outgoing("m", body, content_type="application/octet-stream")])

    (found,) = taken(broker.subscribe(queue, prefetch=5), 1)
    assert found.body == body


def test_a_body_is_not_changed_by_what_its_sender_says_about_it(rabbitmq):
    import kombu

    queue = fresh_queue(rabbitmq)
    with kombu.Connection(queue.url) as connection:
        channel = connection.default_channel
        channel.queue_declare(queue.name, durable=True, auto_delete=False)
        for body, encoding in ((b"\\ud800", "unicode_escape"), (b"\xe9", "latin-1")):
            made = channel.prepare_message(body, content_encoding=encoding)
            channel.basic_publish(made, routing_key=queue.name)

    with broker_of(queue) as broker:
        found = taken(broker.subscribe(queue, prefetch=5), 2)

    assert [each.body for each in found] == [b"\\ud800", b"\xe9"]


def test_messages_that_cannot_be_written_confirm_no_other(rabbitmq):
    queue = fresh_queue(rabbitmq, arguments={"x-max-length": 1, "x-overflow": "reject-publish"})

    with broker_of(queue) as broker:
        assert broker.publish(queue, messages(1)).confirmed == {0}
        with pytest.raises(windlass.BrokerRefused, match="cannot be written in AMQP"):
            broker.publish(queue, [*messages(1), Outgoing("é" * 200, b"{}")])
        sent = broker.publish(queue, messages(1))

    assert (sent.confirmed, set(sent.refused)) == (set(), {0})


def test_messages_with_one_id_are_told_apart_when_there_is_no_queue(rabbitmq):
    queue = fresh_queue(rabbitmq)

    with broker_of(queue) as broker:
        sent = broker.publish(queue, [Outgoing("same", b"1")] * 2, declare=False)

    assert (sent.confirmed, sent.gone) == (set(), {0, 1})


def test_no_more_than_prefetch_are_unacknowledged(broker, queue):
    broker.publish(queue, messages(10))
    subscription = broker.subscribe(queue, prefetch=3)

    found = taken(subscription, 3)
    assert subscription.take(10, wait_seconds=0.2) == []

    subscription.acknowledge(found[:1])
    assert [each.id for each in subscription.take(10, wait_seconds=2)] == ["m3"]


def test_what_is_requeued_is_delivered_again_and_what_is_rejected_is_not(broker, queue):
    broker.publish(queue, messages(4))
    subscription = broker.subscribe(queue, prefetch=10)
    found = taken(subscription, 4)

    subscription.acknowledge(found[3:])
    subscription.reject(found[:1])
    subscription.requeue(found[1:3])

    again = taken(subscription, 2)
    assert sorted(each.id for each in again) == ["m1", "m2"]
    subscription.acknowledge(again)
    assert subscription.take(1, wait_seconds=0.1) == []


def test_some_in_the_middle_can_be_acknowledged(broker, queue):
    broker.publish(queue, messages(6))
    subscription = broker.subscribe(queue, prefetch=10)
    found = taken(subscription, 6)

    subscription.acknowledge([found[0], found[1], found[4]])
    subscription.close()

    rest = taken(broker.subscribe(queue, prefetch=10), 3)
    assert sorted(each.id for each in rest) == ["m2", "m3", "m5"]


def test_what_was_not_acknowledged_comes_back_when_the_subscription_closes(broker, queue):
    broker.publish(queue, messages(5))
    subscription = broker.subscribe(queue, prefetch=10)
    found = taken(subscription, 5)

    subscription.acknowledge(found[:2])
    subscription.close()

    with broker_of(queue) as other:
        again = taken(other.subscribe(queue, prefetch=10), 3)
        assert [each.id for each in again] == ["m2", "m3", "m4"]


def test_wrong_credentials_are_an_error_without_the_password(any_broker):
    if isinstance(any_broker, RabbitMQ):
        url = any_broker.url_as("windlass", "wrong-secret")
    else:
        url = any_broker.url_with("wrong-secret")
    queue = Queue(url, "product")

    with broker_of(queue) as broker, pytest.raises(windlass.BrokerRefused) as refused:
        broker.depth(queue)

    assert "check user and password" in str(refused.value)
    assert "wrong-secret" not in str(refused.value)


def test_an_address_where_nothing_listens_is_an_error_at_once(any_broker):
    scheme = any_broker.url.partition(":")[0]
    queue = Queue(f"{scheme}://127.0.0.1:1/", "product")

    with broker_of(queue) as broker, pytest.raises(windlass.BrokerUnavailable, match=r"127\.0\.0"):
        broker.publish(queue, messages(1))


def test_a_full_queue_refuses_and_the_rest_is_told(rabbitmq):
    queue = fresh_queue(rabbitmq, arguments={"x-max-length": 3, "x-overflow": "reject-publish"})

    with broker_of(queue) as broker:
        sent = broker.publish(queue, messages(10))
        depth = broker.depth(queue)

    assert len(sent.confirmed) + len(sent.refused) == 10
    assert depth == len(sent.confirmed) < 10
    assert "full" in next(iter(sent.refused.values()))


def test_a_redis_that_is_out_of_memory_refuses_until_it_has_some():
    import redis as client

    with Redis() as server, client.Redis.from_url(server.start().url) as raw:
        queue = fresh_queue(server)
        with broker_of(queue) as broker:
            broker.publish(queue, messages(1))
            raw.config_set("maxmemory", 1)
            full = broker.publish(queue, messages(3))
            subscription = broker.subscribe(queue, prefetch=5)
            found = taken(subscription, 1)
            assert subscription.acknowledge(found) == 1

            raw.config_set("maxmemory", 0)
            sent = broker.publish(queue, messages(3))

    assert [each.id for each in found] == ["m0"]
    assert not full.confirmed
    assert set(full.refused) == {0, 1, 2}
    assert "maxmemory" in full.refused[0]
    assert sent.confirmed == {0, 1, 2}


def test_a_queue_that_is_not_there_and_not_declared_is_refused(rabbitmq):
    queue = fresh_queue(rabbitmq, declare=False)

    with broker_of(queue) as broker, pytest.raises(windlass.BrokerRefused, match="no queue"):
        broker.publish(queue, messages(1))


def test_a_queue_that_was_deleted_meanwhile_is_declared_again(rabbitmq):
    import kombu

    queue = fresh_queue(rabbitmq)
    with broker_of(queue) as broker:
        broker.publish(queue, messages(1))
        with kombu.Connection(queue.url) as connection:
            connection.default_channel.queue_delete(queue.name)
        refused = broker.publish(queue, messages(2)).refused
        sent = broker.publish(queue, messages(2))

    assert "no queue" in refused[0]
    assert sent.confirmed == {0, 1}


def test_other_arguments_than_the_declared_ones_are_refused_by_name(rabbitmq):
    queue = fresh_queue(rabbitmq)
    with broker_of(queue) as broker:
        broker.declare(queue)

    other = Queue(queue.url, queue.name, arguments={"x-max-length": 5})
    with broker_of(other) as broker, pytest.raises(windlass.BrokerRefused, match="max-length"):
        broker.declare(other)


def test_kombu_itself_reads_what_redis_was_given(redis):
    import kombu

    queue = fresh_queue(redis)
    with broker_of(queue) as broker:
        broker.publish(queue, messages(1))

    with kombu.Connection(queue.url) as connection:
        simple = connection.SimpleQueue(queue.name)
        message = simple.get(timeout=5)
        assert message.payload == {"n": 0}
        assert message.properties["message_id"] == "m0"
        message.ack()
        simple.close()


def test_what_kombu_itself_wrote_into_redis_is_read(redis):
    import kombu

    queue = fresh_queue(redis)
    with kombu.Connection(queue.url) as connection:
        connection.Producer().publish(
            {"n": 7}, routing_key=queue.name, exchange="", message_id="theirs", priority=9
        )

    with broker_of(queue) as broker:
        (found,) = taken(broker.subscribe(queue, prefetch=5), 1)
    assert (found.id, json.loads(found.body)) == ("theirs", {"n": 7})


def test_what_is_no_envelope_in_redis_is_a_body_without_an_id(redis):
    import redis as client

    queue = fresh_queue(redis)
    with client.Redis.from_url(redis.url) as raw:
        raw.lpush(queue.name, b"\xff not JSON")

    with broker_of(queue) as broker:
        (found,) = taken(broker.subscribe(queue, prefetch=5), 1)
    assert (found.id, found.body) == (None, b"\xff not JSON")


def test_a_consumer_of_redis_that_vanished_loses_nothing(redis):
    queue = fresh_queue(redis, options={"visibility_timeout": 1})
    with broker_of(queue) as broker:
        broker.publish(queue, messages(3))
    dead = broker_of(queue)
    assert len(taken(dead.subscribe(queue, prefetch=10), 3)) == 3

    with broker_of(queue) as other:
        subscription = other.subscribe(queue, prefetch=10)
        again = taken(subscription, 3)

    assert [each.id for each in again] == ["m0", "m1", "m2"]
    assert all(each.is_again for each in again)


@pytest.mark.parametrize("alone", [None, "me"], ids=["together", "alone"])
def test_what_a_killed_redis_did_not_hear_about_is_delivered_again(pools, alone):
    skip_without_broker("redis", pools.missing)
    with Redis(fast=False) as server:
        queue = Queue(server.url, "product", options={"visibility_timeout": 1})
        with broker_of(queue) as broker:
            broker.publish(queue, messages(2))
            subscription = broker.subscribe(queue, prefetch=2, alone=alone)
            found = taken(subscription, 2)

            server.kill()
            with pytest.raises(windlass.BrokerUnavailable):
                subscription.acknowledge(found)
            server.start()
            again = taken(subscription, 2)

            assert [each.id for each in again] == ["m0", "m1"]
            assert subscription.acknowledge(again) == 2
            assert taken(subscription, 0) == []
            assert broker.depth(queue) == 0


def test_a_killed_broker_is_an_error_and_then_a_new_connection():
    with Redis(fast=False) as server:
        queue = fresh_queue(server)
        with broker_of(queue) as broker:
            broker.publish(queue, messages(3))
            subscription = broker.subscribe(queue, prefetch=10)
            found = taken(subscription, 3)
            subscription.acknowledge(found[:1])

            server.kill()
            with pytest.raises(windlass.BrokerUnavailable):
                subscription.take(1, wait_seconds=0.1)
            server.start()

            assert subscription.acknowledge(found[1:]) == 2
            assert broker.publish(queue, messages(1)).confirmed == {0}
            assert [each.id for each in taken(subscription, 1)] == ["m0"]


def test_a_new_queue_and_what_it_confirmed_outlive_a_broker_that_is_killed_at_once(pools):
    skip_without_broker("rabbitmq", pools.missing)
    with RabbitMQ(fast=False) as server:
        queue = fresh_queue(server.start())
        with broker_of(queue) as broker:
            broker.declare(queue, lasting=True)
            assert broker.publish(queue, [Outgoing("a", b"{}")]).confirmed == {0}
            server.kill()
        server.start()

        with broker_of(queue) as broker:
            assert broker.depth(queue) == 1
