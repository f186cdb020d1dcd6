"""A worker over several shards: one worker for each, in one process and under one budget.

A shard that is down keeps nobody waiting: its worker is tried again, and joins when it is back.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from windlass import telemetry
from windlass.core.cron.discover import Belongs
from windlass.core.ring.member import connect
from windlass.core.run.budget import Budget
from windlass.core.shard.fleet import Fleet
from windlass.core.shard.shard import OUTAGES, Shard
from windlass.core.task.kind import CRON_KEY, Kind, Registry
from windlass.database.database import first_line
from windlass.errors import DatabaseUnavailable, WindlassError
from windlass.value.pulse import Pulse
from windlass.worker.settings import Among, WorkerSettings
from windlass.worker.worker import Worker

LOOK_SECONDS = 0.002
WAKE_SECONDS = 0.25
FIRST_PAUSE = 0.25
LAST_PAUSE = 5.0


@dataclass
class Post:
    """A shard of the team, and the worker that serves it now, if one does."""

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
            # Whether they can be had at all is said at once, and not for each shard.
            connect(settings.members, dead_after=settings.dead_after)
        self._budget = Budget(settings.concurrency, len(shards))
        self._posts = [Post(shard) for shard in shards]
        self._stop_asked = 0
        self._over = False
        self.left_cleanly = False

    async def run(self) -> None:
        """Join each shard, work, and leave all of them."""
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
        self._complain()

    def stop(self) -> None:
        """Finish what runs within the grace, then leave; asked twice, leave at once."""
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
        """Whether all shards are served that can be."""
        return all(
            post.problem is not None or (post.worker and post.worker.in_flight.owner is not None)
            for post in self._posts
        )

    def leave(self, why: str) -> None:
        """Hand back what is still held, and go, without waiting for anything."""
        for worker in self.workers:
            worker.leave(why)

    def pulse(self) -> Pulse:
        """How all of it is doing now."""
        pulses = [worker.pulse() for worker in self.workers]
        return Pulse(
            running=sum(pulse.running for pulse in pulses),
            queued=sum(pulse.queued for pulse in pulses),
            done=sum(pulse.done for pulse in pulses) + sum(post.done for post in self._posts),
            failed=sum(pulse.failed for pulse in pulses) + sum(post.failed for post in self._posts),
            abandoned=sum(pulse.abandoned for pulse in pulses),
        )

    async def _serve(self, post: Post) -> None:
        """Work on one shard until the end, joining anew whenever it could not be had."""
        pause = FIRST_PAUSE
        while not (self._over or self.is_stopping):
            try:
                await asyncio.to_thread(self._look_at, post.shard)
                post.worker = self._worker(post.shard)
                post.problem = None
                await post.worker.run()
                return
            except OUTAGES as problem:
                post.shard.failed(problem)
                self._let_go(post, problem)
            except WindlassError as problem:
                # It answers, but cannot be used as it is.
                self._let_go(post, problem)
            await self._rest(pause)
            pause = min(pause * 2, LAST_PAUSE)

    def _look_at(self, shard: Shard) -> None:
        """Find out soon whether it answers: joining is patient."""
        self._fleet.opened(shard)
        shard.look()

    @staticmethod
    def _let_go(post: Post, problem: BaseException) -> None:
        if post.problem is None:
            telemetry.emit("shard.unserved", shard=post.shard.name, error=first_line(problem))
        if post.worker is not None:
            post.done += post.worker.finish.done
            post.failed += post.worker.finish.failed
        post.worker, post.problem = None, problem

    async def _rest(self, seconds: float) -> None:
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
        return Worker(shard, self._registry, self._kinds, self._settings, among=among)

    async def _until_stopped(self, serving: Sequence[asyncio.Task[None]]) -> None:
        while not all(task.done() for task in serving):
            await asyncio.sleep(WAKE_SECONDS)
            self._budget.wake()

    async def _until_idle(self, serving: Sequence[asyncio.Task[None]]) -> None:
        """All are idle, and still are after each has looked once more: nobody gave work on."""
        is_sure = False
        while not self.is_stopping and not any(task.done() for task in serving):
            before = self.pulse().done
            await self._until(lambda: all(post.is_idle for post in self._posts), serving)
            if is_sure and self.pulse().done == before:
                return
            is_sure = True
            for worker in self.workers:
                if worker.problem is not None:
                    # A worker waits for better times; a script wants to know.
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

    def _complain(self) -> None:
        """A script wants to know what could not be run."""
        away = tuple(post.shard.name for post in self._posts if post.problem is not None)
        if self._settings.until_idle and away:
            raise DatabaseUnavailable(
                f"everything due was run but on {', '.join(away)}, which did not answer",
                missing=away,
            )


def where_cron(fleet: Fleet, shard: Shard, kind: Kind) -> Belongs:
    """Whether the standing row of a cron belongs into `shard`, or is still there from before."""

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
        # It may be where nobody can look now.
        return Belongs.ELSEWHERE


def is_home(fleet: Fleet, shard: Shard, kind: Kind) -> bool:
    """Whether a kind that lives in one shard lives in this one; False if it cannot be told now."""
    try:
        return any(face.home(fleet, kind) is shard for face in shard.faces.all if face.home)
    except OUTAGES:
        return False
