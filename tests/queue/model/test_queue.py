"""`Queue`: a value, which refuses what cannot be used."""

import gc

import pytest

import windlass
from windlass.queue import Queue
from windlass.queue.model.queue import queues_made


def test_its_address_has_neither_user_nor_password_nor_settings():
    queue = Queue("amqp://shop:open%20sesame@broker.internal/orders?heartbeat=5", "product")

    assert queue.address == "amqp://broker.internal:5672/orders"
    assert "sesame" not in repr(queue)
    assert "shop" not in repr(queue)


def test_two_queues_are_equal_by_url_and_name():
    first = Queue("redis://broker/0", "product", arguments={"x-max-length": 5})
    second = Queue("redis://broker/0", "product")

    assert first == second
    assert len({first, second, Queue("redis://broker/1", "product")}) == 2


@pytest.mark.parametrize(
    ("url", "cure"),
    [
        (7, "must be text"),
        ("broker.internal:5672", "no scheme"),
        ("amqp://", "host is missing"),
        ("redis://broker:sixty/0", "cannot be read"),
        ("amqp://broker:0/", "port 0"),
        ("kafka://broker/topic", "Windlass has no broker for Kafka"),
        ("amqp://a:b@one//;amqp://a:secret@two//", "one broker, without ';'"),
    ],
)
def test_a_url_that_cannot_be_used_is_refused_with_the_cure(url, cure):
    with pytest.raises(windlass.BadQueue, match=cure):
        Queue(url, "product")


@pytest.mark.parametrize(
    "url",
    [
        "amqp://shop:secret@:0/",
        # Up to the slash it looks like a port, and the rest like a virtual host.
        "amqp://shop:77/secret@broker//",
        "amqp://shop:77?secret@broker//",
        "amqp://shop:77#secret@broker//",
        "amqp://shop:a@77/secret@broker//",
        "amqp://shop:secret/77@broker//",
        "redis://:77/secret@broker/0",
    ],
)
def test_a_refused_url_does_not_show_its_password(url):
    with pytest.raises(windlass.BadQueue) as refused:
        Queue(url, "product")

    assert "secret" not in str(refused.value)
    assert "77" not in str(refused.value)


@pytest.mark.parametrize(
    "name", ["", 7, "a" * 201, "é" * 101, " product", "pro\nduct", "amq.product"]
)
def test_a_name_that_cannot_be_used_is_refused(name):
    with pytest.raises(windlass.BadQueue, match="name"):
        Queue("amqp://broker/", name)


def test_arguments_must_be_a_mapping():
    with pytest.raises(windlass.BadQueue, match="arguments is not a mapping"):
        Queue("amqp://broker/", "product", arguments=["x-max-length"])


def test_a_queue_is_found_though_an_equal_one_that_was_made_before_is_gone():
    first = Queue("redis://here:6379/0", "made-twice")
    second = Queue("redis://here:6379/0", "made-twice")
    del first
    gc.collect()

    assert second in queues_made()
