"""Calls that may hang: each runs on a daemon thread, and is abandoned after its time-out.

A thread cannot be stopped. A thread that is not a daemon would keep the process from exiting.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, wait
from functools import partial
from typing import Any, TypeVar

from windlass.value.twin import in_background

A = TypeVar("A")
T = TypeVar("T")

MOST_HUNG = 16
THREAD = "external"


class Calls:
    """Calls of one system. At most `MOST_HUNG` of them may hang at a time."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._hung: list[Future[Any]] = []

    def one(self, function: Callable[[A], T], argument: A) -> T:
        """The result of one call. Raises its error, or TimeoutError."""
        (found,) = self.each(function, [argument])
        if isinstance(found, Exception):
            raise found
        return found

    def each(self, function: Callable[[A], T], arguments: Sequence[A]) -> list[T | Exception]:
        """The results or errors of calls at the same time, in order."""
        self._hung = [future for future in self._hung if not future.done()]
        if len(self._hung) + len(arguments) > MOST_HUNG:
            raise TimeoutError(f"{len(self._hung)} earlier calls have not come back")
        futures = [in_background(partial(function, argument), THREAD) for argument in arguments]
        wait(futures, timeout=self._seconds)
        self._hung += [future for future in futures if not future.done()]
        return [self._found(future) for future in futures]

    def _found(self, future: Future[Any]) -> Any:
        if not future.done():
            return TimeoutError(f"it did not come back within {self._seconds:g} s")
        problem = future.exception()
        if problem is None:
            return future.result()
        return problem if isinstance(problem, Exception) else RuntimeError(repr(problem))


def spread(
    function: Callable[[A], T], arguments: Iterable[A], *, at_once: int, seconds: float
) -> dict[A, T | Exception]:
    """The results or errors of calls on at most `at_once` threads. Each call must end by itself.

    Calls that have not started within `seconds` are left out.
    """
    left = deque(arguments)
    found: dict[A, T | Exception] = {}
    deadline = time.monotonic() + seconds

    def work() -> None:
        while time.monotonic() < deadline:
            try:
                argument = left.popleft()
            except IndexError:
                return
            try:
                found[argument] = function(argument)
            except Exception as problem:
                found[argument] = problem

    wait([in_background(work, THREAD) for _ in range(min(at_once, len(left)))])
    return found
