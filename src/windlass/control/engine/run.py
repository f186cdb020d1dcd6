"""A control run that a block of code holds: it takes steps, and tracks its loops."""

from __future__ import annotations

import asyncio
import inspect
import sys
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
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from functools import wraps
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar, overload

import msgspec

from windlass.control.engine.hold import HeldRun
from windlass.control.engine.terminate import termination
from windlass.control.model import control as rules
from windlass.control.model.argument import check_data
from windlass.control.model.control import DONE, SKIP, LoopProgress, Noted, Reply
from windlass.control.model.step import LARGEST_NUMBER, StepName, check_step
from windlass.core.trace.provider import recorder
from windlass.errors import BadInput, BadStep
from windlass.value.outcome import LONGEST_TRACEBACK, storable
from windlass.value.payload import LARGEST_RESULT, result_decoder
from windlass.value.twin import awaited, twin

if TYPE_CHECKING:
    from windlass.core.trace.recorder import ControlBlock

T = TypeVar("T")
R = TypeVar("R")

PROGRESS_SECONDS = 1.0


class ControlRun:
    """One try of a control run, held while its block is running."""

    def __init__(self, held: HeldRun) -> None:
        self._held = held
        self._key = held.key
        self._is_tracking = False
        self._yields_to_sigterm = False
        self._span: ControlBlock | None = None

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
        return self._held.batch

    @property
    def tries(self) -> int:
        """Which try of this run it is, from 1."""
        return self._held.tries

    @property
    def data(self) -> Any:
        """The data that is kept with the run."""
        return self._held.data

    def __enter__(self) -> ControlRun:
        try:
            self._held.begin()
            self._yields_to_sigterm = termination.watch()
        except (KeyboardInterrupt, SystemExit) as error:
            if self._held.is_entered:
                self._held.end(error)
            raise
        self._trace()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        if not self._held.is_of_parent:
            with self._recording(), self._traced_until_now(error):
                self._held.end(error)

    async def __aenter__(self) -> ControlRun:
        await self._held.abegin()
        self._yields_to_sigterm = termination.watch()
        self._trace()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        if self._held.is_of_parent:
            return
        with self._recording(), self._traced_until_now(error):
            ending = asyncio.create_task(twin(self._held.end, error))
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
            return self._begin(step).code == DONE
        if inspect.iscoroutinefunction(function):
            raise BadInput(f"control {self._key}: {step!r} is async; use await run.astep(...)")
        reply = self._begin(step, called=True)
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
            return (await twin(self._begin, step)).code == DONE
        reply = await twin(self._begin, step, called=True)
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
        reply = self._held.change(rules.note, Noted(check_data(data, self._key)))
        self._held.data = reply.data["data"]

    anote = awaited(note)

    def error(self, why: object) -> None:
        """Record the run as failed when its block ends, even if the block does not raise."""
        self._held.check_entered()
        self._held.failing = error_text(why)

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
            async for item in _each(iterable):
                yield item
                if tracker.advance():
                    await twin(tracker.write)
            await twin(tracker.write)

    def _begin(self, step: StepName, *, called: bool = False) -> Reply:
        asked = check_step(step, what=f"control {self._key}")
        reply = self._held.change(rules.step, asked, called=called, in_block=True)
        if self._span is not None:
            self._span.step(step, is_skipped=reply.code == SKIP)
        return reply

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
        self._held.change(rules.complete, step, result=plain)
        return _as_promised(plain, function)

    @contextmanager
    def _tracker(self, iterable: object, total: object) -> Iterator[Tracker]:
        expected = self._total(iterable, total)
        # A loop inside a tracked loop has no bar of its own.
        is_inner, self._is_tracking = self._is_tracking, True
        with ExitStack() as stack:
            stack.callback(setattr, self, "_is_tracking", is_inner)
            title = " ".join(filter(None, self._key))
            advance_bar = (lambda: None) if is_inner else _bar(stack, title, expected)
            yield Tracker(self._held, expected, advance_bar)

    def _total(self, iterable: object, total: object) -> int | None:
        if total is None:
            return len(iterable) if isinstance(iterable, Sized) else None
        if type(total) is not int or not 0 <= total <= LARGEST_NUMBER:
            raise BadInput(f"control {self._key}: total={total!r} is not a whole number from 0 on")
        return total

    def _trace(self) -> None:
        """Begin the span of the block, if the program traces."""
        traced = recorder()
        if traced is not None:
            self._span = traced.control(self.name, self.partition, self.tries)
            self._span.__enter__()

    @contextmanager
    def _traced_until_now(self, error: BaseException | None) -> Iterator[None]:
        """End the span of the block after the end was recorded."""
        span, self._span = self._span, None
        try:
            yield
        except BaseException as problem:
            error = problem
            raise
        finally:
            if span is not None:
                span.end(error, self._held.failing)

    def _recording(self) -> AbstractContextManager[None]:
        """While the end is recorded, SIGTERM waits; after that it may end the process."""
        yields, self._yields_to_sigterm = self._yields_to_sigterm, False
        return termination.recording() if yields else nullcontext()


@dataclass(eq=False)
class Tracker:
    """Counts the turns of one loop."""

    held: HeldRun
    total: int | None
    advance_bar: Callable[[], None]
    done: int = 0
    written_at: float = 0.0

    def advance(self) -> bool:
        """Count one turn; whether it is time to write the count."""
        self.done += 1
        self.held.progress = LoopProgress(self.done, self.total)
        self.advance_bar()
        return time.monotonic() - self.written_at >= PROGRESS_SECONDS

    def write(self) -> None:
        """Write the count into the table."""
        self.held.progress = LoopProgress(self.done, self.total)
        self.held.change(rules.note, Noted(progress=self.held.progress))
        self.written_at = time.monotonic()


async def _each(iterable: Iterable[T] | AsyncIterable[T]) -> AsyncIterator[T]:
    if isinstance(iterable, AsyncIterable):
        async for item in iterable:
            yield item
    else:
        for item in iterable:
            yield item


def _bar(stack: ExitStack, what: str, total: int | None) -> Callable[[], None]:
    """Show a bar if standard error is a terminal; returns what advances it."""
    if not sys.stderr.isatty():
        return lambda: None
    from rich import progress
    from rich.console import Console

    shown = stack.enter_context(
        progress.Progress(
            progress.TextColumn("{task.description}", markup=False),
            progress.BarColumn(),
            progress.MofNCompleteColumn(),
            progress.TimeElapsedColumn() if total is None else progress.TimeRemainingColumn(),
            console=Console(stderr=True),
        )
    )
    task = shown.add_task(what, total=total)
    return lambda: shown.advance(task)


def error_text(given: object) -> str:
    """The error of a run, as a caller gave it."""
    return storable(str(given))[:LONGEST_TRACEBACK] or "failed"


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


def _as_promised(plain: object, function: Callable[..., Any]) -> Any:
    """The value from JSON, as the type that the function's annotation promises."""
    return None if plain is None else result_decoder(function)(msgspec.json.encode(plain).decode())
