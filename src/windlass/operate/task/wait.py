"""Waiting for a task: its state, and its result."""

from __future__ import annotations

import time
from collections.abc import Callable

import msgspec

from windlass.core.task.kind import Kind
from windlass.errors import ResultTimeout, TaskCancelled, TaskFailed, TaskNotFound
from windlass.value.duration import Duration, seconds_of
from windlass.value.status import Status
from windlass.value.task import TaskView

FIRST_PAUSE = 0.005
LONGEST_PAUSE = 0.25

# Finds a task in any shard.
Find = Callable[[int], TaskView | None]


def status_of(find: Find, number: int, *, enqueued: bool) -> Status:
    """The state of a task. `enqueued` says that it existed: if it is gone, it succeeded."""
    found = find(number)
    if found is not None:
        return found.status
    if enqueued:
        return Status.SUCCEEDED
    raise TaskNotFound(number)


def result_of(
    find: Find,
    number: int,
    kind: Kind | None,
    *,
    timeout: Duration | float | None,
    enqueued: bool,
) -> object:
    """Wait for the end of a task and return its result, or raise why there is none."""
    deadline = None if timeout is None else time.monotonic() + seconds_of(timeout)
    decode = msgspec.json.decode if kind is None else kind.decode_result
    pause = FIRST_PAUSE
    while True:
        found = find(number)
        if found is None:
            if enqueued:
                return None
            raise TaskNotFound(number)
        match found.status:
            case Status.SUCCEEDED:
                return None if found.result is None else decode(found.result)
            case Status.FAILED:
                raise TaskFailed(number, found.remark or "no reason recorded")
            case Status.CANCELLED:
                raise TaskCancelled(number, found.remark or "")
        left = None if deadline is None else deadline - time.monotonic()
        if left is not None and left <= 0:
            raise ResultTimeout(
                f"task {number} is still {found.status} after {seconds_of(timeout or 0):g} s; "
                "is a worker running?"
            )
        time.sleep(pause if left is None else min(pause, left))
        pause = min(pause * 1.5, LONGEST_PAUSE)
