"""The block of a control run is a span with its steps as events."""

import asyncio

import pytest
from opentelemetry.trace import SpanKind, StatusCode

from tests.fixture.trace import id_of, parent_of

pytestmark = pytest.mark.mostly("sqlite")


def test_a_block_is_a_span_with_its_steps(app, spans):
    with pytest.raises(ConnectionError), app.control("load", "2026-11") as run:
        run.step("parse")
        run.step("send")
        raise ConnectionError("refused")
    with app.control("load", "2026-11") as run:
        run.step("parse")
        assert run.step("send", lambda: 7) == 7
        with spans.tracer.start_as_current_span("inside"):
            pass

    first, second = spans.named("control load")
    assert first.kind is SpanKind.INTERNAL
    assert first.status.status_code is StatusCode.ERROR
    assert second.attributes == {
        "windlass.control": "load",
        "windlass.partition": "2026-11",
        "windlass.tries": 2,
    }
    assert [dict(event.attributes) for event in second.events] == [
        {"windlass.step": "parse", "windlass.skipped": True},
        {"windlass.step": "send", "windlass.skipped": False},
    ]
    assert second.status.status_code is StatusCode.UNSET
    assert parent_of(spans.one("inside")) == id_of(second)


def test_an_awaited_block_is_a_span_and_may_fail_without_an_exception(app, spans):
    async def load():
        async with app.control("load") as run:
            await run.astep(1)
            run.error("half of it is missing")

    asyncio.run(load())

    block = spans.one("control load")
    assert block.status.description == "half of it is missing"
    assert [dict(event.attributes) for event in block.events] == [
        {"windlass.step": "1", "windlass.skipped": False}
    ]
