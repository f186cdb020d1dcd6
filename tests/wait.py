"""Waiting for what another thread, process or server is about to do."""

import threading
import time
from collections.abc import Callable
from typing import TypeVar

from windlass.core.loop import Loop

POLL_SECONDS = 0.01
LONGEST_POLL_SECONDS = 0.1
RARER = 0.05
"""The next look is after this part of the time that was waited already."""

T = TypeVar("T")


def eventually(
    predicate: Callable[[], T],
    timeout: float = 10.0,
    *,
    what: str = "the condition",
    poll: float = POLL_SECONDS,
) -> T:
    """Return the first truthy answer of `predicate`, or fail after `timeout` seconds.

    What takes long is asked for less often: asking may take more of the machine than the work.
    """
    began = time.monotonic()
    while True:
        answer = predicate()
        if answer:
            return answer
        waited = time.monotonic() - began
        if waited >= timeout:
            raise AssertionError(f"{what} did not come about within {timeout:g} s")
        time.sleep(max(poll, min(waited * RARER, LONGEST_POLL_SECONDS)))


def let_tick(loop: Loop, times: int = 3, timeout: float = 10.0) -> None:
    """Wait until `loop` has ticked so often: what it would do, it has done."""
    ended = threading.Semaphore(0)
    tick = loop.tick

    def noted() -> float:
        try:
            return tick()
        finally:
            ended.release()

    loop.tick = noted
    try:
        for _ in range(times):
            loop.wake()
            assert ended.acquire(timeout=timeout), f"no tick of {loop.name} within {timeout:g} s"
    finally:
        loop.tick = tick
