"""A team: one worker for each of several shards, in one process and with one budget.

A shard that is down does not delay the others: its worker tries again, and joins when it is back.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass
from functools import partial

from windlass import telemetry
from windlass.core.cron.discover import Belongs
from windlass.core.ring.member import connect
from windlass.core.run.budget import Budget
from windlass.core.shard.fleet import Fleet
from windlass.core.shard.home import homes_of
from windlass.core.shard.shard import OUTAGES, Shard
from windlass.core.task.kind import CRON_KEY, Kind, Registry
from windlass.database.database import first_line
from windlass.errors import DatabaseUnavailable, WindlassError
from windlass.value.metric import Pulse
from windlass.worker.worker import Among, Worker, WorkerSettings

LOOK_SECONDS = 0.002
WAKE_SECONDS = 0.25
FIRST_PAUSE = 0.25
LAST_PAUSE = 5.0


@dataclass
class Post:
    """A shard of the team, and the worker that serves it now."""

    shard: Shard
    worker: Worker | None = None
    problem: BaseException | None = None
    done: int = 0
    failed: int = 0

    @property
    def is_idle(self) -> bool:
        return self.problem is not None or (self.worker is not None and self.worker.is_idle)


class Team:
    """Runs tasks of the given kinds from several shards until it is stopped, or nothing is due."""

    def __init__(
        self,
        fleet: Fleet,
        shards: Sequence[Shard],
        registry: Registry,
        kinds: Mapping[str, Kind],
        settings: WorkerSettings,
    ) -> None:
        self._fleet = fleet
        self._registry = registry
        self._kinds = kinds
        self._settings = settings
        if settings.members is not None:
            # A bad URL or a missing client raises here, once for all shards.
            connect(settings.members, dead_after=settings.dead_after)
        self._budget = Budget(settings.concurrency, len(shards))
        self._posts = [Post(shard) for shard in shards]
        self._stop_asked = 0
        self._over = False
        self.left_cleanly = False

    async def run(self) -> None:
        """Join each shard, work, and leave all of them."""
        hooks = self._registry.hooks
        await hooks.start()
        try:
            await self._run()
        finally:
            await hooks.stop()

    async def _run(self) -> None:
        serving = [asyncio.create_task(self._serve(post)) for post in self._posts]
        try:
            if self._settings.until_idle:
                await self._until_idle(serving)
            else:
                await self._until_stopped(serving)
        finally:
            self._over = True
            for worker in self.workers:
                if not worker.is_stopping:
                    worker.stop()
            results = await asyncio.gather(*serving, return_exceptions=True)
            self.left_cleanly = all(worker.left_cleanly for worker in self.workers)
        for result in results:
            if isinstance(result, BaseException):
                raise result
        self._raise_if_away()

    def stop(self) -> None:
        """Wait for running tasks up to the grace, then leave; a second call leaves at once."""
        self._stop_asked += 1
        for worker in self.workers:
            worker.stop()

    @property
    def is_stopping(self) -> bool:
        return self._stop_asked > 0

    @property
    def stops_at_once(self) -> bool:
        return self._stop_asked > 1

    @property
    def workers(self) -> list[Worker]:
        """The workers that serve a shard now."""
        return [post.worker for post in self._posts if post.worker is not None]

    @property
    def has_joined(self) -> bool:
        """Whether all shards that answer are served."""
        return all(
            post.problem is not None or (post.worker and post.worker.in_flight.owner is not None)
            for post in self._posts
        )

    def leave(self, why: str) -> None:
        """Hand back what is still in flight, and leave without waiting."""
        for worker in self.workers:
            worker.leave(why)

    @property
    def fatal(self) -> str | None:
        """Why it cannot go on; a shard that is away does not stop it."""
        return None

    def trouble(self) -> str | None:
        """Why it takes no work of any shard now; None if it does."""
        if self.is_stopping:
            return "it is stopping"
        why = "no shard answers"
        for worker in self.workers:
            found = worker.trouble()
            if found is None:
                return None
            why = found
        return why

    def pulse(self) -> Pulse:
        """The counts of all workers now."""
        pulses = [worker.pulse() for worker in self.workers]
        ended = [Pulse(0, 0, post.done, post.failed, 0) for post in self._posts]
        return Pulse(*map(sum, zip(*map(astuple, pulses + ended), strict=True)))

    async def _serve(self, post: Post) -> None:
        """Serve one shard until the end; join again after each outage."""
        pause = FIRST_PAUSE
        while not (self._over or self.is_stopping):
            try:
                await asyncio.to_thread(self._check, post.shard)
                post.worker = self._worker(post.shard)
                post.problem = None
                await post.worker.run()
                return
            except OUTAGES as problem:
                post.shard.failed(problem)
                self._unserve(post, problem)
            except WindlassError as problem:
                # It answers, but cannot be used.
                self._unserve(post, problem)
            await self._pause(pause)
            pause = min(pause * 2, LAST_PAUSE)

    def _check(self, shard: Shard) -> None:
        """Check quickly whether it answers: joining retries for long."""
        self._fleet.opened(shard)
        shard.look()

    @staticmethod
    def _unserve(post: Post, problem: BaseException) -> None:
        if post.problem is None:
            telemetry.emit("shard.unserved", shard=post.shard.name, error=first_line(problem))
        if post.worker is not None:
            post.done += post.worker.finish.done
            post.failed += post.worker.finish.failed
        post.worker, post.problem = None, problem

    async def _pause(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until and not (self._over or self.is_stopping):
            await asyncio.sleep(0.05)

    def _worker(self, shard: Shard) -> Worker:
        among = Among(
            self._budget,
            self._fleet.share,
            partial(where_cron, self._fleet, shard),
            partial(is_home, self._fleet, shard),
        )
        homes = homes_of(self._fleet, shard, self._kinds.values())
        return Worker(shard, self._registry, self._kinds, self._settings, among=among, homes=homes)

    async def _until_stopped(self, serving: Sequence[asyncio.Task[None]]) -> None:
        while not all(task.done() for task in serving):
            await asyncio.sleep(WAKE_SECONDS)
            self._budget.wake()

    async def _until_idle(self, serving: Sequence[asyncio.Task[None]]) -> None:
        """Until all are idle, and still are after another look: none enqueued for another."""
        is_sure = False
        while not self.is_stopping and not any(task.done() for task in serving):
            before = self.pulse().done
            await self._until(lambda: all(post.is_idle for post in self._posts), serving)
            if is_sure and self.pulse().done == before:
                return
            is_sure = True
            for worker in self.workers:
                if worker.problem is not None:
                    # A worker keeps trying; a script must see the error.
                    raise worker.problem
                worker.look_again()

    async def _until(
        self, is_so: Callable[[], bool], serving: Sequence[asyncio.Task[None]]
    ) -> None:
        looked_at = time.monotonic()
        while not (is_so() or self.is_stopping or any(task.done() for task in serving)):
            if any(worker.problem is not None for worker in self.workers):
                return
            await asyncio.sleep(LOOK_SECONDS)
            if time.monotonic() - looked_at > WAKE_SECONDS:
                looked_at = time.monotonic()
                self._budget.wake()

    def _raise_if_away(self) -> None:
        """A script must know what could not be run."""
        away = tuple(post.shard.name for post in self._posts if post.problem is not None)
        if self._settings.until_idle and away:
            raise DatabaseUnavailable(
                f"everything due was run, except on {', '.join(away)}, which did not answer",
                missing=away,
            )


def where_cron(fleet: Fleet, shard: Shard, kind: Kind) -> Belongs:
    """Whether the standing row of a cron belongs to `shard`, or is still there."""

    def look() -> Belongs:
        route = fleet.route(kind.name, CRON_KEY)
        for earlier in route.earlier:
            held = fleet.held(earlier, kind.name, [CRON_KEY], number=route.number)
            if held.there and earlier is shard:
                return Belongs.STILL
            if held.there or held.coming:
                return Belongs.ELSEWHERE
        return Belongs.HERE if route.home is shard else Belongs.ELSEWHERE

    try:
        return fleet.keyed(look)
    except OUTAGES:
        # It may be in a shard that does not answer.
        return Belongs.ELSEWHERE


def is_home(fleet: Fleet, shard: Shard, kind: Kind) -> bool:
    """Whether a kind that lives in one shard lives in this one; False if that is not known now."""
    try:
        faces = (face for face in shard.faces.all if face.name == kind.face)
        return any(face.home(fleet, kind) is shard for face in faces if face.home)
    except OUTAGES:
        return False
