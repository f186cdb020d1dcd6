"""A rolling kind named `stock`, and workers that run it beside each other."""

import asyncio
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from tests.wait import eventually
from windlass import App, Rolling
from windlass.worker.worker import Worker


def declare(app: App, seen: list[str], **options: Any) -> Rolling[[str], None]:
    """The kind `stock`, which notes the codes it is called with."""

    @app.rolling(**{"every": "10d", **options})
    def stock(code: str) -> None:
        seen.append(code)

    return stock


def at(hour: int, minute: int = 0, *, day: int = 1) -> datetime:
    """A moment after the manual clock's beginning, the first day's midnight."""
    return datetime(2026, 1, day, hour, minute, tzinfo=UTC)


def run(app: App, **settings: Any) -> None:
    """Run what is due, as `drain` does, with settings of the worker."""
    asyncio.run(app.worker(until_idle=True, **settings).run())


@contextmanager
def serving(app: App, **settings: Any) -> Iterator[Worker]:
    """Run a worker on a thread until the block ends; it then leaves at once."""
    worker = app.worker(**settings)
    thread = threading.Thread(target=lambda: asyncio.run(worker.run()), daemon=True)
    thread.start()
    eventually(lambda: worker.heartbeat.id, what="a worker that has joined")
    try:
        yield worker
    finally:
        worker.stop()
        worker.stop()
        thread.join(20)
        assert not thread.is_alive()


def together(function: Callable[[Any], object], arguments: Sequence[Any]) -> list[Any]:
    """Call `function` with each argument, all at once on threads; what they answered or raised."""
    start = threading.Barrier(len(arguments))
    answers: list[Any] = []

    def call(argument: Any) -> None:
        start.wait(10)
        try:
            answers.append(function(argument))
        except Exception as error:  # noqa: BLE001 - told to the test
            answers.append(error)

    threads = [threading.Thread(target=call, args=[argument]) for argument in arguments]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(answers) == len(arguments)
    return answers


class Guard:
    """Notes which codes are inside a handler, and which were there twice at the same time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.inside: list[str] = []
        self.visited: list[str] = []
        self.overlapped: list[str] = []
        self.most = 0

    def enter(self, code: str) -> None:
        with self._lock:
            if code in self.inside:
                self.overlapped.append(code)
            self.inside.append(code)
            self.visited.append(code)
            self.most = max(self.most, len(self.inside))

    def leave(self, code: str) -> None:
        with self._lock:
            self.inside.remove(code)
