"""A child process: it calls the handlers that its worker asks for, one at a time.

`pool.py` starts it with a fresh interpreter. Handlers are called on the main thread, so that
SIGTERM can end them: a sync handler gets an exception, an async one is cancelled. A second thread
listens to the worker. If the worker is gone, it ends this process with all that it has started. A
handler that holds the GIL would keep that thread from running; on Linux the kernel does it then.
"""

from __future__ import annotations

import asyncio
import faulthandler
import inspect
import os
import resource
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from contextvars import copy_context
from queue import SimpleQueue
from types import FrameType, MappingProxyType
from typing import Any, NoReturn

from windlass.core.run.isolate.error import sent_of
from windlass.core.run.isolate.home import find_kind, keep_levels, move_in
from windlass.core.run.isolate.pack import unpack
from windlass.core.run.isolate.record import send_records
from windlass.core.run.isolate.wire import (
    HandlerCall,
    HandlerPlace,
    Home,
    Progressed,
    Raised,
    Ready,
    Returned,
    Wire,
)
from windlass.core.run.ready import KindLoad, Run, success
from windlass.core.task.current import current
from windlass.core.task.kind import Kind
from windlass.core.task.progress import NOWHERE, ReportedProgress
from windlass.core.trace.provider import carried_to_here
from windlass.value.outcome import Failed, Succeeded

PR_SET_PDEATHSIG = 1
_ELSEWHERE = (
    'and this handler runs in a process of its own (isolate="process"), which has no part in '
    "the transactions of the worker"
)
REFUSED: Mapping[str, str] = MappingProxyType(
    {
        "on_finish": f"context().on_finish() writes in a transaction of the worker, {_ELSEWHERE}; "
        "write by a connection of its own, with context().fence, or leave out isolate=",
        "conn": f"context().conn is a transaction of the worker, {_ELSEWHERE}; write by a "
        "connection of its own, or leave out isolate=",
        "flow": f"context().flow writes nodes in a transaction of the worker, {_ELSEWHERE}; let "
        "a task after this one add them",
    }
)


class Stopped(BaseException):
    """The worker ends this process: the run has timed out, or was cancelled."""


class ChildRun(Run):
    """The run of a handler, as its child knows it."""

    __slots__ = ("_key",)

    refused = REFUSED

    def __init__(self, call: HandlerCall, kind: Kind) -> None:
        super().__init__(call.task, KindLoad(kind, 1))
        self.number = call.number
        self.turns = call.turns
        self._key = call.key
        if call.seconds is not None:
            self.deadline = time.monotonic() + call.seconds

    @property
    def key(self) -> str | None:
        return self._key


class ChildLoop:
    """What this process does until its worker lets it go."""

    def __init__(self, line: Wire, home: Home) -> None:
        self._line = line
        self._home = home
        self._kinds: dict[HandlerPlace, Kind] = {}
        self._calls: SimpleQueue[HandlerCall | None] = SimpleQueue()
        # The call that is being run, and how to cancel it if it is a coroutine.
        self._number: int | None = None
        self._cancel: Callable[[], object] | None = None
        self._runner: asyncio.Runner | None = None

    def run(self) -> None:
        """Call handlers until the worker says no more."""
        signal.signal(signal.SIGTERM, self._on_stop)
        send_records(self._line.say, lambda: getattr(current.get(), "number", None))
        move_in(self._home)
        with suppress(Exception):
            # If it cannot be imported, the call says so.
            self._kind(self._home.first)
        threading.Thread(target=self._listen, name="windlass-line", daemon=True).start()
        self._line.say(Ready())
        try:
            while (call := self._calls.get()) is not None:
                self._number = call.number
                self._line.say(self._answer(call))
                self._number = None
        finally:
            if self._runner is not None:
                self._runner.close()

    def _listen(self) -> None:
        while isinstance(said := self._line.hear(), HandlerCall):
            self._calls.put(said)
        if self._number is not None:
            # Nobody waits for the run, and its row will be given to another worker.
            os.killpg(0, signal.SIGKILL)
        self._calls.put(None)

    def _on_stop(self, _signal: int, _frame: FrameType | None) -> None:
        if self._cancel is not None:
            self._cancel()
        else:
            raise Stopped

    def _answer(self, call: HandlerCall) -> Returned | Raised:
        try:
            kind = self._kind(call.place)
            run = ChildRun(call, kind)
            say, number = self._line.say, call.number
            tell = ReportedProgress(NOWHERE, lambda reached: say(Progressed(number, *reached)))
            run.keep(tell)
            result = copy_context().run(self._call, run, call)
        except Stopped:
            raise
        except BaseException as error:
            is_full = isinstance(error, MemoryError)
            if is_full:
                # What the handler held is still in its frames.
                traceback.clear_frames(error.__traceback__)
            return Raised(call.number, sent_of(error), is_well=not is_full)
        outcome = success(result)
        if isinstance(outcome, Failed):
            return Returned(call.number, None, (outcome.error, outcome.trace))
        return Returned(call.number, outcome.result if isinstance(outcome, Succeeded) else None)

    def _kind(self, place: HandlerPlace) -> Kind:
        if place not in self._kinds:
            self._kinds[place] = find_kind(self._home, place)
            keep_levels(self._home)
        return self._kinds[place]

    def _call(self, run: ChildRun, call: HandlerCall) -> Any:
        current.set(run)
        if call.carrier:
            carried_to_here(call.carrier)
        kind, function = run.kind, run.kind.function
        if call.payload is None:
            args: tuple[object, ...] = (unpack(call.row),)
            kwargs = dict[str, Any]()
        else:
            args, kwargs = kind.arguments.decode(call.payload)
        if not inspect.iscoroutinefunction(function):
            return function(*args, **kwargs)
        if self._runner is None:
            self._runner = asyncio.Runner()
        awaited = self._awaited(function, args, kwargs)
        return self._runner.run(awaited, context=copy_context())

    async def _awaited(
        self, function: Callable[..., Any], args: tuple[object, ...], kwargs: dict[str, Any]
    ) -> Any:
        task, loop = asyncio.current_task(), asyncio.get_running_loop()
        assert task is not None
        is_stopped = False

        def cancel() -> None:
            nonlocal is_stopped
            is_stopped = True
            loop.call_soon_threadsafe(task.cancel)

        self._cancel = cancel
        try:
            return await function(*args, **kwargs)
        finally:
            self._cancel = None
            if is_stopped:
                raise Stopped


def main(descriptor: int) -> NoReturn:
    """Serve the worker at the other end of a socket, and exit."""
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # After a crash, the Python lines of the handler are the last that it says.
    shorter: dict[str, Any] = {"c_stack": False} if sys.version_info >= (3, 14) else {}
    faulthandler.enable(all_threads=False, **shorter)
    line = Wire(descriptor)
    home = line.hear()
    if not isinstance(home, Home):
        sys.exit(0)
    _die_with(home.worker)
    if home.memory is not None:
        _limit(home.memory)
    try:
        ChildLoop(line, home).run()
    except Stopped:
        sys.exit(128 + signal.SIGTERM)
    sys.exit(0)


def _die_with(worker: int) -> None:
    """Let the kernel end this process when its worker ends, however that happens."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    if os.getppid() != worker:
        # It has ended already.
        sys.exit(0)


def _limit(memory: int) -> None:
    """Let this process have no more than that many bytes of its own."""
    # On Linux, data is what a program allocates itself: without the code of libraries, and
    # without addresses that are only reserved.
    kind = resource.RLIMIT_DATA if sys.platform == "linux" else resource.RLIMIT_AS
    _, most = resource.getrlimit(kind)
    if most == resource.RLIM_INFINITY or most > memory:
        resource.setrlimit(kind, (memory, memory))
