"""The handlers of isolated kinds, as the runners of a worker call them: in a child process.

The runner awaits the answer of the child as it awaits any coroutine. So a time-out, a cancelled
task, a lost lease and the end of the worker all arrive in the same way: the coroutine is cancelled,
and the child is killed.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Awaitable, Callable
from typing import Any

from windlass import lent
from windlass.core.run.isolate.home import place_of
from windlass.core.run.isolate.pack import Unpackable, pack
from windlass.core.run.isolate.pool import ChildPool
from windlass.core.run.isolate.process import answer_of
from windlass.core.run.isolate.wire import HandlerCall, Raised
from windlass.core.run.ready import KindLoad, Run
from windlass.core.task.current import current
from windlass.core.task.kind import Kind
from windlass.core.trace.provider import carried_from_here
from windlass.errors import NoContext, NotSerializable
from windlass.value.outcome import Failed, Succeeded
from windlass.value.twin import twin

LARGEST_PAYLOAD = 1 << 28


class Isolator:
    """Calls handlers in the children of one worker."""

    def __init__(self, most: int) -> None:
        self.pool = ChildPool(most)

    def isolate(self, load: KindLoad) -> None:
        """Let the runs of a kind have their handler called in a child.

        In a test they are called here: a child would use the databases that the test must not.
        """
        load.handler = _here(load.kind) if lent.LOANS else self._call

    async def close(self) -> None:
        """End all children."""
        await self.pool.close()

    async def _call(self, *args: Any, **kwargs: Any) -> Any:
        run = current.get()
        if run is None:
            raise NoContext("an isolated handler was called outside of a run")
        call = _call_of(run, args, kwargs)
        # Its time begins when a child is there: the first one has to import the app.
        had_deadline, run.deadline = run.deadline is not None, None
        child = await self.pool.take(run.kind)
        if had_deadline:
            run.deadline = time.monotonic() + (run.load.timeout or 0)
        try:
            said = await child.run(call, run.log)
        except BaseException:
            child.kill()
            raise
        if isinstance(said, Raised) and not said.is_well:
            child.kill()
        self.pool.give_back(child)
        returned = answer_of(said)
        if returned.unkept is not None:
            return Failed(*returned.unkept)
        if returned.result is None:
            return None
        if getattr(run.load.observer, "middlewares", ()):
            # They see what the handler returned.
            return run.kind.decode_result(returned.result)
        return Succeeded(returned.result)


def _here(kind: Kind) -> Callable[..., Awaitable[Any]]:
    """The handler as a coroutine of this process."""
    if inspect.iscoroutinefunction(kind.function):
        return kind.function

    async def call(*args: Any, **kwargs: Any) -> Any:
        return await twin(kind.function, *args, **kwargs)

    return call


def _call_of(run: Run, args: tuple[Any, ...], kwargs: dict[str, Any]) -> HandlerCall:
    kind = run.kind
    payload = row = None
    if kind.has_rows:
        payload = kind.arguments.encode(args, kwargs, largest=LARGEST_PAYLOAD)
    else:
        row = _packed(run, args[0])
    return HandlerCall(
        number=run.number,
        place=place_of(kind),
        task=run.task,
        key=run.key,
        turns=run.turns,
        payload=payload,
        row=row,
        seconds=run.load.timeout,
        carrier=carried_from_here(),
    )


def _packed(run: Run, row: object) -> Any:
    try:
        return pack(row)
    except Unpackable as problem:
        raise NotSerializable(
            f"sweep {run.kind.name!r}: a row has a {problem}, which cannot go to the process of "
            "the handler; read plain columns, or give key_only=True",
            kind=run.kind.name,
        ) from None
