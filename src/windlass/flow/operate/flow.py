"""Starts flows, lists flow runs, and finds one again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from windlass.core.shard.fleet import Fleet
from windlass.core.shard.route import Router, targets_of
from windlass.core.shard.shard import OUTAGES
from windlass.core.task.declare import How
from windlass.core.task.kind import Kind, Registry
from windlass.core.task.store import task
from windlass.database.connection import is_async
from windlass.errors import BadFlow, DuplicateKey
from windlass.flow.declare import Draft, Drawing
from windlass.flow.engine.start import NewRun, start
from windlass.flow.model.node import RunHead, with_head
from windlass.flow.model.terms import flow_of, version_of
from windlass.flow.operate import view
from windlass.flow.operate.find import RunFinder
from windlass.flow.operate.run import FlowRun
from windlass.flow.operate.view import FlowRunView
from windlass.value.outcome import KEEP_FAILED
from windlass.value.status import Status
from windlass.value.twin import twin
from windlass.view.listing import Listing

Arguments = tuple[tuple[object, ...], Mapping[str, object]]


class Flows:
    """All flows of an app."""

    def __init__(self, fleet: Fleet, registry: Registry, router: Router) -> None:
        self.finder = RunFinder(fleet, registry)
        self._fleet = fleet
        self._registry = registry
        self._router = router

    def draw(self, kind: Kind, arguments: Arguments) -> list[Draft]:
        """The nodes that a flow draws, checked."""
        terms = flow_of(kind)
        assert terms is not None
        drawing = Drawing(self._registry)
        args, kwargs = arguments
        terms.draw(drawing, *args, **kwargs)
        return drawing.checked()

    def start(self, kind: Kind, arguments: Arguments, how: How) -> FlowRun:
        """Write a flow run and its nodes."""
        self._fleet.prepare()
        args, kwargs = arguments
        largest = self._fleet.shards[0].max_payload
        payload = kind.arguments.encode(args, kwargs, largest=largest)
        drafts = self.draw(kind, arguments)
        head = RunHead(
            keep=KEEP_FAILED if kind.terms.keep is None else kind.terms.keep,
            template=None if version_of(kind) is None else kind.name,
            version=version_of(kind),
        )
        new = NewRun(kind, with_head(payload, head), drafts, how)
        return FlowRun(self.finder, self._write(new))

    async def astart(self, kind: Kind, arguments: Arguments, how: How) -> FlowRun:
        """`start`, awaited; in the caller's transaction if `how` has an async connection."""
        conn: Any = how.conn
        if conn is None:
            return await twin(self.start, kind, arguments, how)
        if not is_async(conn):
            return self.start(kind, arguments, how)
        await twin(self._fleet.prepare)
        started: FlowRun = await conn.run_sync(
            lambda owner: self.start(kind, arguments, replace(how, conn=owner))
        )
        return started

    def ref(self, run: int) -> FlowRun:
        """A handle on a flow run that was started before, maybe elsewhere."""
        return FlowRun(self.finder, self.finder.find(run)[1].id)

    def run(self, run: int) -> FlowRunView:
        """One flow run."""
        return view.run(self.finder, run)

    def runs(
        self, *, kind: str | None = None, status: Status | None = None, limit: int = 50
    ) -> Listing[FlowRunView]:
        """Flow runs, newest first."""
        return view.newest(self.finder, kind=kind, status=status, limit=limit)

    def _write(self, new: NewRun) -> int:
        single = self._fleet.single
        if single is not None:
            return start(single, new)
        if new.key is not None:
            return self._fleet.keyed(partial(self._write_keyed, new, new.key))
        if new.how.conn is not None:
            shard = self._router.shard_of(new.how.conn)
        else:
            shard = next(iter(self._fleet.taking()), None) or self._fleet.shards[0]
        try:
            return start(shard, new)
        except OUTAGES as problem:
            what = f"flow {new.kind.name!r} was to start in"
            raise shard.unavailable(what, problem) from problem

    def _write_keyed(self, new: NewRun, key: str) -> int:
        name, how = new.kind.name, new.how
        roster = self._fleet.roster
        target = targets_of(self._fleet, roster, name, [key])[key]
        shard = target.shard
        if how.conn is not None and self._router.shard_of(how.conn) is not shard:
            raise BadFlow(
                f"flow {name!r}: key {key!r} belongs to {shard.name}, where conn is not; "
                "start it without conn, or without a key"
            )
        if not target.is_home:
            find = partial(task.find_keys, dialect=shard.database.dialect, kind=name, keys=[key])
            number, status = shard.database.read(find)[key]
            if how.on_conflict == "raise":
                raise DuplicateKey(name, key, task_id=number, status=str(status))
            return number
        return start(shard, new, guard=self._fleet.guard(shard, roster.number))
