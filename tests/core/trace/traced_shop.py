"""A shop that traces, for processes of their own.

    python -m traced_shop    enqueues, inside a span

Each process writes its spans into the file, one JSON object in a line, as they end.
"""

import json
import logging
import os
from pathlib import Path

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult

import windlass
from windlass import App
from windlass.logging import JsonFormatter

FILE = Path(os.environ["SHOP_SPANS"])
tracer = trace.get_tracer("shop")
app = App(os.environ["SHOP_URL"])
log = logging.getLogger("shop")


class ToFile(SpanExporter):
    def export(self, spans):
        file = os.open(FILE, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        for span in spans:
            os.write(file, json.dumps(plain(span)).encode() + b"\n")
        os.close(file)
        return SpanExportResult.SUCCESS


def plain(span):
    return {
        "name": span.name,
        "pid": os.getpid(),
        "kind": span.kind.name,
        "trace": span.context.trace_id,
        "id": span.context.span_id,
        "parent": None if span.parent is None else span.parent.span_id,
        "links": [link.context.span_id for link in span.links],
        "status": span.status.status_code.name,
        "attributes": dict(span.attributes),
    }


@app.task(retries=1, backoff="10ms")
def mail(to: str) -> None:
    with tracer.start_as_current_span("smtp"):
        log.warning("sending")
    if to == "nobody" and windlass.context().attempt == 1:
        raise ConnectionError("refused")


@app.task
async def amail(to: str) -> None:
    with tracer.start_as_current_span("asmtp"):
        pass


@app.flow
def order(flow, to: str):
    first = flow.add(mail, to, name="first")
    second = flow.add(amail, to, name="second", after=[first])
    flow.add(amail, to, name="third", after=[second])


def set_up() -> None:
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(ToFile()))
    # After the app was made.
    trace.set_tracer_provider(provider)
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter())
    logging.basicConfig(level=logging.WARNING, handlers=[handler])


set_up()

if __name__ == "__main__":
    with tracer.start_as_current_span("request"):
        mail.enqueue("nobody")
        amail.enqueue_many([{"to": "ada"}, {"to": "bob"}])
        order.start("eve")
    app.close()
