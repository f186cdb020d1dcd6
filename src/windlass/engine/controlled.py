"""A run that a block of code holds: entered, stepped through, and ended with the block."""

from __future__ import annotations

import asyncio
import inspect
import os
import signal
import time
from collections.abc import (
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Sized,
)
from contextlib import ExitStack
from datetime import datetime
from functools import wraps
from types import TracebackType
from typing import Any, TypedDict, TypeVar, overload

import msgspec

from windlass import telemetry
from windlass.clock import SECOND
from windlass.declare.twin import twin
from windlass.engine.loop import Loop
from windlass.engine.register import Register
from windlass.engine.terminate import Signals, Terminated
from windlass.engine.track import bar, each
from windlass.errors import AlreadyRunning, BadInput, RunLost
from windlass.model.control import (
    DONE,
    INTERRUPTED,
    REFUSED,
    RUNNING,
    SKIP,
    Expires,
    Place,
    Progress,
    Reply,
    check_data,
)
from windlass.model.outcome import LONGEST_TRACEBACK, describe, storable
from windlass.model.payload import LARGEST_PAYLOAD, LARGEST_RESULT, result_decoder
from windlass.model.step import StepName, check_step

LEASE = 60 * SECOND
BEAT_SECONDS = 15.0
PROGRESS_SECONDS = 1.0

T = TypeVar("T")
R = TypeVar("R")


class Facts(TypedDict):
    """What every end of a block says."""

    batch: int
    progress: Progress | None


class Beat(Loop):
    """Renews the lease of a run while its block is running."""

    name = "control"

    def __init__(self, renew: Callable[[], bool]) -> None:
        super().__init__()
        self._renew = renew
        self._is_first = True

    def tick(self) -> float:
        # The start has just written the lease.
        if self._is_first:
            self._is_first = False
        elif not self._renew():
            self.stop()
        return BEAT_SECONDS


class ControlRun:
    """One try of a named run, held while its block runs."""

    def __init__(
        self, register: Register, place: Place, *, expires: Expires | None, data: object
    ) -> None:
        self._register = register
        self._place = place
        self._expires = expires
        self._given = data
        self._batch: int | None = None
        self._tries = 0
        self._progress: Progress | None = None
        self._lost: str | None = None
        self._failing: str | None = None
        self._beat: Beat | None = None
        self._signals = Signals()
        self.data: Any = None

    @property
    def name(self) -> str:
        """The name of the run."""
        return self._place.name

    @property
    def partition(self) -> str:
        """The partition of the run."""
        return self._place.partition

    @property
    def batch(self) -> int:
        """The number of this try, larger for every later one: a fence for your own writes."""
        if self._batch is None:
            raise BadInput(f"control {self._place} is not running; enter it with `with` first")
        return self._batch

    @property
    def tries(self) -> int:
        """Which try of this run it is, from 1."""
        return self._tries

    def __enter__(self) -> ControlRun:
        self._begin()
        self._signals.catch()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        was_terminated = self._signals.release()
        try:
            self._end(error)
        finally:
            if was_terminated:
                os.kill(os.getpid(), signal.SIGTERM)

    async def __aenter__(self) -> ControlRun:
        await twin(self._begin)
        self._signals.catch(asyncio.current_task())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        was_terminated = self._signals.release()
        try:
            await twin(self._end, error)
        finally:
            if was_terminated:
                os.kill(os.getpid(), signal.SIGTERM)

    @overload
    def step(self, step: StepName, /) -> bool: ...

    @overload
    def step(
        self, step: StepName, function: Callable[..., R], /, *args: Any, **kwargs: Any
    ) -> R: ...

    def step(
        self,
        step: StepName,
        function: Callable[..., Any] | None = None,
        /,
        *args: Any,
        **kwargs: Any,
    ) -> Any:
        """Begin a step; False if an earlier try has done it.

        With a function, it is called once: its result is kept as JSON together with the mark that
        the step is done, and returned, now and in every later try, as it is read back.
        """
        if function is None:
            return self._ask(step).code == DONE
        if inspect.iscoroutinefunction(function):
            raise BadInput(f"control {self._place}: {step!r} is async; use await run.astep(...)")
        reply = self._ask(step, called=True)
        if reply.code == SKIP:
            return _remembered(reply, function)
        return self._keep(step, function, function(*args, **kwargs))

    @overload
    async def astep(self, step: StepName, /) -> bool: ...

    @overload
    async def astep(
        self, step: StepName, function: Callable[..., Awaitable[R]], /, *args: Any, **kwargs: Any
    ) -> R: ...

    @overload
    async def astep(
        self, step: StepName, function: Callable[..., R], /, *args: Any, **kwargs: Any
    ) -> R: ...

    async def astep(
        self,
        step: StepName,
        function: Callable[..., Any] | None = None,
        /,
        *args: Any,
        **kwargs: Any,
    ) -> Any:
        """`step`, awaited; the function may be async."""
        if function is None:
            return (await twin(self._ask, step)).code == DONE
        reply = await twin(self._ask, step, called=True)
        if reply.code == SKIP:
            return _remembered(reply, function)
        result = function(*args, **kwargs)
        if inspect.isawaitable(result):
            result = await result
        return await twin(self._keep, step, function, result)

    def note(self, data: object) -> None:
        """Keep `data` with the run: objects are merged, anything else replaces what was there."""
        checked = check_data(data, place=self._place, largest=LARGEST_PAYLOAD)
        self._must(self._register.note(self._place, batch=self.batch, data=checked))
        merge = isinstance(checked, dict) and isinstance(self.data, dict)
        self.data = self.data | checked if merge else checked

    async def anote(self, data: object) -> None:
        """`note`, awaited."""
        await twin(self.note, data)

    def error(self, why: object) -> None:
        """Have the run recorded as failed when its block ends, although it does not raise."""
        self._failing = storable(str(why))[:LONGEST_TRACEBACK] or "failed"

    def track(self, iterable: Iterable[T], total: int | None = None) -> Iterator[T]:
        """Go through `iterable` and show how far: a bar on a terminal, a number in the table."""
        if total is None and isinstance(iterable, Sized):
            total = len(iterable)
        with ExitStack() as stack:
            advance = bar(stack, str(self._place), total)
            written = self._tell(Progress(0, total))
            for item in iterable:
                yield item
                assert self._progress is not None
                self._progress = Progress(self._progress.done + 1, total)
                advance()
                if time.monotonic() - written >= PROGRESS_SECONDS:
                    written = self._tell(self._progress)
            assert self._progress is not None
            self._tell(self._progress)

    async def atrack(
        self, iterable: Iterable[T] | AsyncIterable[T], total: int | None = None
    ) -> AsyncIterator[T]:
        """`track` for `async for`; the iterable may be async."""
        if total is None and isinstance(iterable, Sized):
            total = len(iterable)
        with ExitStack() as stack:
            advance = bar(stack, str(self._place), total)
            written = await twin(self._tell, Progress(0, total))
            async for item in each(iterable):
                yield item
                assert self._progress is not None
                self._progress = Progress(self._progress.done + 1, total)
                advance()
                if time.monotonic() - written >= PROGRESS_SECONDS:
                    written = await twin(self._tell, self._progress)
            assert self._progress is not None
            await twin(self._tell, self._progress)

    def renew(self) -> bool:
        """Push the end of the lease; False if the run is lost. The heartbeat calls it."""
        reply = self._register.note(self._place, batch=self.batch, lasting=LEASE)
        if reply.code == REFUSED:
            self._lose(reply.msg)
        return reply.code == DONE

    def _begin(self) -> None:
        expires = Expires(lasting=LEASE) if self._expires is None else self._expires
        reply = self._register.start(self._place, expires=expires, data=self._given)
        if reply.code == RUNNING:
            since = reply.data["since"]
            raise AlreadyRunning(
                *self._place,
                who=reply.data["who"],
                since=None if since is None else datetime.fromisoformat(since),
                step=reply.data["step"],
            )
        self._batch = reply.data["batch"]
        self._tries = reply.data["tries"]
        self.data = reply.data["data"]
        self._lost = self._failing = self._progress = None
        if self._expires is None:
            self._beat = Beat(self.renew)
            self._beat.start()

    def _end(self, error: BaseException | None) -> None:
        if self._beat is not None:
            self._beat.stop()
            self._beat.join()
        facts: Facts = {"batch": self.batch, "progress": self._progress}
        if error is None:
            why = self._failing
            self._must(
                self._register.finish(self._place, **facts)
                if why is None
                else self._register.fail(self._place, why, **facts)
            )
            return
        if isinstance(error, RunLost):
            return
        try:
            reply = self._register.fail(self._place, _told(error), **facts)
        except Exception:
            # The block's own error matters more than that nobody could write it down.
            telemetry.log.exception("control %s: its error could not be recorded", self._place)
            return
        if reply.code == REFUSED:
            self._lose(reply.msg)

    def _ask(self, step: StepName, *, called: bool = False) -> Reply:
        asked = check_step(step, what=f"control {self._place}")
        return self._must(
            self._register.step(self._place, asked, batch=self.batch, called=called, forward=True)
        )

    def _keep(self, step: StepName, function: Callable[..., Any], result: object) -> Any:
        what = f"the result of step {step!r}"
        plain = check_data(result, place=self._place, what=what, largest=LARGEST_RESULT)
        self._must(self._register.complete(self._place, step, batch=self.batch, result=plain))
        return _as_promised(plain, function)

    def _tell(self, progress: Progress) -> float:
        self._progress = progress
        self._must(self._register.note(self._place, batch=self.batch, progress=progress))
        return time.monotonic()

    def _must(self, reply: Reply) -> Reply:
        if reply.code == REFUSED:
            self._lose(reply.msg)
            raise RunLost(*self._place, why=reply.msg)
        return reply

    def _lose(self, why: str) -> None:
        if self._lost is None:
            self._lost = why
            telemetry.emit("control.lost", **self._place._asdict(), batch=self._batch, why=why)


def controlled(make: Callable[[], ControlRun], function: Callable[..., Any]) -> Callable[..., Any]:
    """`function` as a run of its own: it gets the run as its first argument."""
    if inspect.iscoroutinefunction(function):

        @wraps(function)
        async def arun(*args: Any, **kwargs: Any) -> Any:
            async with make() as entered:
                return await function(entered, *args, **kwargs)

        return arun

    @wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        with make() as entered:
            return function(entered, *args, **kwargs)

    return run


def _told(error: BaseException) -> str:
    if isinstance(error, KeyboardInterrupt | Terminated | asyncio.CancelledError):
        return INTERRUPTED
    text, trace = describe(error)
    return f"{text}\n\n{trace}"


def _remembered(reply: Reply, function: Callable[..., Any]) -> Any:
    return _as_promised(reply.data.get("result"), function)


def _as_promised(plain: object, function: Callable[..., Any]) -> Any:
    """What is kept, as the type that the function's annotation promises."""
    return None if plain is None else result_decoder(function)(msgspec.json.encode(plain).decode())
