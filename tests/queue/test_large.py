"""Messages that are larger than what every database takes in one statement."""

import pytest

from tests.queue.sending import depth, send
from windlass.errors import NotPossible

LARGE = "é".encode() * 4_500_000


@pytest.fixture
def calls():
    return []


@pytest.fixture
def on_event(app, queue, calls):
    @app.consume(queue, retries=3, backoff="1s")
    def on_event(body: bytes) -> None:
        calls.append(len(body))
        raise ValueError("no such product")

    return on_event


def test_what_fails_and_is_too_large_to_be_kept_is_never_called_without_its_body(
    app, queue, clock, on_event, calls
):
    send(queue, b"x" + LARGE)
    app.drain()
    (failed,) = on_event.failed()

    assert on_event.retry() == 0
    with pytest.raises(NotPossible, match=r"only the beginning of its body was kept"):
        on_event.retry([failed.id])
    clock.forward("1h")
    app.drain()

    assert calls == [len(LARGE) + 1]
    assert failed.is_cut
    assert (failed.body[:3], len(failed.body.encode())) == ("xéé", 63_999)
    assert "no such product; its body of 9,000,001 bytes is too large" in failed.error
    assert depth(queue) == 0
    assert on_event.drop([failed.id]) == 1


@pytest.mark.mostly("sqlite")
def test_the_others_of_a_queue_are_tried_again(app, queue, clock, on_event, calls):
    send(queue, LARGE, b"small")
    for _ in range(5):
        app.drain()
        clock.forward("1m")
    small = next(each for each in on_event.failed() if each.message_id == "m1")

    assert on_event.retry() == 1
    assert calls.count(5) == 4
    assert not small.is_cut
