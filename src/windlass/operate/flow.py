"""Flows: start them, look at runs, and have them go on, skip, end, or change."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace as with_
from functools import partial
from typing import Any, TypeVar, cast

import msgspec
from sqlalchemy import Connection

from windlass import telemetry
from windlass.declare.flow import Draft, Drawing, Edit, FlowRun
from windlass.declare.kind import TEMPLATE, Kind, Registry
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
from windlass.model.node import RunHead, as_drawn, head_of, with_head
from windlass.model.outcome import KEEP_FAILED, LONGEST_REMARK, storable
from windlass.model.run import FlowGraph, FlowProgress, GraphNode, NodeView
from windlass.model.status import Status
from windlass.operate.gather import Listing
from windlass.operate.task import seconds_of
from windlass.store import flow as store
from windlass.store import slot, task
from windlass.store.connection import is_async
from windlass.store.database import first_line
from windlass.store.flow import NewSlot, NodeRow, RunRow

T = TypeVar("T")

FIRST_LOOK = 0.002
LAST_LOOK = 0.05
# How long to wait for the callbacks of a node that is just being ended.
PATIENCE_SECONDS = 30.0
SKIPPED_BY_HAND = "skipped by hand"


class Flows:
    """All flows of an app."""

    def __init__(self, fleet: Fleet, registry: Registry, spread: Spread) -> None:
        self._fleet = fleet
        self._registry = registry
        self._spread = spread
        # Told of external nodes that were cancelled: shard, ids.
        self.on_cancelled: Callable[[Shard, Sequence[int]], None] = lambda _shard, _ids: None

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
            seen = shard.database.read(partial(store.status_of, number=run))
            if seen is None:
                # It has ended, and was moved to another shard.
                shard, found = self._find(run)
                seen = found.status
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
        nodes: list[GraphNode] = []
        for row in rows:
            when, kwargs = as_drawn(row.payload, names)
            name, rule = row.kind, rules.get(row.id, Rule.ALL_SUCCESS)
            if name == TEMPLATE:
                name, kwargs = str(kwargs["template"]), cast(dict[str, object], kwargs["arguments"])
            nodes.append(GraphNode(row.node, name, row.status, rule, when=when, kwargs=kwargs))
        return FlowGraph(
            nodes,
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
            again = graph.begin_again(connection, chosen, now=self._now(graph.shard))
            if node is not None and node not in again:
                raise BadFlow(f"node {node!r} is {graph.named(node).remark}; retry or skip that")
            return len(again)

        count = self._change(run, work)
        telemetry.emit("flow.retried", run=run, nodes=count)
        return count

    def skip(self, run: int, node: str) -> None:
        """Count a node as succeeded, and go on."""

        def work(connection: Connection, graph: Run) -> bool:
            row, now = graph.named(node), self._now(graph.shard)
            if not store.is_free(connection, row.id):
                # Who is just ending it waits for the run.
                return False
            if row.how is End.SUCCEEDED:
                raise BadFlow(f"node {node!r} has succeeded; there is nothing to skip")
            had_ended = row.how is not None
            store.set_state(connection, [row.id], Status.SUCCEEDED, now=now, remark=SKIPPED_BY_HAND)
            graph.rows[row.id] = with_(row, status=Status.SUCCEEDED, remark=SKIPPED_BY_HAND)
            if had_ended:
                below = set(descendants(graph.children, [node]))
                again = {each.node for each in graph.rows.values() if each.how is End.FAILED}
                if not graph.begin_again(connection, again & below, now=now):
                    # What the run has come to is decided anew.
                    store.restart(connection, run, more=0)
                    slot.end_runs(connection, [run], now=now)
            else:
                ended = {row.id: (run, End.SUCCEEDED)}
                before = slot.lock_runs(connection, [run])
                dialect = graph.shard.database.dialect
                slot.after_end(connection, dialect, ended, before=before, now=now)
            return True

        deadline = time.monotonic() + PATIENCE_SECONDS
        while not self._change(run, work):
            if time.monotonic() > deadline:
                raise BadFlow(f"node {node!r} is just being ended, and that takes long; try again")
            time.sleep(LAST_LOOK)
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
            return store.cancel(connection, run, reason=text, now=self._now(shard), keep=keep)

        away = shard.database.write(work)
        if away is None:
            return False
        for number in shard.database.read(lambda connection: store.left_of(connection, run)):
            end = partial(store.cancel_node, number=number, reason=text, now=self._now(shard))
            shard.database.write(end)
        telemetry.emit("flow.ended", run=run, status=str(Status.CANCELLED))
        if away:
            self.on_cancelled(shard, away)
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
        # Nodes after slots: one that is added meanwhile is no end of an edge that was read.
        slots = shard.database.read(lambda connection: store.slots(connection, run))
        rows = shard.database.read(lambda connection: store.nodes(connection, run))
        there = {row.id for row in rows}
        return rows, [each for each in slots if each.dep_id in there and each.task_id in there]

    def _find(self, run: int) -> tuple[Shard, RunRow]:
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
            is_skipped=row.how is End.SKIPPED or row.remark == SKIPPED_BY_HAND,
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

    def begin_again(self, connection: Connection, chosen: set[str], *, now: int) -> set[str]:
        """Have nodes that have ended be as if they had never been; which of the chosen can be."""
        chosen = chosen - self._barred(chosen)
        if not chosen:
            return chosen
        ids = {row.node: row.id for row in self.rows.values() if row.node in chosen}
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
        return chosen

    def _barred(self, chosen: set[str]) -> set[str]:
        """Those that could not run, because of something above them that has failed and stays."""
        hows = {row.node: row.how for row in self.rows.values()}
        members: dict[str, list[str]] = {}
        for member, group in self.inside.items():
            members.setdefault(self.rows[group].node, []).append(self.rows[member].node)
        barred: set[str] = set()

        def is_barred(node: str) -> bool:
            if node in members:
                return all(each not in chosen or each in barred for each in members[node])
            stay = (
                hows[each] if each not in chosen or each in barred else None
                for each in self.after[node]
            )
            verdict = open_after(self.rules.get(node, Rule.ALL_SUCCESS), list(stay))[1]
            return verdict not in (None, End.SUCCEEDED)

        queue = list(chosen)
        while queue:
            node = queue.pop()
            if node in chosen and node not in barred and is_barred(node):
                barred.add(node)
                queue += self.children.get(node, ())
        return barred

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
        for draft in edit.drafts:
            if draft.shape.name in self.after:
                raise BadFlow(f"a node is named {draft.shape.name!r} already; give another name=")
        if edit.drafts:
            asked = {name for draft in edit.drafts for name in draft.shape.after}
            asked |= {name for draft in edit.drafts for name in draft.shape.needs}
            known = {name: self.named(name) for name in asked if name in self.after}
            place = Place(shard.database, shard.clock, shard.numbers, registry, shard.max_payload)
            insert_nodes(connection, place, edit.drafts, self.number, known=known)
            # If the new ones could never run, nothing may be left to wait for.
            slot.end_runs(connection, [self.number], now=shard.clock.now())
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
