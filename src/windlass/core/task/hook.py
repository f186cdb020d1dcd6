"""Middleware: user code around each enqueue and each run, and hooks at the ends of a worker.

A middleware is `around(call, context)`. It calls `call()` once, or `await call()` if it is async,
whatever the handler is. It sees the result and the errors, and changes neither the arguments nor
the result: a middleware that forgets to return something loses nothing.

`def` runs on threads and `async def` on an event loop, as handlers do. A sync middleware around an
async call therefore gets a thread, and `call()` waits there while the call runs on the event loop.
An async middleware around a sync call runs on an event loop, and `await call()` waits there while
the call runs on its own thread. Context variables that a middleware sets are seen inside.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from contextvars import Context, copy_context
from dataclasses import dataclass, field
from functools import cache
from queue import SimpleQueue
from typing import Any, Literal, TypeVar

from windlass import telemetry
from windlass.errors import BadDeclaration, WindlassError
from windlass.value.outcome import describe
from windlass.value.task import Call
from windlass.value.twin import in_background, twin

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class MiddlewareContext:
    """What a middleware is around: an enqueue, or a run of a handler."""

    stage: Literal["enqueue", "run"]
    kind: str
    # What is enqueued, each call with its args, kwargs and key; in a run the one call, or those of
    # a list.
    calls: tuple[Call, ...]
    # In a run: the task, or the range of a sweep's item; and the number of the attempt, from 1.
    # None for a list.
    task_id: int | None = None
    attempt: int | None = None

    @property
    def args(self) -> tuple[object, ...]:
        """The positional arguments of the first call."""
        return self.calls[0].args

    @property
    def kwargs(self) -> Mapping[str, object]:
        """The named arguments of the first call."""
        return self.calls[0].kwargs

    @property
    def key(self) -> str | None:
        """The key of the first call; in a sweep, the item's key as text."""
        return self.calls[0].key


SyncAround = Callable[[Callable[[], Any], MiddlewareContext], object]
AsyncAround = Callable[[Callable[[], Awaitable[Any]], MiddlewareContext], Awaitable[object]]


@dataclass(frozen=True)
class Middleware:
    """One middleware. One with both forms is used without a change between thread and loop."""

    name: str
    sync: SyncAround | None = None
    asynchronous: AsyncAround | None = None


@dataclass(eq=False)
class Hooks:
    """The middlewares of an app, the outermost first, and the hooks of its workers."""

    middlewares: list[Middleware] = field(default_factory=list)
    starts: list[Callable[[], Any]] = field(default_factory=list)
    stops: list[Callable[[], Any]] = field(default_factory=list)

    def add(self, around: F) -> F:
        """Add the innermost middleware."""
        check_hook(around, "middleware", "around(call, context)")
        name = _name_of(around)
        if is_async(around):
            self.middlewares.append(Middleware(name, asynchronous=around))
        else:
            self.middlewares.append(Middleware(name, sync=around))
        return around

    async def start(self) -> None:
        """Call the hooks that come before a worker joins; the first that fails stops it."""
        for hook in self.starts:
            try:
                await _awaited(hook)
            except Exception as problem:
                raise WindlassError(
                    f"the worker did not start: on_worker_start hook {_name_of(hook)!r} failed: "
                    f"{describe(problem)[0]}"
                ) from problem

    async def stop(self) -> None:
        """Call the hooks that come after a worker has left, the last one first."""
        for hook in reversed(self.stops):
            try:
                await _awaited(hook)
            except Exception as problem:
                telemetry.emit(
                    "hook.failed",
                    problem,
                    hook="on_worker_stop",
                    name=_name_of(hook),
                    error=describe(problem)[0],
                )


def check_hook(hook: object, what: str, form: str) -> None:
    """Refuse a hook that is not a function."""
    if not callable(hook):
        raise BadDeclaration(f"{what} {hook!r} is not a function; write def or async def {form}")


def is_async(function: Callable[..., Any]) -> bool:
    """Whether a function, or an object that can be called, is async."""
    call = getattr(function, "__call__", None)  # noqa: B004
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)


def call_through(
    middlewares: Sequence[Middleware],
    context: MiddlewareContext,
    call: Callable[[], T],
    *,
    loop: asyncio.AbstractEventLoop | None = None,
) -> T:
    """Make a sync call through all middlewares; async ones run on `loop`."""
    for each in reversed(middlewares):
        call = _Around(each, context, call, loop)
    return call()


async def acall_through(
    middlewares: Sequence[Middleware],
    context: MiddlewareContext,
    call: Callable[[], Awaitable[T]],
) -> T:
    """Make an async call through all middlewares."""
    for each in reversed(middlewares):
        call = _AsyncAround(each, context, call)
    return await call()


@dataclass(eq=False)
class Once:
    """How the one call inside a middleware ended."""

    middleware: str
    was_made: bool = False
    value: Any = None
    error: BaseException | None = None

    def begin(self) -> None:
        if self.was_made:
            raise WindlassError(f"middleware {self.middleware!r} called call() a second time")
        self.was_made = True

    def end(self) -> Any:
        """The result of the call; raises its error, also if the middleware caught it."""
        if not self.was_made:
            raise WindlassError(
                f"middleware {self.middleware!r} did not call call(); to skip a run, raise "
                "windlass.Cancel or windlass.Snooze"
            )
        if self.error is not None:
            raise self.error
        return self.value


@dataclass(eq=False)
class _Around:
    """A sync call inside one middleware."""

    middleware: Middleware
    context: MiddlewareContext
    inner: Callable[[], Any]
    loop: asyncio.AbstractEventLoop | None

    def __call__(self) -> Any:
        once = Once(self.middleware.name)

        def call() -> Any:
            once.begin()
            try:
                once.value = self.inner()
            except BaseException as error:
                once.error = error
                raise
            return once.value

        if self.middleware.sync is not None:
            self.middleware.sync(call, self.context)
        else:
            assert self.middleware.asynchronous is not None
            _on_loop(self.middleware.asynchronous, self.context, call, self.loop or _own_loop())
        return once.end()


@dataclass(eq=False)
class _AsyncAround:
    """An async call inside one middleware."""

    middleware: Middleware
    context: MiddlewareContext
    inner: Callable[[], Awaitable[Any]]

    async def __call__(self) -> Any:
        once = Once(self.middleware.name)

        async def call() -> Any:
            once.begin()
            try:
                once.value = await self.inner()
            except BaseException as error:
                once.error = error
                raise
            return once.value

        if self.middleware.asynchronous is not None:
            await self.middleware.asynchronous(call, self.context)
        else:
            assert self.middleware.sync is not None
            await _on_thread(self.middleware.sync, self.context, call)
        return once.end()


@dataclass(frozen=True)
class _Asked:
    """A middleware on the other side waits for its call, which runs in its context."""

    context: Context
    # Called on the other side with the result and the error of the call.
    answer: Callable[[Any, BaseException | None], None]


def _on_loop(
    around: AsyncAround,
    context: MiddlewareContext,
    call: Callable[[], Any],
    loop: asyncio.AbstractEventLoop,
) -> None:
    """Run an async middleware on `loop`, and make its call on this thread."""
    asked: SimpleQueue[_Asked | None] = SimpleQueue()

    async def ask() -> Any:
        answered = asyncio.Event()
        found: list[tuple[Any, BaseException | None]] = []

        def answer(value: Any, error: BaseException | None) -> None:
            found.append((value, error))
            loop.call_soon_threadsafe(answered.set)

        asked.put(_Asked(copy_context(), answer))
        await answered.wait()
        value, error = found[0]
        if error is not None:
            raise error
        return value

    async def run() -> None:
        await around(ask, context)

    running = asyncio.run_coroutine_threadsafe(run(), loop)
    running.add_done_callback(lambda _future: asked.put(None))
    while (request := asked.get()) is not None:
        try:
            value = request.context.run(call)
        except BaseException as error:
            request.answer(None, error)
        else:
            request.answer(value, None)
    running.result()


async def _on_thread(
    around: SyncAround, context: MiddlewareContext, call: Callable[[], Awaitable[Any]]
) -> None:
    """Run a sync middleware on a thread of its own, and make its call on this event loop.

    Not on a thread of a pool: waiting middlewares could take all of them. If this coroutine is
    cancelled, so is the call; the middleware sees that, and is not waited for.
    """
    loop = asyncio.get_running_loop()
    asked: asyncio.Queue[_Asked | None] = asyncio.Queue()
    outside = copy_context()
    is_over = False

    def take(request: _Asked) -> None:
        if is_over:
            request.answer(None, asyncio.CancelledError())
        else:
            asked.put_nowait(request)

    def ask() -> Any:
        found: SimpleQueue[tuple[Any, BaseException | None]] = SimpleQueue()
        request = _Asked(copy_context(), lambda value, error: found.put((value, error)))
        loop.call_soon_threadsafe(take, request)
        value, error = found.get()
        if error is not None:
            raise error
        return value

    running = in_background(lambda: outside.run(around, ask, context), "middleware")
    running.add_done_callback(lambda _future: _tell(loop, asked))
    try:
        while (request := await asked.get()) is not None:
            await _answer(request, loop, call)
    finally:
        is_over = True
    running.result()


async def _answer(
    request: _Asked, loop: asyncio.AbstractEventLoop, call: Callable[[], Awaitable[Any]]
) -> None:
    """Make the call that a middleware on another thread waits for."""
    try:
        value = await loop.create_task(_coroutine(call), context=request.context)
    except asyncio.CancelledError as error:
        request.answer(None, error)
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
    except BaseException as error:
        request.answer(None, error)
    else:
        request.answer(value, None)


def _tell(loop: asyncio.AbstractEventLoop, asked: asyncio.Queue[_Asked | None]) -> None:
    # The loop may have ended before the thread.
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(asked.put_nowait, None)


async def _coroutine(call: Callable[[], Awaitable[Any]]) -> Any:
    return await call()


@cache
def _own_loop() -> asyncio.AbstractEventLoop:
    """An event loop on its own thread, for async middlewares around calls outside of a worker."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="windlass-middleware", daemon=True).start()
    return loop


# A forked child has not the thread of its parent.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_own_loop.cache_clear)


async def _awaited(hook: Callable[[], Any]) -> None:
    if is_async(hook):
        await hook()
    else:
        await twin(hook)


def _name_of(function: object) -> str:
    return str(getattr(function, "__qualname__", None) or type(function).__qualname__)
