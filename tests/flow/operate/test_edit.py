"""Templates are versioned; a run that goes on may be changed where nothing has begun."""

from types import SimpleNamespace

import pytest

from windlass import BadFlow, Node, Snooze, Status, UnknownFlow

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
    assert app.flows.run(run.id).version == 1


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
        ({"edges": [["load", "gone"]]}, "'gone', which is not a node"),
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


@pytest.fixture
def held(app):
    """A node that is put off as long as it is held, and one that fails."""
    held = SimpleNamespace(is_held=True)

    @app.task
    def hold() -> int:
        if held.is_held:
            raise Snooze("1s")
        return 5

    @app.task
    def fail() -> None:
        raise ValueError("broken")

    held.hold, held.fail = hold, fail
    return held


def test_nodes_are_added_after_those_that_have_ended(app, clock, count, held, seen):
    @app.flow
    def line(flow):
        flow.add(count, 1, name="first")
        flow.add(held.fail, name="broken")
        flow.add(held.hold)

    def change(edit):
        edit.add(count, 4, name="fourth", after="first")
        fifth = edit.add(count, 5, name="fifth", after="broken")
        edit.add(count, 6, name="sixth", after=fifth)

    run = line.start()
    app.drain()
    run.edit(change)
    held.is_held = False
    clock.forward("2s")
    app.drain()

    assert run.status() is Status.FAILED
    assert seen == [1, 4]
    errors = {node.name: node.error for node in run.nodes()}
    assert errors["fifth"] == errors["sixth"] == "blocked by broken"


def test_a_new_node_is_linked_to_one_that_is_there(app, count, run, seen):
    def change(edit):
        edit.link("second", edit.add(count, Node("second").result, name="extra"))

    run.edit(change)
    app.drain()

    assert run.status() is Status.SUCCEEDED
    assert ("second", "extra") in run.graph().edges
    assert sorted(seen) == [1, 2, 3, 3]


def test_an_edge_that_brings_a_result_is_not_removed(app, clock, count, held):
    @app.flow
    def line(flow):
        first = flow.add(held.hold, name="first")
        other = flow.add(held.hold, name="other")
        middle = flow.add(count, 1, name="middle", after=[first, other])
        flow.add(count, first.result, name="last", after=[first, middle])

    run = line.start()
    app.drain()
    run.edit(lambda edit: edit.unlink("first", "last"))

    with pytest.raises(BadFlow, match="'last' is given the result of 'first'"):
        run.edit(lambda edit: edit.unlink("first", "middle"))

    held.is_held = False
    clock.forward("2s")
    app.drain()
    assert run.status() is Status.SUCCEEDED


def test_a_circle_through_a_nested_flow_is_refused(app, count, held):
    @app.flow
    def inner(flow):
        flow.add(count, 1, name="x", after=flow.add(held.hold, name="w"))

    @app.flow
    def outer(flow):
        flow.add(count, 2, name="end", after=flow.add(inner, name="in"))

    run = outer.start()
    app.drain()

    with pytest.raises(BadFlow, match=r"in a circle: .*end.*in/x"):
        run.edit(lambda edit: edit.link("end", "in/x"))

    run.edit(lambda edit: edit.add(count, Node("in/w").result, after="end"))


def test_of_two_edits_that_add_the_same_name_one_is_refused(app, count, run):
    def change(edit):
        run.edit(lambda other: other.add(count, 1, name="same", after="third"))
        edit.add(count, 2, name="same", after="third")

    with pytest.raises(BadFlow, match="two nodes are named 'same'"):
        run.edit(change)

    assert len(run.nodes()) == 4


def test_a_link_to_what_has_failed_is_refused(app, count, held):
    @app.flow
    def line(flow):
        flow.add(held.fail, name="broken")
        flow.add(count, 1, name="last", after=flow.add(held.hold, name="held"))

    run = line.start()
    app.drain()

    with pytest.raises(BadFlow, match="'last' could never run: it would be blocked by broken"):
        run.edit(lambda edit: edit.link("broken", "last"))

    assert run.graph().edges == [("held", "last")]


@pytest.mark.parametrize("is_cancelled", [True, False])
def test_a_run_that_has_ended_is_not_changed(app, count, run, is_cancelled):
    if is_cancelled:
        run.cancel()
    app.drain()
    before = run.status()

    with pytest.raises(BadFlow, match="has ended"):
        run.edit(lambda edit: edit.add(count, 4, name="fourth"))

    assert run.status() is before
    assert len(run.nodes()) == 3


def test_two_who_add_a_node_of_one_name_do_not_both_succeed(app, count, run):
    def change(edit):
        edit.add(count, 1, name="more")
        # Somebody else is quicker.
        run.edit(lambda other: other.add(count, 2, name="more"))

    with pytest.raises(BadFlow, match="two nodes are named 'more'"):
        run.edit(change)

    assert [node.name for node in run.nodes()] == ["first", "second", "third", "more"]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda edit: edit.link("third", "second"), "in a circle"),
        (lambda edit: edit.link("second", "first"), "'first' is waiting: what has begun"),
        (lambda edit: edit.unlink("first", "third"), "does not wait for 'first'"),
        (lambda edit: edit.add("count", 1, name="first"), "two nodes are named 'first'"),
        (lambda edit: edit.add("count", 1, after="gone"), "'gone', which is not a node"),
    ],
)
def test_a_change_that_cannot_be_made_changes_nothing(app, count, run, change, problem):
    before = run.graph()

    with pytest.raises(BadFlow, match=problem):
        run.edit(change)

    assert run.graph() == before
