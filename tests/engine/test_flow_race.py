"""Two parents end in two transactions at once: their child is neither forgotten nor run twice."""

import threading

import pytest
from sqlalchemy import select

from tests.engine.hand import Hand
from tests.engine.noder import end_of
from tests.wait import eventually
from windlass import App, Status
from windlass.model.flow import How
from windlass.store import finish
from windlass.store.schema import task

PARENTS = 2


@pytest.fixture(params=["postgresql", "mariadb"])
def shared(request, clock):
    """An app on a database in which two transactions are open at once."""
    app = App(request.getfixturevalue(f"{request.param}_url"), clock=clock)
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

    def __init__(self, app, hand, taken, run, how=How.SUCCEEDED):
        self.batch = end_of(hand, taken, how)
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

        def on_filled(connection, after):
            self.due = list(after.due)
            self.is_inside.set()
            assert self.go.wait(10)

        self.accepted = finish.finish(
            self.app.database, self.batch, note, on_filled=on_filled, tries=8
        )

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


@pytest.mark.parametrize("hows", [(How.FAILED, How.FAILED), (How.SUCCEEDED, How.FAILED)])
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
