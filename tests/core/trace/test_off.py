"""Without a provider nothing is traced, imported or written; rows with a context run anywhere."""

import subprocess
import sys

import pytest
from opentelemetry import metrics, trace

from tests.fixture.trace import links_of
from windlass import testing
from windlass.core.trace.provider import recorder
from windlass.core.trace.recorder import Recorder
from windlass.database.schema import task
from windlass.flow.operate import view
from windlass.value.payload import trace_of
from windlass.watch.operate import check

SHOP = """
import sys
from windlass import App

app = App("sqlite:///shop.db")

@app.task
def mail(to: str) -> str:
    return to

ref = mail.enqueue("ada")
app.drain()
assert ref.result() == "ada"
print(sorted(name for name in sys.modules if name.split(".")[0] == "opentelemetry"))
"""


def payloads(app):
    with app.database.engine.connect() as connection:
        return [row.payload for row in connection.execute(task.select().order_by(task.c.id))]


@pytest.mark.mostly("sqlite")
def test_a_program_that_does_not_trace_does_not_import_it(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", SHOP], cwd=tmp_path, capture_output=True, check=True, text=True
    )

    assert done.stdout.strip() == "[]"


def test_without_a_provider_rows_and_runs_are_as_before(app):
    @app.task
    def mail(to: str) -> None: ...

    mail.enqueue("ada")

    assert recorder() is None
    assert payloads(app) == ['{"to":"ada"}']


@pytest.mark.parametrize(
    ("module", "name", "provider"),
    [
        (trace, "_TRACER_PROVIDER", trace.NoOpTracerProvider()),
        (trace, "_TRACER_PROVIDER", trace.ProxyTracerProvider()),
        (metrics._internal, "_METER_PROVIDER", metrics.NoOpMeterProvider()),
    ],
)
def test_a_provider_that_records_nothing_counts_as_none(monkeypatch, module, name, provider):
    monkeypatch.setattr(module, name, provider)

    assert recorder() is None


def test_a_provider_counts_from_the_moment_it_is_set(app, spans, monkeypatch):
    provider = trace._TRACER_PROVIDER
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", None)

    @app.task
    def mail(to: str) -> None: ...

    mail.enqueue("before")
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", provider)
    mail.enqueue("after")
    app.drain()

    assert isinstance(recorder(), Recorder)
    assert len(spans.named("send mail")) == 1
    assert sorted(len(links_of(run)) for run in spans.named("process mail")) == [0, 1]


@pytest.mark.everywhere
def test_a_worker_that_does_not_trace_runs_rows_with_a_context(app, spans, monkeypatch):
    seen = []

    @app.task
    def mail(to: str) -> None:
        seen.append(to)

    @app.task
    def kept(**fields: str) -> None:
        seen.append(fields)

    @app.flow
    def both(flow, to: str):
        first = flow.add(mail, to, name="first")
        flow.add(mail, to, name="second", after=[first])

    mail.enqueue("ada")
    kept.enqueue(to="bob")
    both.start("eve")
    carried = [trace_of(payload) is not None for payload in payloads(app)]
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", None)
    app.drain()

    # Not the handler that takes everything, nor the row of the flow run.
    assert carried == [True, False, False, True, True]
    assert seen.count("ada") == 1
    assert seen.count("eve") == 2
    assert {"to": "bob"} in seen
    assert not spans.named("process mail")


def test_people_see_the_arguments_only(app, spans):
    @app.task
    def mail(to: str) -> None: ...

    @app.flow
    def both(flow, to: str):
        first = flow.add(mail, to, name="first")
        flow.add(mail, first.result, name="second", after=[first])

    ref = mail.enqueue("ada")
    run = both.start("eve")

    assert all(trace_of(payload) for payload in (payloads(app)[0], *payloads(app)[2:]))
    assert app.find(ref.id).payload == '{"to":"ada"}'
    assert [each.arguments for each in testing.enqueued(app, "mail")] == [
        {"to": "ada"},
        {"to": "eve"},
    ]
    assert app.flows.run(run.id).arguments == {"to": "eve"}
    nodes = run.graph().json()["nodes"]
    assert [node["kwargs"].keys() for node in nodes] == [{"to"}, {"to"}]
    assert view.node(app.flows.finder, run.id, "first").arguments == '{"to":"eve"}'
    assert "windlass:trace" not in view.node(app.flows.finder, run.id, "second").arguments
    assert [each for each in check.check(app.fleet, app.registry) if each.about == "mail"] == []


@pytest.mark.mostly("sqlite")
def test_the_command_and_the_console_show_the_arguments_only(
    windlass, sqlite_shop, console, web_shop, spans
):
    theirs = sqlite_shop.send_mail.enqueue("ada")
    ours = web_shop.send_mail.enqueue("ada")

    told = windlass("task", "show", theirs.id, "--json").json
    listed = windlass("task", "list", "--json").out
    page = console.get(f"tasks/{ours.id}")

    assert told["payload"] == {"to": "ada"}
    assert page["task"]["payload"] == '{"to":"ada"}'
    assert "windlass:trace" not in f"{told}{listed}{page}"
