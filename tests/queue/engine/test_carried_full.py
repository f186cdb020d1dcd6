"""A queue of a carrier that is full: rows wait, none is lost, and no try is counted."""

import pytest

from tests.fixture.broker import fresh_queue
from tests.queue.engine.hand import Hand, running, sender_of
from tests.wait import eventually
from windlass import App

pytestmark = pytest.mark.mostly("sqlite")


def test_rows_wait_while_the_queue_is_full(database_url, rabbitmq):
    via = fresh_queue(rabbitmq, arguments={"x-max-length": 2, "x-overflow": "reject-publish"})
    shop = App(database_url, grace="1s")

    @shop.task(via=via, keep="1d", timeout="30s")
    def carried(number: int) -> int:
        raise AssertionError("it does not run in the worker")

    @shop.task(keep="1d")
    def here() -> str:
        return "ran"

    refs = [carried.enqueue(number) for number in range(20)]
    with running(shop.worker()) as worker, Hand(via, prefetch=3) as hand:
        eventually(lambda: sender_of(worker).away)
        assert "its queue may be full" in sender_of(worker).away
        assert here.enqueue().result(timeout=10) == "ran"

        attempts = []
        for _ in refs:
            (message,) = hand.take()
            attempts.append(message["attempt"])
            message.answer(result=message["arguments"]["number"])
        assert [ref.result(timeout=20) for ref in refs] == list(range(20))

    assert set(attempts) == {1}
    shop.close()
