"""`windlass flow`: what people see of flows and their runs, and what they do with them."""

import json

import pytest

from tests.fixture.command import open_module

YARD = """
from windlass import App

app = App({url!r})
is_broken = True

@app.task
def load(order: str) -> int:
    return len(order)

@app.task
def fragile(rows: int) -> None:
    if is_broken:
        raise ValueError("not today")

@app.task
def tell() -> None: ...

@app.flow
def cancel_order(flow, order: str = "o"):
    loaded = flow.add(load, order)
    broken = flow.add(fragile, loaded.result, after=loaded)
    flow.add(tell, after=broken)

@app.flow
def sized(flow, count: int):
    flow.each(load, ["x"] * count)
"""

SPEC = {
    "nodes": [{"name": "one", "kind": "tell"}, {"name": "two", "kind": "tell"}],
    "edges": [["one", "two"]],
}


@pytest.fixture
def yard(database_url, write_module, monkeypatch):
    yield from open_module(YARD.format(url=database_url), write_module, monkeypatch)


@pytest.fixture
def sqlite_yard(sqlite_url, write_module, monkeypatch):
    yield from open_module(YARD.format(url=sqlite_url), write_module, monkeypatch)


def test_a_flow_is_started_shown_retried_and_listed(windlass, yard):
    started = windlass("flow", "start", "cancel_order", '{"order": "order-7"}', "--json")
    run = started.json["id"]
    yard.app.drain()

    shown = windlass("flow", "show", run)
    assert shown.code == 0
    words = " ".join(shown.out.split())
    assert "● load succeeded" in words
    assert "● fragile failed" in words
    assert "blocked by fragile" in words
    assert "100.0 %" in words

    yard.is_broken = False
    assert windlass("flow", "retry", run, "--json").json == {"nodes": 2}
    yard.app.drain()
    (listed,) = windlass("flow", "list", "--json").json
    assert (listed["id"], listed["status"], listed["left"]) == (run, "succeeded", 0)
    assert listed["arguments"] == {"order": "order-7"}
    assert "cancel_order" in windlass("flow", "list").out


def test_a_node_is_skipped_and_a_run_is_cancelled(windlass, sqlite_yard):
    run = windlass("flow", "start", "cancel_order", "--key", "k", "--json").json["id"]
    again = windlass("flow", "start", "cancel_order", "--key", "k", "--json").json["id"]
    assert again == run
    sqlite_yard.app.drain()

    assert windlass("flow", "skip", run, "fragile").code == 0
    sqlite_yard.app.drain()
    assert "● fragile skipped" in " ".join(windlass("flow", "show", run).out.split())
    assert "nothing to retry" in windlass("flow", "retry", run).out
    found = windlass("flow", "show", run, "--json").json
    assert found["status"] == "succeeded"
    assert [node["status"] for node in found["nodes"]] == ["succeeded"] * 3
    assert found["edges"] == [["load", "fragile"], ["fragile", "tell"]]

    other = windlass("flow", "start", "cancel_order", '["x"]', "--json").json["id"]
    assert windlass("flow", "cancel", other, "--reason", "sold out").code == 0
    refused = windlass("flow", "cancel", other)
    assert (refused.code, "has ended" in refused.err) == (1, True)


def test_a_second_start_with_a_key_says_which_run_has_it(windlass, yard):
    first = windlass("flow", "start", "cancel_order", "--key", "order-7", "--json").json
    again = windlass("flow", "start", "cancel_order", "--key", "order-7", "--json")
    said = windlass("flow", "start", "cancel_order", "--key", "order-7")

    assert (first["created"], again.code, said.code) == (True, 0, 0)
    assert again.json == {"id": first["id"], "created": False}
    assert f"with key order-7 was already started as run {first['id']}" in said.out
    assert yard.cancel_order.using(key="order-7").start().created is False
    assert yard.cancel_order.start().created is True


def test_a_template_is_imported_started_and_exported(windlass, sqlite_yard, folder):
    (folder / "two.json").write_text(json.dumps(SPEC))

    assert windlass("flow", "import", "two", "two.json", "--json").json["version"] == 1
    run = windlass("flow", "start", "two", "--json").json["id"]
    sqlite_yard.app.drain()

    assert windlass("flow", "export", "two", "--format", "json").json["edges"] == [["one", "two"]]
    assert "n0 --> n1" in windlass("flow", "export", run).out
    assert '"one" -> "two";' in windlass("flow", "export", "two", "--format", "dot").out
    assert "cancel_order" in windlass("flow", "list").out


def test_a_flow_is_exported_with_its_arguments_and_imported_again(windlass, sqlite_yard, folder):
    exported = windlass("flow", "export", "sized", '{"count": 3}', "--format", "json")
    assert [node["kind"] for node in exported.json["nodes"]] == ["load"] * 3

    (folder / "again.json").write_text(exported.out)
    assert windlass("flow", "import", "again", "again.json").code == 0
    run = windlass("flow", "start", "again", "--json").json["id"]
    sqlite_yard.app.drain()
    (folder / "ran.json").write_text(windlass("flow", "export", run, "--format", "json").out)
    assert windlass("flow", "import", "ran", "ran.json").code == 0

    spec = {"nodes": [{"name": "one", "kind": "load", "args": [{"$argument": "order"}]}]}
    (folder / "one.json").write_text(json.dumps(spec))
    assert windlass("flow", "import", "one", "one.json").code == 0
    assert '"one (load)"' in windlass("flow", "export", "one").out


def test_templates_are_nested_by_commands_alone(windlass, sqlite_yard, folder):
    (folder / "two.json").write_text(json.dumps(SPEC))
    nested = {"nodes": [{"name": "both", "kind": "two"}]}
    (folder / "nested.json").write_text(json.dumps(nested))

    assert windlass("flow", "import", "two", "two.json").code == 0
    assert windlass("flow", "import", "nested", "nested.json").code == 0
    run = windlass("flow", "start", "nested", "--json").json["id"]
    sqlite_yard.app.drain()

    shown = windlass("flow", "show", run)
    assert "└─ ● both/one" in shown.out
    assert windlass("flow", "show", run, "--json").json["status"] == "succeeded"


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("export", "sized"), 1, "missing a required argument: 'count'"),
        (("export", "sized", '{"count": "x"}'), 1, "expected int"),
        (("export", "1", '{"count": 1}'), 2, "leave JSON out"),
        (("show", "9"), 1, "there is no run 9"),
        (("start", "gone"), 1, "there is no template 'gone'; declared flows: "),
        (("start", "cancel_order", "{"), 2, "is not JSON"),
        (("export", "cancel_order", "--format", "png"), 2, "not one of mermaid, dot, json"),
        (("import", "two", "gone.json"), 2, "gone.json"),
        (("list", "--status", "odd"), 2, "not one of"),
        (("show", "1", "--watch"), 2, "--watch draws on a terminal"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_line(windlass, sqlite_yard, arguments, code, said):
    answer = windlass("flow", *arguments)

    assert answer.code == code
    assert said in answer.err
    assert "Traceback" not in answer.err
