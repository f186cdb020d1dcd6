"""The hooks of flows in the kernel: before nodes run, when they end, and when rows are pruned."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from msgspec.structs import replace

from windlass import telemetry
from windlass.clock import SECOND
from windlass.core.face import Along, Chore, Ended, Face, Resolved, Site, Tidying
from windlass.core.ring.store import put_back
from windlass.database.connection import Connection
from windlass.database.database import Database
from windlass.database.dialect.base import Stamp, stamped
from windlass.errors import BadFlow
from windlass.flow.model.graph import NodeEnd
from windlass.flow.model.node import Blank, Results, filled, is_to_fill, read_blank
from windlass.flow.store import flow, slot
from windlass.flow.store.slot import AfterEnd
from windlass.value.outcome import Cancelled, Failed, Outcome, Skip, Succeeded
from windlass.value.task import Claimed

# If more rows are due, the other owners read them from the database.
MOST_HANDED = 1_000
# How long a node of a paused flow is put off; then a worker looks at it again.
HOLD = 60 * SECOND


def resolve(database: Database, tasks: Sequence[Claimed]) -> Resolved:
    """The tasks with their arguments filled in; one statement reads all results.

    A node whose condition is false, or whose arguments cannot be filled in, is refused with the
    error; the other nodes are not affected.
    """
    blanks: dict[int, Blank] = {}
    refused: dict[int, Exception] = {}
    for task in tasks:
        if task.flow_id is not None and is_to_fill(task.payload):
            try:
                blanks[task.id] = read_blank(task.payload)
            except Exception as problem:
                refused[task.id] = _unfit(problem)
    if not blanks:
        return Resolved(tasks, refused)
    wanted = {needed for blank in blanks.values() for needed in blank.needs}
    dialect = database.dialect
    found = database.read(lambda connection: slot.results(connection, dialect, wanted))
    results, payloads = Results(found), dict[int, str]()
    for number, blank in blanks.items():
        try:
            payloads[number] = filled(blank, results)
        except Skip as skip:
            refused[number] = skip
        except Exception as problem:
            refused[number] = _unfit(problem)
    resolved = [
        replace(task, payload=payloads[task.id]) if task.id in payloads else task for task in tasks
    ]
    return Resolved(resolved, refused)


def _unfit(problem: Exception) -> BadFlow:
    why = f"{type(problem).__name__}: {problem}"
    return BadFlow(f"its arguments cannot be filled in: {why}")


def hold(site: Site, tasks: Sequence[Claimed], paused: Collection[str]) -> Sequence[Claimed]:
    """Put off the nodes of paused flows; returns the other rows.

    A node is put off for a minute and then looked at again. The workers make it due when they see
    that its flow was resumed.
    """
    runs = {task.flow_id for task in tasks if task.flow_id is not None}
    database = site.database
    held = database.read(lambda connection: flow.among(connection, runs, paused))
    nodes = [task for task in tasks if task.flow_id in held]
    if not nodes:
        return tasks
    claimed = [node for node in nodes if not node.is_read]
    due_at = site.clock.now() + HOLD

    def put_off(connection: Connection) -> None:
        if claimed:
            put_back(connection, claimed)
        flow.put_off(connection, [node.id for node in nodes], due_at=due_at)

    database.write_as(nodes[0].worker, put_off, lost=None)
    return [task for task in tasks if task.flow_id not in held]


def let_go(site: Site, kinds: Collection[str]) -> int:
    """Make the nodes due that were put off while these flows were paused; returns how many."""
    found = site.database.read(lambda connection: flow.put_off_nodes(connection, kinds))
    now = site.clock.now()
    if found:
        site.database.write(lambda connection: flow.let_go(connection, found, now=now))
    return len(found)


def ending(site: Site, ended: Sequence[Ended], worker: int) -> NodesEnding | None:
    """What to write with the outcomes of nodes; None if there is no node."""
    nodes = [each for each in ended if each.task.flow_id is not None]
    return NodesEnding(site, nodes, worker) if nodes else None


class NodesEnding:
    """Fills the slots below nodes that end, and ends flow runs without open nodes."""

    def __init__(self, site: Site, nodes: Sequence[Ended], worker: int) -> None:
        self._site = site
        self._worker = worker
        self._after = AfterEnd()
        self._ending: dict[int, tuple[int, NodeEnd]] = {}
        # Nodes that will run again, or become nested flows, and their flow runs.
        self._open: dict[int, int] = {}
        for each in nodes:
            run, how = each.task.flow_id, _how(each.outcome)
            assert run is not None
            if how is None:
                self._open[each.task.id] = run
            else:
                self._ending[each.task.id] = run, how

    @property
    def locks(self) -> Collection[int]:
        return {run for run, _ in self._ending.values()} | set(self._open.values())

    def write(self, connection: Connection, accepted: set[int], locked: Mapping[int, int]) -> None:
        site, now = self._site, self._site.clock.now()
        # The flow run was cancelled meanwhile, so these nodes end, too.
        over = {node for node, run in self._open.items() if run not in locked} & accepted
        if over:
            flow.cancel_open(connection, over, now=now)
            site.faces.stopped(connection, over, now=now)
        ended = {node: self._ending[node] for node in accepted if node in self._ending}
        self._after = AfterEnd()
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


def _how(outcome: Outcome) -> NodeEnd | None:
    match outcome:
        case Succeeded():
            return NodeEnd.SUCCEEDED
        case Cancelled() if outcome.is_skipped:
            return NodeEnd.SKIPPED
        case Failed() | Cancelled():
            return NodeEnd.FAILED
    return None


def _prune(tidying: Tidying) -> int:
    connection, dialect, faces, now, limit = tidying
    return flow.prune(connection, dialect, now=now, limit=limit, pruned=faces.pruned)


FACE = Face(
    name="flow",
    resolve=resolve,
    hold=hold,
    let_go=let_go,
    ending=ending,
    maintenance=(Chore(_prune, is_often=True),),
    along=Along(
        nodes=flow.moving_nodes,
        inside=flow.moving_ids,
        copy=flow.moving_slots,
        drop=flow.drop_slots,
    ),
)
