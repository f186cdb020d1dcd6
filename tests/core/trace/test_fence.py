"""Tracing changes no outcome: its errors are logged once and swallowed."""

import logging
import threading

import pytest
from opentelemetry import propagate, trace
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import (
    BatchSpanProcessor,
    SimpleSpanProcessor,
    SpanExporter,
    SpanExportResult,
)

from windlass import Keys, telemetry
from windlass.core.trace.fence import FENCE

pytestmark = pytest.mark.mostly("sqlite")


class Broken(SpanProcessor):
    """Raises wherever it is asked."""

    def __init__(self, *, at: str) -> None:
        self._at = at

    def on_start(self, span, parent_context=None):
        if self._at == "start":
            raise RuntimeError("no room for spans")

    def on_end(self, span):
        if self._at == "end":
            raise RuntimeError("no room for spans")


class BrokenExporter(SpanExporter):
    def export(self, spans):
        raise ConnectionError("the collector is away")


@pytest.fixture
def failures(monkeypatch):
    """The events of tracing that failed; it may fail here."""
    monkeypatch.setattr(FENCE, "has_reported", False)
    found = []
    stop = telemetry.subscribe(
        lambda event: found.append(event) if event.name == "trace.failed" else None
    )
    yield found
    stop()


@pytest.fixture
def trace_with(monkeypatch):
    def use(processor):
        provider = TracerProvider()
        provider.add_span_processor(processor)
        monkeypatch.setattr(trace, "_TRACER_PROVIDER", provider)

    return use


def run_everything(app):
    """Use what is traced; returns what handlers saw."""
    seen = []

    @app.task
    def mail(to: str) -> str:
        seen.append(to)
        return to

    @app.task
    async def amail(to: str) -> str:
        seen.append(to)
        return to

    @app.sweep(Keys(1, 3), ranges=1)
    def offer(key: int) -> None:
        seen.append(str(key))

    refs = [mail.enqueue("ada"), amail.enqueue("bob")]
    with app.control("load") as run:
        run.step(1)
    app.drain()
    assert [ref.result() for ref in refs] == ["ada", "bob"]
    return sorted(seen)


@pytest.mark.parametrize("at", ["start", "end"])
def test_a_processor_that_raises_changes_nothing_and_is_logged_once(app, trace_with, failures, at):
    trace_with(Broken(at=at))

    assert run_everything(app) == ["1", "2", "3", "ada", "bob"]

    (event,) = failures
    assert event.message == (
        "spans or metrics could not be recorded: RuntimeError: no room for spans; "
        "this is logged only once"
    )


def test_an_exporter_that_raises_changes_nothing(app, trace_with, failures, caplog):
    trace_with(SimpleSpanProcessor(BrokenExporter()))

    with caplog.at_level(logging.CRITICAL, logger="opentelemetry"):
        assert run_everything(app) == ["1", "2", "3", "ada", "bob"]

    assert failures == []


def test_an_exporter_that_hangs_delays_nothing(app, trace_with, failures):
    may_end = threading.Event()

    class Hanging(SpanExporter):
        def export(self, spans):
            may_end.wait(60)
            return SpanExportResult.SUCCESS

    processor = BatchSpanProcessor(Hanging(), max_export_batch_size=1)
    trace_with(processor)

    try:
        assert run_everything(app) == ["1", "2", "3", "ada", "bob"]
        assert not may_end.is_set()
    finally:
        may_end.set()
        processor.shutdown()
    assert failures == []


def test_a_propagator_that_raises_changes_nothing(app, trace_with, failures, monkeypatch):
    def broken(*args, **kwargs):
        raise RuntimeError("no propagator")

    trace_with(Broken(at="never"))
    monkeypatch.setattr(propagate, "inject", broken)
    monkeypatch.setattr(propagate, "extract", broken)

    assert run_everything(app) == ["1", "2", "3", "ada", "bob"]

    assert len(failures) == 1


def test_an_error_of_the_handler_reaches_its_task_although_tracing_is_broken(
    app, trace_with, failures
):
    trace_with(Broken(at="end"))

    @app.task(retries=0)
    def mail() -> None:
        raise ValueError("no such address")

    ref = mail.enqueue()
    app.drain()

    assert str(ref.status()) == "failed"
    assert app.find(ref.id).remark == "ValueError: no such address"
