"""Random graphs: every node runs once, after its parents, whatever fails and in whatever order."""

from collections import Counter
from random import Random

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.flow.manual_worker import Noder
from windlass import Status
from windlass.flow.model.graph import NodeEnd

TRIGGERS = ("all_success", "all_done", "any_success")
WORKERS = 3

pytestmark = pytest.mark.mostly("sqlite", "postgresql")


@st.composite
def graphs(draw):
    """Nodes, each with what it waits for among those before it, and whether it will fail."""
    count = draw(st.integers(1, 10))
    nodes = []
    for index in range(count):
        after = draw(st.sets(st.integers(0, index - 1), max_size=4)) if index else set()
        trigger = draw(st.sampled_from(TRIGGERS))
        nodes.append((sorted(after), trigger, draw(st.integers(0, 3)) == 0))
    return nodes


def can_run(node, ends):
    """Whether a node runs, given how its parents ended."""
    after, trigger, _ = node
    parents = {ends[parent] for parent in after}
    if trigger == "all_success":
        return NodeEnd.FAILED not in parents
    return trigger == "all_done" or not after or NodeEnd.SUCCEEDED in parents


def expected(nodes):
    """How each node must end, from its parents alone."""
    ends = []
    for node in nodes:
        is_good = can_run(node, ends) and not node[2]
        ends.append(NodeEnd.SUCCEEDED if is_good else NodeEnd.FAILED)
    return ends


def index_of(taken):
    return msgspec.json.decode(taken.payload)["index"]


@pytest.fixture
def start(app):
    """Starts a run of a graph."""
    graph, runs = [], []

    @app.task
    async def node(index: int) -> None: ...

    @app.flow
    def drawn(flow):
        made = []
        for index, (after, trigger, _) in enumerate(graph):
            parents = [made[parent] for parent in after]
            made.append(flow.add(node, index, after=parents, trigger=trigger, name=f"n{index}"))

    def start(nodes):
        for run in runs:
            # An example that failed has left something behind.
            run.cancel()
        graph[:] = nodes
        runs[:] = [drawn.start()]
        return runs[0]

    return start


@settings(
    max_examples=15,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(nodes=graphs(), seed=st.integers(0, 1_000_000))
def test_every_node_runs_once_after_its_parents(app, start, nodes, seed):
    chance = Random(seed)
    workers = [Noder(app) for _ in range(WORKERS)]
    run = start(nodes)
    begun, ended = [], {}
    ends = expected(nodes)
    runnable = {i for i, each in enumerate(nodes) if can_run(each, ends)}

    def take(worker):
        taken = worker.take()
        for each in taken:
            index = index_of(each)
            begun.append(index)
            after, trigger, _ = nodes[index]
            if trigger != "any_success":
                assert set(after) & runnable <= ended.keys()
        return taken

    def run_all(fails):
        while True:
            take(chance.choice(workers))
            held = [(worker, taken) for worker in workers for taken in worker.held]
            if not held and not any(map(take, workers)):
                break
            if held and chance.random() < 0.5:
                worker, taken = chance.choice(held)
                index = index_of(taken)
                ended[index] = NodeEnd.FAILED if fails(index) else NodeEnd.SUCCEEDED
                worker.end(taken, ended[index])

    run_all(lambda index: nodes[index][2])
    assert run.status() is (Status.FAILED if NodeEnd.FAILED in ends else Status.SUCCEEDED)
    wanted = [Status.SUCCEEDED if how is NodeEnd.SUCCEEDED else Status.FAILED for how in ends]
    assert [each.status for each in run.nodes()] == wanted
    assert Counter(begun) == Counter(runnable)

    # What failed or was blocked runs once more, after its parents, and nothing else does.
    failed = {index for index, how in enumerate(ends) if how is NodeEnd.FAILED}
    runnable.update(failed)
    ended = {index: how for index, how in ended.items() if index not in failed}
    begun.clear()
    assert run.retry() == len(failed)
    run_all(lambda index: False)
    assert run.status() is Status.SUCCEEDED
    assert Counter(begun) == Counter(failed)
