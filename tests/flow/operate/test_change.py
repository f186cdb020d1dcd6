"""Retry, skip and cancel: what is below is decided again, from how its parents ended."""

from types import SimpleNamespace

import pytest
from sqlalchemy import update

import windlass
from windlass import BadFlow, Cancel, Status
from windlass.app import FACES
from windlass.database.schema import task
from windlass.flow.store import flow as store


@pytest.fixture
def world():
    """Which nodes fail, which are put off for a while, and which have run."""
    return SimpleNamespace(fail=set(), hold=set(), ran=[])


@pytest.fixture
def step(app, world):
    @app.task
    def step(name: str) -> str:
        if name in world.hold:
            raise windlass.Snooze("1s")
        world.ran.append(name)
        if name in world.fail:
            raise ValueError(name)
        return name

    return step


@pytest.fixture
def start(app, step):
    """Starts a run of nodes: name to what it waits for, and with which trigger."""
    drawn = {}

    @app.flow
    def graph(flow):
        for name, (after, options) in drawn.items():
            flow.add(step, name, name=name, after=after, **options)

    def start(**nodes):
        drawn.clear()
        for name, after in nodes.items():
            is_plain = not isinstance(after, tuple)
            drawn[name] = (after.split(), {}) if is_plain else (after[0].split(), after[1])
        run = graph.start()
        app.drain()
        return run

    return start


ANY = {"trigger": "any_success"}
DONE = {"trigger": "all_done"}


def states(run):
    return {node.name: str(node.status) for node in run.nodes()}


def errors(run):
    return {node.name: node.error for node in run.nodes() if node.error is not None}


def test_a_node_of_which_another_parent_failed_stays_blocked_when_one_is_skipped(app, world, start):
    world.fail = {"a", "b"}
    run = start(a="", b="", c="a b", d="c")

    run.skip("a")
    app.drain()

    assert states(run) == {"a": "succeeded", "b": "failed", "c": "failed", "d": "failed"}
    assert errors(run)["c"] == errors(run)["d"] == "blocked by b"
    assert run.status() is Status.FAILED


def test_a_node_of_which_another_parent_failed_stays_blocked_when_one_is_retried(app, world, start):
    world.fail = {"a", "b"}
    run = start(a="", b="", c="a b")

    world.fail = {"b"}
    assert run.retry("a") == 1
    app.drain()

    assert states(run) == {"a": "succeeded", "b": "failed", "c": "failed"}
    assert errors(run)["c"] == "blocked by b"
    assert run.status() is Status.FAILED
    assert run.retry() == 2
    world.fail = set()
    app.drain()
    assert run.status() is Status.SUCCEEDED


def test_a_node_of_which_a_parent_was_skipped_by_its_condition_is_not_run_by_a_retry(
    app, world, start
):
    world.fail = {"a"}
    run = start(a="", z="", s=("z", {"when": "z.result == 'no'"}), c="a s")

    world.fail = set()
    run.retry()
    app.drain()

    assert states(run) == {"a": "succeeded", "z": "succeeded", "s": "cancelled", "c": "cancelled"}
    assert errors(run)["c"] == "skipped: s"
    assert run.status() is Status.SUCCEEDED


def test_a_retry_has_a_child_that_still_waits_wait_for_it_again(app, clock, world, start):
    world.fail, world.hold = {"a"}, {"b"}
    run = start(a="", b="", c=("a b", DONE), d=("a b", ANY))
    assert [node.open_slots for node in run.nodes()[2:]] == [1, 1]

    world.fail, world.hold = {"b"}, {"a"}
    run.retry("a")
    clock.forward("2s")
    app.drain()
    assert [node.open_slots for node in run.nodes()[2:]] == [1, 1]
    assert world.ran == ["a", "b"]
    world.hold = set()
    clock.forward("2s")
    app.drain()

    assert states(run) == {"a": "succeeded", "b": "failed", "c": "succeeded", "d": "succeeded"}


def test_a_parent_that_is_skipped_makes_a_child_due_that_waits_for_any(app, clock, world, start):
    world.fail, world.hold = {"a"}, {"b"}
    run = start(a="", b="", d=("a b", ANY))

    run.skip("a")
    app.drain()

    assert world.ran == ["a", "d"]
    assert states(run)["d"] == "succeeded"
    assert run.status() is Status.RUNNING


def test_what_failed_by_itself_is_not_run_again_unasked(app, world, start):
    world.fail = {"a", "d"}
    run = start(a="", d=("a", DONE), e="d")

    run.skip("a")
    app.drain()

    assert world.ran == ["a", "d"]
    assert states(run) == {"a": "succeeded", "d": "failed", "e": "failed"}
    assert run.status() is Status.FAILED


def test_what_a_condition_skipped_can_be_skipped_by_hand_and_has_those_below_run(app, world, start):
    run = start(z="", s=("z", {"when": "z.result == 'no'"}), c="s")
    assert states(run) == {"z": "succeeded", "s": "cancelled", "c": "cancelled"}

    run.skip("s")
    app.drain()

    assert states(run) == {"z": "succeeded", "s": "succeeded", "c": "succeeded"}
    assert world.ran == ["z", "c"]


def test_a_blocked_node_says_what_to_retry_instead(world, start):
    world.fail = {"a"}
    run = start(a="", b="a")

    with pytest.raises(BadFlow, match="'b' cannot run: it is blocked by a"):
        run.retry("b")

    assert run.status() is Status.FAILED


def test_one_node_of_a_cancelled_run_goes_on_with_what_is_below(app, world, start):
    world.hold = {"a", "x"}
    run = start(a="", x="", b="a", c="b x")
    run.cancel()

    world.hold = set()
    assert run.retry("a") == 2
    app.drain()

    assert world.ran == ["a", "b"]
    assert errors(run) == {"x": "cancelled", "c": "blocked by x"}


def test_words_do_not_make_a_node_count_as_skipped(app, world, start):
    @app.task
    def gives_up() -> None:
        raise Cancel("skipped: not needed")

    @app.flow
    def giving_up(flow):
        flow.add(gives_up, name="a")
        flow.add("step", "b", name="b", after="a")

    handled = giving_up.start()
    app.drain()
    world.hold = {"a"}
    cancelled = start(a="", b="a")
    cancelled.cancel("skipped: not needed")

    assert errors(handled) == {"a": "skipped: not needed", "b": "blocked by a"}
    assert handled.status() is Status.FAILED
    world.hold = set()
    assert cancelled.retry() == 2
    app.drain()
    assert cancelled.status() is Status.SUCCEEDED


# Nested flows


@pytest.fixture
def nested(app, step):
    """A run of two nodes in a nested flow, and one after it."""

    @app.flow
    def inner(flow):
        flow.add(step, "a", name="a")
        flow.add(step, "b", name="b")

    @app.flow
    def outer(flow):
        flow.add(step, "end", name="end", after=flow.add(inner, name="in"))

    def start():
        run = outer.start()
        app.drain()
        return run

    return start


def test_a_nested_flow_of_which_a_node_is_retried_waits_for_it(app, clock, world, nested):
    world.fail, world.hold = {"a"}, {"b"}
    run = nested()

    world.fail = set()
    assert run.retry() == 1
    app.drain()
    assert states(run)["in"] == "running"
    world.hold = set()
    clock.forward("2s")
    app.drain()

    assert world.ran == ["a", "a", "b", "end"]
    assert run.status() is Status.SUCCEEDED


def test_a_nested_flow_is_retried_by_what_failed_in_it(app, world, nested):
    world.fail = {"a"}
    run = nested()
    assert states(run) == {"in": "failed", "end": "failed", "in/a": "failed", "in/b": "succeeded"}

    world.fail = set()
    assert run.retry("in") == 3
    app.drain()

    assert world.ran == ["a", "b", "a", "end"]
    assert states(run) == dict.fromkeys(("in", "end", "in/a", "in/b"), "succeeded")
    assert run.status() is Status.SUCCEEDED


def test_a_nested_flow_is_skipped_with_what_has_not_succeeded_in_it(app, world, nested):
    world.fail, world.hold = {"a"}, {"b"}
    run = nested()

    run.skip("in")
    app.drain()

    assert states(run) == dict.fromkeys(("in", "end", "in/a", "in/b"), "succeeded")
    assert run.status() is Status.SUCCEEDED


def test_a_node_that_is_skipped_in_a_nested_flow_ends_that(app, world, nested):
    world.fail = {"a"}
    run = nested()

    run.skip("in/a")
    app.drain()

    assert states(run)["in"] == "succeeded"
    assert run.status() is Status.SUCCEEDED


def test_what_a_node_in_a_nested_flow_adds_is_in_it_too(app, clock, world, step):
    @app.task
    def grow() -> str:
        flow = windlass.context().flow
        grown = flow.add(step, "grown", name="grown")
        flow.add(step, grown.result, name="more", after=["first", grown])
        return "grow"

    @app.flow
    def inner(flow):
        flow.add(grow, after=flow.add(step, "first", name="first"))

    @app.flow
    def outer(flow):
        flow.add(step, "end", name="end", after=flow.add(inner, name="in"))

    world.hold = {"grown"}
    run = outer.start()
    app.drain()
    assert states(run)["in"] == "running"
    assert "end" not in world.ran
    world.hold = set()
    clock.forward("2s")
    app.drain()

    assert world.ran == ["first", "grown", "grown", "end"]
    assert set(states(run)) == {"in", "end", "in/first", "in/grow", "in/grown", "in/more"}
    assert run.status() is Status.SUCCEEDED


def test_a_nested_flow_whose_names_get_too_long_fails(app, step):
    @app.flow
    def within(flow):
        flow.add(step, "x", name="y" * 200)

    @app.flow
    def around(flow):
        flow.add(within, name="x" * 200)

    run = around.start()
    app.drain()

    assert "too long" in next(iter(errors(run).values()))


def test_results_of_what_need_not_have_ended_are_refused_also_to_a_node_that_adds(app, step):
    @app.task
    def grow(of: str) -> None:
        flow = windlass.context().flow
        flow.add(step, windlass.Node(of).result, name="grown of " + of)

    @app.flow
    def growing(flow):
        first = flow.add(step, "first", name="first")
        flow.add(step, "other", name="other")
        between = flow.add(step, "between", name="between", after=first)
        flow.add(grow, "first", name="right", after=between)
        flow.add(grow, "other", name="wrong", after=between)

    run = growing.start()
    app.drain()

    assert states(run)["grown of first"] == "succeeded"
    assert states(run)["wrong"] == "failed"
    assert "the result of 'other', which need not have ended" in errors(run)["wrong"]


def test_what_is_added_below_a_failed_node_is_blocked_with_all_below_it(app, world, step):
    @app.task
    def grow() -> None:
        flow = windlass.context().flow
        flow.add(step, "y", name="y", after=flow.add(step, "x", name="x", after="bad"))

    @app.flow
    def growing(flow):
        bad = flow.add(step, "bad", name="bad")
        flow.add(grow, after=bad, trigger="all_done")

    world.fail = {"bad"}
    run = growing.start()
    app.drain()

    assert errors(run)["x"] == errors(run)["y"] == "blocked by bad"
    assert run.status() is Status.FAILED


# Runs that have ended


def test_a_run_without_nodes_is_pruned_and_frees_its_key(app, clock):
    @app.flow(keep="1h")
    def nothing(flow): ...

    first = nothing.using(key="once").start()
    assert first.status() is Status.SUCCEEDED
    clock.forward("2h")
    now = clock.now()
    app.database.write(
        lambda connection: store.prune(
            connection, app.database.dialect, now=now, limit=10, pruned=FACES.pruned
        )
    )

    assert nothing.using(key="once").start().id != first.id


def test_a_retry_that_comes_between_the_two_steps_of_a_cancel_goes_on(app, world, start):
    world.hold = {"a"}
    run = start(a="", b="a")
    how = {"reason": "enough", "now": app.clock.now()}
    app.database.write(lambda connection: store.cancel(connection, run.id, keep=10**9, **how))

    run.retry()
    app.database.write(lambda connection: store.cancel_rest(connection, run.id, **how))

    assert states(run) == {"a": "waiting", "b": "blocked"}
    assert run.status() is Status.RUNNING


def test_a_cancelled_run_has_its_rest_cancelled(app, world, start):
    world.hold = {"a"}
    run = start(a="")
    ended = {"status": Status.CANCELLED, "open_slots": 0}
    app.database.write(
        lambda connection: connection.execute(
            update(task).where(task.c.id == run.id).values(**ended)
        )
    )

    now = app.clock.now()
    app.database.write(
        lambda connection: store.cancel_rest(connection, run.id, reason="enough", now=now)
    )

    assert errors(run) == {"a": "enough"}
