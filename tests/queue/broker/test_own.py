"""Brokers that users bring: registered for the scheme of a URL, and used as the others are."""

import uuid

import pytest

import windlass
from tests.queue.broker.log import LogBroker
from tests.queue.engine.hand import running
from tests.queue.sending import depth, received, send
from tests.wait import eventually
from windlass import App
from windlass.queue import Queue, broker, register
from windlass.queue.model.queue import REGISTERED
from windlass.queue.operate.carrier import make_consumer


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    monkeypatch.setattr(broker, "_own", {})
    before = dict(REGISTERED)
    register("log", LogBroker)
    yield
    REGISTERED.clear()
    REGISTERED.update(before)


@pytest.fixture
def queue(tmp_path):
    return Queue(f"log://{tmp_path}/messages.db", f"product-{uuid.uuid4().hex[:8]}")


def test_messages_in_and_out_have_their_effects_once(app, queue):
    out = Queue(queue.url, "out")
    seen = []

    @app.consume(queue)
    def on_product(event: dict) -> None:
        seen.append(event["code"])
        app.publish(out, event, key=event["code"])

    send(queue, b"no JSON", {"code": "bolt"}, {"code": "nut"})
    app.drain()
    # The reader has lost its place, and reads everything again.
    LogBroker(queue).ask(("update reader set done = 0, seen = 0", ()))
    assert depth(queue) == 3
    app.drain()

    assert sorted(seen) == ["bolt", "nut"]
    assert sorted(each.body for each in received(out, 2)) == [b'{"code":"bolt"}', b'{"code":"nut"}']
    assert [each.message_id for each in on_product.failed()] == ["m0"]


@pytest.mark.mostly("sqlite")
def test_tasks_are_carried_by_it(database_url, queue):
    app = App(database_url, grace="2s")

    @app.task(via=queue, keep="1d", timeout="30s")
    def add(one: int, other: int) -> int:
        return one + other

    with running(app.worker()), running(make_consumer(app.registry, queue.name, grace="1s")):
        refs = [add.enqueue(number, 1) for number in range(20)]
        assert [ref.result(timeout=20) for ref in refs] == list(range(1, 21))
    app.close()


@pytest.mark.mostly("sqlite")
def test_one_that_is_away_stops_nothing_else(database_url, tmp_path):
    folder = tmp_path / "later"
    away = Queue(f"log://{folder}/messages.db", "product")
    app = App(database_url, grace="2s")
    seen = []

    @app.consume(away)
    def on_product(event: dict) -> None:
        seen.append(event)

    @app.task(keep="1d")
    def other() -> str:
        return "ran"

    app.migrate()
    app.publish(away, {"code": "bolt"})
    with running(app.worker()) as worker:
        assert other.enqueue().result(timeout=20) == "ran"
        eventually(lambda: any(each.error for each in app_queues(app)))
        folder.mkdir()
        eventually(lambda: seen == [{"code": "bolt"}], 30)
        assert worker is not None
    app.close()


def app_queues(app):
    from windlass.queue.operate import operate

    return operate.listing(app.fleet, app.registry)


@pytest.mark.mostly("sqlite")
def test_a_scheme_of_ones_own_may_be_kafka(app):
    with pytest.raises(windlass.BadQueue, match=r'windlass.queue.register\("kafka", make\)'):
        Queue("kafka://broker", "product")

    register("kafka", LogBroker, keeps_order=True)
    queue = Queue("kafka://broker", "product")

    @app.consume(queue, lane=lambda event: event["code"])
    def on_product(event: dict) -> None: ...

    with pytest.raises(windlass.BadDeclaration, match="lane= needs"):
        app.consume(Queue("log:///log", "other"), lane=len)(len)


@pytest.mark.mostly("sqlite")
def test_what_cannot_be_registered_is_refused_with_the_cure(queue):
    for scheme, cure in (("redis", "by itself"), ("My Broker", "scheme of a URL"), (7, "scheme")):
        with pytest.raises(windlass.BadQueue, match=cure):
            register(scheme, LogBroker)
    with pytest.raises(windlass.BadQueue, match="not a function"):
        register("mine", "module:Broker")

    register("odd", lambda queue: object())
    with pytest.raises(windlass.BadQueue, match=r"made a object; return a windlass\.queue\.Broker"):
        broker.broker_of(Queue("odd://broker", "product"))
