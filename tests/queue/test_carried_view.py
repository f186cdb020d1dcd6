"""What operators see of carried kinds, in the terminal and over HTTP."""

import pytest

from tests.fixture.broker import fresh_queue
from tests.fixture.command import open_module
from tests.fixture.console import opened
from tests.queue.engine.hand import Hand, running
from tests.wait import eventually
from windlass.queue.engine.carrier import sender

pytestmark = pytest.mark.mostly("sqlite")

STORE = """
from windlass import App
from windlass.queue import Queue

app = App({url!r}, grace="1s")
via = Queue({broker!r}, {name!r})

@app.task(via=via, keep="1d")
def carried() -> int: ...

@app.task
def here() -> None: ...
"""


@pytest.fixture
def queue(redis):
    return fresh_queue(redis)


@pytest.fixture
def store(database_url, queue, write_module, monkeypatch):
    """An app with a carried kind; commands find it by $WINDLASS_APP."""
    text = STORE.format(url=database_url, broker=queue.url, name=queue.name)
    yield from open_module(text, write_module, monkeypatch)


@pytest.fixture
def hand(queue):
    with Hand(queue) as hand:
        yield hand


def status_of(windlass, kind):
    kinds = windlass("status", "--json").json["kinds"]
    return next(each for each in kinds if each["kind"] == kind)


def test_status_and_tasks_say_by_which_queue_a_kind_is_carried(windlass, store, queue, hand):
    store.app.migrate()
    ref = store.carried.enqueue()

    with running(store.app.worker()):
        (message,) = hand.take()
        eventually(lambda: status_of(windlass, "carried")["running"] == 1)
        carried, here = status_of(windlass, "carried"), status_of(windlass, "here")
        shown = windlass("task", "show", ref.id).out
        task = windlass("task", "show", ref.id, "--json").json
        message.answer(result=1)
        ref.result(timeout=10)

    assert (carried["via"], here["via"]) == (queue.name, None)
    assert carried["why"] == f"running by way of queue {queue.name}"
    assert f"queue {queue.name}" in shown
    assert task["via"] == queue.name


def test_the_queue_that_carries_is_listed_and_its_broker_is_asked(windlass, store, queue, hand):
    store.app.migrate()
    store.carried.enqueue()

    with running(store.app.worker()):
        eventually(lambda: hand.depth() == 1)
        # A worker writes down that the broker answers.
        eventually(lambda: windlass("queue", "list", "--json").json[0]["answered_at"])
        shown = windlass("queue", "show", queue.name, "--json").json
        (listed,) = windlass("queue", "list", "--json").json
        text = windlass("queue", "show", queue.name).out

    assert (listed["name"], listed["kinds"], listed["carries"]) == (queue.name, [], ["carried"])
    assert (shown["depth"], shown["problem"], shown["error"]) == (1, None, None)
    assert shown["answered_at"] is not None
    assert "carries" in text


def test_status_says_that_no_consumer_takes_its_tasks(windlass, store, queue, monkeypatch):
    monkeypatch.setattr(sender, "SILENT_SECONDS", 0.2)
    store.app.migrate()
    store.carried.enqueue()

    with running(store.app.worker()):
        eventually(lambda: "no consumer" in status_of(windlass, "carried")["why"])
        why = status_of(windlass, "carried")["why"]
        here = status_of(windlass, "here")["why"]

    assert why == f"no consumer takes its tasks from queue {queue.name}"
    assert here == "nothing due"


def test_status_says_that_the_broker_does_not_answer(
    windlass, database_url, write_module, monkeypatch
):
    text = STORE.format(url=database_url, broker="redis://127.0.0.1:1/0", name="nobody")
    for store in open_module(text, write_module, monkeypatch):
        store.app.migrate()
        store.carried.enqueue()

        with running(store.app.worker()):
            eventually(lambda: "127.0.0.1:1" in status_of(windlass, "carried")["why"])


def test_the_api_says_it_too(store, queue, hand):
    store.app.migrate()
    ref = store.carried.enqueue()
    console = opened(store.app)

    with console.client:
        kinds = {each["kind"]: each for each in console.get("kinds")}
        task = console.get(f"tasks/{ref.id}")["task"]
        (listed,) = console.get("queues")

    carried = kinds["carried"]
    assert (carried["via"], kinds["here"]["via"]) == (queue.name, None)
    assert carried["declared"]["via"] == f"{queue.name}@{queue.address}"
    assert task["via"] == queue.name
    assert listed["carries"] == ["carried"]


def test_a_consumer_of_an_unknown_queue_is_refused_with_those_that_there_are(
    windlass, store, queue
):
    answer = windlass("consumer", f"{store.__name__}:app", "other")

    assert answer.code == 1
    assert f"queues of its kinds: {queue.name}" in answer.err
