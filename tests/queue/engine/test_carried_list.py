"""Kinds whose handlers take lists are carried message by message, and consumers make the lists."""

import pytest

import windlass
from tests.fixture.broker import fresh_queue
from tests.queue.engine.hand import Hand, running
from tests.queue.engine.test_consumer import Wire, consumer
from tests.wait import eventually
from windlass import App, Cancel, Retry, Snooze, Status
from windlass.queue.operate.carrier import make_consumer

pytestmark = pytest.mark.mostly("sqlite")


@pytest.fixture
def via(rabbitmq):
    return fresh_queue(rabbitmq)


@pytest.fixture
def app():
    return App("postgresql://nobody@127.0.0.1:1/nothing")


@pytest.fixture
def wire(via):
    with Wire(via) as wire:
        yield wire


def test_a_worker_sends_each_row_by_itself(database_url, via):
    shop = App(database_url, grace="1s")

    @shop.task(via=via, many=10, wait="1s", keep="1d", timeout="30s")
    def price(codes: list[str]) -> list[str]:
        raise AssertionError("it does not run in the worker")

    refs = price.enqueue_many(["bolt", "nut"])
    with Hand(via) as hand, running(shop.worker()):
        messages = hand.take(2)
        for message in messages:
            message.answer(result=f"price of {message['arguments']['codes']}")
        assert [ref.result(timeout=15) for ref in refs] == ["price of bolt", "price of nut"]
    # A consumer may let it wait for a second more.
    assert {message["deadline"] - message["due_at"] > 71 for message in messages} == {True}
    shop.close()


def test_messages_wait_for_company_and_each_has_its_answer(app, via, wire):
    calls = []

    @app.task(via=via, many=4, wait="30s", retries=2, timeout="30s")
    def write(codes: list[str]) -> list[object]:
        items = windlass.context().items
        calls.append([(code, each.fence) for code, each in zip(codes, items, strict=True)])
        return ["written", Retry(after="9s"), Cancel("not ours"), Snooze("1h")]

    with consumer(app, via, concurrency=1) as made:
        for number in range(4):
            assert not calls
            wire.send("write", {"codes": f"code-{number}"}, fence=number)
        said = {reply["id"]: reply for reply in wire.hear(4)}
        eventually(lambda: not made.intake.errands)
        assert made.pulse().running == 0

    assert calls == [[(f"code-{number}", number) for number in range(4)]]
    outcomes = [said[f"m{number}"]["outcome"] for number in range(1, 5)]
    assert outcomes == ["succeeded", "retry", "cancelled", "snoozed"]
    assert said["m1"]["result"] == "written"
    assert said["m2"]["after"] == 9


def test_a_list_without_company_starts_after_its_wait(app, via, wire):
    @app.task(via=via, many=100, wait="50ms")
    async def write(codes: list[str]) -> list[int]:
        return [len(codes)] * len(codes)

    with consumer(app, via):
        wire.send("write", {"codes": "bolt"})
        assert wire.hear()[0]["result"] == 1


def test_one_bad_message_fails_alone(app, via, wire):
    calls = []

    @app.task(via=via, many=8, wait="30s", retries=0, timeout="30s")
    def write(codes: list[int]) -> None:
        calls.append(len(codes))
        if 3 in codes:
            raise ValueError("bad")

    with consumer(app, via, concurrency=1):
        for number in range(7):
            wire.send("write", {"codes": number})
        wire.send("write", {"codes": "no number"})
        said = {reply["id"]: reply["outcome"] for reply in wire.hear(8)}

    assert said.pop("m4") == "failed"
    assert said.pop("m8") == "refused"
    assert set(said.values()) == {"succeeded"}
    assert calls[0] == 7


def test_what_is_delivered_again_runs_without_company(app, via, wire):
    calls = []

    @app.task(via=via, many=8, wait="50ms", timeout="30s")
    def write(codes: list[int]) -> None:
        calls.append(codes)

    for number in range(4):
        wire.send("write", {"codes": number})
    with Hand(via) as hand:
        hand.take(4)
    with consumer(app, via, concurrency=1):
        wire.hear(4)

    assert sorted(calls) == [[0], [1], [2], [3]]


def test_a_list_that_waits_for_company_goes_back_to_the_queue_when_its_consumer_stops(
    app, via, wire
):
    @app.task(via=via, many=2, wait="30s", timeout="30s")
    async def write(codes: list[str]) -> None: ...

    with consumer(app, via, concurrency=1) as made:
        wire.send("write", {"codes": "bolt"})
        eventually(lambda: len(made.in_flight.queues) == 1)

    assert made.left_cleanly
    eventually(lambda: wire.broker.depth(via) == 1)


def test_a_worker_and_a_consumer_do_tasks_and_rolling_items_in_lists(database_url, via):
    shop = App(database_url, grace="5s")
    lengths = []

    @shop.task(via=via, many=50, wait="100ms", keep="1d", timeout="30s")
    def double(numbers: list[int]) -> list[int]:
        lengths.append(len(numbers))
        return [2 * number for number in numbers]

    @shop.rolling(every="1d", via=via, many=20, timeout="30s")
    async def level(codes: list[str]) -> list[str]:
        return [f"seen {code}" for code in codes]

    refs = double.enqueue_many(list(range(120)))
    level.add(f"c{number}" for number in range(60))
    with running(shop.worker()), running(make_consumer(shop.registry, via.name)):
        assert [ref.result(timeout=30) for ref in refs] == [2 * each for each in range(120)]
        eventually(lambda: level.freshness().never_visited == 0, 20)

    assert max(lengths) > 1
    assert level.item("c59").remark == "seen c59"
    assert {ref.status() for ref in refs} == {Status.SUCCEEDED}
    shop.close()
