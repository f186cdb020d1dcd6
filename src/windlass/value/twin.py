"""Synchronous and asynchronous calls meet here: the adapter behind every `a` twin, and back."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


async def twin(call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Await what `call` returns while the event loop goes on."""
    return await asyncio.to_thread(call, *args, **kwargs)


def in_thread(run: Callable[[], Coroutine[object, object, None]]) -> Future[None]:
    """Run a coroutine on an event loop and a thread of its own; the caller may have a loop."""
    future: Future[None] = Future()

    def work() -> None:
        try:
            future.set_result(asyncio.run(run()))
        except BaseException as problem:
            future.set_exception(problem)

    threading.Thread(target=work, name="windlass-visit", daemon=True).start()
    return future
