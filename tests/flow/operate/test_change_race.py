"""People change runs while workers end their nodes: nobody waits in a circle, nothing is lost."""

import threading
from concurrent.futures import ThreadPoolExecutor
from random import Random

import pytest
from sqlalchemy import event
from sqlalchemy.exc import DBAPIError

from tests.core.fetch.manual_worker import Hand
from tests.flow.manual_worker import Noder, end_of
from tests.wait import eventually
from windlass import App, BadFlow, Status
from windlass.flow.model.graph import NodeEnd

LAYERS = 6
WIDTH = 5
CHANGES = 25


@pytest.fixture
def shared(server_url, clock):
    """An app on a database in which two transactions are open at once."""
    app = App(server_url, clock=clock)
    app.prepare()
    yield app
    app.close()


@pytest.fixture
def errors(shared):
    """What the database complained of: a deadlock is one, though it is done again."""
    seen = []

    def note(context):
        seen.append(str(context.original_exception))

    for engine in shared.database.engines:
        event.listen(engine, "handle_error", note)
    return seen


@pytest.fixture
def step(shared):
    @shared.task
    async def step(name: str) -> None: ...

    return step


@pytest.fixture
def pair(shared, step):
    """A run of a parent and its child; the parent is taken."""

    @shared.flow
    def pair(flow):
        flow.add(step, "child", after=flow.add(step, "parent", name="parent"), name="child")

    return pair.start()


@pytest.mark.parametrize("how", [NodeEnd.SUCCEEDED, NodeEnd.FAILED])
def test_a_skip_waits_for_the_end_of_its_node_and_not_in_a_circle(shared, pair, errors, how):
    hand = Hand(shared)
    (taken,) = hand.claim()
    is_written, go = threading.Event(), threading.Event()
    answers = []

    def write(_connection, _accepted):
        # The end of the parent is written, and the run is not locked yet.
        is_written.set()
        assert go.wait(10)

    def skip():
        try:
            pair.skip("parent")
            answers.append("skipped")
        except BadFlow as problem:
            answers.append(str(problem))

    ending = threading.Thread(
        target=end_of(hand, taken, how).write, kwargs={"beside": write}, daemon=True
    )
    ending.start()
    assert is_written.wait(10)
    skipping = threading.Thread(target=skip, daemon=True)
    skipping.start()
    skipping.join(0.3)
    assert answers == []
    go.set()
    ending.join(20)
    skipping.join(20)

    assert errors == []
    child = next(node for node in pair.nodes() if node.name == "child")
    assert child.status is Status.WAITING
    if how is NodeEnd.SUCCEEDED:
        assert "there is nothing to skip" in answers[0]
    else:
        assert answers == ["skipped"]


def work(app, seed, is_over):
    """Take nodes and end them, now and then by a failure, until all is over."""
    noder, chance = Noder(app), Random(seed)
    while not is_over.is_set():
        for taken in noder.take():
            fails = chance.random() < 0.15
            end(app, end_of(noder, taken, NodeEnd.FAILED if fails else NodeEnd.SUCCEEDED))


def end(app, ends):
    """Write an end; it is refused if the node was skipped or cancelled meanwhile."""
    while True:
        try:
            return ends.write(tries=8)
        except DBAPIError as problem:
            # As a worker does: somebody had the row for long.
            if not app.database.dialect.is_locked(problem):
                raise


def change(run, step, chance, number):
    """Do one of the things that people do to a run."""
    names = [node.name for node in run.nodes()]
    try:
        match chance.randrange(4):
            case 0:
                run.skip(chance.choice(names))
            case 1:
                run.retry()
            case 2:
                after = chance.sample(names, 2)
                run.edit(lambda edit: edit.add(step, "more", after=after, name=f"more-{number}"))
            case 3:
                parent, child = chance.sample(names, 2)
                run.edit(lambda edit: edit.link(parent, child))
    except BadFlow:
        # It had begun, or had ended, or would wait for itself.
        pass


@pytest.fixture
def layered(shared, step):
    @shared.flow
    def layered(flow):
        before = []
        for layer in range(LAYERS):
            before = [
                flow.add(
                    step,
                    "node",
                    after=[before[index], before[index - 1]] if before else [],
                    name=f"{layer}-{index}",
                )
                for index in range(WIDTH)
            ]

    return layered


@pytest.mark.parametrize("is_cancelled", [False, True])
def test_runs_are_changed_while_workers_end_their_nodes(
    shared, layered, step, errors, is_cancelled
):
    runs = [layered.start() for _ in range(2)]
    is_over = threading.Event()

    def meddle(seed):
        chance = Random(seed)
        for number in range(CHANGES):
            change(chance.choice(runs), step, chance, f"{seed}-{number}")

    with ThreadPoolExecutor(5) as pool:
        workers = [pool.submit(work, shared, seed, is_over) for seed in range(3)]
        people = [pool.submit(meddle, seed) for seed in range(2)]
        if is_cancelled:
            for run in runs:
                run.cancel()
        try:
            for person in people:
                person.result(60)
            for run in runs:
                run.retry()
            eventually(lambda: all(run.status().is_final for run in runs), 30, what="their ends")
        finally:
            is_over.set()

    assert [worker.result(10) for worker in workers] == [None] * 3
    assert [error for error in errors if "eadlock" in error] == []
    assert all(node.status.is_final for run in runs for node in run.nodes())
