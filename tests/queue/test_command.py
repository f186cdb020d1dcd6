"""`windlass queue list|show|failed|retry|drop`, and `windlass worker --consume`."""

import pytest

from tests.fixture.command import open_module
from tests.queue.sending import send
from windlass.queue import Queue

pytestmark = pytest.mark.mostly("sqlite")

SHOP = """
from windlass import App
from windlass.queue import Queue

app = App({url!r})
events = Queue({broker!r}, {name!r})
seen = []

@app.consume(events, retries=0)
def on_product(event: dict) -> None:
    seen.append(event)
    if event["code"] == "bad":
        raise ValueError("no such product")
"""


@pytest.fixture
def store(database_url, queue, write_module, monkeypatch):
    """An app that consumes a queue of its own; commands find it by $WINDLASS_APP."""
    source = SHOP.format(url=database_url, broker=queue.url, name=queue.name)
    yield from open_module(source, write_module, monkeypatch)


@pytest.fixture
def failed(store, queue):
    """The shop after two messages, one of which failed."""
    send(queue, {"code": "bolt"}, {"code": "bad"})
    store.app.drain()
    return store


def test_the_list_says_what_came_in_and_what_failed(windlass, failed, queue):
    (found,) = windlass("queue", "list", "--json").json

    assert (found["name"], found["kinds"]) == (queue.name, ["on_product"])
    assert (found["failed"], found["retrying"], found["waiting"]) == (1, 0, 0)
    assert found["received_per_second"] > 0
    assert found["error"] is None
    shown = windlass("queue", "list").out
    assert queue.name in shown
    assert "on_product" in shown


def test_one_queue_is_shown_with_what_its_broker_says(windlass, failed, queue):
    send(queue, {"code": "nut"}, ids=["later"])

    found = windlass("queue", "show", queue.name, "--json").json

    assert (found["depth"], found["problem"], found["is_tested"]) == (1, None, True)
    assert "at the broker" in windlass("queue", "show", queue.name).out


def test_failed_messages_are_shown_retried_and_dropped(windlass, failed, queue):
    (message,) = windlass("queue", "failed", "on_product", "--json").json
    assert (message["message_id"], message["body"]) == ("m1", '{"code": "bad"}')
    assert "no such product" in windlass("queue", "failed", queue.name).out

    assert windlass("queue", "retry", queue.name, "--json").json == {"retried": 1}
    assert windlass("queue", "failed", queue.name, "--json").json == []
    failed.app.drain()

    refused = windlass("queue", "drop", queue.name)
    assert (refused.code, "--all" in refused.err) == (2, True)
    dropped = windlass("queue", "drop", queue.name, "--id", str(message["id"]), "--json")
    assert dropped.json == {"dropped": 1}
    assert "no failed messages" in windlass("queue", "failed", queue.name).out


def test_an_unknown_queue_is_refused_with_the_known_ones(windlass, failed, queue):
    answer = windlass("queue", "show", "nothing")

    assert answer.code == 1
    assert queue.name in answer.err


def test_an_app_without_queues_says_how_to_use_one(windlass, shop):
    assert "@app.consume" in windlass("queue", "list").out
    assert windlass("queue", "list", "--json").json == []


def test_a_worker_consumes_what_it_is_told_and_refuses_an_unknown_name(windlass, store, queue):
    send(queue, {"code": "bolt"})

    assert windlass("worker", "--once", "--consume", "none").code == 0
    assert (
        store.app.database.read(
            lambda connection: connection.exec_driver_sql(
                "select count(*) from windlass_inbox"
            ).scalar()
        )
        == 0
    )
    assert windlass("worker", "--once", "--consume", "on_product").code == 0
    assert (
        store.app.database.read(
            lambda connection: connection.exec_driver_sql(
                "select count(*) from windlass_inbox"
            ).scalar()
        )
        == 1
    )
    assert windlass("worker", "--once", "--consume", "nobody").code != 0


def test_two_queues_of_one_name_are_told_apart_by_their_address(windlass, store, queue, rabbitmq):
    other = Queue(rabbitmq.url, queue.name)
    store.app.publish(other, {"code": "bolt"})

    ambiguous = windlass("queue", "show", queue.name)
    assert (ambiguous.code, f"{queue.name}@{other.address}" in ambiguous.err) == (1, True)

    found = windlass("queue", "show", f"{queue.name}@{other.address}", "--json").json
    assert (found["waiting"], found["kinds"]) == (1, [])


def test_the_status_of_a_consumer_names_its_queue(windlass, failed, queue):
    (kind,) = windlass("status", "--json").json["kinds"]

    assert (kind["kind"], kind["failed"], kind["why"]) == ("on_product", 1, "no worker")
