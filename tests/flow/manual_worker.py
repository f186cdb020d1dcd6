"""A worker that takes and ends nodes of flows by hand, one at a time."""

from tests.core.fetch.manual_worker import Hand
from windlass.core.finish.store import finish
from windlass.core.finish.store.finish import Batch
from windlass.flow.model.graph import How
from windlass.value.outcome import Failed, Succeeded


def outcome_of(how):
    return Succeeded() if how is How.SUCCEEDED else Failed("broken", "broken")


def end_of(hand, taken, how):
    """What the end of a node writes."""
    batch = Batch(worker=hand.id, now=hand.app.clock.now(), runs={taken.flow_id})
    batch.changes = hand.batch([taken], outcome_of(how)).changes
    batch.nodes = {taken.id: (taken.flow_id, how)}
    return batch


class Noder(Hand):
    """Claims due nodes, and ends those that it has."""

    def __init__(self, app):
        super().__init__(app)
        self.held = []

    def take(self):
        """Claim a node that is due, if there is one."""
        taken = self.claim(1)
        self.held += taken
        return taken

    def end(self, taken, how):
        """End a node; the nodes that are due then."""
        self.held.remove(taken)
        due = []
        accepted = finish.finish(
            self.database,
            end_of(self, taken, how),
            lambda _connection, _accepted: None,
            on_filled=lambda _connection, after: due.extend(after.due),
        )
        assert accepted == {taken.id}
        return due
