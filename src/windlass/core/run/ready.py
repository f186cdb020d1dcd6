"""Runs, the queues where they wait until they may start, and how busy each kind is."""

from __future__ import annotations

import random
import time
from bisect import insort
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from windlass.core.face import Site
from windlass.core.run.chain import Chain
from windlass.core.run.contract import Keeper, Observer, RunCarrier, Stopper
from windlass.core.run.gauge import Gauge
from windlass.core.run.plan import Company, StartPlan
from windlass.core.run.trip import Trip
from windlass.core.task.downstream import Limited
from windlass.core.task.kind import CRON_KEY, Given, Kind
from windlass.database.connection import Connection
from windlass.value.bucket import BUCKETS
from windlass.value.outcome import SUCCESS, Failed, Outcome, Succeeded, describe, judge
from windlass.value.payload import encode_result
from windlass.value.rate import LATE
from windlass.value.task import Call, Claimed

if TYPE_CHECKING:
    import asyncio

    from windlass.core.run.budget import Budget
    from windlass.core.run.log import RunLog
    from windlass.core.run.permit import Pool
    from windlass.core.trace.recorder import PageSpan

AHEAD_SECONDS = 0.2
MOST_PLANNED = 1_000
# How many rows of lists wait at most, unless a list has more.
MOST_LISTED = 2_000
# Runs that end within this time are counted on when moments are taken for runs that wait.
SOON_SECONDS = 0.05
# Kinds with a lower or equal `max_lost` are frail: one loss makes a row poison, or run alone.
MOST_FRAIL = 2


class KindLoad:
    """How busy one kind is in this worker."""

    def __init__(self, kind: Kind, concurrency: int) -> None:
        # An operator may set another schedule than the declared one.
        self.kind, self.terms = kind, kind.terms
        self.timeout = None if kind.timeout is None else kind.timeout / 1e6
        self.is_scheduled = kind.schedule is not None
        self.is_rolling = kind.period is not None
        self.has_rows = kind.has_rows
        # How many rows a call takes at most, and whether a list waits for company.
        self.many = kind.many.most if kind.many else None
        self.gathers = bool(kind.many and kind.many.wait)
        # Whether a success without a result is deleted at once: without a key, and with one.
        self.forgets, self.forgets_named = not kind.terms.keep, kind.terms.keep == 0
        self.is_open = True
        # Whether what was submitted to another system is asked for.
        self.is_polled = True
        # Whether a breaker is about to open: nothing starts until that is written.
        self.is_tripped = False
        self.is_rated = kind.rate is not None
        # How late a start may be, in microseconds: one that is later needs another moment.
        self.late_after: float = LATE
        # The names of its limits: its own, and those of its downstreams.
        self.names = (kind.name, *(each.name for each in kind.downstreams))
        limited: tuple[Limited, ...] = (kind, *kind.downstreams)
        self.breakers = [(each.name, each.breaker) for each in limited if each.breaker is not None]
        # The permits that each run needs, and the errors in a row that its runs count for.
        self.pools: tuple[Pool, ...] = ()
        self.trips: tuple[Trip, ...] = ()
        self.gauges: tuple[Gauge, ...] = ()
        # Whether rows are taken only when they can start, as a loss costs too much.
        self.is_frail = kind.max_lost <= MOST_FRAIL
        # Runs its handlers elsewhere, and how many it takes at once; None: they run here.
        self.carrier: RunCarrier | None = None
        self.window: int | None = None
        self.limits(kind.concurrency, concurrency)
        # The budget that the workers of several shards share, and the name of this one in it.
        self.budget: Budget | None = None
        self.holder: object = None
        # Where its rows are, for faces that write beside them.
        self.site: Site | None = None
        # What is around each of its runs, and the event loop of async middlewares.
        self.observer: Observer | None = None
        self.loop: asyncio.AbstractEventLoop | None = None
        # What a run calls: the handler, or what has it called in a child process.
        self.handler: Callable[..., Any] = kind.function
        self.queued = 0
        # How many of them wait for their moment, and how many of those have lost it.
        self.planned = 0
        self.lapsed = 0
        self.running = 0
        self.ended = 0
        self.per_second = 0.0
        # How many had ended at the last measurement, and how long those ran that ended since.
        self.ended_before = 0
        self.run_seconds = 0.0
        # How long a run took at the last measurement.
        self.seconds_of_a_run: float | None = None

    def limits(self, own: int | None, concurrency: int) -> None:
        """Run at most `own` at once, or up to the worker's `concurrency` if that is None."""
        self.own_limit = own
        most = concurrency if self.window is None else self.window
        self.limit = min(own or most, most)

    def carry_by(self, carrier: RunCarrier, window: int) -> None:
        """Run its handlers elsewhere, at first up to `window` at once.

        Such runs use no slot of this worker. Their carrier notices when they time out.
        """
        self.carrier, self.timeout, self.budget = carrier, None, None
        # Each row is carried by itself; who runs the handler makes lists.
        self.many, self.gathers = None, False
        self.widen(window)

    def widen(self, window: int) -> None:
        """The carrier takes up to `window` runs at once; the kind's own limit holds, too."""
        self.window = window
        self.limit = min(self.own_limit or window, window)

    @property
    def has_tripped(self) -> bool:
        """Whether a breaker is open, or about to open, by what has ended here."""
        return any(trip.is_tripped for trip in self.trips)

    def take_permits(self, run: Run) -> bool:
        """Whether a run may start now: no breaker stops it, and it has a permit of each pool."""
        if self.has_tripped and not run.is_probe:
            return False
        return self.use_permits()

    def use_permits(self) -> bool:
        """Use a permit of each pool; False, and none is used, if one is missing."""
        for index, pool in enumerate(self.pools):
            if not pool.take():
                for taken in self.pools[:index]:
                    taken.give_back()
                return False
        return True

    def give_back_permits(self) -> None:
        for pool in self.pools:
            pool.give_back()

    def room(self, total: int, *, free: int) -> int:
        """How many more of this kind could start soon, of `total` in all and `free` at once."""
        if not self.is_open:
            return 0
        if self.many is not None:
            return self.room_for_lists(self.many, free)
        total = min(total, free) if self.is_frail else total
        free = self.limit - self.running - self.queued
        if self.is_frail:
            # Rows that wait would be lost with the worker.
            return 0 if self.queued else min(total, free)
        if self.is_rated:
            return self.room_ahead()
        if self.own_limit is None:
            return total
        return min(total, free + int(self.per_second * AHEAD_SECONDS))

    def room_for_lists(self, most: int, free: int) -> int:
        """How many more rows lists of up to `most` could take soon, with `free` calls at once.

        One list is always fetched ahead, or the next one would begin with a few rows only.
        """
        calls = max(0, min(self.limit - self.running, free))
        waiting = self.queued - self.planned
        if self.is_frail:
            return 0 if self.queued else calls * most
        if self.is_rated:
            return self.room_ahead()
        ahead = max(most, int(self.per_second * AHEAD_SECONDS))
        wanted = min(calls * most + ahead, max(MOST_LISTED, 2 * most))
        room = wanted - waiting
        return 0 if waiting and room < wanted // 4 else max(0, room)

    def calls_of(self, rows: int) -> int:
        """How many calls these `rows` need."""
        return rows if self.many is None else -(-rows // self.many)

    def rows_of(self, calls: int) -> int:
        """How many rows these `calls` can take."""
        return calls if self.many is None else calls * self.many

    @property
    def calls_queued(self) -> int:
        """How many calls wait to start; planned ones do not count."""
        return self.calls_of(self.queued - self.planned)

    def room_elsewhere(self) -> int:
        """How many more of a carried kind could start soon. They take no room from the others."""
        if not self.is_open:
            return 0
        free = self.limit - self.running - self.queued
        if self.is_frail:
            return 0 if self.queued else max(0, free)
        if self.is_rated:
            return self.room_ahead()
        room = free + int(self.per_second * AHEAD_SECONDS)
        return 0 if room < (room + self.queued) // 4 else max(0, room)

    @property
    def is_planned(self) -> bool:
        """Whether its rows are fetched ahead of their moments."""
        return self.is_rated and self.has_rows and not self.is_frail

    def startable(self) -> int:
        """How many more runs could start now."""
        if not self.is_open or self.is_tripped or any(each.is_tripped for each in self.trips):
            return 0
        free = self.rows_of(self.limit - self.running) - (self.queued - self.planned)
        permitted = (pool.free for pool in self.pools)
        return max(0, min([free, *(self.rows_of(each) for each in permitted if each is not None)]))

    def startable_soon(self) -> int:
        """How many more runs could start within a moment, if runs end as they did lately."""
        if not self.is_open or self.has_tripped:
            return 0
        return self.startable() + round(self.per_second * SOON_SECONDS)

    def want_permits(self, waiting: int) -> None:
        """Ask for permits for runs that wait, as their moment has come."""
        for pool in self.pools:
            pool.want(self.calls_of(waiting))

    def room_ahead(self) -> int:
        """How many more runs of a kind with a rate could be planned."""
        unable = 0 if self.many is None else self.rows_of(self.limit - self.running)
        if self.lapsed or self.queued - self.planned > unable:
            # It cannot even start those whose moments have come.
            return 0
        most = MOST_PLANNED
        if self.seconds_of_a_run:
            # More could not start within the second that is planned: moments would be lost.
            most = min(most, 1 + int(self.limit / self.seconds_of_a_run))
        return max(0, most - self.planned)

    def ahead(self, permits: int) -> int:
        """How many rows may be taken that wait for a run with a permit to end."""
        permits = self.rows_of(permits)
        if self.is_planned and self.seconds_of_a_run:
            return min(MOST_PLANNED, int(permits / self.seconds_of_a_run))
        return int(self.per_second * AHEAD_SECONDS)


class Room(NamedTuple):
    """How many rows a worker could start soon: in all, and of each kind."""

    total: int
    kinds: dict[str, int]


NO_ROOM = Room(0, {})


class State(Enum):
    """The state of a run in the worker."""

    QUEUED = "queued"
    RUNNING = "running"
    ENDED = "ended"
    GONE = "gone"


class Run:
    """One claimed row on its way through the worker."""

    __slots__ = (
        "before",
        "began",
        "callback_tries",
        "chain",
        "deadline",
        "error",
        "has_lane",
        "is_locked",
        "is_poison",
        "is_probe",
        "is_visit",
        "keeper",
        "kept",
        "kind",
        "leaves_nothing",
        "load",
        "log",
        "milliseconds",
        "number",
        "on_finish",
        "outcome",
        "page",
        "refusal",
        "runner",
        "start_at",
        "state",
        "task",
        "turns",
    )

    def __init__(self, task: Claimed, load: KindLoad) -> None:
        self.number = task.id
        self.task = task
        self.load = load
        self.kind = load.kind
        self.has_lane = task.bucket >= BUCKETS
        self.state = State.QUEUED
        # The rows of its lane that may follow it, and the run that it has followed.
        self.chain: Chain | None = None
        self.before: Run | None = None
        # The moment that a rate reserved for its start, on the monotonic clock in microseconds.
        self.start_at: int | None = None
        self.began = 0.0
        self.deadline: float | None = None
        self.milliseconds = 0.0
        self.outcome: Outcome | None = None
        # What the handler raised, until its outcome is written.
        self.error: BaseException | None = None
        # What the handler logged, if its kind keeps that.
        self.log: RunLog | None = None
        # The span that it shares with the other items of a page, until it has ended once.
        self.page: PageSpan | None = None
        self.on_finish: list[Callable[[Connection], None]] | None = None
        # What faces keep with the run, by type.
        self.kept: dict[type, Any] | None = None
        # The error to fail with, instead of a call of the handler.
        self.refusal: Exception | None = None
        self.callback_tries = 0
        self.runner: Stopper | None = None
        self.is_poison = False
        # Whether another transaction had locked its row when its outcome was to be written.
        self.is_locked = False
        # Whether the outcome decides about an open breaker.
        self.is_probe = False
        # Takes the outcome in place of the finish.
        self.keeper: Keeper | None = None
        # Whether its row stays for the next turn, as for a cron or a rolling kind.
        self.turns = load.is_rolling or (load.is_scheduled and task.task_key == CRON_KEY)
        # Whether a plain success changes its row in the same way as all rows of the kind.
        self.is_visit = load.is_rolling and task.flow_id is None
        # Whether a plain success deletes its row.
        forgets = load.forgets if task.task_key is None else load.forgets_named
        self.leaves_nothing = forgets and not self.turns and task.flow_id is None

    # What of `context()` does not work in it, and why: a child process has not all of a run.
    refused: Mapping[str, str] = MappingProxyType({})

    @property
    def key(self) -> str | None:
        return self.task.task_key

    def keep(self, what: object) -> None:
        """Keep something with the run; its face writes it with the outcome."""
        self.kept = {**(self.kept or {}), type(what): what}

    def given(self) -> Given:
        """What the handler is called with."""
        if self.refusal is not None:
            raise self.refusal
        return self.kind.given(self.task, turns=self.turns)

    def call(self) -> Any:
        """Call the handler, through what is around it."""
        if self.load.observer is not None:
            return self.load.observer.call(self)
        args, kwargs = self.given()
        return self.load.handler(*args, **kwargs)

    def succeeded(self, result: object) -> Outcome:
        """The outcome of its handler, which returned `result`."""
        return success(result)

    def given_calls(self, args: tuple[Any, ...], kwargs: Mapping[str, object]) -> tuple[Call, ...]:
        """What its handler is called with, for middlewares."""
        return (Call(args, kwargs, self.key),)

    def is_of(self, task_id: int) -> bool:
        """Whether it runs that task."""
        return self.task.id == task_id


def success(result: object) -> Outcome:
    """The outcome of a handler that returned `result`."""
    if result is None:
        return SUCCESS
    if isinstance(result, Outcome):
        return result
    try:
        return Succeeded(encode_result(result))
    except (TypeError, ValueError, OverflowError, RecursionError) as problem:
        # A retry would return the same result.
        return Failed(*describe(TypeError(f"the result cannot be kept: {problem}")))


def failure(run: Run, error: BaseException) -> Outcome:
    """The outcome of a handler that raised `error`."""
    run.error = error
    try:
        return judge(error, run.kind.terms, tries=run.task.tries, random=random.random())
    except Exception as problem:
        return Failed(*describe(problem))


def late(run: Run) -> TimeoutError:
    """The error of a handler that has timed out."""
    return TimeoutError(f"the handler did not end within {(run.kind.timeout or 0) / 1e6:g} s")


# Negated priority; whether the kind has no rate (a rate's moments pass, so those go first); kind.
Rank = tuple[int, bool, str]


class ReadyQueue:
    """Queued runs of the async kinds, the sync kinds or a carrier, highest priority first."""

    def __init__(self, wake: Callable[[], None]) -> None:
        # Wakes those who run what is in it.
        self.wake = wake
        self.queues: dict[Rank, deque[Run]] = {}
        self.order: list[Rank] = []
        self.queued = 0

    def put(self, run: Run) -> None:
        self._queue_of(run).append(run)
        self.queued += 1

    def put_first(self, run: Run) -> None:
        """Let a run start before its equals."""
        self._queue_of(run).appendleft(run)
        self.queued += 1

    def _queue_of(self, run: Run) -> deque[Run]:
        rank = (-run.task.priority, not run.load.is_rated, run.kind.name)
        queue = self.queues.get(rank)
        if queue is None:
            queue = self.queues[rank] = deque()
            insort(self.order, rank, key=lambda each: each[:2])
        return queue

    def take(self) -> Run | None:
        """The first run whose kind may start one more."""
        for index, rank in enumerate(self.order):
            queue = self.queues[rank]
            load = queue[0].load
            if load.running >= load.limit or not load.is_open or load.is_tripped:
                continue
            if (load.pools or load.trips) and not load.take_permits(queue[0]):
                continue
            if load.budget is not None and not load.budget.take(load.holder, rank[2], load.limit):
                load.give_back_permits()
                continue
            run = queue.popleft()
            self.queued -= 1
            if not queue:
                del self.queues[rank]
                del self.order[index]
            elif len(self.order) > 1:
                self._rotate(index)
            return run
        return None

    def _rotate(self, index: int) -> None:
        """Move the rank behind its equals, so that kinds take turns."""
        rank = self.order.pop(index)
        while index < len(self.order) and self.order[index][:2] == rank[:2]:
            index += 1
        self.order.insert(index, rank)

    def drop(self, is_meant: Callable[[Run], bool]) -> list[Run]:
        """Remove and return all runs that are meant."""
        dropped: list[Run] = []
        for rank, queue in list(self.queues.items()):
            gone = [run for run in queue if is_meant(run)]
            if not gone:
                continue
            dropped += gone
            if len(gone) == len(queue):
                del self.queues[rank]
                self.order.remove(rank)
            else:
                self.queues[rank] = deque(run for run in queue if not is_meant(run))
        self.queued -= len(dropped)
        return dropped


class Queues:
    """The queued runs of a worker: of async handlers, of sync handlers, and of each carrier."""

    def __init__(self, on_queued: Callable[[bool], None]) -> None:
        self.asyncs = ReadyQueue(lambda: on_queued(True))
        self.syncs = ReadyQueue(lambda: on_queued(False))
        self.carried: list[ReadyQueue] = []
        # Those whose moment has not come; made when there is one.
        self.plan: StartPlan | None = None
        # Those that wait for company; made when there is one.
        self.company: Company | None = None
        # It wakes what lets those start that have waited for long enough.
        self.on_gathering: Callable[[], None] = lambda: None

    def __len__(self) -> int:
        here = self.asyncs.queued + self.syncs.queued + self.planned
        here += 0 if self.company is None else len(self.company)
        return here + sum([ready.queued for ready in self.carried]) if self.carried else here

    @property
    def all(self) -> tuple[ReadyQueue, ...]:
        return (self.asyncs, self.syncs, *self.carried)

    def of(self, run: Run) -> ReadyQueue:
        """Where a run waits until it may start."""
        if run.load.carrier is not None:
            return run.load.carrier.ready
        return self.asyncs if run.kind.is_async else self.syncs

    @property
    def planned(self) -> int:
        return 0 if self.plan is None else len(self.plan)

    def __iter__(self) -> Iterator[Run]:
        for ready in self.all:
            for rank in ready.order:
                yield from ready.queues[rank]
        yield from self.company or ()
        yield from self.plan or ()

    def put(self, run: Run) -> ReadyQueue:
        """Add a run; returns the queue that it is in, or will be in when its moment has come."""
        run.load.queued += 1
        ready = self.of(run)
        if run.start_at is None:
            self._put_ready(ready, run)
        else:
            self.plan = self.plan or StartPlan()
            self.plan.put(run)
        return ready

    def _put_ready(self, ready: ReadyQueue, run: Run) -> None:
        """Let a run start as soon as it can, or when it has company."""
        if run.load.gathers:
            self.company = self.company or Company(self.on_gathering)
            if self.company.put(run):
                return
        ready.put(run)

    def put_lapsed(self, run: Run) -> None:
        """Add a run that needs a moment and has none."""
        run.load.queued += 1
        run.start_at = None
        self.plan = self.plan or StartPlan()
        self.plan.put(run)

    def put_first(self, run: Run) -> None:
        """Let a run start before its equals."""
        run.load.queued += 1
        self.of(run).put_first(run)

    def needs_no_thread(self) -> bool:
        """Whether all planned runs are async, and each has its moment."""
        return self.plan is not None and self.plan.needs_no_thread

    def release(self, *, free: int) -> set[ReadyQueue]:
        """Let planned runs start whose moment has come; returns the queues whose runners to wake.

        At most `free` runs may start here, with those that wait for a runner.
        """
        due: list[Run] = []
        if self.plan is not None:
            room = max(0, free - self.asyncs.queued - self.syncs.queued)
            due = self.plan.release(time.monotonic_ns() // 1_000, room=room)
            for run in due:
                self._put_ready(self.of(run), run)
        if self.company is not None:
            due += (together := self.company.release(time.monotonic()))
            for run in together:
                self.of(run).put(run)
        return {self.of(run) for run in due}

    def go_on(self, load: KindLoad, *, free: int) -> bool:
        """A run of a kind has ended: let a planned one start; returns whether it lacks moments."""
        if self.plan is None:
            return False
        if self.plan.is_waiting:
            self.release(free=free)
        return load.lapsed > 0 and not self.plan.moments_of(load)

    def drop(self, is_meant: Callable[[Run], bool]) -> list[Run]:
        """Remove and return all runs that are meant."""
        dropped = [run for ready in self.all for run in ready.drop(is_meant)]
        for waiting in (self.plan, self.company):
            if waiting is not None:
                dropped += waiting.drop(is_meant)
        for run in dropped:
            run.load.queued -= 1
        return dropped
