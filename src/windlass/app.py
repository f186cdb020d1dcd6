"""The front door: an App has the kinds and the databases, and forwards everything else."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Concatenate, ParamSpec, TypeVar, Unpack, overload

from windlass import lent, telemetry
from windlass.clock import SECOND, Clock
from windlass.control.engine.calls import Controls
from windlass.control.engine.run import ControlRun, controlled
from windlass.control.model.argument import Expiry
from windlass.core.face import Faces
from windlass.core.fetch.claim import Only
from windlass.core.limit.declare import DownstreamDeclarer
from windlass.core.ring.member import parse as parse_members
from windlass.core.shard.fleet import make_fleet
from windlass.core.shard.home import homes_of
from windlass.core.shard.route import Router
from windlass.core.shard.shard import Shard
from windlass.core.task.declare import How, Task, TaskRef
from windlass.core.task.hook import (
    MiddlewareContext,
    acall_through,
    call_through,
    check_hook,
)
from windlass.core.task.items import ListDeclarer, ListTask
from windlass.core.task.kind import Declared, Kind, Registry, make_kind, names_of, optional_duration
from windlass.core.task.many import NO_MANY, NO_WAIT
from windlass.core.task.option import (
    NO_LANES,
    CronOptions,
    ListTaskOptions,
    Options,
    TaskOptions,
    takes,
)
from windlass.core.trace.provider import sending_of
from windlass.database.access import Password
from windlass.database.bound import BoundOptions, make_bounds
from windlass.database.connection import URL, is_async, on_its_thread
from windlass.database.database import Database
from windlass.errors import BadInput, NotPossible, WindlassError
from windlass.external.operate import Externals
from windlass.flow.operate.flow import Flow, FlowDeclarer, Flows
from windlass.flow.operate.run import RunFinder
from windlass.flow.operate.template import Templates
from windlass.flow.operate.timeout import timeout_kind
from windlass.fork import Importing
from windlass.ledger.engine.hot.sync import sync_kind
from windlass.ledger.engine.lapse import lapse_kind
from windlass.operate.switch.handle import Switching
from windlass.operate.task import operate as task
from windlass.queue.declare import OUTBOX, chosen_consumers, outbox_kind, without_brokers
from windlass.queue.model.queue import MADE
from windlass.queue.operate.handle import Queueing
from windlass.rolling.model import NO_WITHIN, RollingOptions, check_takes_a_code, make_period
from windlass.rolling.operate.handle import Rolling
from windlass.rolling.operate.item import RollingTools
from windlass.source.contract import SweepSource
from windlass.sweep.declare import SweepOptions, check_takes_a_row, make_sweep
from windlass.sweep.operate.state import Sweeps
from windlass.sweep.operate.sweep import Sweep
from windlass.value.cron import schedule_of
from windlass.value.duration import Duration, parse_duration
from windlass.value.payload import LARGEST_PAYLOAD
from windlass.value.task import Call, TaskView
from windlass.value.twin import awaited, twin
from windlass.watch.declare import Watching
from windlass.watch.engine.deliver import DELIVER, delivery_kind
from windlass.watch.engine.outside import OutsideWatcher
from windlass.watch.handle import Alerting
from windlass.worker.team import Team
from windlass.worker.worker import Worker, WorkerSettings

P = ParamSpec("P")
R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., Any])

# Runs the rows of one shard, or of several.
AnyWorker = Worker | Team

DEFAULT_DATABASE = "sqlite:///windlass.db"
DEFAULT_CONCURRENCY = 100

# The faces and their tables. Outcomes are written in this order: a submission before its flow.
FACES = Faces(
    {
        "rolling": "windlass_tally",
        "control": "windlass_control",
        "sweep": "windlass_sweep",
        "external": "windlass_external",
        "flow": "windlass_task where flow_id is not null",
        "queue": "windlass_queue",
        "watch": "windlass_audit",
    },
    since={"queue": "0011"},
)


class App(Switching, Alerting, Queueing):
    """Declares tasks and stores them in one database, or in several: its shards.

    The default database is $WINDLASS_DATABASE_URL, or else the file windlass.db in the current
    directory. `password` is called with the URL of a database for each new connection, and returns
    the password. On PostgreSQL, `schema` has the tables of Windlass.
    """

    def __init__(
        self,
        *databases: str | URL,
        members: str | None = None,
        lease: Duration = "30s",
        dead_after: Duration = "5s",
        grace: Duration = "30s",
        max_payload: int = LARGEST_PAYLOAD,
        guard: bool = True,
        late_after: Duration | None = "10m",
        password: Password | None = None,
        schema: str | None = None,
        clock: Clock | None = None,
        **bounds: Unpack[BoundOptions],
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
            guard=guard,
        )
        if self.settings.dead_after > self.settings.lease:
            raise BadInput(f"dead_after={dead_after!r} is longer than lease={lease!r}")
        given = databases or (os.environ.get("WINDLASS_DATABASE_URL") or DEFAULT_DATABASE,)
        self._is_default_new = given == (DEFAULT_DATABASE,) and not databases
        self.fleet = make_fleet(
            given,
            clock=clock,
            faces=FACES,
            max_payload=max_payload,
            idle_milliseconds=max(500, self.settings.dead_after // 1_250),
            bounds=make_bounds(**bounds),
            password=password,
            schema=schema,
        )
        # The first shard stands for the app where one is enough.
        self.database = self.fleet.shards[0].database
        self.clock = self.fleet.shards[0].clock
        self._router = Router(self.fleet)
        self.rolling_tools = RollingTools(
            self.fleet, self.clock, self._worker_for, self.settings.dead_after
        )
        dead, hooks = self.settings.dead_after, self.registry.hooks
        self.sweeps = Sweeps(self.fleet, self, self._retrier_for, hooks, dead)
        self.control = Controls(self.fleet)
        self.downstream = DownstreamDeclarer(self.registry)
        self.flows = Flows(RunFinder(self.fleet, self.registry), self._router)
        self.flow = FlowDeclarer(self.registry, self.flows)
        self.flow_template = Templates(self.fleet, self.registry, self.flow)
        self.external = Externals(self, self.fleet, self.registry)
        self.watching = Watching(optional_duration(late_after, "late_after"))
        self.own_kinds = self._make_own_kinds()
        # The kinds that a plain `drain()` runs. Tests leave out crons and sweeps.
        self.drained: Callable[[], Mapping[str, Kind]] = partial(self.registry.chosen, None)

    def _places(self) -> list[tuple[Database, Clock]]:
        return [(shard.database, shard.clock) for shard in self.fleet.shards]

    def _make_own_kinds(self) -> dict[str, Kind]:
        """What every worker runs, whatever it serves: holds of stock lapse, alerts arrive."""
        lapse, sync = lapse_kind(self._places), sync_kind(self._places)
        deliver = delivery_kind(self.watching, self.fleet, self.submit)
        timeout = timeout_kind(self.flows.finder)
        self.registry.own[timeout.name] = timeout
        return {kind.name: kind for kind in (lapse, sync, deliver, timeout)}

    # Declaring

    @overload
    def task(self, function: Callable[P, R], /) -> Task[P, R]: ...

    @overload
    def task(
        self, /, *, many: int, wait: Duration | None = None, **options: Unpack[TaskOptions]
    ) -> ListDeclarer: ...

    @overload
    def task(
        self, /, *, many: None = None, **options: Unpack[TaskOptions]
    ) -> Callable[[Callable[P, R]], Task[P, R]]: ...

    @takes(ListTaskOptions)
    def task(
        self, function: Callable[..., Any] | None = None, /, **options: Unpack[ListTaskOptions]
    ) -> Any:
        """Declare a function, sync or async, as a task.

        With `many` it takes a list of at most that many items, each of them a task. The first one
        that is due waits up to `wait` for others.
        """
        declare = partial(self._declare, options=Options(**options))
        return declare if function is None else declare(function)

    @takes(CronOptions, refused={**NO_LANES, **NO_MANY})
    def cron(
        self,
        expression: str | None = None,
        *,
        every: Duration | None = None,
        tz: str = "UTC",
        catchup: bool = False,
        **options: Unpack[CronOptions],
    ) -> Callable[[Callable[P, R]], Task[P, R]]:
        """Declare a function that runs on a schedule, once for all workers together.

        The schedule has five fields, "0 3 * * *", or six with seconds first, or is a name such as
        "@daily"; or give `every="30s"`. Missed runs become one run. With `catchup` each of them
        runs.
        """
        made = Options(schedule=schedule_of(expression, every, tz, catchup=catchup), **options)

        def declare(function: Any) -> Any:
            if isinstance(function, Flow):
                return self.flow.schedule(function, made)
            return self._declare(function, options=made)

        return declare

    @takes(RollingOptions, refused={**NO_WITHIN, **NO_LANES})
    def rolling(
        self,
        *,
        every: Duration,
        batch: int = 1_000,
        tick: Duration | None = None,
        retry_after: Duration | None = None,
        **options: Unpack[RollingOptions],
    ) -> Callable[[Callable[P, R]], Rolling[P, R]]:
        """Declare a function that visits items, each of them at least once every period.

        It is called with the code of an item, and its return value is stored as the item's remark.
        A failed visit counts as a visit; with `retry_after` the item is visited again after that
        time. `tick` is a cron expression or a duration: due items wait for the next tick.
        """
        period = make_period(every, batch=batch, tick=tick, retry_after=retry_after)
        made = Options(period=period, face="rolling", check=check_takes_a_code, **options)
        return lambda function: Rolling(self.rolling_tools, self._add(function, made))

    @takes(SweepOptions, refused={**NO_LANES, **NO_WAIT})
    def sweep(
        self,
        source: SweepSource | None = None,
        *,
        ranges: int = 30,
        redo: Duration | None = None,
        batch: int = 1_000,
        order: str = "asc",
        many: bool = False,
        key_only: bool = False,
        steal: bool = True,
        auto: bool = True,
        **options: Unpack[SweepOptions],
    ) -> Callable[[Callable[P, R]], Sweep[P, R]]:
        """Declare a function that is called with each row of a source, round after round.

        Workers discover it and process the source in ranges. The first round begins by itself, the
        next one `redo` after the last one ended; with None there is only one. With `auto=False`
        only `start()` begins a round; without a source each start gives one. With `many` the
        function gets lists of up to `batch` rows, with `key_only` the key instead of the row.
        """
        terms = make_sweep(
            source,
            ranges=ranges,
            redo=redo,
            batch=batch,
            order=order,
            many=many,
            key_only=key_only,
            steal=steal,
            auto=auto,
        )
        made = Options(
            face="sweep", has_rows=False, check=check_takes_a_row, face_terms=terms, **options
        )
        return lambda function: Sweep(self.sweeps, self._add(function, made))

    @overload
    def controlled(self, name: Callable[Concatenate[ControlRun, P], R], /) -> Callable[P, R]: ...

    @overload
    def controlled(
        self,
        name: str | None = None,
        partition: str = "",
        expires: Expiry | None = None,
        *,
        once: bool = False,
    ) -> Callable[[Callable[Concatenate[ControlRun, P], R]], Callable[P, R]]: ...

    def controlled(
        self,
        name: str | Callable[..., Any] | None = None,
        partition: str = "",
        expires: Expiry | None = None,
        *,
        once: bool = False,
    ) -> Any:
        """Let a function, sync or async, run once at a time; its first argument is the run.

        The default name of the run is the name of the function. With `once` it raises AlreadyDone
        always, once it has succeeded.
        """
        if callable(name):
            return self.controlled(name.__name__)(name)
        self.control("a name" if name is None else name, partition, expires, once=once)

        def declare(function: Callable[..., Any]) -> Callable[..., Any]:
            run_name = function.__name__ if name is None else name

            def make() -> ControlRun:
                return self.control(run_name, partition, expires, once=once)

            return controlled(make, function)

        return declare

    def _declare(
        self, function: Callable[..., Any], *, options: Options
    ) -> Task[..., Any] | ListTask[Any, Any]:
        kind = self._add(function, options)
        return Task(self, kind) if kind.many is None else ListTask(self, kind)

    def _add(self, function: Callable[..., Any], options: Options) -> Kind:
        return self.registry.add(make_kind(function, options))

    # Hooks

    def middleware(self, around: F) -> F:
        """Call `around(call, context)` around each enqueue and each run; the first is outermost.

        It calls `call()` once, or `await call()` if it is async. It changes neither the arguments
        nor the result. An error of its own reaches the caller of `enqueue`, or fails the run.
        Workers that start later use it.
        """
        return self.registry.hooks.add(around)

    def on_worker_start(self, hook: F) -> F:
        """Call `hook()`, sync or async, before a worker joins; if it raises, none starts."""
        check_hook(hook, "on_worker_start", "hook()")
        self.registry.hooks.starts.append(hook)
        return hook

    def on_worker_stop(self, hook: F) -> F:
        """Call `hook()`, sync or async, after a worker has left; the last one comes first."""
        check_hook(hook, "on_worker_stop", "hook()")
        self.registry.hooks.stops.append(hook)
        return hook

    # What a declared task calls

    def submit(self, kind: Kind, calls: Sequence[Call], how: How) -> list[TaskRef]:
        """Write calls as tasks, through all middlewares; traced, if the program traces."""
        sending = sending_of(kind.name, len(calls))
        if sending is None:
            return self._through(kind, calls, how)
        with sending:
            refs = self._through(kind, calls, replace(how, trace=sending.carrier))
            sending.wrote(refs[0].id)
            return refs

    async def asubmit(self, kind: Kind, calls: Sequence[Call], how: How) -> list[TaskRef]:
        """`submit`, awaited; joins the caller's async transaction if there is one."""
        sending = sending_of(kind.name, len(calls))
        if sending is None:
            return await self._athrough(kind, calls, how)
        with sending:
            refs = await self._athrough(kind, calls, replace(how, trace=sending.carrier))
            sending.wrote(refs[0].id)
            return refs

    def _through(self, kind: Kind, calls: Sequence[Call], how: How) -> list[TaskRef]:
        around = self.registry.hooks.middlewares
        if not around:
            return self._submit(kind, calls, how)
        context = MiddlewareContext("enqueue", kind.name, tuple(calls))
        return call_through(around, context, lambda: self._submit(kind, calls, how))

    async def _athrough(self, kind: Kind, calls: Sequence[Call], how: How) -> list[TaskRef]:
        around = self.registry.hooks.middlewares
        if not around:
            return await self._asubmit(kind, calls, how)
        context = MiddlewareContext("enqueue", kind.name, tuple(calls))
        return await acall_through(around, context, lambda: self._asubmit(kind, calls, how))

    def _submit(self, kind: Kind, calls: Sequence[Call], how: How) -> list[TaskRef]:
        _check_not_importing()
        self.prepare()
        meter, new = self.registry.meter, set[int]()
        # Without a key all of them are new.
        are_new = meter is None and all(call.key is None for call in calls)
        numbers = self._router.submit(kind, calls, how, new=None if are_new else new)
        if meter is not None:
            meter.enqueue(kind.name, len(new))
        # The caller's transaction may still roll back.
        known_until = 0.0
        if how.conn is None:
            known_until = time.monotonic() + kind.terms.keep_failed / SECOND
        return [
            TaskRef(self, number, kind, known_until, created=are_new or number in new)
            for number in numbers
        ]

    async def _asubmit(self, kind: Kind, calls: Sequence[Call], how: How) -> list[TaskRef]:
        if how.conn is None:
            return await twin(self._submit, kind, calls, how)
        if is_async(how.conn):
            await twin(self.prepare)
        return await on_its_thread(
            how.conn, lambda conn: self._submit(kind, calls, replace(how, conn=conn))
        )

    def ref(self, task_id: int) -> TaskRef:
        """A handle on a task that was enqueued before, here or in another process."""
        return TaskRef(self, task_id, None)

    def find(self, task_id: int) -> TaskView | None:
        """The row of a task, in any shard."""
        self.prepare()
        return task.find(self.fleet, task_id)

    def cancel(self, task_id: int, *, reason: str = "") -> bool:
        """Cancel a task that has not ended."""
        self.prepare()
        return task.cancel(self.fleet, self.registry, task_id, reason=reason)

    def notify(self, /, task: str | int | TaskRef, *, ok: bool, **said: Any) -> bool:
        """Record how an external task ended; name it by its handle, its id or its ref.

        Add its `result=` or the `reason=` of its failure. A late or repeated call does nothing.
        """
        return self.external.notify(task, ok=ok, **said)

    anotify = awaited(notify)

    # Operating

    def set_grace(self, grace: Duration) -> None:
        """Set how long a stopping worker waits for running tasks."""
        parsed = parse_duration(grace, what="grace", zero=True)
        self.settings = replace(self.settings, grace=parsed)

    def migrate(self) -> str:
        """Create or upgrade the tables; returns their version."""
        return self.fleet.migrate()

    def prepare(self) -> None:
        """Make sure that the tables exist. In SQLite they are created on first use."""
        if self._is_default_new:
            self._tell_default()
        self.fleet.prepare()

    def _tell_default(self) -> None:
        """Tell which file is made because no database was given: once, when it is made."""
        self._is_default_new = False
        file = os.path.abspath(DEFAULT_DATABASE.removeprefix("sqlite:///"))
        if self.database.url.database == "windlass.db" and not os.path.exists(file):
            telemetry.emit("app.default_database", file=file)

    def worker(
        self,
        *,
        kinds: Sequence[str] | None = None,
        concurrency: int | None = None,
        until_idle: bool = False,
        shards: Sequence[str] | None = None,
        consume: Sequence[str] | None = None,
    ) -> AnyWorker:
        """A worker for these kinds, or all; `await worker.run()` runs it until `worker.stop()`.

        It serves all shards, or those that `shards` names by number or database. Of the consumers
        among the kinds it runs all, or those that `consume` names; none if that is empty.
        """
        self.prepare()
        if concurrency is not None and (not isinstance(concurrency, int) or concurrency < 1):
            raise BadInput(f"concurrency={concurrency!r} is not a number from 1 on")
        settings = replace(
            self.settings,
            concurrency=concurrency or self.settings.concurrency,
            until_idle=until_idle,
        )
        chosen = {**self.chosen(kinds, consume), **self._own_for(settings)}
        return self._serving(chosen, settings, shards)

    def _own_for(self, settings: WorkerSettings) -> dict[str, Kind]:
        own = dict(self.own_kinds)
        if settings.until_idle and not self.watching.channels:
            del own[DELIVER]
        if any(not lent.is_refused(queue.address) for queue in MADE.values()):
            # Without a queue no message could be sent: only it knows its URL.
            own[OUTBOX] = outbox_kind(self.find_queue)
        return own

    def _serving(
        self,
        chosen: Mapping[str, Kind],
        settings: WorkerSettings,
        shards: Sequence[str] | None = None,
    ) -> AnyWorker:
        _check_not_importing()
        served = dict.fromkeys(self.fleet.named(name) for name in shards or ())
        if self.fleet.single is None:
            served = served or dict.fromkeys(self.fleet.shards)
            return Team(self.fleet, list(served), self.registry, chosen, settings)
        return Worker(self.fleet.single, self.registry, chosen, settings)

    def chosen(
        self, kinds: Sequence[str] | None = None, consume: Sequence[str] | None = None
    ) -> dict[str, Kind]:
        """The kinds that a worker with these options would run; an error names an unknown one."""
        if consume is None:
            return self.registry.chosen(list(kinds or []))
        return chosen_consumers(self.registry, kinds, consume)

    def outside_watcher(self) -> OutsideWatcher:
        """Watches all databases beside the workers; `windlass watch` and the console run it."""
        kind = self.own_kinds[DELIVER]
        return OutsideWatcher(self.fleet, self.registry, kind, worker_for=self._worker_for)

    def _worker_for(self, shard: Shard, kind: Kind, only: Only) -> Worker:
        """A worker that runs one row."""
        settings = replace(self.settings, concurrency=1, until_idle=True)
        homes = homes_of(self.fleet, shard, [kind])
        return Worker(shard, self.registry, {kind.name: kind}, settings, only=only, homes=homes)

    def _retrier_for(self, shard: Shard, kind: Kind) -> Worker:
        """A worker that only retries the failed items of a sweep."""
        settings = replace(self.settings, until_idle=True, only_asked=True)
        homes = homes_of(self.fleet, shard, [kind])
        return Worker(shard, self.registry, {kind.name: kind}, settings, homes=homes)

    def drain(self, *, kinds: Iterable[str | Declared] | None = None) -> None:
        """Run everything that is due now, in this process; for tests and scripts.

        With `kinds`, declared ones or their names, it runs only those. Tasks that are due later
        stay. Handlers run as they do in a worker.
        """
        if _has_loop():
            raise WindlassError("drain() was called in an event loop; use await app.adrain() there")
        asyncio.run(self.adrain(kinds=kinds))

    async def adrain(self, *, kinds: Iterable[str | Declared] | None = None) -> None:
        """`drain`, awaited; async handlers run on the calling event loop."""
        named = None if kinds is None else self.registry.chosen(names_of(kinds, "drain"))
        await twin(self.prepare)
        settings = replace(self.settings, until_idle=True)
        chosen = await twin(self.drained) if named is None else named
        chosen = without_brokers(chosen, are_named=named is not None)
        if named is None:
            chosen |= self._own_for(settings)
        await self._serving(chosen, settings).run()

    amigrate = awaited(migrate)

    def close(self) -> None:
        """Close all connections. The app can be used again."""
        self.fleet.close()


def _check_not_importing() -> None:
    """Refuse what a program does when it runs, while a child process only imports it."""
    if Importing.is_going_on:
        raise NotPossible(
            "a child process imports this program to find its handlers, and must neither enqueue "
            'nor start a worker; do so behind if __name__ == "__main__":'
        )


def _has_loop() -> bool:
    """Whether this thread runs an event loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
