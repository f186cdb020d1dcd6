"""What is told about queues: alerts and metrics."""

import pytest

from tests.queue.sending import send
from tests.watch.lookout import MINUTE, looking_out
from tests.watch.metric.metered import Scrape
from windlass.queue import Queue
from windlass.watch.metric.database import DatabaseMetrics
from windlass.watch.metric.exposition import expose
from windlass.watch.metric.process import measure, samples

pytestmark = pytest.mark.mostly("sqlite")


@pytest.fixture
def lookout(database_url):
    with looking_out(database_url) as made:
        yield made


def test_messages_that_wait_for_long_are_an_alert_until_they_are_sent(lookout, queue):
    lookout.app.publish(queue, {"n": 1})
    lookout.look()
    assert lookout.open() == []

    lookout.look(after=6 * MINUTE)
    assert lookout.open() == [("outbox late", queue.name)]
    assert queue.name in lookout.one("outbox late").text

    lookout.app.drain()
    lookout.look()
    assert lookout.open() == []


def test_failed_messages_are_one_alert_until_they_were_seen_to(lookout, queue):
    @lookout.app.consume(queue, retries=0)
    def on_product(event: dict) -> None:
        raise ValueError("no such product")

    lookout.look()
    send(queue, {}, {})
    lookout.app.drain()
    lookout.look()
    assert lookout.open() == [("message failed", "on_product")]

    on_product.drop()
    lookout.look()
    assert lookout.open() == []


def test_metrics_say_what_was_sent_waits_and_failed(app, queue, clock):
    @app.consume(queue, retries=0)
    def on_product(event: dict) -> None:
        raise ValueError("no such product")

    measure(app.registry)
    app.publish_many(queue, [{"n": 1}, {"n": 2}])
    app.drain()
    away = Queue("redis://127.0.0.1:1/0", f"{queue.name}-away")
    app.publish(away, {"n": 3})
    clock.forward("30s")

    told = Scrape(expose(samples(app.registry)).text)
    found = Scrape(expose(DatabaseMetrics(app).samples()).text)

    assert told("message_sent_total", queue=queue.name) == 2
    assert found("message_failed", queue=queue.name) == 2
    assert found("broker_up", queue=queue.name) == 1
    assert found("outbox_waiting", queue=queue.name) == 0
    assert found("outbox_waiting", queue=away.name) == 1
    assert round(found("outbox_oldest_age_seconds", queue=away.name)) == 30
    assert found("broker_up", queue=away.name) is None
