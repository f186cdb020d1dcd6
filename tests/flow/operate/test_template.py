"""Templates are checked before they are saved, and any worker runs them."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from windlass import App, BadArgument, BadDeclaration, BadFlow, Status, UnknownFlow

INNER = {"nodes": [{"name": "one", "kind": "note", "args": [{"$argument": "text"}]}]}


def declare(app):
    seen = []

    @app.task
    def note(text: str, name: str = "") -> str:
        seen.append(text + name)
        return text

    return seen


@pytest.fixture
def seen(app):
    return declare(app)


@pytest.fixture
def elsewhere(database_url, clock):
    """The same app in another process, which has read no template."""
    other = App(database_url, clock=clock)
    other.seen = declare(other)
    yield other
    other.close()


def node(**said):
    return {"nodes": [{"name": "one", "kind": "note", **said}]}


def states(run):
    return {each.name: str(each.status) for each in run.nodes()}


def test_a_template_inside_a_template_runs_where_nobody_has_read_it(app, seen, elsewhere):
    app.flow_template("inner", INNER)
    outer = {
        "nodes": [
            {"name": "first", "kind": "note", "args": ["hello"]},
            {"name": "in", "kind": "inner", "kwargs": {"text": {"$result": "first"}}},
            {"name": "last", "kind": "note", "args": ["bye"]},
        ],
        "edges": [["first", "in"], ["in", "last"]],
    }

    run = app.flow_template("outer", outer).start()
    elsewhere.drain()

    assert run.status() is Status.SUCCEEDED
    assert set(states(run)) == {"first", "in", "in/one", "last"}
    assert elsewhere.seen == ["hello", "hello", "bye"]
    (nested,) = [each for each in run.graph().nodes if each.name == "in"]
    assert (nested.kind, set(nested.kwargs)) == ("inner", {"text"})
    assert {each.kind for each in run.nodes() if each.name == "in"} == {"inner"}


def test_templates_are_nested_in_each_other_across_processes(app, seen, elsewhere):
    app.flow_template("inner", INNER)
    middle = {"nodes": [{"name": "in", "kind": "inner", "kwargs": {"text": "deep"}}]}
    elsewhere.flow_template("middle", middle)
    outer = app.flow_template("outer", {"nodes": [{"name": "mid", "kind": "middle"}]})

    run = outer.start()
    elsewhere.drain()

    assert run.status() is Status.SUCCEEDED
    assert set(states(run)) == {"mid", "mid/in", "mid/in/one"}


def test_a_nested_template_is_drawn_in_its_last_version(app, seen, elsewhere):
    app.flow_template("inner", INNER)
    outer = app.flow_template(
        "outer", {"nodes": [{"name": "in", "kind": "inner", "kwargs": {"text": "x"}}]}
    )
    changed = node(args=[{"$argument": "text"}], kwargs={"name": "!"})
    elsewhere.flow_template("inner", changed)

    outer.start()
    app.drain()

    assert seen == ["x!"]


@pytest.mark.everywhere
@pytest.mark.parametrize("version", [-1, 0, 2, 2**31 - 1, 2**31, 2**70])
def test_a_version_that_does_not_exist_is_unknown(app, seen, version):
    app.flow_template("inner", INNER)

    with pytest.raises(UnknownFlow, match=f"version {version}"):
        app.flow_template.get("inner", version)


@pytest.mark.parametrize("name", ["", " ", "x" * 150, "12", 7])
def test_a_template_with_a_bad_name_is_not_saved(app, seen, name):
    with pytest.raises((BadFlow, BadDeclaration)):
        app.flow_template(name, node(args=["x"]))

    assert app.flow_template.listing() == []


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        (node(args=[5]), "node 'one': kind 'note': argument 'text' is 5"),
        (node(), "missing a required argument: 'text'"),
        (node(args=["x"], kwargs={"gone": 1}), "unexpected keyword argument 'gone'"),
        (node(args=[{"$argument": "a-b"}]), "can be named 'a-b'"),
        ({"nodes": [{"name": "in/one", "kind": "note", "args": ["x"]}]}, "inside a nested flow"),
    ],
)
def test_what_does_not_fit_the_kind_is_refused(app, seen, spec, problem):
    with pytest.raises(BadFlow, match=problem):
        app.flow_template("wrong", spec)

    assert app.flow_template.listing() == []


def test_a_template_is_started_with_its_arguments_and_no_others(app, seen):
    flow = app.flow_template("notes", INNER)

    with pytest.raises(BadArgument, match="missing a required argument: 'text'"):
        flow.start()
    with pytest.raises(BadArgument, match="unexpected keyword argument 'typo'"):
        flow.start(text="x", typo=1)
    with pytest.raises(BadArgument, match="expected str"):
        flow.start(text=5)
    flow.start(text="x")


def test_an_argument_of_a_node_may_have_any_name(app, seen):
    app.flow_template("named", node(args=["x"], kwargs={"name": "y"})).start()
    app.drain()

    assert seen == ["xy"]


def test_templates_that_are_saved_at_the_same_moment_get_versions_of_their_own(app, seen):
    app.flow_template("busy", node(args=["begin"]))

    def save(number):
        for turn in range(5):
            app.flow_template("busy", node(args=[f"{number} {turn}"]))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(save, range(4)))

    assert app.flow_template.row("busy").version == 21
