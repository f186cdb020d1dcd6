"""Adapters between synchronous and asynchronous calls: the `a` twin of each method."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

P = ParamSpec("P")
S = TypeVar("S")
T = TypeVar("T")


async def twin(call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run `call` in a thread and await its result; the event loop is not blocked."""
    return await asyncio.to_thread(call, *args, **kwargs)


def in_thread(run: Callable[[], Coroutine[object, object, T]]) -> Future[T]:
    """Run a coroutine in its own thread and event loop; the caller may have a loop too."""
    return in_background(lambda: asyncio.run(run()), "visit")


def in_background(call: Callable[[], T], name: str) -> Future[T]:
    """Run `call` in its own thread, which does not keep the program alive."""
    future: Future[T] = Future()

    def work() -> None:
        try:
            future.set_result(call())
        except BaseException as problem:
            future.set_exception(problem)

    threading.Thread(target=work, name=f"windlass-{name}", daemon=True).start()
    return future


def awaited(
    method: Callable[Concatenate[S, P], T],
) -> Callable[Concatenate[S, P], Coroutine[Any, Any, T]]:
    """The `a` twin of a method."""
    name = method.__name__

    @wraps(method)
    async def call(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await twin(method, self, *args, **kwargs)

    call.__name__ = f"a{name}"
    call.__qualname__ = method.__qualname__.removesuffix(name) + call.__name__
    call.__doc__ = f"`{name}`, awaited."
    return call
