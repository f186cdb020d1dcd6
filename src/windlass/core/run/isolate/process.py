"""One child process, as its worker sees it: started, asked to run handlers, ended."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from contextvars import Context, copy_context
from typing import cast

from windlass import telemetry
from windlass.core.run.isolate.error import error_of
from windlass.core.run.isolate.record import handle_here
from windlass.core.run.isolate.wire import (
    HEAD_BYTES,
    LARGEST,
    Answer,
    HandlerCall,
    Home,
    Logged,
    Progressed,
    Raised,
    Ready,
    Returned,
    answer,
    framed,
    length_of,
)
from windlass.core.run.log import RunLog
from windlass.core.task.current import current
from windlass.core.task.progress import report
from windlass.errors import HandlerDied, NotPossible

START_SECONDS = 60.0
# How long a child may go on after SIGTERM, before SIGKILL.
GRACE_SECONDS = 1.0
# How long one that has nothing to do may take to end: it may have spans to send.
END_SECONDS = 5.0
# How long what a dead child has said may take to arrive, if others keep its line open.
LAST_WORDS_SECONDS = 0.5
LAST_LINES = 20
LONGEST_LAST = 4_000

BOOT = (
    "import sys; sys.path[:] = {path!r}; "
    "from windlass.core.run.isolate.child import main; main({descriptor})"
)


class ChildProcess:
    """A process that calls handlers for its worker, one at a time. It lives on one event loop."""

    def __init__(self, home: Home) -> None:
        if os.name != "posix":
            raise NotPossible(
                'isolate="process" works on Linux, macOS and other POSIX systems only'
            )
        self.memory = home.memory
        self.is_ending = False
        # What it runs now: the answer, the log of the run, and the context of the caller.
        self._asked: asyncio.Future[Returned | Raised] | None = None
        self._log: RunLog | None = None
        self._caller: Context | None = None
        self._number = 0
        self._last = b""
        self._loop = asyncio.get_running_loop()
        self._ready: asyncio.Future[None] = self._loop.create_future()
        # Set when the process has ended.
        self.ended = asyncio.Event()
        self._began = time.monotonic()
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = self._start(home.path, theirs.fileno())
        self.pid = self._process.pid
        self._living = self._loop.create_task(self._live(ours, home))

    @staticmethod
    def _start(path: list[str], descriptor: int) -> subprocess.Popen[bytes]:
        # From the thread of the event loop: the kernel ends a child with the thread that made it.
        code = BOOT.format(path=path, descriptor=descriptor)
        return subprocess.Popen(
            [sys.executable, "-c", code],
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            pass_fds=[descriptor],
            # A group of its own: Ctrl-C is for the worker, and what a handler starts ends with it.
            process_group=0,
        )

    async def ready(self) -> None:
        """Wait until it can run a handler; raises if it cannot."""
        try:
            async with asyncio.timeout(START_SECONDS):
                await asyncio.shield(self._ready)
        except TimeoutError:
            raise NotPossible(
                f"a child process was not ready after {START_SECONDS:g} s: does the import of the "
                "app's modules hang?"
            ) from None

    async def run(self, call: HandlerCall, log: RunLog | None) -> Returned | Raised:
        """Have a handler called. Raises HandlerDied if the process ends meanwhile."""
        self._asked, self._log = self._loop.create_future(), log
        self._number, self._caller, self._last = call.number, copy_context(), b""
        try:
            self._writer.write(framed(call))
            return await self._asked
        finally:
            self._asked = self._log = self._caller = None

    @property
    def is_well(self) -> bool:
        """Whether it can run another handler."""
        return not (self.is_ending or self._living.done() or self.ended.is_set())

    def let_go(self) -> None:
        """Let it end by itself: it has nothing to do."""
        self.is_ending = True
        self._writer.close()

    def kill(self) -> None:
        """End it: by SIGTERM, and after a moment by SIGKILL, with all that it has started."""
        if self.is_ending:
            return
        self.is_ending = True
        self._signal(signal.SIGTERM)
        self._loop.call_later(GRACE_SECONDS, self._signal, signal.SIGKILL)

    def kill_now(self) -> None:
        """End it by SIGKILL, with all that it has started."""
        self.is_ending = True
        self._signal(signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        # Until it was waited for, its number is not given to another process.
        if self._process.returncode is None and not self.ended.is_set():
            with suppress(ProcessLookupError, PermissionError):
                if number is signal.SIGKILL:
                    os.killpg(self.pid, number)
                else:
                    os.kill(self.pid, number)

    async def _live(self, line: socket.socket, home: Home) -> None:
        """Listen to it until it has ended, and tell how."""
        reader, self._writer = await asyncio.open_connection(sock=line)
        assert self._process.stderr is not None
        errors, _ = await self._loop.connect_read_pipe(
            lambda: _Errors(self._hear_error), self._process.stderr
        )
        threading.Thread(target=self._wait, name="windlass-child", daemon=True).start()
        self._writer.write(framed(home))
        listening = self._loop.create_task(self._listen(reader))
        await self.ended.wait()
        await asyncio.wait({listening}, timeout=LAST_WORDS_SECONDS)
        listening.cancel()
        errors.close()
        self._writer.close()
        self._over()

    def _wait(self) -> None:
        """On a thread of its own: wait for the end of the process, and of what it has started."""
        if hasattr(os, "waitid"):
            # It is not there if the program lets the system wait for its children.
            with suppress(ChildProcessError, ProcessLookupError, PermissionError):
                os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
                os.killpg(self.pid, signal.SIGKILL)
        self._process.wait()
        # The loop may have ended before the process.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self.ended.set)

    async def _listen(self, reader: asyncio.StreamReader) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                length = length_of(await reader.readexactly(HEAD_BYTES))
                if length > LARGEST:
                    break
                self._hear(answer(await reader.readexactly(length)))
        # A child without a line, which goes on, is of no use.
        self._loop.call_later(END_SECONDS, self._signal, signal.SIGKILL)

    def _hear(self, said: Answer) -> None:
        match said:
            case Ready():
                if not self._ready.done():
                    self._ready.set_result(None)
                milliseconds = (time.monotonic() - self._began) * 1_000
                telemetry.emit("child.started", pid=self.pid, milliseconds=milliseconds)
            case Logged():
                self._handle(said)
            case Progressed():
                if self._caller is not None and said.number == self._number:
                    run = self._caller.run(current.get)
                    if run is not None:
                        report(run, said.done, said.total, said.note or "")
            case Returned() | Raised():
                asked = self._asked
                if asked is not None and not asked.done() and said.number == self._number:
                    asked.set_result(said)

    def _handle(self, logged: Logged) -> None:
        caller = self._caller if logged.number == self._number else None
        log = None if caller is None else self._log
        with suppress(Exception):
            (caller or Context()).run(handle_here, logged, log, pid=self.pid)

    def _hear_error(self, data: bytes) -> None:
        self._last = (self._last + data)[-LONGEST_LAST:]
        with suppress(Exception):
            sys.stderr.write(data.decode(errors="replace"))
            sys.stderr.flush()

    def _over(self) -> None:
        """The process has ended: so has what it was asked to do."""
        code = self._process.returncode
        died = HandlerDied(
            signal=_signal_name(code), code=code if code >= 0 else None, stderr=self._last_lines()
        )
        if not self.is_ending:
            telemetry.emit("child.died", pid=self.pid, how=died.how)
        for waiting in (self._ready, self._asked):
            future = cast("asyncio.Future[object] | None", waiting)
            if future is not None and not future.done():
                future.set_exception(died)
                # Nobody may be waiting.
                future.exception()

    def _last_lines(self) -> str:
        lines = self._last.decode(errors="replace").strip().splitlines()
        return "\n".join(lines[-LAST_LINES:])


def answer_of(said: Returned | Raised) -> Returned:
    """What the handler returned; raises what it raised."""
    if isinstance(said, Raised):
        raise error_of(said.error)
    return said


def _signal_name(code: int) -> str | None:
    if code >= 0:
        return None
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"


class _Errors(asyncio.Protocol):
    """What a child writes on its standard error."""

    def __init__(self, hear: Callable[[bytes], None]) -> None:
        self._hear = hear

    def data_received(self, data: bytes) -> None:
        self._hear(data)
