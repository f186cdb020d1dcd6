"""What is enqueued and run is counted and timed, by kind, in the instruments of the conventions."""

import pytest
from opentelemetry.semconv._incubating.metrics import messaging_metrics

from windlass import Keys

pytestmark = pytest.mark.mostly("sqlite")

SEND = {
    "messaging.system": "windlass",
    "messaging.operation.name": "send",
    "messaging.destination.name": "mail",
}
PROCESS = SEND | {"messaging.operation.name": "process"}


def test_enqueues_and_runs_are_counted_and_timed(app, measured):
    @app.task(retries=0)
    def mail(to: str) -> None:
        if to == "nobody":
            raise ConnectionError("refused")

    mail.enqueue("nobody")
    mail.enqueue_many([{"to": "ada"}, {"to": "bob"}])
    app.drain()

    failed = PROCESS | {"error.type": "ConnectionError"}
    assert measured.points(messaging_metrics.MESSAGING_CLIENT_SENT_MESSAGES) == [(SEND, 3)]
    assert measured.points(messaging_metrics.MESSAGING_CLIENT_OPERATION_DURATION) == [(SEND, 2)]
    for name in (
        messaging_metrics.MESSAGING_CLIENT_CONSUMED_MESSAGES,
        messaging_metrics.MESSAGING_PROCESS_DURATION,
    ):
        points = measured.points(name)
        assert sorted(count for _, count in points) == [1, 2]
        assert (failed, 1) in points
        assert (PROCESS, 2) in points


def test_items_of_a_sweep_are_counted_with_and_without_spans(app, measured, request):
    @app.sweep(Keys(1, 40), ranges=2)
    def mail(key: int) -> None: ...

    app.drain()

    assert measured.points("messaging.client.consumed.messages") == [(PROCESS, 40)]


def test_spans_and_metrics_go_together(app, measured, spans):
    @app.task
    async def mail() -> None: ...

    mail.enqueue()
    app.drain()

    assert spans.names == ["send mail", "process mail"]
    assert measured.points("messaging.process.duration") == [(PROCESS, 1)]
