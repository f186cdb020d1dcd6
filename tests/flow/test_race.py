"""Two parents end in two transactions at once: their child is neither forgotten nor run twice."""

import threading

import pytest
from sqlalchemy import select

from tests.core.fetch.manual_worker import Hand
from tests.flow.manual_worker import End, end_of
from tests.wait import eventually
from windlass import App, Status
from windlass.core.face import Site
from windlass.database.schema import task
from windlass.flow.declare import Drawing
from windlass.flow.engine import SELF, add_nodes
from windlass.flow.model.graph import NodeEnd
from windlass.flow.store import flow as flow_store
from windlass.value.outcome import Expanded, Retried, Snoozed, Succeeded

PARENTS = 2


@pytest.fixture
def shared(server_url, clock):
    """An app on a database in which two transactions are open at once."""
    app = App(server_url, clock=clock)
    yield app
    app.close()


@pytest.fixture
def run(shared):
    @shared.task
    async def step(name: str) -> None: ...

    @shared.flow
    def join(flow):
        parents = flow.each(step, ["a", "b"])
        flow.add(step, "child", after=parents, name="child")

    return join.start()


class Parent:
    """The end of one parent, in a transaction that stops where it is told to."""

    def __init__(self, app, hand, taken, run, how=NodeEnd.SUCCEEDED):
        self.ends = end_of(hand, taken, how)
        self.app = app
        self.go = threading.Event()
        self.is_written = threading.Event()
        self.is_inside = threading.Event()
        self.due = []
        self.accepted = None
        self._thread = threading.Thread(target=self._finish, daemon=True)

    def start(self):
        self._thread.start()

    def _finish(self):
        def note(connection, accepted):
            self.is_written.set()

        def on_filled(due):
            self.due = list(due)
            self.is_inside.set()
            assert self.go.wait(10)

        self.accepted = self.ends.write(beside=note, on_filled=on_filled, tries=8)

    def end(self):
        self.go.set()
        self._thread.join(10)
        assert not self._thread.is_alive()


def taken_by(app, hand):
    claimed = hand.claim(PARENTS)
    assert len(claimed) == PARENTS
    return claimed


def child_of(app, run):
    query = select(task.c.status, task.c.open_slots, task.c.due_at, task.c.remark).where(
        task.c.flow_id == run.id, task.c.node == "child"
    )
    return app.database.read(lambda connection: connection.execute(query).one())


def test_two_parents_that_end_at_once_make_their_child_due_once(shared, run):
    hand = Hand(shared)
    first, second = (Parent(shared, hand, taken, run) for taken in taken_by(shared, hand))

    first.start()
    assert first.is_inside.wait(10)
    second.start()
    # The first has filled its slot and not committed. The second is not let past the run.
    assert not second.is_written.wait(0.3)
    first.end()
    assert eventually(second.is_inside.is_set)
    second.end()

    child = child_of(shared, run)
    assert (child.status, child.open_slots) == (Status.WAITING, 0)
    assert child.due_at is not None
    assert first.due == []
    assert len(second.due) == 1


def test_an_end_that_is_repeated_after_its_answer_was_lost_fills_nothing(shared, run):
    hand = Hand(shared)
    taken, _ = taken_by(shared, hand)

    for accepted in ({taken.id}, set()):
        parent = Parent(shared, hand, taken, run)
        parent.go.set()
        parent.start()
        parent.end()
        assert parent.accepted == accepted

    assert child_of(shared, run).open_slots == 1


@pytest.mark.parametrize(
    "hows", [(NodeEnd.FAILED, NodeEnd.FAILED), (NodeEnd.SUCCEEDED, NodeEnd.FAILED)]
)
def test_two_parents_of_which_one_fails_at_once_block_their_child(shared, run, hows):
    hand = Hand(shared)
    first, second = (
        Parent(shared, hand, taken, run, how)
        for taken, how in zip(taken_by(shared, hand), hows, strict=True)
    )

    first.start()
    assert first.is_inside.wait(10)
    second.start()
    first.end()
    second.end()

    child = child_of(shared, run)
    assert child.status == Status.FAILED
    assert child.remark.startswith("blocked by step-")
    assert run.status() is Status.FAILED


# A run that is cancelled while somebody has a row of it


def finish_late(app, run, outcome, on_accepted=None):
    """End a node after its run was cancelled by one who could not have its row."""
    hand = Hand(app)
    (taken,) = hand.claim(1)
    ends = End(hand, [taken], outcome)
    with app.database.engine.connect() as other, other.begin():
        other.execute(select(task.c.id).where(task.c.id == taken.id).with_for_update())
        cancel(app, run)
    accept = None if on_accepted is None else lambda connection: on_accepted(connection, taken)
    ends.write(on_accepted=accept, tries=8)


@pytest.fixture
def single(shared):
    @shared.task(retries=5)
    async def step(name: str) -> None: ...

    @shared.flow
    def line(flow):
        flow.add(step, "one", name="one")

    return line.start()


def cancel(app, run):
    """The first step of a cancel, whose process then dies."""

    def work(connection):
        flow_store.run(connection, run.id, is_locked=True)
        now = app.clock.now()
        return flow_store.cancel(connection, run.id, reason="enough", now=now, keep=0)

    app.database.write(work)


@pytest.mark.parametrize("outcome", [Retried(0, "broken", "broken"), Snoozed(0), Expanded()])
def test_a_node_does_not_go_on_when_its_run_has_ended_meanwhile(shared, single, outcome):
    finish_late(shared, single, outcome)

    (node,) = single.nodes()
    assert (node.status, node.error) == (Status.CANCELLED, "its run had ended")
    assert single.status() is Status.CANCELLED


@pytest.mark.parametrize(
    ("outcome", "is_nested"), [(Succeeded(), False), (Expanded(), True)], ids=["adds", "expands"]
)
def test_a_run_that_was_cancelled_meanwhile_gets_no_more_nodes(shared, single, outcome, is_nested):
    place = Site.at(shared.fleet.single, shared.registry)._replace(max_payload=1_000)

    def add(connection, taken):
        drawing = Drawing(shared.registry, default=() if is_nested else (SELF,))
        drawing.add("step", "two", name="two")
        add_nodes(connection, place, drawing.drafts, task=taken, is_nested=is_nested)

    finish_late(shared, single, outcome, add)

    (node,) = single.nodes()
    assert node.status is (Status.CANCELLED if is_nested else Status.SUCCEEDED)
    assert single.status() is Status.CANCELLED
