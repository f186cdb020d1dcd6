"""Messages of other programs whose headers are odd, or very large."""

import pytest

from tests.queue.sending import send


def nested(depth):
    """A list in a list in a list, and so on."""
    found = []
    for _ in range(depth):
        found = [found]
    return found


@pytest.mark.parametrize(
    "odd",
    [nested(50), nested(200), "x" * 9_000_000, "a\0b", {"of": [1, {"mine": "\0"}]}, 10**40],
    ids=["deep", "deeper", "large", "nul", "inner nul", "large number"],
)
def test_odd_headers_do_not_block_the_queue(app, queue, redis, odd):
    seen = []

    @app.consume(queue)
    def on_event(event: dict) -> None:
        seen.append(event)

    send(queue, b"{not json", headers={"tenant": "a", "odd": odd})
    send(queue, {"n": 1}, ids=["next"])
    app.drain()

    assert seen == [{"n": 1}]
    (failed,) = on_event.failed()
    assert failed.message_id == "m0"
    assert "tenant" in failed.headers
    assert len(failed.headers) < 300_000
