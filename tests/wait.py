"""Waiting for what another thread, process or server is about to do."""

import threading
import time
from collections.abc import Callable
from typing import TypeVar

from windlass.core.loop import Loop

POLL_SECONDS = 0.01

T = TypeVar("T")


def eventually(
    predicate: Callable[[], T],
    timeout: float = 10.0,
    *,
    what: str = "the condition",
    poll: float = POLL_SECONDS,
) -> T:
    """Return the first truthy answer of `predicate`, or fail after `timeout` seconds."""
    deadline = time.monotonic() + timeout
    while True:
        answer = predicate()
        if answer:
            return answer
        if time.monotonic() >= deadline:
            raise AssertionError(f"{what} did not come about within {timeout:g} s")
        time.sleep(poll)


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
