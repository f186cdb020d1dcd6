"""A run that a block of code holds: entered, stepped through, and ended with the block."""

from __future__ import annotations

import asyncio
import inspect
import os
import threading
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
from contextlib import ExitStack, contextmanager
from datetime import datetime
from functools import wraps
from types import TracebackType
from typing import Any, TypedDict, TypeVar, overload

import msgspec

from windlass import telemetry
from windlass.clock import SECOND
from windlass.control.engine.register import Register
from windlass.control.engine.terminate import Terminated, termination
from windlass.control.engine.track import bar, each
from windlass.control.model.control import (
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
from windlass.control.model.step import LARGEST_NUMBER, StepName, check_step
from windlass.core.loop import Loop
from windlass.errors import AlreadyRunning, BadInput, BadStep, RunLost
from windlass.value.outcome import LONGEST_TRACEBACK, describe, storable
from windlass.value.payload import LARGEST_PAYLOAD, LARGEST_RESULT, result_decoder
from windlass.value.twin import twin

LEASE = "60s"
BEATS_PER_LEASE = 4
PROGRESS_SECONDS = 1.0
JOIN_SECONDS = 10.0

T = TypeVar("T")
R = TypeVar("R")


class Facts(TypedDict):
    """What every end of a block says."""

    batch: int
    progress: Progress | None


class Beat(Loop):
    """Renews the lease of a run while its block is running."""

    name = "control"

    def __init__(self, renew: Callable[[], bool], *, every: float) -> None:
        super().__init__()
        self._renew = renew
        self._every = every
        self._is_first = True

    def tick(self) -> float:
        # The start has just written the lease.
        if self._is_first:
            self._is_first = False
        elif not self._renew():
            self.stop()
        return self._every


class ControlRun:
    """One try of a named run, held while its block runs."""

    def __init__(
        self,
        register: Register,
        place: Place,
        *,
        expires: Expires | None,
        lease: int,
        data: object,
    ) -> None:
        self._register = register
        self._place = place
        self._expires = expires
        self._lease = lease
        self._given = data
        self._batch: int | None = None
        self._tries = 0
        self._progress: Progress | None = None
        self._lost: str | None = None
        self._failing: str | None = None
        self._beat: Beat | None = None
        self._is_tracking = False
        self._is_minded = False
        self._is_entered = False
        self._pid = 0
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
        try:
            self._begin()
            self._is_minded = termination.mind()
        except (KeyboardInterrupt, SystemExit) as error:
            if self._is_entered:
                self._end(error)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        if os.getpid() != self._pid:
            # A child by fork: the run is its parent's.
            return
        with self._recording():
            self._end(error)

    async def __aenter__(self) -> ControlRun:
        await self._abegin()
        self._is_minded = termination.mind()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        if os.getpid() != self._pid:
            return
        with self._recording():
            ending = asyncio.create_task(twin(self._end, error))
            try:
                await asyncio.shield(ending)
            except asyncio.CancelledError:
                # The thread goes on, and what it writes is waited for.
                await asyncio.wait([ending])
                raise

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
            return self._remembered(reply, function)
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
        """`step`, awaited; the function may be async, and runs on a thread if it is not."""
        if function is None:
            return (await twin(self._ask, step)).code == DONE
        reply = await twin(self._ask, step, called=True)
        if reply.code == SKIP:
            return self._remembered(reply, function)
        if inspect.iscoroutinefunction(function):
            result = await function(*args, **kwargs)
        else:
            result = await twin(function, *args, **kwargs)
            if inspect.isawaitable(result):
                result = await result
        return await twin(self._keep, step, function, result)

    def note(self, data: object) -> None:
        """Keep `data` with the run: objects are merged, anything else replaces what was there."""
        checked = check_data(data, place=self._place, largest=LARGEST_PAYLOAD)
        reply = self._must(self._register.note(self._place, batch=self._mine, data=checked))
        self.data = reply.data["data"]

    async def anote(self, data: object) -> None:
        """`note`, awaited."""
        await twin(self.note, data)

    def error(self, why: object) -> None:
        """Have the run recorded as failed when its block ends, although it does not raise."""
        assert self._mine
        self._failing = storable(str(why))[:LONGEST_TRACEBACK] or "failed"

    def track(self, iterable: Iterable[T], total: int | None = None) -> Iterator[T]:
        """Go through `iterable` and show how far: a bar on a terminal, a number in the table."""
        total = self._total(iterable, total)
        with ExitStack() as stack:
            advance = self._show_bar(stack, total)
            done, written = 0, self._tell(0, total)
            for item in iterable:
                yield item
                done += 1
                self._progress = Progress(done, total)
                advance()
                if time.monotonic() - written >= PROGRESS_SECONDS:
                    written = self._tell(done, total)
            self._tell(done, total)

    async def atrack(
        self, iterable: Iterable[T] | AsyncIterable[T], total: int | None = None
    ) -> AsyncIterator[T]:
        """`track` for `async for`; the iterable may be async."""
        total = self._total(iterable, total)
        with ExitStack() as stack:
            advance = self._show_bar(stack, total)
            done, written = 0, await twin(self._tell, 0, total)
            async for item in each(iterable):
                yield item
                done += 1
                self._progress = Progress(done, total)
                advance()
                if time.monotonic() - written >= PROGRESS_SECONDS:
                    written = await twin(self._tell, done, total)
            await twin(self._tell, done, total)

    @property
    def _mine(self) -> int:
        """The batch, for what is done inside the block."""
        if self._batch is not None and not self._is_entered:
            raise BadInput(f"control {self._place}: its block has ended; enter it again")
        return self.batch

    def renew(self) -> bool:
        """Push the end of the lease; False if the run is lost. The heartbeat calls it."""
        reply = self._register.note(self._place, batch=self._mine, lasting=self._lease)
        if reply.code == REFUSED:
            self._lose(reply.msg)
        return reply.code == DONE

    async def _abegin(self) -> None:
        """`_begin`, awaited. If the caller is cancelled meanwhile, nobody holds the run."""
        lock, has_begun, is_given_up = threading.Lock(), False, False

        def begin() -> None:
            nonlocal has_begun
            self._begin()
            with lock:
                has_begun = True
                is_over = is_given_up
            if is_over:
                self._end(asyncio.CancelledError())

        try:
            await twin(begin)
        except asyncio.CancelledError as error:
            with lock:
                is_given_up = True
                is_held = has_begun
            if is_held:
                await asyncio.shield(twin(self._end, error))
            raise

    def _begin(self) -> None:
        if self._is_entered:
            raise BadInput(f"control {self._place} is entered already; make another run for it")
        expires = Expires(lasting=self._lease) if self._expires is None else self._expires
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
        self._is_entered, self._pid = True, os.getpid()
        if self._expires is None:
            self._beat = Beat(self.renew, every=self._lease / SECOND / BEATS_PER_LEASE)
            self._beat.start()

    def _end(self, error: BaseException | None) -> None:
        if self._beat is not None:
            self._beat.stop()
            self._beat.join(JOIN_SECONDS)
        facts: Facts = {"batch": self._mine, "progress": self._progress}
        self._is_entered = False
        if error is None or (isinstance(error, SystemExit) and not error.code):
            why = self._failing
            self._must(
                self._register.finish(self._place, **facts)
                if why is None
                else self._register.fail(self._place, why, **facts)
            )
            return
        if self._lost is not None:
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
            self._register.step(self._place, asked, batch=self._mine, called=called, in_block=True)
        )

    def _remembered(self, reply: Reply, function: Callable[..., Any]) -> Any:
        if "result" not in reply.data:
            raise BadStep(
                f"control {self._place}: step {reply.data['step']!r} was done without a function, "
                "so no result is remembered; give it another name"
            )
        return _as_promised(reply.data["result"], function)

    def _keep(self, step: StepName, function: Callable[..., Any], result: object) -> Any:
        what = f"the result of step {step!r}"
        plain = check_data(result, place=self._place, what=what, largest=LARGEST_RESULT)
        self._must(self._register.complete(self._place, step, batch=self._mine, result=plain))
        return _as_promised(plain, function)

    def _total(self, iterable: object, total: object) -> int | None:
        if total is None:
            return len(iterable) if isinstance(iterable, Sized) else None
        if (
            isinstance(total, bool)
            or not isinstance(total, int)
            or not 0 <= total <= LARGEST_NUMBER
        ):
            raise BadInput(
                f"control {self._place}: total={total!r} is not a whole number from 0 on"
            )
        return total

    def _show_bar(self, stack: ExitStack, total: int | None) -> Callable[[], None]:
        """A bar, unless there is one: a loop in a loop counts in the table alone."""
        if self._is_tracking:
            return lambda: None
        self._is_tracking = True
        stack.callback(setattr, self, "_is_tracking", False)
        return bar(stack, " ".join(filter(None, self._place)), total)

    def _tell(self, done: int, total: int | None) -> float:
        self._progress = Progress(done, total)
        self._must(self._register.note(self._place, batch=self._mine, progress=self._progress))
        return time.monotonic()

    @contextmanager
    def _recording(self) -> Iterator[None]:
        """While the end is recorded, SIGTERM waits; when it is, the process may end by it."""
        if not self._is_minded:
            yield
            return
        self._is_minded = False
        termination.ending()
        try:
            yield
        finally:
            termination.ended()

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
    if not callable(function):
        raise BadInput(f"@app.controlled: {function!r} is not a function")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise BadInput(
            f"@app.controlled: {function.__name__!r} is a generator, whose body runs when its run "
            "has ended already; use `with app.control(...)` inside it"
        )
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


def _as_promised(plain: object, function: Callable[..., Any]) -> Any:
    """What is kept, as the type that the function's annotation promises."""
    return None if plain is None else result_decoder(function)(msgspec.json.encode(plain).decode())
