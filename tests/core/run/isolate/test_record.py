"""What a handler logs in a child, and its span, are those of its run."""

import logging
from decimal import Decimal

import pytest

from tests.core.run.isolate import jobs
from windlass.logging import ContextFilter
from windlass.operate.task import operate

pytestmark = pytest.mark.mostly("sqlite")


def test_records_are_handled_in_the_worker_and_kept_with_the_run(app, caplog):
    caplog.set_level(logging.INFO)
    caplog.handler.addFilter(ContextFilter())
    say = app.task(isolate="process", logs=10)(jobs.say)

    ref = say.enqueue("ada")
    app.drain()

    hello, problem = [each for each in caplog.records if each.name == "shop.isolated"]
    assert (hello.getMessage(), hello.levelname, hello.funcName) == ("hello ada", "INFO", "say")
    assert (hello.colour, hello.price) == ("red", Decimal("1.5"))
    assert (hello.task, hello.kind, hello.attempt) == (ref.id, "say", 1)
    assert problem.exc_info[0] is jobs.OutOfPaper
    assert "laser has 3 sheets" in caplog.text
    (run,) = operate.logs_of(app.fleet, ref.id).runs
    assert [line.text.splitlines()[0] for line in run.lines] == ["hello ada", "no paper"]
    assert "in say" in run.lines[1].text


def test_spans_of_the_handler_are_in_the_trace_of_its_run(app, spans):
    span_parent = app.task(isolate="process", keep="1d")(jobs.span_parent)

    ref = span_parent.enqueue()
    app.drain()

    (span,) = [each for each in spans.all if each.name == "process span_parent"]
    assert int(ref.result(), 16) == span.context.trace_id
