"""Nodes that run because other nodes failed."""

from itertools import product

import pytest

from windlass import BadFlow, Status


@pytest.fixture
def plant(app):
    """Tasks that succeed and fail, and what ran."""
    ran = []

    @app.task
    def good() -> int:
        return 1

    @app.task(retries=0)
    def bad() -> None:
        raise ValueError("not today")

    @app.task
    def clean_up() -> None:
        ran.append("clean up")

    @app.task
    def tell() -> None:
        ran.append("tell")

    @app.flow
    def work(flow, ends: list[str], trigger: str):
        steps = []
        for number, end in enumerate(ends):
            task = bad if end == "bad" else good
            when = "1 == 2" if end == "skip" else None
            before = flow.add(good, name=f"before {number}")
            steps.append(flow.add(task, name=f"step {number}", after=before, when=when))
        cleaned = flow.add(clean_up, after=steps, trigger=trigger)
        flow.add(tell, after=cleaned)

    work.ran = ran
    return work


def run_of(app, plant, ends, trigger):
    run = plant.start(list(ends), trigger)
    app.drain()
    return run, {node.name: node for node in run.nodes()}


@pytest.mark.everywhere
@pytest.mark.parametrize("trigger", ["one_failed", "all_failed"])
def test_a_node_runs_if_the_nodes_before_it_failed_and_is_skipped_if_not(app, plant, trigger):
    for ends in product(["good", "bad", "skip"], repeat=2):
        plant.ran.clear()
        run, nodes = run_of(app, plant, ends, trigger)

        wanted = "bad" in ends if trigger == "one_failed" else set(ends) == {"bad"}
        assert plant.ran == (["clean up", "tell"] if wanted else []), ends
        assert nodes["clean_up"].is_skipped is not wanted, ends
        assert nodes["tell"].is_skipped is not wanted, ends
        failed = Status.FAILED if "bad" in ends else Status.SUCCEEDED
        assert run.status() is failed, ends


@pytest.mark.parametrize("trigger", ["one_failed", "all_failed"])
def test_a_retry_decides_again(app, plant, trigger):
    run, _nodes = run_of(app, plant, ["bad", "bad"], trigger)
    assert plant.ran == ["clean up", "tell"]

    run.skip("step 0")
    run.skip("step 1")
    app.drain()

    # What ran has run.
    assert plant.ran == ["clean up", "tell"]
    assert run.status() is Status.SUCCEEDED


def test_the_trigger_is_in_the_template_of_a_run(app, plant):
    run, _nodes = run_of(app, plant, ["good", "bad"], "all_failed")

    nodes = {node["name"]: node for node in run.graph().json()["nodes"]}

    assert nodes["clean_up"]["trigger"] == "all_failed"


def test_nodes_that_are_added_after_the_end_of_others_are_decided_at_once(app):
    ran = []

    @app.task
    def good() -> None: ...

    @app.task
    def clean_up() -> None:
        ran.append("clean up")

    @app.task
    def grow() -> None:
        from windlass import context

        flow = context().flow
        one = flow.add(good, name="inside")
        flow.add(clean_up, after=one, trigger="one_failed")

    @app.flow
    def work(flow):
        flow.add(grow)

    run = work.start()
    app.drain()

    assert run.status() is Status.SUCCEEDED
    assert ran == []
    assert [node.is_skipped for node in run.nodes() if node.kind == "clean_up"] == [True]


def test_a_nested_flow_that_fails_is_a_failure(app):
    ran = []

    @app.task(retries=0)
    def bad() -> None:
        raise ValueError("not today")

    @app.task
    def clean_up() -> None:
        ran.append("clean up")

    @app.flow
    def inner(flow):
        flow.add(bad)

    @app.flow
    def outer(flow):
        nested = flow.add(inner)
        flow.add(clean_up, after=nested, trigger="one_failed")

    run = outer.start()
    app.drain()

    assert ran == ["clean up"]
    assert run.status() is Status.FAILED


def test_an_unknown_trigger_is_refused_with_all_that_there_are(app, plant):
    with pytest.raises(BadFlow, match="all_success, all_done, any_success, one_failed, all_failed"):
        plant.start(["good"], "none_failed")
