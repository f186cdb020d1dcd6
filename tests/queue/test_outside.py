"""Programs that know nothing of Windlass: they send by kombu or redis, and read by kombu."""

import pickle

import kombu
import pytest

from tests.fixture.broker import fresh_queue
from tests.queue.engine.hand import running
from tests.wait import eventually
from windlass import App
from windlass.queue import Queue

pytestmark = pytest.mark.mostly("sqlite")


class Exploding:
    """Runs what it says when it is unpickled."""

    def __reduce__(self):
        return (exec, ("import os; os._exit(9)",))


@pytest.fixture
def app(database_url):
    app = App(database_url, grace="2s")
    app.migrate()
    yield app
    app.close()


def test_whatever_other_programs_send_blocks_nothing_and_counts_once(app, any_broker):
    queue = fresh_queue(any_broker)
    seen = []

    @app.consume(queue, prefetch=3, retries=0)
    def on_product(event: dict[str, int]) -> None:
        seen.append(event["n"])

    with kombu.Connection(queue.url) as connection:
        producer = connection.Producer()
        connection.default_channel.queue_declare(queue.name, durable=True, auto_delete=False)

        def put(body, **given):
            producer.publish(body, routing_key=queue.name, **given)

        for number in range(20):
            put({"n": number}, message_id=f"m{number}", serializer="json")
            put({"n": number}, message_id=f"m{number}", serializer="json")
        put(b"{not json", message_id="bad", content_type="application/json", content_encoding="b")
        put("é".encode("latin-1"), message_id="latin", content_type="text/plain")
        put({"n": "text"}, message_id="schema", serializer="json")
        put([1, 2], message_id="list", serializer="json")
        put(b"", message_id="empty")
        put(pickle.dumps(Exploding()), message_id="pickle", content_type="application/x-pickle")
        put({"n": 100}, serializer="json")
        put({"n": 101}, serializer="json", headers={"id": "header"})
        put({"n": 102}, message_id="large", serializer="json", headers={"h": "x" * 60_000})
        put({"n": 103}, message_id="x" * 250, serializer="json", priority=5)

    with running(app.worker()):
        eventually(lambda: 103 in seen and len(on_product.failed()) == 7, 30)

    assert sorted(seen) == [*range(20), 101, 102, 103]
    failed = {each.message_id: each for each in on_product.failed()}
    names = ["bad", "empty", "latin", "list", "pickle", "schema"]
    assert sorted(name for name in failed if not name.startswith("none-")) == names
    (nameless,) = (each for name, each in failed.items() if name.startswith("none-"))
    assert "has no id" in nameless.error


def test_kombu_reads_what_the_outbox_sends(app, any_broker):
    queue = fresh_queue(any_broker)
    ids = [app.publish(queue, {"n": number}, key="k", headers={"t": "a"}) for number in range(5)]
    with running(app.worker()), kombu.Connection(queue.url) as connection:
        found = []

        def receive(body, message):
            found.append((message.properties.get("message_id"), body, message.headers["t"]))
            message.ack()

        channel = connection.channel()
        kombu_queue = kombu.Queue(queue.name, channel=channel, durable=True)

        def drained():
            message = kombu_queue.get(accept=["json"])
            if message is not None:
                receive(message.payload, message)
            return len(found) == 5

        channel.queue_declare(queue.name, durable=True, auto_delete=False)
        eventually(drained, 20)

    assert found == [(name, {"n": number}, "a") for number, name in enumerate(ids)]


def test_plain_text_in_a_list_of_redis_is_a_body(app, redis):
    import redis as client

    queue = fresh_queue(redis)
    seen = []

    @app.consume(queue, identity="body")
    def on_product(event: dict[str, int]) -> None:
        seen.append(event["n"])

    with client.Redis.from_url(queue.url) as pushed, running(app.worker()):
        for body in ('{"n": 1}', '{"n": 2}', "\x00", '{"n": 2}', '{"n": 3}'):
            pushed.lpush(queue.name, body)
        eventually(lambda: len(seen) == 3 and on_product.failed(), 20)

    assert sorted(seen) == [1, 2, 3]
    assert len(on_product.failed()) == 1
    assert isinstance(queue, Queue)
