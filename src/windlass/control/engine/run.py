"""A control run that a block of code holds: it starts, takes steps and ends with the block."""

from __future__ import annotations

import asyncio
import inspect
import os
import threading
from collections.abc import (
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Sized,
)
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from datetime import datetime
from functools import wraps
from types import TracebackType
from typing import Any, TypeVar, overload

import msgspec

from windlass import telemetry
from windlass.clock import SECOND
from windlass.control.engine.register import Register
from windlass.control.engine.terminate import Terminated, termination
from windlass.control.engine.track import Tracker, bar, each
from windlass.control.model.argument import ControlKey, Expires, check_data
from windlass.control.model.control import (
    DONE,
    INTERRUPTED,
    REFUSED,
    RUNNING,
    SKIP,
    LoopProgress,
    Noted,
    Reply,
)
from windlass.control.model.step import LARGEST_NUMBER, StepName, check_step
from windlass.core.loop import Loop
from windlass.errors import AlreadyRunning, BadInput, BadStep, RunLost
from windlass.value.outcome import LONGEST_TRACEBACK, describe, storable
from windlass.value.payload import LARGEST_RESULT, result_decoder
from windlass.value.twin import awaited, twin

LEASE = "60s"
RENEWALS_PER_LEASE = 4
JOIN_SECONDS = 10.0

T = TypeVar("T")
R = TypeVar("R")


class LeaseRenewal(Loop):
    """The heartbeat of a control run: renews its lease while its block is running."""

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
    """One try of a control run, held while its block is running."""

    def __init__(
        self,
        register: Register,
        key: ControlKey,
        *,
        expires: Expires | None,
        lease: int,
        data: object,
    ) -> None:
        self._register = register
        self._key = key
        self._expires = expires
        self._lease = lease
        self._given = data
        self._batch: int | None = None
        self._tries = 0
        self._progress: LoopProgress | None = None
        self._lost: str | None = None
        self._failing: str | None = None
        self._renewal: LeaseRenewal | None = None
        self._is_tracking = False
        self._yields_to_sigterm = False
        self._is_entered = False
        self._pid = 0
        self.data: Any = None

    @property
    def name(self) -> str:
        """The name of the run."""
        return self._key.name

    @property
    def partition(self) -> str:
        """The partition of the run."""
        return self._key.partition

    @property
    def batch(self) -> int:
        """The number of this try, larger for every later one: a fence for your own writes."""
        if self._batch is None:
            raise BadInput(f"control {self._key} is not running; enter it with `with` first")
        return self._batch

    @property
    def tries(self) -> int:
        """Which try of this run it is, from 1."""
        return self._tries

    def __enter__(self) -> ControlRun:
        try:
            self._begin()
            self._yields_to_sigterm = termination.watch()
        except (KeyboardInterrupt, SystemExit) as error:
            if self._is_entered:
                self._end(error)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        if os.getpid() != self._pid:
            # A forked child: the run belongs to its parent.
            return
        with self._recording():
            self._end(error)

    async def __aenter__(self) -> ControlRun:
        await self._abegin()
        self._yields_to_sigterm = termination.watch()
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
                # The thread cannot be cancelled: wait until it has written the end.
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

        A function is called once: its result is kept as JSON when the step is marked as done. This
        try and every later one return the result as it is read back from JSON.
        """
        if function is None:
            return self._ask(step).code == DONE
        if inspect.iscoroutinefunction(function):
            raise BadInput(f"control {self._key}: {step!r} is async; use await run.astep(...)")
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
        self.data = self._note(Noted(check_data(data, self._key))).data["data"]

    anote = awaited(note)

    def error(self, why: object) -> None:
        """Record the run as failed when its block ends, even if the block does not raise."""
        assert self._mine
        self._failing = storable(str(why))[:LONGEST_TRACEBACK] or "failed"

    def track(self, iterable: Iterable[T], total: int | None = None) -> Iterator[T]:
        """Go through `iterable` and show how far: a bar on a terminal, a number in the table."""
        with self._tracker(iterable, total) as tracker:
            tracker.write()
            for item in iterable:
                yield item
                if tracker.advance():
                    tracker.write()
            tracker.write()

    async def atrack(
        self, iterable: Iterable[T] | AsyncIterable[T], total: int | None = None
    ) -> AsyncIterator[T]:
        """`track` for `async for`; the iterable may be async."""
        with self._tracker(iterable, total) as tracker:
            await twin(tracker.write)
            async for item in each(iterable):
                yield item
                if tracker.advance():
                    await twin(tracker.write)
            await twin(tracker.write)

    @property
    def _mine(self) -> int:
        """The batch, for what is done inside the block."""
        if self._batch is not None and not self._is_entered:
            raise BadInput(f"control {self._key}: its block has ended; enter it again")
        return self.batch

    def renew(self) -> bool:
        """Extend the lease; False if the run is lost."""
        reply = self._register.note(self._key, Noted(), batch=self._mine, lease=self._lease)
        if reply.code == REFUSED:
            self._lose(reply.msg)
        return reply.code == DONE

    async def _abegin(self) -> None:
        """`_begin`, awaited. A caller that is cancelled meanwhile does not hold the run."""
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
            raise BadInput(f"control {self._key} is entered already; make another run for it")
        expires = Expires(after=self._lease) if self._expires is None else self._expires
        reply = self._register.start(self._key, expires=expires, data=self._given)
        if reply.code == RUNNING:
            since = reply.data["since"]
            raise AlreadyRunning(
                *self._key,
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
            self._renewal = LeaseRenewal(
                self.renew, every=self._lease / SECOND / RENEWALS_PER_LEASE
            )
            self._renewal.start()

    def _end(self, error: BaseException | None) -> None:
        if self._renewal is not None:
            self._renewal.stop()
            self._renewal.join(JOIN_SECONDS)
        batch, noted = self._mine, Noted(progress=self._progress)
        self._is_entered = False
        if error is None or (isinstance(error, SystemExit) and not error.code):
            why = self._failing
            self._must(
                self._register.finish(self._key, noted, batch=batch)
                if why is None
                else self._register.fail(self._key, noted, batch=batch, error=why)
            )
            return
        if self._lost is not None:
            return
        try:
            reply = self._register.fail(self._key, noted, batch=batch, error=_told(error))
        except Exception:
            # The error of the block matters more than a failure to record it.
            telemetry.log.exception("control %s: its error could not be recorded", self._key)
            return
        if reply.code == REFUSED:
            self._lose(reply.msg)

    def _ask(self, step: StepName, *, called: bool = False) -> Reply:
        asked = check_step(step, what=f"control {self._key}")
        return self._must(
            self._register.step(self._key, asked, batch=self._mine, called=called, in_block=True)
        )

    def _remembered(self, reply: Reply, function: Callable[..., Any]) -> Any:
        if "result" not in reply.data:
            raise BadStep(
                f"control {self._key}: step {reply.data['step']!r} was done without a function, "
                "so no result is remembered; give it another name"
            )
        return _as_promised(reply.data["result"], function)

    def _keep(self, step: StepName, function: Callable[..., Any], result: object) -> Any:
        what = f"the result of step {step!r}"
        plain = check_data(result, self._key, what=what, largest=LARGEST_RESULT)
        self._must(self._register.complete(self._key, step, batch=self._mine, result=plain))
        return _as_promised(plain, function)

    @contextmanager
    def _tracker(self, iterable: object, total: object) -> Iterator[Tracker]:
        expected = self._total(iterable, total)
        # A loop inside a tracked loop has no bar of its own.
        is_inner, self._is_tracking = self._is_tracking, True
        with ExitStack() as stack:
            stack.callback(setattr, self, "_is_tracking", is_inner)
            title = " ".join(filter(None, self._key))
            advance_bar = (lambda: None) if is_inner else bar(stack, title, expected)
            yield Tracker(expected, keep=self._keep_progress, write=self._note, bar=advance_bar)

    def _total(self, iterable: object, total: object) -> int | None:
        if total is None:
            return len(iterable) if isinstance(iterable, Sized) else None
        is_number = isinstance(total, int) and not isinstance(total, bool)
        if not isinstance(total, int) or not is_number or not 0 <= total <= LARGEST_NUMBER:
            raise BadInput(f"control {self._key}: total={total!r} is not a whole number from 0 on")
        return total

    def _keep_progress(self, progress: LoopProgress) -> None:
        self._progress = progress

    def _note(self, noted: Noted) -> Reply:
        return self._must(self._register.note(self._key, noted, batch=self._mine))

    def _recording(self) -> AbstractContextManager[None]:
        """While the end is recorded, SIGTERM waits; after that it may end the process."""
        yields, self._yields_to_sigterm = self._yields_to_sigterm, False
        return termination.recording() if yields else nullcontext()

    def _must(self, reply: Reply) -> Reply:
        if reply.code == REFUSED:
            self._lose(reply.msg)
            raise RunLost(*self._key, why=reply.msg)
        return reply

    def _lose(self, why: str) -> None:
        if self._lost is None:
            self._lost = why
            telemetry.emit("control.lost", **self._key._asdict(), batch=self._batch, why=why)


def controlled(make: Callable[[], ControlRun], function: Callable[..., Any]) -> Callable[..., Any]:
    """`function` as the block of a control run: it gets the run as its first argument."""
    if not callable(function):
        raise BadInput(f"@app.controlled: {function!r} is not a function")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise BadInput(
            f"@app.controlled: {function.__name__!r} is a generator, whose body runs after its run "
            "has ended; use `with app.control(...)` inside it"
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
    """The value from JSON, as the type that the function's annotation promises."""
    return None if plain is None else result_decoder(function)(msgspec.json.encode(plain).decode())
