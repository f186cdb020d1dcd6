"""The one adapter behind every `a` twin: the synchronous call, on a thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


async def twin(call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Await what `call` returns while the event loop goes on."""
    return await asyncio.to_thread(call, *args, **kwargs)
