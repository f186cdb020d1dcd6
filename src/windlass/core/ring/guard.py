"""The guard of this process, as its workers see it: they tell it of each heartbeat.

One small helper process (`guard_process.py`) for all workers of this process renews their leases
while no Python code can run here, such as when a handler holds the GIL. What it renewed is read
from memory that both share, so this never waits for it. If the helper dies or hangs it is started
again, and until then the workers are as alive as their own heartbeats say.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from dataclasses import asdict
from mmap import mmap
from pathlib import Path
from typing import Any

import msgspec

from windlass import telemetry
from windlass.core.ring import guard_process
from windlass.core.ring import store as ring_store
from windlass.core.ring.guard_process import BILLION, FIRST, GUARD_AT, LAST, MEMORY_BYTES, PARENT_AT
from windlass.database.database import Database
from windlass.database.driver import driver_call
from windlass.fork import watch_forks

END_SECONDS = 1.0
FIRST_PAUSE = 1.0
LONGEST_PAUSE = 60.0
STEADY_SECONDS = 10.0
# A helper that was silent for this long, and for this many heartbeats, hangs.
SILENT_SECONDS = 10.0
SILENT_BEATS = 10
MOST_TOLD = 65_536


class Ward:
    """One worker that the guard looks after. `patience` is how old it must be, in seconds."""

    def __init__(self, database: Database, *, beat_seconds: float, patience: float) -> None:
        self._database = database
        self._beat_seconds = beat_seconds
        self._begin_at = time.monotonic() + patience
        self.slot: int | None = None
        self.has_ended = False

    def renewed(self, worker: int, *, lease_until: int, at: float) -> None:
        """The heartbeat has renewed the lease; `at` is the monotonic time before it did."""
        if at < self._begin_at:
            return
        if self.slot is None:
            SHARED.open(self)
        if self.slot is not None:
            word = {"ward": self.slot, "worker": worker, "lease_until": lease_until}
            SHARED.say(word | {"at": int(at * BILLION)})

    def close(self) -> None:
        """The worker has stopped everything; it may come back."""
        SHARED.close(self)

    def end(self) -> None:
        """The worker is over. A heartbeat that hung until now cannot open the ward again."""
        SHARED.close(self, for_good=True)

    @property
    def renewed_at(self) -> float:
        """The monotonic time before the guard last renewed the lease; 0 if it never did."""
        slot = self.slot
        return 0.0 if slot is None else SHARED.memory[slot] / BILLION

    def pulse(self) -> None:
        """Python code runs in this process."""
        if self.slot is not None:
            SHARED.memory[PARENT_AT] = time.monotonic_ns()

    def how(self) -> dict[str, Any] | None:
        """What the helper needs to renew the lease; None if it cannot."""
        call = driver_call(self._database)
        if call is None:
            return None
        renew = self._database.dialect.qualified(ring_store.renewal_text(call.mark))
        return {**asdict(call), "renew": renew, "beat": self._beat_seconds}


class Guard:
    """The helper process: started for the first ward, ended after the last one."""

    def __init__(self) -> None:
        self._file = -1
        self._forget()
        watch_forks(self)

    def _forget(self) -> None:
        self.memory = memoryview(bytearray(MEMORY_BYTES)).cast("q")
        self._lock = threading.Lock()
        self._wards: dict[int, dict[str, Any]] = {}
        self._helper: Helper | None = None
        self._start_at = 0.0
        self._pause = FIRST_PAUSE

    def after_fork(self) -> None:
        """The helper is the parent's; so is the memory."""
        if self._helper is not None:
            self._helper.disown()
        if self._file >= 0:
            os.close(self._file)
        self._file = -1
        self._forget()

    def open(self, ward: Ward) -> None:
        """Look after a worker from now on, if that is possible."""
        how = ward.how()
        with self._lock:
            free = [slot for slot in range(FIRST, LAST) if slot not in self._wards]
            if how is None or not free or ward.has_ended or not _can_start():
                return
            if self._file < 0:
                self._share_memory()
            self.memory[free[0]] = 0
            self._wards[free[0]] = {"ward": free[0], "how": how}
            ward.slot = free[0]
            if self._helper is not None:
                self._helper.say(self._wards[free[0]])

    def say(self, word: dict[str, Any]) -> None:
        """Tell the helper; start it if it does not run."""
        with self._lock:
            if word["ward"] not in self._wards:
                return
            if self._helper is not None and not self._helper.is_well(self.memory[GUARD_AT]):
                self._bury(self._helper)
            if self._helper is None and time.monotonic() >= self._start_at:
                self._start()
            if self._helper is not None:
                self._helper.say(word)

    def close(self, ward: Ward, *, for_good: bool = False) -> None:
        """Look after that worker no longer, or, `for_good`, never again."""
        with self._lock:
            ward.has_ended |= for_good
            slot, ward.slot = ward.slot, None
            if slot is None or self._wards.pop(slot, None) is None or self._helper is None:
                return
            if self._wards:
                self._helper.say({"ward": slot})
                return
            helper, self._helper = self._helper, None
            self._start_at, self._pause = 0.0, FIRST_PAUSE
            helper.end()

    def _share_memory(self) -> None:
        if hasattr(os, "memfd_create"):
            self._file = os.memfd_create("windlass-guard")
            os.ftruncate(self._file, MEMORY_BYTES)
        else:
            with tempfile.TemporaryFile() as file:
                # Written, not cut to size: a full disk must not surprise us later.
                file.write(bytes(MEMORY_BYTES))
                file.flush()
                self._file = os.dup(file.fileno())
        self.memory = memoryview(mmap(self._file, MEMORY_BYTES)).cast("q")

    def _start(self) -> None:
        self._start_at = time.monotonic() + self._pause
        self._pause = min(self._pause * 2, LONGEST_PAUSE)
        try:
            self._helper = Helper(self._file)
        except OSError as problem:
            telemetry.emit("guard.failed", error=f"it could not be started: {problem}")
            return
        self._helper.say({"path": [each for each in sys.path if each and isinstance(each, str)]})
        for opening in self._wards.values():
            self._helper.say(opening)
        telemetry.emit("guard.started", pid=self._helper.process.pid)

    def _bury(self, helper: Helper) -> None:
        helper.end(at_once=True)
        if time.monotonic() - helper.started_at > STEADY_SECONDS:
            self._start_at, self._pause = 0.0, FIRST_PAUSE
        self._helper = None
        process = helper.process
        telemetry.emit("guard.died", pid=process.pid, code=process.returncode)


class Helper:
    """One life of the helper process. Nothing here waits for it, except its end."""

    def __init__(self, memory_file: int) -> None:
        script = str(Path(guard_process.__file__))
        command = [sys.executable, "-I", "-S", script, str(os.getpid()), str(memory_file)]
        # A session of its own: Ctrl-C is not meant for it. Nor are signals to all processes of a
        # service: it inherits that this thread has blocked them. Connections are told by its input,
        # since all users can see a command.
        not_for_it = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        before = signal.pthread_sigmask(signal.SIG_BLOCK, not_for_it)
        try:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                pass_fds=[memory_file],
                start_new_session=True,
                bufsize=0,
            )
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self._input = self.process.stdin
        self._output = self.process.stdout
        os.set_blocking(self._input.fileno(), False)
        os.set_blocking(self._output.fileno(), False)
        self.started_at = time.monotonic()
        self._active_at, self._silent_since, self._beats = 0, self.started_at, 0
        self._is_broken = False

    def say(self, word: dict[str, Any]) -> None:
        try:
            line = msgspec.json.encode(word) + b"\n"
            self._is_broken |= os.write(self._input.fileno(), line) != len(line)
        except (OSError, UnicodeError):
            # It has ended, or reads nothing: the next heartbeat starts another.
            self._is_broken = True

    def is_well(self, active_at: int) -> bool:
        """Whether it runs and reads; called with each heartbeat. Tells its errors."""
        self._listen()
        self._beats += 1
        if active_at != self._active_at:
            self._active_at, self._silent_since, self._beats = active_at, time.monotonic(), 0
        silent_seconds = time.monotonic() - self._silent_since
        hangs = silent_seconds > SILENT_SECONDS and self._beats > SILENT_BEATS
        return self.process.poll() is None and not self._is_broken and not hangs

    def _listen(self) -> None:
        with suppress(OSError, msgspec.DecodeError):
            for line in os.read(self._output.fileno(), MOST_TOLD).splitlines():
                telemetry.emit("guard.failed", error=str(msgspec.json.decode(line)["error"]))

    def end(self, *, at_once: bool = False) -> None:
        """End it, and wait for that: it ends when its input does."""
        with suppress(OSError):
            self._input.close()
        try:
            if at_once:
                self.process.kill()
            self.process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._output.close()

    def disown(self) -> None:
        """In a forked child: it is not a child of this process."""
        for stream in (self._input, self._output):
            with suppress(OSError):
                stream.close()
        self.process.returncode = 0


def _can_start() -> bool:
    """Whether Python can be started here: not on Windows, nor in a program that was frozen."""
    is_frozen = getattr(sys, "frozen", False)
    return os.name == "posix" and bool(sys.executable) and not is_frozen


SHARED = Guard()
