"""The front door: an App holds the kinds and the databases, and forwards everything else."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Concatenate, ParamSpec, TypeVar, overload

from msgspec import UNSET, UnsetType
from sqlalchemy import URL

from windlass.clock import SECOND, Clock
from windlass.control.engine.calls import Controls
from windlass.control.engine.run import ControlRun, controlled
from windlass.control.model.argument import Expiry
from windlass.core.face import Faces
from windlass.core.fetch.one import Only
from windlass.core.ring.member import parse as parse_members
from windlass.core.shard.fleet import make_fleet
from windlass.core.shard.route import Router
from windlass.core.shard.shard import Shard
from windlass.core.task.declare import Call, How, Task, TaskRef
from windlass.core.task.kind import Kind, Options, Registry, make_kind
from windlass.database.connection import is_async
from windlass.errors import BadInput, WindlassError
from windlass.external.operate import Externals
from windlass.flow.operate.declare import Flow, FlowDeclarer
from windlass.flow.operate.flow import Flows
from windlass.flow.operate.template import Templates
from windlass.ledger.engine.hold import LAPSE
from windlass.ledger.engine.lapse import lapse_kind
from windlass.operate.switch import operate as switch
from windlass.operate.task import operate as task
from windlass.operate.task import wait
from windlass.rolling.model import check_takes_a_code, make_period
from windlass.rolling.operate.handle import Rolling, RollingTools
from windlass.source.contract import SweepSource
from windlass.sweep.declare import Sweep, check_takes_a_row, make_sweep
from windlass.sweep.operate.sweep import Sweeps
from windlass.value.cron import Schedule
from windlass.value.duration import Duration, parse_duration
from windlass.value.payload import LARGEST_PAYLOAD
from windlass.value.retry import Backoff, Retries
from windlass.value.status import Status
from windlass.value.task import TaskView
from windlass.value.twin import twin
from windlass.view.listing import Listing
from windlass.watch.alert import operate as alert
from windlass.watch.alert.model import AlertView
from windlass.worker.settings import WorkerSettings
from windlass.worker.team import Team
from windlass.worker.worker import Worker

P = ParamSpec("P")
R = TypeVar("R")

# Runs the rows of one shard, or of several.
AnyWorker = Worker | Team

DEFAULT_DATABASE = "sqlite:///windlass.db"
DEFAULT_CONCURRENCY = 100

# The faces, and where their rows are. Outcomes are written in this order: a submission before the
# flow that it belongs to.
FACES = Faces(
    {
        "rolling": "windlass_tally",
        "control": "windlass_control",
        "sweep": "windlass_sweep",
        "external": "windlass_external",
        "flow": "windlass_task where flow_id is not null",
        "watch": "windlass_audit",
    }
)


class App:
    """Declares tasks and keeps them in a database, or in several, which are its shards.

    Without a database it takes $WINDLASS_DATABASE_URL, or else the file windlass.db here.
    """

    def __init__(
        self,
        *databases: str | URL,
        members: str | None = None,
        lease: Duration = "30s",
        dead_after: Duration = "5s",
        grace: Duration = "30s",
        max_payload: int = LARGEST_PAYLOAD,
        clock: Clock | None = None,
    ) -> None:
        if members is not None:
            parse_members(members)
        self.registry = Registry()
        self.settings = WorkerSettings(
            concurrency=DEFAULT_CONCURRENCY,
            lease=parse_duration(lease, what="lease"),
            dead_after=parse_duration(dead_after, what="dead_after"),
            grace=parse_duration(grace, what="grace", zero=True),
            members=members,
            max_payload=max_payload,
        )
        if self.settings.dead_after > self.settings.lease:
            raise BadInput(f"dead_after={dead_after!r} is longer than lease={lease!r}")
        given = databases or (os.environ.get("WINDLASS_DATABASE_URL") or DEFAULT_DATABASE,)
        idle_milliseconds = max(500, self.settings.dead_after // 1_250)
        self.fleet = make_fleet(
            given,
            clock=clock,
            faces=FACES,
            max_payload=max_payload,
            idle_milliseconds=idle_milliseconds,
        )
        # Of several shards, the first: an app with one database has no other.
        self.database = self.fleet.shards[0].database
        self.clock = self.fleet.shards[0].clock
        self._router = Router(self.fleet)
        self.rolling_tools = RollingTools(
            self.fleet, self.clock, self._worker_for, self.settings.dead_after
        )
        self.sweeps = Sweeps(self.fleet, worker_for=self._retrier_for)
        self.control = Controls(self.fleet)
        self.flows = Flows(self.fleet, self.registry, self._router)
        self.flow = FlowDeclarer(self.registry, self.flows)
        self.flow_template = Templates(self.fleet, self.registry, self.flow)
        self.external = Externals(self, self.fleet, self.registry)
        # Whoever holds stock in one of the databases relies on any worker of it.
        self._lapse = lapse_kind(
            lambda: [(shard.database, shard.clock) for shard in self.fleet.shards]
        )

    # Declaring

    @overload
    def task(self, function: Callable[P, R], /) -> Task[P, R]: ...

    @overload
    def task(
        self,
        /,
        *,
        name: str | None = None,
        retries: Retries | None = None,
        backoff: Backoff = "2s",
        timeout: Duration | None = None,
        concurrency: int | None = None,
        rate: str | None = None,
        priority: int = 0,
        keep: Duration | None = None,
        keep_failed: Duration | None = None,
        max_lost: int = 3,
        window: str | None = None,
        breaker: str | None = None,
    ) -> Callable[[Callable[P, R]], Task[P, R]]: ...

    def task(
        self,
        function: Callable[..., Any] | None = None,
        /,
        *,
        name: str | None = None,
        retries: Retries | None = None,
        backoff: Backoff = "2s",
        timeout: Duration | None = None,
        concurrency: int | None = None,
        rate: str | None = None,
        priority: int = 0,
        keep: Duration | None = None,
        keep_failed: Duration | None = None,
        max_lost: int = 3,
        window: str | None = None,
        breaker: str | None = None,
    ) -> Any:
        """Declare a function, sync or async, as a task."""
        options = Options(
            name=name,
            retries=retries,
            backoff=backoff,
            timeout=timeout,
            concurrency=concurrency,
            rate=rate,
            priority=priority,
            keep=keep,
            keep_failed=keep_failed,
            max_lost=max_lost,
            window=window,
            breaker=breaker,
        )
        if function is None:
            return partial(self._declare, options=options)
        return self._declare(function, options=options)

    def cron(
        self,
        expression: str,
        *,
        tz: str = "UTC",
        catchup: bool = False,
        name: str | None = None,
        retries: Retries | None = None,
        backoff: Backoff = "2s",
        timeout: Duration | None = None,
        priority: int = 0,
        max_lost: int = 3,
        window: str | None = None,
        breaker: str | None = None,
    ) -> Callable[[Callable[P, R]], Task[P, R]]:
        """Declare a function that runs by a schedule, once for all workers together.

        Turns that were missed collapse into one, unless `catchup` asks for each of them.
        """
        options = Options(
            schedule=Schedule(expression, tz, catchup),
            name=name,
            retries=retries,
            backoff=backoff,
            timeout=timeout,
            priority=priority,
            max_lost=max_lost,
            window=window,
            breaker=breaker,
        )

        def declare(function: Any) -> Any:
            if isinstance(function, Flow):
                return self.flow.schedule(function, options)
            return self._declare(function, options=options)

        return declare

    def rolling(
        self,
        *,
        every: Duration,
        batch: int = 1_000,
        concurrency: int | None = None,
        rate: str | None = None,
        tick: Duration | None = None,
        window: str | None = None,
        retry_after: Duration | None = None,
        priority: int = 0,
        name: str | None = None,
        timeout: Duration | None = None,
        breaker: str | None = None,
        max_lost: int = 3,
    ) -> Callable[[Callable[P, R]], Rolling[P, R]]:
        """Declare a function that visits items, each of them at least once every period.

        It is called with the code of an item; what it returns is kept as the item's remark. A
        failed visit counts as one, unless `retry_after` says to come back earlier. With a `tick`,
        a cron expression or a duration, items that fall due wait for it.
        """
        options = Options(
            period=make_period(every, batch=batch, tick=tick, retry_after=retry_after),
            face="rolling",
            check=check_takes_a_code,
            name=name,
            timeout=timeout,
            concurrency=concurrency,
            rate=rate,
            priority=priority,
            max_lost=max_lost,
            window=window,
            breaker=breaker,
        )

        def declare(function: Callable[P, R]) -> Rolling[P, R]:
            kind = make_kind(function, options)
            self.registry.add(kind)
            return Rolling(self.rolling_tools, kind)

        return declare

    def sweep(
        self,
        source: SweepSource,
        *,
        ranges: int = 30,
        redo: Duration | None = None,
        concurrency: int | None = None,
        rate: str | None = None,
        breaker: str | None = None,
        window: str | None = None,
        batch: int = 1_000,
        order: str = "asc",
        many: bool = False,
        key_only: bool = False,
        steal: bool = True,
        name: str | None = None,
        retries: Retries | None = None,
        backoff: Backoff = "2s",
        timeout: Duration | None = None,
        max_lost: int = 3,
    ) -> Callable[[Callable[P, R]], Sweep[P, R]]:
        """Declare a function that is called with each row of a source, round after round.

        Workers find it by themselves and walk over the source in ranges. The next round begins
        `redo` after the last one ended; None stops after one. With `many` the function gets lists
        of up to `batch` rows, with `key_only` the key instead of the row.
        """
        options = Options(
            face="sweep",
            has_rows=False,
            check=check_takes_a_row,
            face_terms=make_sweep(
                source,
                ranges=ranges,
                redo=redo,
                batch=batch,
                order=order,
                many=many,
                key_only=key_only,
                steal=steal,
            ),
            name=name,
            retries=retries,
            backoff=backoff,
            timeout=timeout,
            concurrency=concurrency,
            rate=rate,
            max_lost=max_lost,
            window=window,
            breaker=breaker,
        )

        def declare(function: Callable[P, R]) -> Sweep[P, R]:
            kind = make_kind(function, options)
            self.registry.add(kind)
            return Sweep(self.sweeps, self, kind)

        return declare

    @overload
    def controlled(self, name: Callable[Concatenate[ControlRun, P], R], /) -> Callable[P, R]: ...

    @overload
    def controlled(
        self,
        name: str | None = None,
        partition: str = "",
        expires: Expiry | None = None,
    ) -> Callable[[Callable[Concatenate[ControlRun, P], R]], Callable[P, R]]: ...

    def controlled(
        self,
        name: str | Callable[..., Any] | None = None,
        partition: str = "",
        expires: Expiry | None = None,
    ) -> Any:
        """Have a function, sync or async, run once at a time; it gets the run first.

        The run has the name of the function unless `name` says otherwise.
        """
        if callable(name):
            return self.controlled(name.__name__)(name)
        self.control("a name" if name is None else name, partition, expires)

        def declare(function: Callable[..., Any]) -> Callable[..., Any]:
            of = function.__name__ if name is None else name
            return controlled(lambda: self.control(of, partition, expires), function)

        return declare

    def _declare(self, function: Callable[P, R], *, options: Options) -> Task[P, R]:
        kind = make_kind(function, options)
        self.registry.add(kind)
        return Task(self, kind)

    # Tasks: what a declared task asks of its app

    def submit(self, kind: Kind, calls: Sequence[Call], how: How) -> list[TaskRef]:
        """Write calls down as tasks."""
        self.prepare()
        numbers = self._router.submit(kind, calls, how)
        # In the caller's transaction it may yet come to nothing.
        known_until = 0.0
        if how.conn is None:
            known_until = time.monotonic() + kind.terms.keep_failed / SECOND
        return [TaskRef(self, number, kind, known_until) for number in numbers]

    async def asubmit(self, kind: Kind, calls: Sequence[Call], how: How) -> list[TaskRef]:
        """`submit`, awaited; in the caller's transaction if it has an async one."""
        conn: Any = how.conn
        if conn is None:
            return await twin(self.submit, kind, calls, how)
        if not is_async(conn):
            # A sync connection belongs to the thread that uses it: stay on it.
            return self.submit(kind, calls, how)
        await twin(self.prepare)

        def joined(owner: object) -> list[TaskRef]:
            return self.submit(kind, calls, replace(how, conn=owner))

        refs: list[TaskRef] = await conn.run_sync(joined)
        return refs

    def ref(self, task_id: int) -> TaskRef:
        """A handle on a task that was enqueued before, maybe elsewhere."""
        return TaskRef(self, task_id, None)

    def status_of(self, task_id: int, *, enqueued: bool) -> Status:
        """The state of a task."""
        return wait.status_of(self._look, task_id, enqueued=enqueued)

    def result_of(
        self, task_id: int, kind: Kind | None, *, timeout: Duration | float | None, enqueued: bool
    ) -> object:
        """The result of a task, waited for."""
        return wait.result_of(self._look, task_id, kind, timeout=timeout, enqueued=enqueued)

    def cancel(self, task_id: int, *, reason: str = "") -> bool:
        """End a task that has not ended."""
        self.prepare()
        return task.cancel(self.fleet, self.registry, task_id, reason=reason)

    def _look(self, task_id: int) -> TaskView | None:
        self.prepare()
        return task.find(self.fleet, task_id)

    def notify(self, task: str | int | TaskRef, *, ok: bool, **said: Any) -> bool:
        """Be told how an external task ended, by its handle, its id or its ref.

        `result=` or `reason=` say what came of it. A late or repeated notification does nothing.
        """
        return self.external.notify(task, ok=ok, **said)

    async def anotify(self, task: str | int | TaskRef, *, ok: bool, **said: Any) -> bool:
        """`notify`, awaited."""
        return await twin(self.external.notify, task, ok=ok, **said)

    # Operating

    def pause(self, kind: str, *, reason: str = "", who: str | None = None) -> None:
        """Let nothing of `kind` start until it is resumed. What runs goes on to its end."""
        self._switch(kind, "paused", partial(switch.pause, reason=reason, who=who))

    def resume(self, kind: str, *, who: str | None = None) -> None:
        """Let `kind` run again, and close its breaker if that is open."""
        self._switch(kind, "resumed", partial(switch.resume, who=who))

    def close_breaker(self, kind: str, *, who: str | None = None) -> None:
        """Close the breaker of `kind` if it is open; whether it is paused stays as it is."""
        self._switch(kind, "given a closed breaker", partial(switch.close_breaker, who=who))

    def set(
        self,
        kind: str,
        *,
        rate: str | UnsetType | None = UNSET,
        window: str | UnsetType | None = UNSET,
        concurrency: int | UnsetType | None = UNSET,
    ) -> None:
        """Change what holds for `kind` while it runs, in all workers and until it is set again.

        None goes back to what the kind declares, "none" takes the rate or the window away.
        """
        changes = switch.changes(kind, rate=rate, window=window, concurrency=concurrency)
        self._switch(kind, "set", partial(switch.set_, changes=changes))

    def _switch(self, kind: str, done: str, change: Callable[[Shard, str], object]) -> None:
        """Change the switch of a kind in all shards."""
        name = self.registry.get(kind).name
        self.prepare()
        self.fleet.everywhere(lambda shard: change(shard, name), what=f"kind {name!r} is {done}")
        for shard in self.fleet.shards:
            shard.bell.ring_here()

    async def apause(self, kind: str, *, reason: str = "", who: str | None = None) -> None:
        """`pause`, awaited."""
        await twin(self.pause, kind, reason=reason, who=who)

    async def aresume(self, kind: str, *, who: str | None = None) -> None:
        """`resume`, awaited."""
        await twin(self.resume, kind, who=who)

    async def aset(
        self,
        kind: str,
        *,
        rate: str | UnsetType | None = UNSET,
        window: str | UnsetType | None = UNSET,
        concurrency: int | UnsetType | None = UNSET,
    ) -> None:
        """`set`, awaited."""
        await twin(self.set, kind, rate=rate, window=window, concurrency=concurrency)

    def set_grace(self, grace: Duration) -> None:
        """How long a worker that is asked to stop waits for what runs."""
        parsed = parse_duration(grace, what="grace", zero=True)
        self.settings = replace(self.settings, grace=parsed)

    def migrate(self) -> str:
        """Create or upgrade the tables; returns their version."""
        return self.fleet.migrate()

    def prepare(self) -> None:
        """Make sure that the tables are there. SQLite gets them on first use."""
        self.fleet.prepare()

    def worker(
        self,
        *,
        kinds: Sequence[str] | None = None,
        concurrency: int | None = None,
        until_idle: bool = False,
        shards: Sequence[str] | None = None,
    ) -> AnyWorker:
        """A worker for these kinds, or all; `await worker.run()` runs it until `worker.stop()`.

        It serves all shards, or those named by their number or database.
        """
        self.prepare()
        if concurrency is not None and (not isinstance(concurrency, int) or concurrency < 1):
            raise BadInput(f"concurrency={concurrency!r} is not a number from 1 on")
        settings = replace(
            self.settings,
            concurrency=concurrency or self.settings.concurrency,
            until_idle=until_idle,
        )
        chosen = {**self.registry.chosen(list(kinds or [])), LAPSE: self._lapse}
        served = dict.fromkeys(self.fleet.named(name) for name in shards or ())
        if self.fleet.single is None:
            served = served or dict.fromkeys(self.fleet.shards)
            return Team(self.fleet, list(served), self.registry, chosen, settings)
        return Worker(self.fleet.single, self.registry, chosen, settings)

    def _worker_for(self, shard: Shard, kind: Kind, only: Only) -> Worker:
        """A worker that is there for one row only."""
        settings = replace(self.settings, concurrency=1, until_idle=True)
        return Worker(shard, self.registry, {kind.name: kind}, settings, only=only)

    def _retrier_for(self, shard: Shard, kind: Kind) -> Worker:
        """A worker that tries again what a sweep has set aside, and nothing else."""
        settings = replace(self.settings, until_idle=True, only_asked=True)
        return Worker(shard, self.registry, {kind.name: kind}, settings)

    def drain(self) -> None:
        """Run everything that is due until nothing is, in this process; for tests and scripts.

        What is due later stays. Handlers run as they do in a worker.
        """
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            asyncio.run(self.adrain())
            return
        raise WindlassError("drain() was called in an event loop; use await app.adrain() there")

    async def adrain(self) -> None:
        """`drain`, awaited; async handlers run on the calling event loop."""
        await twin(self.prepare)
        await self.worker(until_idle=True).run()

    def alerts(self, limit: int = 100) -> Listing[AlertView]:
        """The last alerts, newest first; `.missing` names shards that could not be asked."""
        self.prepare()
        return alert.listing(self.fleet, limit=limit)

    async def aalerts(self, limit: int = 100) -> Listing[AlertView]:
        """`alerts`, awaited."""
        return await twin(self.alerts, limit)

    async def amigrate(self) -> str:
        """`migrate`, awaited."""
        return await twin(self.migrate)

    def close(self) -> None:
        """Give back all connections. The app can be used again."""
        self.fleet.close()
