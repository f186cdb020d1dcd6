"""What the outcomes of nodes do to the nodes, and to the flow runs, that wait for them.

The row of a flow run is the lock of all of it: it is locked before the rows of the outcomes, and
the slots are filled in the transaction that accepts them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from windlass import telemetry
from windlass.core.face import Ended, Site
from windlass.database.connection import Connection
from windlass.database.dialect.base import Stamp, stamped
from windlass.flow.model.graph import How
from windlass.flow.store import slot
from windlass.flow.store.slot import After
from windlass.value.outcome import Cancelled, Failed, Outcome, Succeeded
from windlass.value.task import Claimed

# Of more rows than these, all are quicker read from the database by their owners.
MOST_HANDED = 1_000


def ending(site: Site, ended: Sequence[Ended], worker: int) -> NodesEnding | None:
    """What to write with the outcomes of those that are nodes."""
    nodes = [each for each in ended if each.task.flow_id is not None]
    return NodesEnding(site, nodes, worker) if nodes else None


class NodesEnding:
    """Fills slots below nodes that end, and ends flow runs whose last node did."""

    def __init__(self, site: Site, nodes: Sequence[Ended], worker: int) -> None:
        self._site = site
        self._worker = worker
        self._after = After()
        self._ending: dict[int, tuple[int, How]] = {}
        # Nodes that go on, or become nested flows: their flow run.
        self._going: dict[int, int] = {}
        for each in nodes:
            run, how = each.task.flow_id, _how(each.outcome)
            assert run is not None
            if how is None:
                self._going[each.task.id] = run
            else:
                self._ending[each.task.id] = run, how

    @property
    def locks(self) -> Collection[int]:
        return {run for run, _ in self._ending.values()} | set(self._going.values())

    def write(self, connection: Connection, accepted: set[int], locked: Mapping[int, int]) -> None:
        site, now = self._site, self._site.clock.now()
        # The flow run of these was cancelled meanwhile: they do not go on.
        over = {node for node, run in self._going.items() if run not in locked} & accepted
        if over:
            slot.cancel_open(connection, over, now=now)
            site.faces.stopped(connection, over, now=now)
        ended = {node: self._ending[node] for node in accepted if node in self._ending}
        self._after = After()
        if not ended:
            return
        self._after = slot.after_end(
            connection,
            site.database.dialect,
            ended,
            before=locked,
            worker=self._worker,
            now=now,
        )
        if site.hand_off is not None:
            site.hand_off.announce(connection, self._after.due.values())

    def committed(self, accepted: set[int]) -> bool:
        after, hand_off = self._after, self._site.hand_off
        for run, status in after.runs.items():
            telemetry.emit("flow.ended", run=run, status=str(status))
        if hand_off is not None:
            near = [node for node, bucket in after.due.items() if hand_off.is_near(bucket)]
            if near:
                hand_off.put(self._rows(near), due=len(near))
        return bool(after.due)

    def _rows(self, near: Sequence[int]) -> list[Claimed]:
        """The due nodes as an owner's read finds them."""
        site, now = self._site, self._site.clock.now()
        rows = self._after.rows
        if not rows:
            dialect, wanted = site.database.dialect, near[:MOST_HANDED]
            rows = site.database.read(lambda connection: slot.rows(connection, dialect, wanted))
        stamp = Stamp(None, self._worker, now, now)
        # A row without a due time was taken or ended meanwhile.
        return [stamped(row, stamp) for row in rows if row[4] is not None]


def _how(outcome: Outcome) -> How | None:
    match outcome:
        case Succeeded():
            return How.SUCCEEDED
        case Cancelled() if outcome.is_skipped:
            return How.SKIPPED
        case Failed() | Cancelled():
            return How.FAILED
    return None
