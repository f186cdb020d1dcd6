"""The routes of queues."""

import pytest

from tests.fixture.console import opened
from tests.queue.sending import send
from windlass.queue import Queue

pytestmark = pytest.mark.mostly("sqlite")


@pytest.fixture
def console(app, queue):
    @app.consume(queue, retries=0)
    def on_product(event: dict) -> None:
        if event["code"] == "bad":
            raise ValueError("no such product")

    send(queue, {"code": "bolt"}, {"code": "bad"}, {"code": "bad"})
    app.drain()
    made = opened(app)
    with made.client:
        yield made


def test_queues_and_one_queue(console, queue):
    (found,) = console.get("queues")
    one = console.get(f"queues/{queue.name}", ask=True)

    assert (found["name"], found["failed"], found["kinds"]) == (queue.name, 2, ["on_product"])
    assert (one["depth"], one["problem"]) == (0, None)
    assert console.get(f"queues/{queue.name}")["depth"] is None


def test_failed_messages_are_retried_and_dropped_and_that_is_in_the_audit_log(console, queue):
    found = console.get(f"queues/{queue.name}/failed")
    assert {each["message_id"] for each in found} == {"m1", "m2"}

    one = console.do(f"queues/{queue.name}/retry", ids=[found[0]["id"]])
    rest = console.do(f"queues/{queue.name}/drop")

    assert (one["changed"], rest["changed"]) == (1, 1)
    assert console.get(f"queues/{queue.name}/failed") == []
    assert [each["action"] for each in console.get("audit")["items"]][:2] == [
        "queue.drop",
        "queue.retry",
    ]


def test_an_unknown_queue_is_not_found(console):
    assert console.client.get("/api/queues/nothing").status_code == 404
    assert console.post("queues/nothing/drop").status_code == 404


def test_a_broker_that_is_away_is_told_and_the_rest_is_shown(app, console):
    away = Queue("redis://127.0.0.1:1/0", "away")
    app.publish(away, {"code": "bolt"})

    found = console.get("queues/away", ask=True)

    assert (found["waiting"], found["depth"]) == (1, None)
    assert "127.0.0.1:1" in found["problem"]
