"""Flows: start them, look at runs, and have them go on, skip, end, or change."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace as with_
from functools import partial
from typing import Any, TypeVar, cast

import msgspec
from sqlalchemy import Connection

from windlass import telemetry
from windlass.core.shard.fleet import Fleet
from windlass.core.shard.route import Router, targets_of
from windlass.core.shard.shard import OUTAGES, Shard
from windlass.core.task.declare import How
from windlass.core.task.kind import TEMPLATE, Kind, Registry
from windlass.core.task.store import task
from windlass.database.connection import is_async
from windlass.database.database import first_line
from windlass.errors import (
    BadFlow,
    DatabaseUnavailable,
    DuplicateKey,
    ResultTimeout,
    UnknownFlow,
)
from windlass.flow.declare import Draft, Drawing, Edit, FlowRun
from windlass.flow.engine.start import NewRun, start
from windlass.flow.model.graph import How as End
from windlass.flow.model.node import RunHead, as_drawn, head_of, with_head
from windlass.flow.model.run import FlowGraph, FlowProgress, GraphNode, NodeView
from windlass.flow.operate.change import SKIPPED_BY_HAND, Change, Graph
from windlass.flow.store import flow as store
from windlass.flow.store.flow import NodeRow, RunRow
from windlass.operate.task.operate import seconds_of
from windlass.value.duration import Duration
from windlass.value.listing import Listing
from windlass.value.outcome import KEEP_FAILED, LONGEST_REMARK, storable
from windlass.value.status import Status
from windlass.value.twin import twin

T = TypeVar("T")

FIRST_LOOK = 0.002
LAST_LOOK = 0.05


class Flows:
    """All flows of an app."""

    def __init__(self, fleet: Fleet, registry: Registry, spread: Router) -> None:
        self._fleet = fleet
        self._registry = registry
        self._router = spread

    # Starting

    def draw(
        self, kind: Kind, args: tuple[object, ...], kwargs: Mapping[str, object]
    ) -> list[Draft]:
        """The nodes that a flow draws, checked."""
        assert kind.draw is not None
        drawing = Drawing(self._registry)
        kind.draw(drawing, *args, **kwargs)
        return drawing.checked()

    def start(
        self, kind: Kind, args: tuple[object, ...], kwargs: Mapping[str, object], how: How
    ) -> FlowRun:
        """Write a run of a flow."""
        self._fleet.prepare()
        largest = self._fleet.shards[0].max_payload
        payload = kind.arguments.encode(args, kwargs, largest=largest)
        drafts = self.draw(kind, args, kwargs)
        head = RunHead(
            keep=KEEP_FAILED if kind.terms.keep is None else kind.terms.keep,
            template=None if kind.version is None else kind.name,
            version=kind.version,
        )
        return self.start_drawn(kind, with_head(payload, head), drafts, how)

    def start_drawn(self, kind: Kind, payload: str, drafts: Sequence[Draft], how: How) -> FlowRun:
        """Write a run of nodes that were drawn and checked."""
        single = self._fleet.single
        if single is not None:
            return FlowRun(self, start(single, NewRun(kind, payload, drafts, how)))
        if how.key is not None:
            work = partial(self._start_keyed, kind, payload, drafts, how)
            return FlowRun(self, self._fleet.keyed(work))
        if how.conn is not None:
            shard = self._router.shard_of(how.conn)
        else:
            shard = next(iter(self._fleet.taking()), None) or self._fleet.shards[0]
        try:
            return FlowRun(self, start(shard, NewRun(kind, payload, drafts, how)))
        except OUTAGES as problem:
            raise shard.unavailable(f"flow {kind.name!r} was to start in", problem) from problem

    async def astart(
        self, kind: Kind, args: tuple[object, ...], kwargs: Mapping[str, object], how: How
    ) -> FlowRun:
        """`start`, awaited; in the caller's transaction if it has an async one."""
        conn: Any = how.conn
        if conn is None:
            return await twin(self.start, kind, args, kwargs, how)
        if not is_async(conn):
            return self.start(kind, args, kwargs, how)
        await twin(self._fleet.prepare)
        started: FlowRun = await conn.run_sync(
            lambda owner: self.start(kind, args, kwargs, with_(how, conn=owner))
        )
        return started

    def _start_keyed(self, kind: Kind, payload: str, drafts: Sequence[Draft], how: How) -> int:
        key = str(how.key)
        roster = self._fleet.roster
        target = targets_of(self._fleet, roster, kind.name, [key])[key]
        shard = target.shard
        if how.conn is not None and self._router.shard_of(how.conn) is not shard:
            raise BadFlow(
                f"flow {kind.name!r}: key {key!r} belongs to {shard.name}, where conn is not; "
                "start it without conn, or without a key"
            )
        if not target.is_home:
            look = partial(
                task.find_keys, dialect=shard.database.dialect, kind=kind.name, keys=[key]
            )
            number, status = shard.database.read(look)[key]
            if how.on_conflict == "raise":
                raise DuplicateKey(kind.name, key, task_id=number, status=str(status))
            return number
        guard = self._fleet.guard(shard, roster.number)
        return start(shard, NewRun(kind, payload, drafts, how), guard=guard)

    # Looking

    def status(self, run: int) -> Status:
        """The state of a run."""
        return self.find(run)[1].status

    def wait(self, run: int, *, timeout: Duration | float | None) -> Status:
        """Wait for the end of a run; its state then."""
        limit = None if timeout is None else seconds_of(timeout)
        deadline = None if limit is None else time.monotonic() + limit
        shard, found = self.find(run)
        status, pause = found.status, FIRST_LOOK
        while not status.is_final:
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                raise ResultTimeout(
                    f"run {run} is still {status} after {limit:g} s; is a worker running?"
                )
            time.sleep(pause if left is None else min(pause, left))
            pause = min(pause * 1.3, LAST_LOOK)
            seen = shard.database.read(partial(store.status_of, number=run))
            if seen is None:
                # It has ended, and was moved to another shard.
                shard, found = self.find(run)
                seen = found.status
            status = seen
        return status

    def nodes(self, run: int, *, results: bool = True) -> list[NodeView]:
        """The nodes of a run; without `results` that is quicker."""
        shard, _ = self.find(run)
        rows = shard.database.read(lambda connection: store.nodes(connection, run, results=results))
        payloads = _payloads(shard, [row.id for row in rows if row.kind == TEMPLATE])
        return [self._view(row, kind_of(row, payloads)) for row in rows]

    def graph(self, run: int, *, arguments: bool = True) -> FlowGraph:
        """The nodes of a run with their edges, and unless told otherwise with their arguments."""
        shard, found = self.find(run)
        graph = self._graph(shard, run)
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
        return FlowGraph(
            nodes,
            [
                (names[parent], row.node)
                for row in rows.values()
                for parent in graph.parents[row.id]
            ],
            found.kind,
        )

    def progress(self, run: int) -> FlowProgress:
        """How many nodes of a run are in which state."""
        shard, _ = self.find(run)
        counts = shard.database.read(lambda connection: store.counts(connection, run))
        return FlowProgress(sum(counts.values()), counts)

    def run(self, run: int) -> RunRow:
        """One run."""
        return self.find(run)[1]

    def runs(
        self, *, kind: str | None = None, status: Status | None = None, limit: int = 50
    ) -> Listing[RunRow]:
        """Runs, newest first."""
        self._fleet.prepare()
        found = self._fleet.fan_out(
            lambda shard: shard.database.read(
                lambda connection: store.runs(connection, kind=kind, status=status, limit=limit)
            )
        )
        # Of a run that is on its way the one that it leaves counts.
        every = [run for part in found.values for run in part]
        once = {run.id: run for run in sorted(every, key=lambda run: not run.is_coming)}
        merged = sorted(
            once.values(),
            key=lambda run: (run.created_at, run.id),
            reverse=True,
        )
        return Listing(merged[:limit], found.missing)

    def ref(self, run: int) -> FlowRun:
        """A handle on a run that was started before, maybe elsewhere."""
        return FlowRun(self, self.find(run)[1].id)

    # Changing

    def retry(self, run: int, node: str | None) -> int:
        """Have failed nodes run again, or one of them with those that it blocked."""
        change = self._change(run, lambda _connection, change: change.retry(node))
        telemetry.emit("flow.retried", run=run, nodes=change.began_again)
        return change.began_again

    def skip(self, run: int, node: str) -> None:
        """Count a node as succeeded, and go on."""
        self._change(run, lambda _connection, change: change.skip(node))
        telemetry.emit("flow.skipped", run=run, node=node)

    def cancel(self, run: int, reason: str) -> bool:
        """End a run; whether that made the difference."""
        text = storable(str(reason))[:LONGEST_REMARK] or "cancelled"
        shard, _ = self.find(run)

        def work(connection: Connection) -> list[int] | None:
            found = store.lock(connection, run)
            if found is None or found.status.is_final:
                return None
            head = head_of(found.payload)
            keep = KEEP_FAILED if head is None else head.keep
            away = store.cancel(connection, run, reason=text, now=self._now(shard), keep=keep)
            shard.faces.stopped(connection, away, now=self._now(shard))
            return away

        def rest(connection: Connection) -> None:
            store.cancel_rest(connection, run, reason=text, now=now)
            ended = store.cancelled_nodes(connection, run)
            shard.faces.stopped(connection, ended, now=now)

        away = shard.database.write(work)
        if away is None:
            return False
        now = self._now(shard)
        shard.database.write(rest)
        telemetry.emit("flow.ended", run=run, status=str(Status.CANCELLED))
        return True

    def edit(self, run: int, change: Callable[[Edit], object]) -> None:
        """Change what has not begun."""
        edit = Edit(self._registry, self.edit_known(run))
        change(edit)
        self._change(run, lambda connection, change: change.edit(connection, edit, self._registry))
        telemetry.emit("flow.edited", run=run, nodes=len(edit.drafts))

    def edit_known(self, run: int) -> Mapping[str, Sequence[str]]:
        """The nodes of a run, each with those that it waits for."""
        shard, _ = self.find(run)
        return self._graph(shard, run).after()

    def _change(self, run: int, work: Callable[[Connection, Change], None]) -> Change:
        """Do `work` on a run that is locked, and write what it changes."""
        shard, _ = self.find(run)

        def locked(connection: Connection) -> tuple[Change, Status | None]:
            found = store.lock(connection, run)
            if found is None or store.is_going(connection, run, now=self._now(shard)):
                raise _unknown(run)
            rows, slots = store.nodes(connection, run), store.slots(connection, run)
            change = Change(shard, found, Graph(rows, slots))
            work(connection, change)
            return change, change.write(connection)

        change, ended = shard.database.write(locked)
        if ended is not None:
            telemetry.emit("flow.ended", run=run, status=str(ended))
        shard.bell.ring_here()
        return change

    def _graph(self, shard: Shard, run: int) -> Graph:
        # Nodes after slots: one that is added meanwhile is no end of an edge that was read.
        slots = shard.database.read(lambda connection: store.slots(connection, run))
        rows = shard.database.read(lambda connection: store.nodes(connection, run))
        there = {row.id for row in rows}
        return Graph(rows, [each for each in slots if {each.dep_id, each.task_id} <= there])

    def find(self, run: int) -> tuple[Shard, RunRow]:
        """A run, and the shard that has it."""
        self._fleet.prepare()
        away: list[str] = []
        coming: tuple[Shard, RunRow] | None = None
        for shard in self._fleet.seeking(run):
            try:
                found = shard.database.read(lambda connection: store.run(connection, run))
            except OUTAGES as problem:
                if self._fleet.single is not None:
                    raise
                shard.failed(problem)
                away.append(f"{shard.name}: {first_line(problem)}")
                continue
            if found is not None and not found.is_coming:
                return shard, found
            if found is not None:
                # It counts when it has left where it was.
                coming = shard, found
        if coming is not None:
            return coming
        if away:
            raise DatabaseUnavailable(
                f"run {run} is in none of the shards that answer; {'; '.join(away)}"
            )
        raise _unknown(run)

    def _view(self, row: NodeRow, name: str) -> NodeView:
        kind = self._registry.kinds.get(row.kind)
        decode = msgspec.json.decode if kind is None else kind.decode_result
        return NodeView(
            name=row.node,
            kind=name,
            status=row.status,
            result=None if row.result is None else decode(row.result),
            error=row.remark if row.status in (Status.FAILED, Status.CANCELLED) else None,
            id=row.id,
            attempt=row.attempt,
            open_slots=row.open_slots,
            due_at=row.due_at,
            started_at=row.started_at,
            finished_at=row.finished_at,
            is_skipped=row.how is End.SKIPPED or row.remark == SKIPPED_BY_HAND,
        )

    @staticmethod
    def _now(shard: Shard) -> int:
        return shard.clock.now()


def _payloads(shard: Shard, ids: Sequence[int]) -> dict[int, str]:
    if not ids:
        return {}
    return shard.database.read(lambda connection: store.payloads(connection, ids))


def kind_of(row: NodeRow, payloads: Mapping[int, str]) -> str:
    """The kind of a node as people know it: of a template that is nested, its name."""
    if row.kind != TEMPLATE:
        return row.kind
    return str(as_drawn(payloads[row.id], {})[1]["template"])


def _unknown(run: int) -> UnknownFlow:
    return UnknownFlow(f"there is no run {run}: it never was, or it ended and was pruned")
