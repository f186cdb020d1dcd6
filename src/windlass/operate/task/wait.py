"""Waiting for tasks to end: callers of an event loop share each look at the database.

A caller that waits holds neither a thread nor a connection. Looks follow each other at least
`PAUSE` apart, however many wait, and there are none while nobody does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import msgspec

from windlass.core.shard.fleet import Fleet
from windlass.core.shard.shard import Shard
from windlass.core.task.store import task
from windlass.errors import DatabaseUnavailable, NotPossible, TaskNotFound
from windlass.operate.task import operate
from windlass.value.status import Status
from windlass.value.task import TaskView
from windlass.value.twin import twin

PAUSE = 0.05
LONGEST_PAUSE = 0.25
MOST_WAITING = 1_000


@dataclass(frozen=True)
class TaskResult:
    """How a task ended, or that it has not. `result` is the value that its handler returned."""

    id: int
    kind: str
    status: Status
    ended: bool
    result: Any
    # Why it failed, or was cancelled.
    error: str | None


class SharedLook:
    """A look that is about to be made, and whose statuses it reads."""

    def __init__(self) -> None:
        self.numbers: set[int] = set()
        self.answer: asyncio.Task[dict[int, Status]] | None = None


class TaskWaiters:
    """Those in this process who wait for tasks to end."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._waiting = 0
        self._next: WeakKeyDictionary[asyncio.AbstractEventLoop, SharedLook] = WeakKeyDictionary()

    async def wait(self, number: int, seconds: float) -> TaskResult:
        """How a task has ended, or how it is after so long.

        TaskNotFound if nothing of it is left: it succeeded, and was not kept.
        """
        found = await twin(operate.find, self._fleet, number)
        if found is None:
            raise TaskNotFound(number)
        if found.status.is_final or seconds <= 0:
            return _result(found)
        if self._waiting >= MOST_WAITING:
            raise NotPossible(
                f"{MOST_WAITING:,} others wait for results already; ask without wait, or later"
            )
        self._waiting += 1
        try:
            await self._until_over(number, seconds)
        finally:
            self._waiting -= 1
        ended = await twin(operate.find, self._fleet, number)
        if ended is None:
            # It was there, and a failure would have been kept.
            return TaskResult(
                number, found.kind, Status.SUCCEEDED, ended=True, result=None, error=None
            )
        return _result(ended)

    async def _until_over(self, number: int, seconds: float) -> None:
        loop, pause = asyncio.get_running_loop(), PAUSE
        deadline = loop.time() + seconds
        while (left := deadline - loop.time()) > 0:
            await asyncio.sleep(min(pause, left))
            status = (await self._look(loop, number)).get(number)
            if status is None or status.is_final:
                return
            pause = min(pause * 1.5, LONGEST_PAUSE)

    async def _look(self, loop: asyncio.AbstractEventLoop, number: int) -> dict[int, Status]:
        """The statuses of a look that has not begun yet; others join it."""
        look = self._next.get(loop)
        if look is None or look.answer is None:
            look = self._next[loop] = SharedLook()
            look.answer = loop.create_task(self._read(loop, look))
        look.numbers.add(number)
        # Another caller may be waiting for it, too.
        return await asyncio.shield(look.answer)

    async def _read(self, loop: asyncio.AbstractEventLoop, look: SharedLook) -> dict[int, Status]:
        await asyncio.sleep(PAUSE)
        del self._next[loop]
        return await twin(self._statuses, look.numbers)

    def _statuses(self, numbers: Iterable[int]) -> dict[int, Status]:
        wanted = sorted(numbers)

        def ask(shard: Shard) -> dict[int, Status]:
            return shard.database.read(partial(task.statuses, numbers=wanted))

        asked = self._fleet.fan_out(ask)
        found = {number: status for part in asked.values for number, status in part.items()}
        if asked.missing and not found.keys() >= set(wanted):
            text = f"the task may be in {', '.join(asked.missing)}, which does not answer"
            raise DatabaseUnavailable(text, missing=asked.missing)
        return found


def _result(found: TaskView) -> TaskResult:
    result = None if found.result is None else msgspec.json.decode(found.result)
    has_failed = found.status in (Status.FAILED, Status.CANCELLED)
    return TaskResult(
        found.id,
        found.kind,
        found.status,
        ended=found.status.is_final,
        result=result,
        error=found.remark if has_failed else None,
    )
