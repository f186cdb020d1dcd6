"""The handle of a flow run: its state, its nodes, and how to retry, skip, cancel and edit."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import msgspec

from windlass import telemetry
from windlass.core.shard.fleet import Fleet
from windlass.core.shard.shard import Shard
from windlass.core.task.current import current
from windlass.core.task.kind import TEMPLATE, Registry
from windlass.database.connection import Connection
from windlass.errors import ResultTimeout, UnknownFlow
from windlass.flow.declare import Edit
from windlass.flow.model.node import as_drawn
from windlass.flow.model.run import FlowGraph, FlowProgress, GraphNode, NodeView, RunRow
from windlass.flow.operate.change import RunChange, RunGraph, edit_run
from windlass.flow.store import flow as store
from windlass.flow.store import slot
from windlass.flow.store.flow import NodeRow
from windlass.value.duration import Duration, seconds_of
from windlass.value.outcome import LONGEST_REMARK, storable
from windlass.value.status import Status
from windlass.value.twin import awaited

FIRST_PAUSE = 0.002
LAST_PAUSE = 0.05


@dataclass(frozen=True)
class RunFinder:
    """Finds flow runs among the shards of an app."""

    fleet: Fleet
    registry: Registry

    def find(self, run: int) -> tuple[Shard, RunRow]:
        """A flow run, and the shard that has it."""
        self.fleet.prepare()
        found = self.fleet.locate("run", run, partial(store.run, number=run))
        if found is None:
            raise _unknown(run)
        return found


@dataclass(eq=False, repr=False, slots=True)
class FlowRun:
    """A flow run. Awaiting it waits until it has ended.

    `created` is False if it was there already: by its key, or by its id.
    """

    _finder: RunFinder
    id: int
    created: bool = False

    def status(self) -> Status:
        """The status of the flow run: running, succeeded, failed or cancelled."""
        return self._finder.find(self.id)[1].status

    def wait(self, timeout: Duration | float | None = None) -> Status:
        """Wait until the flow run has ended; its status then. A failed flow run does not raise.

        Raises ResultTimeout after `timeout` (seconds or "5s").
        """
        limit = None if timeout is None else seconds_of(timeout)
        deadline = None if limit is None else time.monotonic() + limit
        shard, found = self._finder.find(self.id)
        status, pause = found.status, FIRST_PAUSE
        while not status.is_final:
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                raise ResultTimeout(
                    f"run {self.id} is still {status} after {limit:g} s; is a worker running?"
                )
            time.sleep(pause if left is None else min(pause, left))
            pause = min(pause * 1.3, LAST_PAUSE)
            seen = shard.database.read(partial(store.status_of, number=self.id))
            if seen is None:
                # It has ended, and was moved to another shard.
                shard, found = self._finder.find(self.id)
                seen = found.status
            status = seen
        return status

    def nodes(self, *, results: bool = True) -> list[NodeView]:
        """All nodes, in the order in which they were drawn; without `results` it is faster."""
        shard, _ = self._finder.find(self.id)
        rows = shard.database.read(partial(store.nodes, number=self.id, results=results))
        payloads = _payloads(shard, [row.id for row in rows if row.kind == TEMPLATE])
        return [self._view(row, kind_of(row, payloads)) for row in rows]

    def graph(self, *, arguments: bool = True) -> FlowGraph:
        """The nodes and edges; `.mermaid()`, `.dot()` and `.json()` draw them.

        Without `arguments` it is faster.
        """
        shard, found = self._finder.find(self.id)
        graph = read_graph(shard, self.id)
        rows = graph.rows
        names = {row.id: row.node for row in rows.values()}
        payloads = _payloads(
            shard, [row.id for row in rows.values() if arguments or row.kind == TEMPLATE]
        )
        nodes: list[GraphNode] = []
        for row in rows.values():
            when, kwargs = as_drawn(payloads.get(row.id, "{}"), names)
            if row.kind == TEMPLATE:
                kwargs = cast(dict[str, object], kwargs["arguments"])
            kind, rule = kind_of(row, payloads), graph.rule(row.id)
            nodes.append(GraphNode(row.node, kind, row.status, rule, when=when, kwargs=kwargs))
        edges = [(names[above], names[each]) for each in rows for above in graph.parents[each]]
        return FlowGraph(nodes, edges, found.flow)

    def progress(self) -> FlowProgress:
        """How many nodes have which status."""
        shard, _ = self._finder.find(self.id)
        counts = shard.database.read(partial(store.counts, number=self.id))
        return FlowProgress(sum(counts.values()), counts)

    def retry(self, node: str | None = None) -> int:
        """Run the failed nodes again, or one of them; how many nodes begin again."""
        change = self._change(lambda _connection, change: change.retry(node))
        telemetry.emit("flow.retried", run=self.id, nodes=change.began_again)
        return change.began_again

    def skip(self, node: str) -> None:
        """Count a node that has not succeeded as succeeded, and continue."""
        self._change(lambda _connection, change: change.skip(node))
        telemetry.emit("flow.skipped", run=self.id, node=node)

    def cancel(self, reason: str = "") -> bool:
        """End the flow run: no other node begins. False if it had ended."""
        text = storable(str(reason))[:LONGEST_REMARK] or "cancelled"
        return self._end(Status.CANCELLED, text)

    def time_out(self, reason: str) -> bool:
        """End the flow run as failed, because it takes too long. False if it had ended."""
        return self._end(Status.FAILED, reason)

    def _end(self, status: Status, text: str) -> bool:
        shard, _ = self._finder.find(self.id)
        run, handler = self.id, current.get()
        by = None if handler is None else handler.task.worker

        def work(connection: Connection) -> bool:
            found = store.run(connection, run, is_locked=True)
            if found is None or found.status.is_final:
                return False
            now = shard.clock.now()
            away = store.cancel(
                connection, run, reason=text, now=now, keep=found.keep, status=status
            )
            shard.faces.stopped(connection, away, now=now)
            if status is Status.FAILED and by is not None:
                slot.count_failed(connection, shard.database.dialect, found, worker=by, now=now)
            return True

        def rest(connection: Connection) -> None:
            now = shard.clock.now()
            cancelled = store.cancel_rest(connection, run, reason=text, now=now)
            shard.faces.stopped(connection, cancelled, now=now)

        if not shard.database.write(work):
            return False
        shard.database.write(rest)
        telemetry.emit("flow.ended", run=run, status=str(status))
        return True

    def edit(self, change: Callable[[Edit], object]) -> None:
        """Add nodes, add or remove edges, where nodes have not begun: `change(edit)` says what.

        All of it is done, or nothing.
        """
        registry = self._finder.registry
        shard, _ = self._finder.find(self.id)
        edit = Edit(registry, read_graph(shard, self.id).after())
        change(edit)
        self._change(
            lambda connection, change: edit_run(connection, change, edit, registry=registry)
        )
        telemetry.emit("flow.edited", run=self.id, nodes=len(edit.drafts))

    astatus = awaited(status)
    await_ = awaited(wait)
    anodes = awaited(nodes)
    agraph = awaited(graph)
    aprogress = awaited(progress)
    aretry = awaited(retry)
    askip = awaited(skip)
    acancel = awaited(cancel)
    aedit = awaited(edit)

    def __await__(self) -> Generator[Any, None, Status]:
        return self.await_().__await__()

    def __repr__(self) -> str:
        return f"FlowRun({self.id})"

    def _change(self, work: Callable[[Connection, RunChange], None]) -> RunChange:
        """Do `work` on the locked flow run, and write what it changes."""
        shard, _ = self._finder.find(self.id)

        def locked(connection: Connection) -> tuple[RunChange, Status | None]:
            found = store.run(connection, self.id, is_locked=True)
            if found is None or store.is_going(connection, self.id, now=shard.clock.now()):
                raise _unknown(self.id)
            rows, slots = store.nodes(connection, self.id), store.slots(connection, self.id)
            change = RunChange(shard, found, RunGraph(rows, slots))
            work(connection, change)
            return change, change.write(connection)

        change, ended = shard.database.write(locked)
        if ended is not None:
            telemetry.emit("flow.ended", run=self.id, status=str(ended))
        shard.bell.ring_here()
        return change

    def _view(self, row: NodeRow, name: str) -> NodeView:
        kind = self._finder.registry.kinds.get(row.kind)
        decode = msgspec.json.decode if kind is None else kind.decode_result
        return NodeView(
            name=row.node,
            kind=name,
            status=row.status,
            result=None if row.result is None else decode(row.result),
            error=row.error,
            id=row.id,
            attempt=row.attempt,
            open_slots=row.open_slots,
            due_at=row.due_at,
            started_at=row.started_at,
            finished_at=row.finished_at,
            is_skipped=row.is_skipped,
        )


def read_graph(shard: Shard, run: int) -> RunGraph:
    """The nodes and edges of a flow run."""
    # Nodes after slots: a node that is added meanwhile is not the end of an edge that was read.
    slots = shard.database.read(partial(store.slots, number=run))
    return RunGraph(shard.database.read(partial(store.nodes, number=run)), slots)


def kind_of(row: NodeRow, payloads: Mapping[int, str]) -> str:
    """The kind of a node as users know it: for a nested template, the name of the template."""
    if row.kind != TEMPLATE:
        return row.kind
    return str(as_drawn(payloads[row.id], {})[1]["template"])


def _payloads(shard: Shard, ids: Sequence[int]) -> dict[int, str]:
    return shard.database.read(partial(store.payloads, ids=ids)) if ids else {}


def _unknown(run: int) -> UnknownFlow:
    return UnknownFlow(f"there is no run {run}: it never existed, or it ended and was pruned")
