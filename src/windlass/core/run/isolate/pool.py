"""The children of one worker: as many as it has runs for them at once, kept between runs.

A child is used by one run at a time. One that was ended, or whose handler has used up its memory,
is not used again. Children with different memory limits are apart.
"""

from __future__ import annotations

import asyncio

from windlass.core.run.isolate.home import home_here, place_of
from windlass.core.run.isolate.process import END_SECONDS, ChildProcess
from windlass.core.task.kind import Kind

# A child that has nothing to do for so long is let go.
IDLE_SECONDS = 300.0


class ChildPool:
    """Child processes on one event loop."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._all: set[ChildProcess] = set()
        # Those that wait for a run, the one that was used last at the end.
        self._idle: list[ChildProcess] = []
        self._timers: dict[ChildProcess, asyncio.TimerHandle] = {}

    @property
    def pids(self) -> set[int]:
        """The processes that have not ended."""
        return {child.pid for child in self._all if not child.ended.is_set()}

    async def take(self, kind: Kind) -> ChildProcess:
        """A child that is ready for a run of a kind: one that waits, or a new one."""
        self._forget()
        memory = None if kind.isolate is None else kind.isolate.memory
        for child in reversed(self._idle):
            if child.memory == memory:
                self._use(child)
                return child
        if self._idle and len(self._all) >= self._most:
            spare = self._idle[0]
            self._use(spare)
            spare.let_go()
        child = ChildProcess(home_here(place_of(kind), memory=memory))
        self._all.add(child)
        try:
            await child.ready()
        except BaseException:
            child.kill()
            raise
        return child

    def give_back(self, child: ChildProcess) -> None:
        """Keep a child for the next run."""
        if child.is_well:
            self._idle.append(child)
            loop = asyncio.get_running_loop()
            self._timers[child] = loop.call_later(IDLE_SECONDS, self._retire, child)

    async def close(self) -> None:
        """End all children, and wait for that."""
        for child in list(self._idle):
            self._use(child)
            child.let_go()
        for child in self._all:
            # Those that were let go have nothing to do, and end by themselves.
            child.kill()
        endings = [asyncio.ensure_future(child.ended.wait()) for child in self._all]
        if endings:
            _, pending = await asyncio.wait(endings, timeout=END_SECONDS)
            for child in self._all:
                if not child.ended.is_set():
                    child.kill_now()
            if pending:
                await asyncio.wait(pending)
        self._all.clear()

    def _use(self, child: ChildProcess) -> None:
        self._idle.remove(child)
        self._timers.pop(child).cancel()

    def _retire(self, child: ChildProcess) -> None:
        self._use(child)
        child.let_go()

    def _forget(self) -> None:
        """Forget children that have ended."""
        for child in [each for each in self._idle if not each.is_well]:
            self._use(child)
        self._all = {child for child in self._all if not child.ended.is_set()}
