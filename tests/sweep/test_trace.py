"""A sweep has a span for each page, and not one for each item."""

import pytest
from opentelemetry.trace import SpanKind

from tests.fixture.trace import id_of, parent_of
from tests.sweep.offer import failing
from windlass import Keys

pytestmark = pytest.mark.mostly("sqlite")


@pytest.mark.parametrize("many", [False, True])
def test_each_page_is_a_span_that_the_spans_of_its_items_are_in(app, spans, many):
    seen = []

    @app.sweep(Keys(1, 40), ranges=2, batch=10, many=many)
    def offer(given) -> None:
        seen.extend(given if many else [given])
        with spans.tracer.start_as_current_span("call"):
            pass

    app.drain()

    pages = spans.named("process offer")
    assert sorted(seen) == list(range(1, 41))
    assert 2 <= len(pages) <= 8
    assert sum(page.attributes["messaging.batch.message_count"] for page in pages) == 40
    assert {page.kind for page in pages} == {SpanKind.CONSUMER}
    assert {page.attributes["windlass.failed"] for page in pages} == {0}
    assert {parent_of(call) for call in spans.named("call")} == {id_of(page) for page in pages}


def test_a_page_tells_how_many_items_failed(app, spans):
    failing(app, [], {3, 4}, ranges=1, batch=40, concurrency=1)

    app.drain()

    pages = spans.named("process offer")
    assert sum(page.attributes["windlass.failed"] for page in pages) == 2
    (event,) = [event for page in pages for event in page.events]
    assert event.attributes["exception.message"] == "no offer for 3"


def test_a_failed_item_that_is_retried_has_its_own_span(app, spans):
    bad = {3}
    offer = failing(app, [], bad, ranges=1)
    app.drain()
    spans.exporter.clear()
    bad.clear()

    offer.retry_failures()
    app.drain()

    again = spans.one("process offer")
    assert again.attributes["windlass.key"] == "3"
    assert again.attributes["windlass.outcome"] == "succeeded"


def test_a_visit_has_its_own_span(app, spans):
    offer = failing(app, [], set(), ranges=1)

    offer.visit(7)

    visit = spans.one("process offer")
    assert visit.attributes["windlass.key"] == "7"
    assert "windlass.range" not in visit.attributes
