"""An enqueue is a producer span, and each run a consumer span that is linked to it."""

import asyncio
import threading

import pytest
from opentelemetry import baggage, context, trace
from opentelemetry.trace import SpanKind, StatusCode
from sqlalchemy.orm import Session

import windlass
from tests.fixture.trace import id_of, links_of, parent_of
from tests.wait import eventually
from windlass import Keys


def test_a_run_is_linked_to_its_enqueue_and_in_the_trace_of_its_caller(app, spans):
    @app.task
    def mail(to: str) -> None: ...

    with spans.tracer.start_as_current_span("request") as request:
        ref = mail.using(key="k").enqueue("ada")
    app.drain()

    send, process = spans.one("send mail"), spans.one("process mail")
    assert parent_of(send) == id_of(request)
    assert links_of(process) == [id_of(send)]
    assert parent_of(process) == id_of(send)
    assert (send.kind, process.kind) == (SpanKind.PRODUCER, SpanKind.CONSUMER)
    assert send.attributes == {
        "messaging.system": "windlass",
        "messaging.operation.name": "send",
        "messaging.operation.type": "send",
        "messaging.destination.name": "mail",
        "messaging.message.id": str(ref.id),
    }
    facts = dict(process.attributes)
    assert int(facts.pop("messaging.client.id")) > 0
    assert facts.pop("windlass.wait_seconds") >= 0
    assert facts == {
        "messaging.system": "windlass",
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.destination.name": "mail",
        "messaging.message.id": str(ref.id),
        "windlass.attempt": 1,
        "windlass.key": "k",
        "windlass.outcome": "succeeded",
    }
    assert process.status.status_code is StatusCode.UNSET


def test_a_caller_without_a_span_begins_a_trace(app, spans):
    @app.task
    def mail() -> None: ...

    mail.enqueue()
    app.drain()

    send, process = spans.one("send mail"), spans.one("process mail")
    assert parent_of(send) is None
    assert parent_of(process) == id_of(send)


@pytest.mark.parametrize("is_async", [False, True])
def test_spans_of_a_handler_are_children_of_its_run(app, spans, is_async):
    if is_async:

        @app.task
        async def mail() -> None:
            await asyncio.sleep(0)
            with spans.tracer.start_as_current_span("smtp"):
                await asyncio.sleep(0)

    else:

        @app.task
        def mail() -> None:
            with spans.tracer.start_as_current_span("smtp"):
                pass

    mail.enqueue_many([{}, {}, {}])
    app.drain()

    runs = {id_of(span) for span in spans.named("process mail")}
    assert {parent_of(span) for span in spans.named("smtp")} == runs
    assert len(runs) == 3


def test_a_task_that_a_handler_enqueues_continues_the_trace(app, spans):
    @app.task
    def second() -> None: ...

    @app.task
    async def first() -> None:
        await second.aenqueue()

    first.enqueue()
    app.drain()

    assert parent_of(spans.one("send second")) == id_of(spans.one("process first"))
    assert len({span.context.trace_id for span in spans.all}) == 1


def test_runs_of_many_tasks_are_traces_of_their_own_that_are_linked(app, spans):
    @app.task
    def mail(to: str) -> None: ...

    with spans.tracer.start_as_current_span("request"):
        mail.enqueue_many([{"to": "ada"}, {"to": "bob"}])
    app.drain()

    send, runs = spans.one("send mail"), spans.named("process mail")
    assert send.attributes["messaging.batch.message_count"] == 2
    assert "messaging.message.id" not in send.attributes
    assert [links_of(run) for run in runs] == [[id_of(send)]] * 2
    assert [parent_of(run) for run in runs] == [None, None]
    assert len({span.context.trace_id for span in (send, *runs)}) == 3


def test_a_retry_is_a_further_span(app, spans, clock):
    @app.task(retries=1, backoff="1s")
    def mail() -> None:
        if windlass.context().attempt == 1:
            raise ConnectionError("refused")

    mail.enqueue()
    app.drain()
    clock.forward("1m")
    app.drain()

    send, (first, second) = spans.one("send mail"), spans.named("process mail")
    assert links_of(first) == links_of(second) == [id_of(send)]
    assert [run.attributes["windlass.attempt"] for run in (first, second)] == [1, 2]
    assert [run.attributes["windlass.outcome"] for run in (first, second)] == [
        "retried",
        "succeeded",
    ]
    assert first.status.status_code is StatusCode.ERROR
    assert second.status.status_code is StatusCode.UNSET


@pytest.mark.parametrize("is_async", [False, True])
def test_an_error_is_on_the_span(app, spans, is_async):
    if is_async:

        @app.task(retries=0)
        async def mail() -> None:
            raise ConnectionError("refused")

    else:

        @app.task(retries=0)
        def mail() -> None:
            raise ConnectionError("refused")

    ref = mail.enqueue()
    app.drain()

    run = spans.one("process mail")
    assert run.attributes["windlass.outcome"] == "failed"
    assert run.attributes["error.type"] == "ConnectionError"
    assert run.status.status_code is StatusCode.ERROR
    assert run.status.description == "ConnectionError: refused"
    (event,) = run.events
    assert event.name == "exception"
    assert event.attributes["exception.message"] == "refused"
    assert str(ref.status()) == "failed"


def test_a_result_that_cannot_be_kept_is_an_error_of_the_span(app, spans):
    @app.task(retries=0)
    def mail() -> object:
        return object()

    mail.enqueue()
    app.drain()

    run = spans.one("process mail")
    assert run.attributes["windlass.outcome"] == "failed"
    assert "the result cannot be kept" in run.status.description


@pytest.mark.parametrize(
    ("signal", "outcome"),
    [
        (windlass.Retry(after="10s"), "retried"),
        (windlass.Snooze("1h"), "snoozed"),
        (windlass.Cancel("closed"), "cancelled"),
    ],
)
def test_a_signal_of_the_handler_is_not_an_error(app, spans, signal, outcome):
    @app.task(retries=3)
    async def mail() -> None:
        raise signal

    mail.enqueue()
    app.drain()

    run = spans.one("process mail")
    assert run.attributes["windlass.outcome"] == outcome
    assert run.status.status_code is StatusCode.UNSET
    assert not run.events


def test_a_run_that_times_out_says_so(app, spans):
    @app.task(retries=0, timeout="50ms")
    async def mail() -> None:
        await asyncio.Event().wait()

    mail.enqueue()
    app.drain()

    run = spans.one("process mail")
    assert run.attributes["windlass.outcome"] == "failed"
    assert run.attributes["error.type"] == "TimeoutError"


def test_a_thread_that_ends_after_its_time_out_tells_of_the_time_out(app, spans):
    may_end = threading.Event()

    @app.task(retries=0, timeout="50ms")
    def mail() -> None:
        may_end.wait(10)

    mail.enqueue()
    app.drain()
    may_end.set()

    eventually(lambda: spans.named("process mail"))
    run = spans.one("process mail")
    assert run.attributes["windlass.outcome"] == "failed"
    assert "did not end within" in run.status.description


def test_a_run_that_its_worker_stops_is_no_error(app, spans):
    began = threading.Event()

    @app.task
    async def mail() -> None:
        began.set()
        await asyncio.Event().wait()

    async def leave_early() -> None:
        worker = app.worker()
        working = asyncio.create_task(worker.run())
        await asyncio.to_thread(began.wait, 10)
        worker.stop()
        worker.stop()
        await working

    mail.enqueue()
    asyncio.run(leave_early())

    run = spans.one("process mail")
    assert run.attributes["windlass.outcome"] == "stopped"
    assert run.status.status_code is StatusCode.UNSET


def test_an_interrupt_in_a_visit_is_not_swallowed(app, spans):
    @app.sweep(Keys(1, 3), ranges=1)
    def offer(key: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        offer.visit(2)

    assert spans.one("process offer").status.status_code is StatusCode.ERROR


def test_a_task_in_the_callers_transaction_carries_its_context(app, spans):
    @app.task
    def mail() -> None: ...

    app.prepare()
    with Session(app.database.engine) as session:
        mail.using(conn=session).enqueue()
        session.commit()
    app.drain()

    assert links_of(spans.one("process mail")) == [id_of(spans.one("send mail"))]


async def enqueue_both(mail, tracer):
    with tracer.start_as_current_span("request"):
        await mail.aenqueue()
        await mail.aenqueue_many([{}])


def test_an_awaited_enqueue_is_a_span_too(app, spans):
    @app.task
    def mail() -> None: ...

    asyncio.run(enqueue_both(mail, spans.tracer))

    request = id_of(spans.one("request"))
    assert [parent_of(span) for span in spans.named("send mail")] == [request, request]


def test_a_refused_enqueue_is_an_error_of_its_span(app, spans):
    @app.task
    def mail(to: str) -> None: ...

    with pytest.raises(windlass.WindlassError):
        mail.enqueue(7)

    send = spans.one("send mail")
    assert send.status.status_code is StatusCode.ERROR
    assert send.attributes["error.type"].endswith("BadArgument")


def test_baggage_reaches_the_handler(app, spans):
    seen = []

    @app.task
    def mail() -> None:
        seen.append(baggage.get_baggage("tenant"))

    token = context.attach(baggage.set_baggage("tenant", "seven"))
    mail.enqueue()
    mail.enqueue_many([{}, {}])
    context.detach(token)
    app.drain()

    assert seen == ["seven"] * 3


def test_a_large_baggage_stays_behind(app, spans):
    seen = []

    @app.task
    def mail() -> None:
        seen.append(baggage.get_all())

    token = context.attach(baggage.set_baggage("tenant", "x" * 4_000))
    big = context.attach(baggage.set_baggage("other", "y" * 4_000))
    mail.enqueue()
    context.detach(big)
    context.detach(token)
    app.drain()

    assert seen == [{}]
    assert links_of(spans.one("process mail")) == [id_of(spans.one("send mail"))]


def test_crons_and_rolling_items_begin_a_trace_at_each_run(app, spans, clock):
    @app.rolling(every="1d")
    def stock_level(code: str) -> None: ...

    @app.cron("* * * * *")
    def nightly() -> None: ...

    stock_level.add(["bolt"], now=True)
    app.drain()
    clock.forward("2m")
    app.drain()

    visit, night = spans.one("process stock_level"), spans.named("process nightly")
    assert (parent_of(visit), links_of(visit)) == (None, [])
    assert visit.attributes["windlass.key"] == "bolt"
    assert night
    assert all(parent_of(span) is None for span in night)


def test_middlewares_are_inside_the_spans(app, spans):
    seen = {}

    @app.middleware
    def around(call, context) -> None:
        seen[context.stage] = trace.get_current_span().get_span_context().span_id
        call()

    @app.task
    def mail() -> None: ...

    mail.enqueue()
    app.drain()

    send, process = spans.one("send mail"), spans.one("process mail")
    assert seen == {"enqueue": send.context.span_id, "run": process.context.span_id}


def test_a_provider_that_is_set_by_a_start_hook_counts(app, spans, monkeypatch):
    real = trace._TRACER_PROVIDER
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", None)

    @app.task
    def mail() -> None: ...

    @app.on_worker_start
    def trace_it() -> None:
        monkeypatch.setattr(trace, "_TRACER_PROVIDER", real)

    mail.enqueue()
    app.drain()

    assert spans.names == ["process mail"]


def test_alerts_that_are_delivered_are_not_traced(app, spans):
    app.alert_to("webhook+http://127.0.0.1:9/?secret=whsec_" + "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")

    @app.task(retries=0)
    def mail() -> None:
        raise ConnectionError("refused")

    mail.enqueue()
    app.drain()

    assert {name for name in spans.names if "windlass:" in name} == set()
