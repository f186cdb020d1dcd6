"""A worker that takes and ends nodes of flows by hand, one at a time."""

from tests.core.fetch.manual_worker import Hand
from windlass.core.finish.finish import write_group
from windlass.flow.face import NodesEnding
from windlass.flow.model.graph import NodeEnd
from windlass.value.outcome import Failed, Succeeded


def outcome_of(how):
    return Succeeded() if how is NodeEnd.SUCCEEDED else Failed("broken", "broken")


class End:
    """The end of nodes, ready to be written."""

    def __init__(self, hand, taken, outcome):
        self.hand = hand
        self.group = hand.group(taken, outcome)
        self.endings = hand.endings(taken, outcome)

    def write(self, *, beside=lambda _connection, _accepted: None, on_filled=None, **options):
        """Write it; the ids that were accepted. `on_filled` is told what is due then."""
        endings = self.endings if on_filled is None else [*self.endings, Told(self, on_filled)]
        site = self.hand.site
        return write_group(site, self.group, endings, beside=beside, **{"tries": 1, **options})


class Told:
    """Comes after the other endings, and tells what they made due."""

    locks = ()

    def __init__(self, end, on_filled):
        self._end = end
        self._on_filled = on_filled

    def write(self, connection, accepted, locked):
        nodes = [ending for ending in self._end.endings if isinstance(ending, NodesEnding)]
        self._on_filled([number for ending in nodes for number in ending._after.due])

    def committed(self, accepted):
        return False


def end_of(hand, taken, how):
    """What the end of a node writes."""
    return End(hand, [taken], outcome_of(how))


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
        accepted = end_of(self, taken, how).write(on_filled=due.extend)
        assert accepted == {taken.id}
        return due
