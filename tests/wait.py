"""Waiting for what another thread, process or server is about to do."""

import time
from collections.abc import Callable
from typing import TypeVar

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
