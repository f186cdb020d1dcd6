"""The one adapter behind every `a` twin: the synchronous call, on a thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

P = ParamSpec("P")
S = TypeVar("S")
T = TypeVar("T")


async def twin(call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Await what `call` returns while the event loop goes on."""
    return await asyncio.to_thread(call, *args, **kwargs)


def twin_of(
    method: Callable[Concatenate[S, P], T],
) -> Callable[Concatenate[S, P], Coroutine[Any, Any, T]]:
    """The `a` twin of a method, for the body of its class: `asave = twin_of(save)`."""

    @wraps(method)
    async def awaited(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await asyncio.to_thread(method, self, *args, **kwargs)

    awaited.__name__ = f"a{method.__name__}"
    awaited.__doc__ = f"`{method.__name__}`, awaited."
    return awaited
