"""Which task a record is from, and records as JSON."""

import asyncio
import io
import json
import logging
import threading
import warnings

import pytest
from opentelemetry.sdk._logs import LoggerProvider, LoggingHandler
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor

from windlass import App
from windlass.logging import ContextFilter, JsonFormatter, add_task, task_fields

log = logging.getLogger("shop")


@pytest.fixture
def app(sqlite_url):
    app = App(sqlite_url)
    yield app
    app.close()


@pytest.fixture
def output():
    """What a handler of the user prints of the logger `shop`."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(logging.Formatter("%(kind)s %(task)s %(key)s %(attempt)s %(message)s"))
    handler.addFilter(ContextFilter())
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    yield stream
    log.removeHandler(handler)
    log.setLevel(logging.NOTSET)


@pytest.mark.parametrize("is_async", [False, True])
def test_every_record_of_a_handler_has_its_task(app, output, is_async):
    if is_async:

        @app.task
        async def mail(to: str) -> None:
            await asyncio.sleep(0)
            log.info("to %s", to)
            await asyncio.to_thread(log.info, "on a thread")

    else:

        @app.task
        def mail(to: str) -> None:
            log.info("to %s", to)
            log.info("on a thread")

    ref = mail.using(key="k").enqueue("ada")
    app.drain()
    log.info("outside")

    assert output.getvalue().splitlines() == [
        f"mail {ref.id} k 1 to ada",
        f"mail {ref.id} k 1 on a thread",
        "- - - - outside",
    ]


def test_tasks_at_the_same_time_are_told_apart(app, output):
    both = threading.Barrier(2, timeout=10)

    @app.task
    def mail() -> None:
        both.wait()
        log.info("hello")

    refs = [mail.enqueue(), mail.enqueue()]
    app.drain()

    lines = sorted(output.getvalue().splitlines())
    assert lines == sorted(f"mail {ref.id} - 1 hello" for ref in refs)


def test_a_record_that_says_it_itself_keeps_what_it_says(app, output):
    @app.task
    def mail() -> None:
        log.info("other", extra={"kind": "fruit"})

    ref = mail.enqueue()
    app.drain()

    assert output.getvalue() == f"fruit {ref.id} - 1 other\n"


def test_a_processor_for_structlog_adds_the_task_in_a_handler(app):
    seen = []

    @app.task
    def mail() -> None:
        seen.append(add_task(None, "info", {"event": "hello", "attempt": "mine"}))

    ref = mail.enqueue()
    app.drain()

    assert seen == [{"event": "hello", "attempt": "mine", "task": ref.id, "kind": "mail"}]
    assert add_task(None, "info", {"event": "hello"}) == {"event": "hello"}
    assert task_fields() == {}


def test_json_keeps_the_traceback_the_logger_and_the_fields():
    made = JsonFormatter()
    try:
        raise ValueError("no")
    except ValueError as error:
        exc_info = (type(error), error, error.__traceback__)
    record = logging.makeLogRecord(
        {
            "name": "shop.mail",
            "levelname": "ERROR",
            "msg": "%s failed",
            "args": ("it",),
            "exc_info": exc_info,
            "order": 7,
            "odd": object,
        }
    )

    shown = json.loads(made.format(record))

    assert (shown["logger"], shown["level"]) == ("shop.mail", "error")
    assert shown["message"] == "it failed"
    assert (shown["event"], shown["order"]) == ("log", 7)
    assert "ValueError: no" in shown["exception"]
    assert "\n" not in made.format(record)


@pytest.mark.parametrize("is_async", [False, True])
def test_a_record_of_a_traced_handler_has_its_trace(app, spans, is_async):
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(logging.Formatter("%(kind)s %(trace_id)s %(span_id)s"))
    handler.addFilter(ContextFilter())
    log.addHandler(handler)
    if is_async:

        @app.task
        async def mail() -> None:
            log.warning("hello")
            fields.append(task_fields())

    else:

        @app.task
        def mail() -> None:
            log.warning("hello")
            fields.append(task_fields())

    fields: list[dict[str, object]] = []
    mail.enqueue()
    app.drain()
    with spans.tracer.start_as_current_span("outside") as outside:
        log.warning("hello")
    log.warning("hello")
    log.removeHandler(handler)

    run, there = spans.one("process mail").context, outside.get_span_context()
    ids = f"{run.trace_id:032x} {run.span_id:016x}"
    assert stream.getvalue().splitlines() == [
        f"mail {ids}",
        f"- {there.trace_id:032x} {there.span_id:016x}",
        "- - -",
    ]
    assert fields[0]["trace_id"] == f"{run.trace_id:032x}"
    assert fields[0]["span_id"] == f"{run.span_id:016x}"


def test_the_log_bridge_of_opentelemetry_finds_the_span(app, spans):
    exporter = InMemoryLogRecordExporter()
    provider = LoggerProvider()
    provider.add_log_record_processor(SimpleLogRecordProcessor(exporter))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        handler = LoggingHandler(logger_provider=provider)
    handler.addFilter(ContextFilter())
    log.addHandler(handler)

    @app.task
    def mail() -> None:
        log.warning("hello")

    ref = mail.enqueue()
    app.drain()
    log.removeHandler(handler)

    (record,) = [each.log_record for each in exporter.get_finished_logs()]
    run = spans.one("process mail").context
    assert (record.trace_id, record.span_id) == (run.trace_id, run.span_id)
    assert (record.attributes["task"], record.attributes["kind"]) == (ref.id, "mail")
