"""Flows: start them, look at runs, and have them go on, skip, end, or change."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace as with_
from functools import partial
from typing import Any, TypeVar

import msgspec
from sqlalchemy import Connection

from windlass import telemetry
from windlass.declare.flow import Draft, Drawing, Edit, FlowRun
from windlass.declare.kind import Kind, Registry
from windlass.declare.task import How
from windlass.declare.twin import twin
from windlass.engine.fleet import Fleet
from windlass.engine.flow import Place, insert_nodes
from windlass.engine.shard import OUTAGES, Shard
from windlass.engine.spread import Spread, targets_of
from windlass.errors import (
    BadFlow,
    DatabaseUnavailable,
    DuplicateKey,
    ResultTimeout,
    UnknownFlow,
    UnknownNode,
)
from windlass.model.duration import Duration
from windlass.model.flow import How as End
from windlass.model.flow import Rule, check_acyclic, descendants, open_after
from windlass.model.node import RunHead, head_of, with_head
from windlass.model.outcome import KEEP_FAILED, LONGEST_REMARK, storable
from windlass.model.run import FlowGraph, FlowProgress, GraphNode, NodeView
from windlass.model.status import Status
from windlass.operate.gather import Listing
from windlass.operate.task import seconds_of
from windlass.store import external, slot, task
from windlass.store import flow as store
from windlass.store.connection import is_async
from windlass.store.database import first_line
from windlass.store.flow import NewSlot, NodeRow, RunRow

T = TypeVar("T")

FIRST_LOOK = 0.002
LAST_LOOK = 0.05
SKIPPED_BY_HAND = "skipped by hand"


class Flows:
    """All flows of an app."""

    def __init__(self, fleet: Fleet, registry: Registry, spread: Spread) -> None:
        self._fleet = fleet
        self._registry = registry
        self._spread = spread

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
        version = getattr(kind.draw, "version", None)
        head = RunHead(
            keep=KEEP_FAILED if kind.terms.keep is None else kind.terms.keep,
            template=None if version is None else kind.name,
            version=version,
        )
        return self.start_drawn(kind, with_head(payload, head), drafts, how)

    def start_drawn(self, kind: Kind, payload: str, drafts: Sequence[Draft], how: How) -> FlowRun:
        """Write a run of nodes that were drawn and checked."""
        single = self._fleet.single
        if single is not None:
            return FlowRun(self, single.starts.start(kind, payload, drafts, how))
        if how.key is not None:
            work = partial(self._start_keyed, kind, payload, drafts, how)
            return FlowRun(self, self._fleet.keyed(work))
        if how.conn is not None:
            shard = self._spread.shard_of(how.conn)
        else:
            shard = next(iter(self._fleet.taking()), None) or self._fleet.shards[0]
        try:
            return FlowRun(self, shard.starts.start(kind, payload, drafts, how))
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
        if how.conn is not None and self._spread.shard_of(how.conn) is not shard:
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
        return shard.starts.start(kind, payload, drafts, how, guard=guard)

    # Looking

    def status(self, run: int) -> Status:
        """The state of a run."""
        return self._find(run)[1].status

    def wait(self, run: int, *, timeout: Duration | float | None) -> Status:
        """Wait for the end of a run; its state then."""
        limit = None if timeout is None else seconds_of(timeout)
        deadline = None if limit is None else time.monotonic() + limit
        shard, found = self._find(run)
        status, pause = found.status, FIRST_LOOK
        while not status.is_final:
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                raise ResultTimeout(
                    f"run {run} is still {status} after {limit:g} s; is a worker running?"
                )
            time.sleep(pause if left is None else min(pause, left))
            pause = min(pause * 1.3, LAST_LOOK)
            seen = shard.database.read(lambda connection: store.status_of(connection, run))
            if seen is None:
                raise _unknown(run)
            status = seen
        return status

    def nodes(self, run: int) -> list[NodeView]:
        """The nodes of a run."""
        shard, _ = self._find(run)
        rows = shard.database.read(lambda connection: store.nodes(connection, run))
        return [self._view(row) for row in rows]

    def graph(self, run: int) -> FlowGraph:
        """The nodes of a run with their edges."""
        shard, found = self._find(run)
        rows, slots = self._read(shard, run)
        names = {row.id: row.node for row in rows}
        rules = {each.task_id: Rule(each.rule) for each in slots if each.rule != Rule.END}
        return FlowGraph(
            [
                GraphNode(row.node, row.kind, row.status, rules.get(row.id, Rule.ALL_SUCCESS))
                for row in rows
            ],
            [(names[each.dep_id], names[each.task_id]) for each in slots if each.rule != Rule.END],
            found.kind,
        )

    def progress(self, run: int) -> FlowProgress:
        """How many nodes of a run are in which state."""
        shard, _ = self._find(run)
        counts = shard.database.read(lambda connection: store.counts(connection, run))
        return FlowProgress(sum(counts.values()), counts)

    def run(self, run: int) -> RunRow:
        """One run."""
        return self._find(run)[1]

    def runs(
        self, *, kind: str | None = None, status: Status | None = None, limit: int = 50
    ) -> Listing[RunRow]:
        """Runs, newest first."""
        self._fleet.prepare()
        found = self._fleet.gather(
            lambda shard: shard.database.read(
                lambda connection: store.runs(connection, kind=kind, status=status, limit=limit)
            )
        )
        merged = sorted(
            (run for part in found.values for run in part),
            key=lambda run: (run.created_at, run.id),
            reverse=True,
        )
        return Listing(merged[:limit], found.missing)

    def ref(self, run: int) -> FlowRun:
        """A handle on a run that was started before, maybe elsewhere."""
        return FlowRun(self, self._find(run)[1].id)

    # Changing

    def retry(self, run: int, node: str | None) -> int:
        """Have failed nodes run again, or one of them with those that it blocked."""

        def work(connection: Connection, graph: Run) -> int:
            failed = {row.node for row in graph.rows.values() if row.how is End.FAILED}
            chosen = failed
            if node is not None:
                if node not in failed:
                    raise BadFlow(f"node {node!r} has not failed: it is {graph.named(node).status}")
                chosen = {node} | (failed & set(descendants(graph.children, [node])))
            if chosen:
                graph.begin_again(connection, chosen, now=self._now(graph.shard))
            return len(chosen)

        count = self._change(run, work)
        telemetry.emit("flow.retried", run=run, nodes=count)
        return count

    def skip(self, run: int, node: str) -> None:
        """Count a node as succeeded, and go on."""

        def work(connection: Connection, graph: Run) -> None:
            row, now = graph.named(node), self._now(graph.shard)
            if row.how is End.SUCCEEDED:
                raise BadFlow(f"node {node!r} has succeeded; there is nothing to skip")
            had_ended = row.how is not None
            store.set_state(connection, [row.id], Status.SUCCEEDED, now=now, remark=SKIPPED_BY_HAND)
            external.stop(connection, [row.id], now=now)
            graph.rows[row.id] = with_(row, status=Status.SUCCEEDED, remark=SKIPPED_BY_HAND)
            if had_ended:
                below = set(descendants(graph.children, [node]))
                again = {each.node for each in graph.rows.values() if each.how is End.FAILED}
                graph.begin_again(connection, again & below, now=now)
                slot.end_runs(connection, [run], now=now)
            else:
                ended = {row.id: (run, End.SUCCEEDED)}
                before = slot.lock_runs(connection, [run])
                dialect = graph.shard.database.dialect
                slot.after_end(connection, dialect, ended, before=before, now=now)

        self._change(run, work)
        telemetry.emit("flow.skipped", run=run, node=node)

    def cancel(self, run: int, reason: str) -> bool:
        """End a run; whether that made the difference."""
        text = storable(str(reason))[:LONGEST_REMARK] or "cancelled"
        shard, _ = self._find(run)

        def work(connection: Connection) -> list[int] | None:
            found = store.lock(connection, run)
            if found is None or found.status.is_final:
                return None
            head = head_of(found.payload)
            keep = KEEP_FAILED if head is None else head.keep
            away = store.cancel(connection, run, reason=text, now=self._now(shard), keep=keep)
            external.stop(connection, away, now=self._now(shard))
            return away

        def rest(connection: Connection) -> None:
            store.cancel_rest(connection, run, reason=text, now=now)
            external.stop_run(connection, run, now=now)

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
        edit.checked()

        def work(connection: Connection, graph: Run) -> None:
            graph.edit(connection, edit, self._registry)

        self._change(run, work)
        telemetry.emit("flow.edited", run=run, nodes=len(edit.drafts))

    def edit_known(self, run: int) -> Mapping[str, Sequence[str]]:
        """The nodes of a run, each with those that it waits for."""
        shard, _ = self._find(run)
        rows, slots = self._read(shard, run)
        return Run(shard, run, rows, slots).after

    def _change(self, run: int, work: Callable[[Connection, Run], T]) -> T:
        """Do `work` on a run that is locked."""
        shard, _ = self._find(run)

        def locked(connection: Connection) -> T:
            if store.lock(connection, run) is None:
                raise _unknown(run)
            rows = store.nodes(connection, run)
            return work(connection, Run(shard, run, rows, store.slots(connection, run)))

        done = shard.database.write(locked)
        shard.bell.ring_here()
        return done

    def _read(self, shard: Shard, run: int) -> tuple[list[NodeRow], list[NewSlot]]:
        return shard.database.read(
            lambda connection: (store.nodes(connection, run), store.slots(connection, run))
        )

    def _find(self, run: int) -> tuple[Shard, RunRow]:
        self._fleet.prepare()
        away: list[str] = []
        for shard in self._fleet.seeking(run):
            try:
                found = shard.database.read(lambda connection: store.run(connection, run))
            except OUTAGES as problem:
                if self._fleet.single is not None:
                    raise
                shard.failed(problem)
                away.append(f"{shard.name}: {first_line(problem)}")
                continue
            if found is not None:
                return shard, found
        if away:
            raise DatabaseUnavailable(
                f"run {run} is in none of the shards that answer; {'; '.join(away)}"
            )
        raise _unknown(run)

    def _view(self, row: NodeRow) -> NodeView:
        kind = self._registry.kinds.get(row.kind)
        decode = msgspec.json.decode if kind is None else kind.decode_result
        return NodeView(
            name=row.node,
            kind=row.kind,
            status=row.status,
            result=None if row.result is None else decode(row.result),
            error=row.remark if row.status in (Status.FAILED, Status.CANCELLED) else None,
            id=row.id,
            attempt=row.attempt,
            open_slots=row.open_slots,
            due_at=row.due_at,
            started_at=row.started_at,
            finished_at=row.finished_at,
        )

    @staticmethod
    def _now(shard: Shard) -> int:
        return shard.clock.now()


class Run:
    """A run whose graph was read, in the transaction that changes it."""

    def __init__(
        self, shard: Shard, number: int, rows: Iterable[NodeRow], slots: Iterable[NewSlot]
    ) -> None:
        self.shard = shard
        self.number = number
        self.rows = {row.id: row for row in rows}
        self.inside = store.nested_in(slots)
        names = {row.id: row.node for row in self.rows.values()}
        self.rules: dict[str, Rule] = {}
        self.after: dict[str, list[str]] = {name: [] for name in names.values()}
        self.children: dict[str, list[str]] = {}
        for each in slots:
            dep, node = names[each.dep_id], names[each.task_id]
            # What failed inside a nested flow has failed that, and what waits for it.
            self.children.setdefault(dep, []).append(node)
            if each.rule != Rule.END:
                self.after[node].append(dep)
                self.rules[node] = Rule(each.rule)

    def named(self, node: str) -> NodeRow:
        """The node of that name."""
        for row in self.rows.values():
            if row.node == node:
                return row
        raise UnknownNode(self.number, node)

    def begin_again(self, connection: Connection, chosen: set[str], *, now: int) -> None:
        """Have nodes that have ended be as if they had never been."""
        ids = {row.node: row.id for row in self.rows.values() if row.node in chosen}
        external.begin_again(connection, ids.values())
        nested = {group for member, group in self.inside.items() if member in set(ids.values())}
        leaves = {node: number for node, number in ids.items() if number not in nested}
        ended = {row.node: None if row.node in chosen else row.how for row in self.rows.values()}
        free: list[int] = []
        blocked: list[tuple[int, int]] = []
        for node, number in leaves.items():
            parents = [ended[parent] for parent in self.after[node]]
            left, verdict = open_after(self.rules.get(node, Rule.ALL_SUCCESS), parents)
            if verdict is End.SUCCEEDED:
                free.append(number)
            else:
                blocked.append((number, left))
        store.set_state(connection, free, Status.WAITING, due_at=now)
        store.set_state(connection, [number for number, _ in blocked], Status.BLOCKED)
        store.set_open(connection, blocked)
        self._reopen(connection, {number for number in ids.values() if number in nested}, ended)
        store.restart(connection, self.number, more=len(ids))

    def _reopen(
        self, connection: Connection, groups: set[int], ended: Mapping[str, End | None]
    ) -> None:
        """Have nested flows run again whose nodes do."""
        store.set_state(connection, groups, Status.RUNNING)
        left = dict.fromkeys(groups, 0)
        for member, group in self.inside.items():
            if group in left and ended[self.rows[member].node] is None:
                left[group] += 1
        store.set_open(connection, left.items())

    def edit(self, connection: Connection, edit: Edit, registry: Registry) -> None:
        """Make the changes of `edit`, if all of them are still possible."""
        shard = self.shard
        for parent, child in edit.unlinked:
            self._unlink(connection, parent, child)
        if edit.drafts:
            asked = {name for draft in edit.drafts for name in draft.shape.after}
            asked |= {name for draft in edit.drafts for name in draft.shape.needs}
            known = {name: self.named(name) for name in asked if name in self.after}
            place = Place(shard.database, shard.clock, shard.numbers, registry, shard.max_payload)
            insert_nodes(connection, place, edit.drafts, self.number, known=known)
            for row in store.nodes(connection, self.number):
                self.rows.setdefault(row.id, row)
            self.after |= {draft.shape.name: list(draft.shape.after) for draft in edit.drafts}
            self.rules |= {draft.shape.name: draft.shape.rule for draft in edit.drafts}
        for parent, child in edit.linked:
            self._link(connection, parent, child)
        check_acyclic(self.after)

    def _link(self, connection: Connection, parent: str, child: str) -> None:
        dep, row = self.named(parent), self._untouched(child)
        if parent in self.after[child]:
            raise BadFlow(f"node {child!r} waits for {parent!r} already")
        self.after[child].append(parent)
        rule = self.rules.get(child, Rule.ALL_SUCCESS)
        slots = [NewSlot(dep.id, row.id, rule)]
        store.insert(connection, self.shard.database.dialect, [], slots)
        self._recount(connection, child)

    def _unlink(self, connection: Connection, parent: str, child: str) -> None:
        dep, row = self.named(parent), self._untouched(child)
        if not store.unlink(connection, dep.id, row.id):
            raise BadFlow(f"node {child!r} does not wait for {parent!r}")
        self.after[child].remove(parent)
        self._recount(connection, child)

    def _recount(self, connection: Connection, child: str) -> None:
        """Have a node wait for those of its parents that have not ended."""
        row, now = self.named(child), self.shard.clock.now()
        ended = {each.node: each.how for each in self.rows.values()}
        parents = [ended[parent] for parent in self.after[child]]
        left, verdict = open_after(self.rules.get(child, Rule.ALL_SUCCESS), parents)
        if verdict not in (None, End.SUCCEEDED):
            raise BadFlow(f"node {child!r} could never run: one that it would wait for has failed")
        is_free = verdict is End.SUCCEEDED
        status = Status.WAITING if is_free else Status.BLOCKED
        store.set_state(connection, [row.id], status, due_at=now if is_free else None)
        store.set_open(connection, [(row.id, 0 if is_free else left)])

    def _untouched(self, node: str) -> NodeRow:
        """A node that is surely not begun: it waits for others."""
        row = self.named(node)
        if row.status is not Status.BLOCKED:
            raise BadFlow(
                f"node {node!r} is {row.status}: what has begun, or may begin at any moment, "
                "cannot be changed"
            )
        return row


def _unknown(run: int) -> UnknownFlow:
    return UnknownFlow(f"there is no run {run}: it never was, or it ended and was pruned")
