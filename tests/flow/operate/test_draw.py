"""Drawing flows: names, fan-outs, conditions and nested flows, and what is refused."""

from types import SimpleNamespace

import pytest

import windlass
from windlass import BadArgument, BadDeclaration, BadFlow, Status


@pytest.fixture
def kinds(app):
    @app.task
    def leaf(number: int = 0) -> int:
        return number

    @app.task
    def load() -> dict[str, int]:
        return {}

    @app.task
    def other() -> str:
        return "ran"

    return SimpleNamespace(leaf=leaf, load=load, other=other)


def states(run):
    return {node.name: str(node.status) for node in run.nodes()}


def test_a_condition_over_what_is_not_there_disturbs_nobody(app, kinds):
    @app.flow
    def branch(flow):
        flow.add(kinds.leaf, after=flow.add(kinds.load), when="-load.result.rows > 0")

    run, ref = branch.start(), kinds.other.enqueue()
    app.drain()

    assert states(run) == {"load": "succeeded", "leaf": "cancelled"}
    assert ref.result() == "ran"


def test_a_node_that_cannot_be_filled_fails_alone(app, kinds, monkeypatch):
    from windlass.flow import face

    def fail(blank, results):
        raise RecursionError("too deep")

    monkeypatch.setattr(face, "filled", fail)

    @app.flow
    def branch(flow):
        loaded = flow.add(kinds.load)
        flow.add(kinds.leaf, loaded.result["rows"], after=loaded)

    run, ref = branch.start(), kinds.other.enqueue()
    app.drain()

    assert run.status() is Status.FAILED
    (leaf,) = [node for node in run.nodes() if node.name == "leaf"]
    assert "cannot be filled in: RecursionError: too deep" in leaf.error
    assert ref.result() == "ran"


def test_a_condition_names_any_node(app, kinds):
    @app.flow
    def numbered(flow):
        flow.add(kinds.leaf, 1)
        second = flow.add(kinds.leaf, 2)
        flow.add(kinds.other, after=second, when='node("leaf-2").result == 2')

    run = numbered.start()
    app.drain()

    assert states(run) == dict.fromkeys(["leaf", "leaf-2", "other"], "succeeded")


def test_a_condition_inside_a_nested_flow_holds(app, kinds):
    @app.flow
    def inner(flow):
        first = flow.add(kinds.leaf, 3, name="first")
        flow.add(kinds.leaf, first.result, after=first, when="first.result > 2", name="ran")
        flow.add(kinds.leaf, after=first, when="first.result > 3", name="not")

    @app.flow
    def outer(flow):
        flow.add(inner, name="nested")

    run = outer.start()
    app.drain()

    assert states(run) == {
        "nested": "succeeded",
        "nested/first": "succeeded",
        "nested/ran": "succeeded",
        "nested/not": "cancelled",
    }
    assert run.status() is Status.SUCCEEDED


def test_fans_of_two_nodes_do_not_collide(app, kinds):
    @app.task
    def split(begin: int) -> None:
        flow = windlass.context().flow
        leaves = flow.each(kinds.leaf, [begin, begin + 1])
        last = flow.add(kinds.leaf, leaves[-1].result, after=leaves)
        flow.add(kinds.leaf, after=last, when=f'node("{last.name}").result == {begin + 1}')

    @app.flow
    def splits(flow):
        flow.each(split, [10, 20, 30])

    run = splits.start()
    app.drain()

    assert run.status() is Status.SUCCEEDED
    nodes = run.nodes()
    assert sorted(node.result for node in nodes if node.kind == "leaf") == sorted(
        [0, 10, 11, 11, 0, 20, 21, 21, 0, 30, 31, 31]
    )
    assert {str(node.status) for node in nodes} == {"succeeded"}


def test_a_node_adds_its_own_kind_again_and_again(app):
    @app.task
    def crawl(page: int) -> int:
        if page < 5:
            windlass.context().flow.add(crawl, page + 1)
        return page

    @app.flow
    def site(flow):
        flow.add(crawl, 1)

    run = site.start()
    app.drain()

    assert run.status() is Status.SUCCEEDED
    assert sorted(node.result for node in run.nodes()) == [1, 2, 3, 4, 5]


def test_a_name_that_was_given_may_collide(app, kinds):
    @app.task
    def split() -> None:
        windlass.context().flow.add(kinds.leaf, name="mine")

    @app.flow
    def splits(flow):
        flow.add(split, after=flow.add(split))

    run = splits.start()
    app.drain()

    assert states(run) == {"split": "succeeded", "mine": "succeeded", "split-2": "failed"}


def test_fans_of_one_kind_are_numbered_on(app, kinds):
    @app.flow
    def fans(flow):
        first = flow.each(kinds.leaf, [1, 2])
        flow.add(kinds.leaf)
        flow.each(kinds.leaf, [3, 4], after=(node for node in first))
        flow.each(kinds.leaf, [5], name="last")
        flow.each(kinds.leaf, [6], name="last")

    graph = fans.graph()

    assert [node.name for node in graph.nodes] == [
        *("leaf-1", "leaf-2", "leaf", "leaf-3", "leaf-4", "last-1", "last-2")
    ]
    assert set(graph.edges) == {
        (parent, child) for parent in ("leaf-1", "leaf-2") for child in ("leaf-3", "leaf-4")
    }


@pytest.mark.parametrize(
    ("draw", "problem"),
    [
        (lambda flow, leaf: flow.each(leaf, "abc"), "not a list of items"),
        (lambda flow, leaf: flow.each(leaf, 3), "not a list of items"),
        (lambda flow, leaf: flow.each(leaf, flow.add(leaf).result), "when it runs"),
        (lambda flow, leaf: flow.add(leaf, f"{flow.add(leaf).result}"), "into a text"),
        (lambda flow, leaf: flow.add(leaf, when="-" * 500 + "1"), "nested too deeply"),
    ],
)
def test_what_cannot_be_drawn_is_refused(app, kinds, draw, problem):
    @app.flow
    def bad(flow):
        draw(flow, kinds.leaf)

    with pytest.raises(BadFlow, match=problem):
        bad.start()


def test_a_nested_name_that_is_too_long_fails_its_node(app, kinds):
    @app.flow
    def inner(flow):
        flow.add(kinds.leaf, name="n" * 200)

    @app.flow
    def outer(flow):
        flow.add(inner, name="o" * 200)

    run = outer.start()
    app.drain()

    (node,) = run.nodes()
    assert (node.status, "too long" in node.error) == (Status.FAILED, True)


def test_a_flow_that_is_nested_in_itself_ends(app):
    @app.flow
    def endless(flow):
        flow.add("endless", name="again")

    run = endless.start()
    app.drain()

    assert run.status() is Status.FAILED
    assert any("nested in itself" in (node.error or "") for node in run.nodes())


def test_a_graph_is_drawn_only_with_arguments_that_fit(app, kinds):
    @app.flow
    def one(flow, number: int):
        flow.add(kinds.leaf, number)

    with pytest.raises(BadArgument, match="missing a required argument"):
        one.graph()
    with pytest.raises(BadArgument, match="expected int"):
        one.graph("x")
    assert len(one.graph(3).nodes) == 1


def test_a_flow_that_needs_arguments_cannot_be_a_cron(app, kinds):
    with pytest.raises(BadDeclaration, match="'number' has no default"):

        @app.flow(cron="0 3 * * *")
        def one(flow, number: int):
            flow.add(kinds.leaf, number)


def test_a_graph_can_be_imported_as_a_template(app, kinds):
    @app.flow
    def branches(flow, number: int = 4):
        first = flow.add(kinds.leaf, number, name="first")
        second = flow.add(
            kinds.leaf, first.result, after=first, name="second", when="first.result > 3"
        )
        flow.add(kinds.other, after=[first, second], trigger="all_done")

    drawn = branches.graph().json()
    run = branches.start()
    app.drain()

    assert drawn["nodes"][1] == {
        "name": "second",
        "kind": "leaf",
        "args": [{"$result": "first"}],
        "when": "first.result > 3",
    }
    assert drawn["nodes"][2]["trigger"] == "all_done"
    for number, spec in enumerate([drawn, run.graph().json()]):
        again = app.flow_template(f"again{number}", spec).start()
        app.drain()
        assert states(again) == states(run)
        assert [node.result for node in again.nodes()] == [4, 4, "ran"]


def test_a_slash_in_a_name_is_for_nested_flows(app, kinds):
    @app.flow
    def nest(flow):
        flow.add(kinds.leaf, name="in/one")

    with pytest.raises(BadFlow, match="cannot be named 'in/one'"):
        nest.start()


def test_a_submission_adds_no_nodes(app, kinds):
    class System(windlass.External):
        def submit(self) -> str:
            windlass.context().flow.add(kinds.leaf)
            return "handle"

        def poll(self, handles):
            return {}

    away = app.external("away", System(), retries=0)

    @app.flow
    def nest(flow):
        flow.add(away)

    run = nest.start()
    app.drain()

    assert run.status() is Status.FAILED
    assert "submit adds no nodes" in run.nodes()[0].error


def test_a_run_that_is_being_pruned_is_not_begun_again(app, kinds, clock):
    @app.task
    def broken() -> None:
        raise ValueError("not today")

    @app.flow
    def nest(flow):
        flow.add(broken)

    run = nest.start()
    app.drain()
    clock.advance(365 * 24 * 3_600 * 10**6)

    with pytest.raises(windlass.UnknownFlow, match="there is no run"):
        run.retry()
