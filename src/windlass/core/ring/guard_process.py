"""The guard: a small process that keeps the leases of its parent while the parent cannot.

`core/ring/guard.py` starts it as `python -I -S guard_process.py PID MEMORY`. It imports no other
module of Windlass, only the drivers of databases.

Its input has a JSON object in each line: where to find drivers, how to connect for a worker and,
with each heartbeat, what the worker's lease is. If a heartbeat is late although the parent exists
and is not stopped, a thread of the guard renews the lease, again and again, until the parent is
heard again. So a handler that holds the GIL does not make its worker look dead.

Whatever ends the parent also ends the guard, at once: its input ends, and the parent's pid is
watched. Signals that are meant for the parent were blocked before it was started.
"""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import select
import sys
import threading
import time
from typing import Any

MEMORY_BYTES = 4096
# In the shared memory, by index: when the guard last did something, when the parent's Python code
# last ran, and from FIRST on for each ward when its lease was last renewed here. All in nanoseconds
# of the monotonic clock, which is the same for both processes.
GUARD_AT, PARENT_AT, FIRST = 0, 1, 2
LAST = MEMORY_BYTES // 8

BILLION = 1_000_000_000
# A beat that is late by so much is missing. The others look for changes once a beat.
LATE_BEATS = 1.25
AGAIN_BEATS = 0.5
# A heartbeat that is silent for so long while other code of the parent runs is stuck for good.
STUCK = 60 * BILLION
# A connection that is not used for so long is closed.
IDLE = 10 * BILLION
LONGEST_WAIT = 1.0
STOPPED = frozenset("TtZXx")
# SQLite: another process writes, so nobody can mark the worker dead either.
BUSY = "database is locked"


class LeaseKeeper:
    """One worker of the parent: how to reach its row, and what its last heartbeat said."""

    def __init__(self, slot: int, how: dict[str, Any], memory: memoryview, parent: int) -> None:
        self.slot = slot
        self._how = how
        self._memory = memory
        self._parent = parent
        self._beat = int(how["beat"] * BILLION)
        # Its number, the end of its lease, and when it was renewed.
        self._word = (0, 0, 0)
        self._tried_at = 0
        self._is_asked = threading.Event()
        self._is_over = False
        self._connection: Any = None
        threading.Thread(target=self._run, daemon=True).start()

    def hear(self, worker: int, lease_until: int, at: int) -> None:
        """The parent has renewed its lease."""
        self._word = (worker, lease_until, at)

    def end(self) -> None:
        """The worker has left."""
        self._is_over = True
        self._is_asked.set()

    def look(self, now: int) -> int:
        """Renew if the parent is late; returns when to look again."""
        _, _, heard_at = self._word
        if not heard_at or self._memory[PARENT_AT] - heard_at > STUCK:
            return now + self._beat
        late_at = heard_at + int(LATE_BEATS * self._beat)
        due_at = max(late_at, self._tried_at + int(AGAIN_BEATS * self._beat))
        if now < due_at:
            if self._connection is not None and now > self._tried_at + IDLE:
                self._is_asked.set()
            return due_at
        self._tried_at = now
        self._is_asked.set()
        return now + int(AGAIN_BEATS * self._beat)

    def _run(self) -> None:
        # Connects once at the start: what is wrong is told then, not in an emergency.
        work, told = self._connect, ""
        while not self._is_over:
            try:
                work()
                told = ""
            except Exception as problem:
                self._disconnect()
                if told != (told := in_short(problem)) and not told.endswith(BUSY):
                    tell(told)
            work = self._renew
            if time.monotonic_ns() > self._tried_at + IDLE:
                self._disconnect()
            self._is_asked.wait()
            self._is_asked.clear()
        self._disconnect()

    def _connect(self) -> None:
        self._connection = connect(self._how)

    def _renew(self) -> None:
        if self._is_late() and self._connection is None:
            self._connect()
        # Looked at last: connecting takes time.
        if not self._is_late() or not is_running(self._parent):
            return
        before = time.monotonic_ns()
        worker, lease_until, heard_at = self._word
        until = lease_until + (before - heard_at) // 1_000
        cursor = self._connection.cursor()
        cursor.execute(self._how["renew"], (until, worker, until))
        if cursor.rowcount > 0 and not self._is_over:
            self._memory[self.slot] = before
        cursor.close()

    def _is_late(self) -> bool:
        _, _, heard_at = self._word
        return time.monotonic_ns() >= heard_at + int(LATE_BEATS * self._beat)

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(Exception):
                connection.close()


class GuardLoop:
    """Reads what the parent says, and looks after all of its workers."""

    def __init__(self, parent: int, memory: memoryview) -> None:
        self._parent = parent
        self._memory = memory
        self._keepers: dict[int, LeaseKeeper] = {}
        self._rest = b""

    def run(self) -> None:
        """Until the parent is gone."""
        os.set_blocking(0, False)
        poll = select.poll()
        poll.register(0, select.POLLIN)
        with contextlib.suppress(AttributeError, OSError):
            # Says at once that the parent has ended, even if a child of it has its pipes.
            poll.register(os.pidfd_open(self._parent), select.POLLIN)
        wait_seconds = 0.0
        while os.getppid() == self._parent:
            poll.poll(wait_seconds * 1_000)
            if not self._read():
                return
            now = self._memory[GUARD_AT] = time.monotonic_ns()
            looks = [keeper.look(now) - now for keeper in self._keepers.values()]
            wait_seconds = min([LONGEST_WAIT, *(look / BILLION for look in looks)])

    def _read(self) -> bool:
        """Obey what the parent has said; False if it says nothing more."""
        try:
            data = os.read(0, 65_536)
        except BlockingIOError:
            return True
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._obey(json.loads(line))
        return bool(data)

    def _obey(self, said: dict[str, Any]) -> None:
        if "path" in said:
            sys.path[:] = said["path"]
            return
        slot = said["ward"]
        if "how" in said:
            self._keepers[slot] = LeaseKeeper(slot, said["how"], self._memory, self._parent)
        elif "worker" in said:
            self._keepers[slot].hear(said["worker"], said["lease_until"], said["at"])
        else:
            self._keepers.pop(slot).end()


def connect(how: dict[str, Any]) -> Any:
    """A connection by the driver alone."""
    module = __import__(how["module"], fromlist=["connect"])
    connection = module.connect(*how["args"], **how["named"])
    cursor = connection.cursor()
    for statement in how["begin"]:
        cursor.execute(statement)
    cursor.close()
    return connection


def is_running(pid: int) -> bool:
    """Whether the parent is this process, and is not stopped; False if that cannot be told."""
    if os.getppid() != pid:
        return False
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            state = file.read().rpartition(")")[2].strip()
    except OSError:
        state = _state_by_ps(pid)
    return bool(state) and state[0] not in STOPPED


def _state_by_ps(pid: int) -> str:
    """Its state on systems without /proc, such as macOS."""
    import subprocess

    try:
        asked = ["/bin/ps", "-o", "state=", "-p", str(pid)]
        found = subprocess.run(asked, capture_output=True, text=True, timeout=2, check=False)
        return found.stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""


def in_short(problem: BaseException) -> str:
    """One line about an error."""
    lines = str(problem).strip().splitlines()
    return f"{type(problem).__name__}: {(lines or [''])[0]}"[:300]


def tell(error: str) -> None:
    """Tell the parent about an error, unless it does not listen."""
    with contextlib.suppress(OSError):
        os.write(1, json.dumps({"error": error}).encode() + b"\n")


def main() -> None:
    parent, file = map(int, sys.argv[1:])
    memory = memoryview(mmap.mmap(file, MEMORY_BYTES)).cast("q")
    os.close(file)
    GuardLoop(parent, memory).run()
    # Threads may be in the middle of a renewal: they end here.
    os._exit(0)


if __name__ == "__main__":
    main()
