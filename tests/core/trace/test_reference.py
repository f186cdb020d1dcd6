"""The tables of the docs have what is recorded, under the names of the conventions."""

import re
from collections import defaultdict

import pytest
from opentelemetry.semconv._incubating.attributes import messaging_attributes
from opentelemetry.semconv._incubating.metrics import messaging_metrics
from opentelemetry.semconv.attributes import error_attributes

from tests.external.system import Spark
from tests.tidy.source import ROOT
from windlass import Keys

pytestmark = pytest.mark.mostly("sqlite")

PAGE = (ROOT / "docs/reference/trace.md").read_text()
INSTRUMENTS = {"Sum": "counter", "Histogram": "histogram"}
ROW = re.compile(r"^\| (.+?) \| (.+?) \| (.+?) \|(?: (.+?) \|)?$", re.MULTILINE)


def table(heading: str) -> list[tuple[str, ...]]:
    """The rows of the table under a heading, without its head."""
    section = PAGE.split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0]
    return ROW.findall(section)[1:]


def do_everything(app, clock) -> None:
    """Record every span with every attribute."""

    @app.task(retries=0)
    def mail(to: str) -> None:
        if to == "nobody":
            raise ConnectionError("refused")

    @app.flow
    def order(flow, to: str):
        flow.add(mail, to)

    @app.sweep(Keys(1, 3), ranges=1)
    def offer(key: int) -> None:
        if key == 2:
            raise ConnectionError("refused")

    system = Spark()
    spark = app.external("spark", system, every="5s")
    mail.using(key="k").enqueue("ada")
    mail.enqueue_many([{"to": "nobody"}, {"to": "bob"}])
    with pytest.raises(Exception, match="mail"):
        mail.enqueue(7)
    order.start("eve")
    spark.enqueue("job")
    with app.control("load", "p") as run:
        run.step(1)
        run.error("half of it is missing")
    app.drain()
    offer.retry_failures()
    system.is_down = True
    clock.forward("6s")
    app.drain()


def kind_of(span) -> str:
    name = span.name.split()[0]
    is_page = name == "process" and "messaging.batch.message_count" in span.attributes
    return "page" if is_page else name


def test_every_attribute_is_told_for_the_spans_that_have_it(app, clock, spans):
    do_everything(app, clock)

    recorded = defaultdict(set)
    for span in spans.all:
        for name in span.attributes:
            recorded[name].add(kind_of(span))
    told = {name.strip("`"): set(on.split(", ")) for name, on, *_ in table("Attributes")}
    assert told == recorded


def test_every_span_is_told_with_its_kind(app, clock, spans):
    do_everything(app, clock)

    recorded = {(kind_of(span), span.name.split()[0], span.kind.name.lower()) for span in spans.all}
    told = {(span, name.strip("`").split()[0], kind) for span, name, kind, _ in table("Spans")}
    assert told == recorded


def test_every_metric_is_told_with_its_unit(app, clock, measured):
    do_everything(app, clock)

    data = measured.reader.get_metrics_data()
    scopes = [scope for each in data.resource_metrics for scope in each.scope_metrics]
    recorded = {
        (
            metric.name,
            "counter" if type(metric.data).__name__ == "Sum" else "histogram",
            metric.unit,
        )
        for scope in scopes
        if scope.scope.name == "windlass"
        for metric in scope.metrics
    }
    told = {(name.strip("`"), kind, unit.strip("`")) for name, kind, unit, _ in table("Metrics")}
    assert told == recorded


def test_names_that_are_not_ours_are_those_of_the_conventions():
    known = {
        value
        for module in (messaging_attributes, messaging_metrics, error_attributes)
        for value in vars(module).values()
        if isinstance(value, str)
    }
    told = {row[0].strip("`") for row in (*table("Attributes"), *table("Metrics"))}

    assert {name for name in told if not name.startswith("windlass.")} <= known
    assert messaging_attributes.MessagingOperationTypeValues.SEND.value == "send"
