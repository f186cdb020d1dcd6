"""Templates are versioned; a run that goes on may be changed where nothing has begun."""

import pytest

from windlass import BadFlow, Status, UnknownFlow
from windlass.model.node import head_of

SPEC = {
    "nodes": [
        {"name": "load", "kind": "count", "args": [{"$argument": "begin"}]},
        {"name": "twice", "kind": "count", "kwargs": {"number": {"$result": "load"}}},
    ],
    "edges": [["load", "twice"]],
}

pytestmark = pytest.mark.mostly("sqlite")


@pytest.fixture
def seen():
    return []


@pytest.fixture
def count(app, seen):
    @app.task
    def count(number: int) -> int:
        seen.append(number)
        return number + 1

    return count


def test_a_template_is_started_like_a_flow(app, count, seen):
    flow = app.flow_template("counting", SPEC)

    run = flow.start(begin=5)
    app.drain()

    assert run.status() is Status.SUCCEEDED
    assert seen == [5, 6]
    assert head_of(app.flows.run(run.id).payload).version == 1


def test_a_template_that_changes_gets_another_version(app, count, seen):
    app.flow_template("counting", SPEC)
    app.flow_template("counting", SPEC)
    changed = {"nodes": SPEC["nodes"][:1], "edges": []}
    app.flow_template("counting", changed)

    assert app.flow_template.row("counting").version == 2
    assert [row.version for row in app.flow_template.listing()] == [2]
    app.flow_template.get("counting", 1).start(begin=1)
    app.drain()
    assert seen == [1, 2]
    with pytest.raises(UnknownFlow, match="no template 'gone'"):
        app.flow_template.get("gone")


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"edges": [["load", "twice"], ["twice", "load"]]}, "in a circle: .*load.*twice"),
        ({"edges": [["load", "gone"]]}, "'gone', which is no node"),
        ({"edges": []}, "given the result of 'load'"),
        ({"nodes": [SPEC["nodes"][0]] * 2, "edges": []}, "two nodes are named 'load'"),
        ({"nodes": [{"name": "one"}], "edges": []}, "cannot be read: .*kind"),
    ],
)
def test_a_template_that_cannot_run_is_refused(app, count, change, problem):
    with pytest.raises(BadFlow, match=problem):
        app.flow_template("counting", SPEC | change)

    assert app.flow_template.listing() == []


@pytest.fixture
def run(app, count):
    @app.flow
    def line(flow):
        first = flow.add(count, 1, name="first")
        second = flow.add(count, 2, name="second", after=first)
        flow.add(count, 3, name="third", after=second)

    return line.start()


@pytest.mark.mostly("sqlite", "postgresql", "mariadb")
def test_nodes_and_edges_are_added_to_a_run(app, count, run, seen):
    def change(edit):
        extra = edit.add(count, 10, name="extra", after="first")
        edit.link(extra, "third")
        edit.unlink("second", "third")

    run.edit(change)
    app.drain()

    assert run.status() is Status.SUCCEEDED
    assert set(run.graph().edges) == {("first", "second"), ("first", "extra"), ("extra", "third")}
    assert seen.index(10) < seen.index(3)
    assert len(seen) == 4


def test_a_node_is_added_after_one_that_has_ended(app, count, run, seen):
    app.drain()
    assert run.status() is Status.SUCCEEDED

    run.edit(lambda edit: edit.add(count, 4, name="fourth", after="third"))
    assert run.status() is Status.RUNNING
    app.drain()

    assert run.status() is Status.SUCCEEDED
    assert seen == [1, 2, 3, 4]


def test_a_node_that_is_added_below_one_that_failed_is_blocked_and_the_run_has_ended(app, count):
    @app.task
    def broken() -> None:
        raise ValueError("not today")

    @app.flow
    def short(flow):
        flow.add(broken)

    run = short.start()
    app.drain()

    run.edit(lambda edit: edit.add(count, 1, name="below", after="broken"))

    assert run.status() is Status.FAILED
    assert run.nodes()[1].error == "blocked by broken"


def test_two_who_add_a_node_of_one_name_do_not_both_succeed(app, count, run):
    def change(edit):
        edit.add(count, 1, name="more")
        # Somebody else is quicker.
        run.edit(lambda other: other.add(count, 2, name="more"))

    with pytest.raises(BadFlow, match="named 'more' already"):
        run.edit(change)

    assert [node.name for node in run.nodes()] == ["first", "second", "third", "more"]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda edit: edit.link("third", "second"), "in a circle"),
        (lambda edit: edit.link("second", "first"), "'first' is waiting: what has begun"),
        (lambda edit: edit.unlink("first", "third"), "does not wait for 'first'"),
        (lambda edit: edit.add("count", 1, name="first"), "two nodes are named 'first'"),
        (lambda edit: edit.add("count", 1, after="gone"), "'gone', which is no node"),
    ],
)
def test_a_change_that_cannot_be_made_changes_nothing(app, count, run, change, problem):
    before = run.graph()

    with pytest.raises(BadFlow, match=problem):
        run.edit(change)

    assert run.graph() == before
