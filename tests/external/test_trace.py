"""A submission is the run of its task, and each poll is a span."""

import pytest
from opentelemetry import trace
from opentelemetry.trace import SpanKind

from tests.external.system import Spark
from tests.fixture.trace import id_of, links_of
from windlass import Done

pytestmark = pytest.mark.mostly("sqlite")


class Watched(Spark):
    """Notes in which span it is polled."""

    def poll(self, handles):
        self.span = trace.get_current_span().get_span_context().span_id
        return super().poll(handles)


def test_a_submission_is_a_run_and_a_poll_is_a_span(app, clock, spans):
    system = Watched()
    spark = app.external("spark", system, every="5s")
    refs = [spark.enqueue("one"), spark.enqueue("two")]
    app.drain()
    system.answers = {f"handle-{ref.id}": Done(7) for ref in refs}
    clock.forward("6s")
    app.drain()

    submits = spans.named("process spark")
    assert [run.attributes["windlass.outcome"] for run in submits] == ["submitted"] * 2
    assert {links_of(run)[0] for run in submits} == {
        id_of(each) for each in spans.named("send spark")
    }
    poll = spans.one("poll spark")
    assert poll.kind is SpanKind.CLIENT
    assert poll.attributes["messaging.operation.type"] == "receive"
    assert poll.attributes["messaging.batch.message_count"] == 2
    assert system.span == poll.context.span_id


def test_a_submission_that_is_refused_is_an_error(app, spans):
    class Refusing(Spark):
        def submit(self, job: str) -> str:
            raise TypeError("no such job")

    app.external("spark", Refusing(), every="5s").enqueue("one")
    app.drain()

    run = spans.one("process spark")
    assert run.attributes["windlass.outcome"] == "failed"
    assert "no such job" in run.status.description
