"""Supervises worker processes: restarts them when they die, stops them together."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import IO, NamedTuple, Protocol

import msgspec

from windlass import telemetry
from windlass.cli.log import Shown
from windlass.fork import CHILD
from windlass.value.metric import MetricValue, Pulse, Report
from windlass.watch.metric.table import HEARTBEAT_AGE

CHECK_SECONDS = 0.2
FIRST_PAUSE = 0.5
LONGEST_PAUSE = 10.0
STEADY_SECONDS = 10.0
# A worker process reports every half second, and its metrics with every fourth report.
PULSES_PER_SAMPLE = 4
# A process that has not reported for so long takes no work.
SILENT_SECONDS = 5.0

NO_PULSE = Pulse(0, 0, 0, 0, 0)
NOT_JOINED = "it has not joined"


class Stoppable(Protocol):
    """What runs in a process until it is stopped: a worker, or a consumer."""

    left_cleanly: bool

    async def run(self) -> None:
        """Work until it is stopped."""

    def stop(self) -> None:
        """Finish what runs, then end; a second call ends at once."""

    def leave(self, why: str) -> None:
        """Hand back what is in flight, without waiting."""

    @property
    def stops_at_once(self) -> bool: ...

    def pulse(self) -> Pulse:
        """Its counts now."""

    def trouble(self) -> str | None:
        """Why it takes no work now; None if it does."""


class Counted(NamedTuple):
    """What a worker process has counted and when, and what its dead predecessors had.

    It is replaced as a whole: a scrape must not see a count twice.
    """

    before: list[MetricValue]
    samples: list[MetricValue]
    sampled_at: float


@dataclass(eq=False)
class Child:
    """One worker process and its history."""

    arguments: list[str]
    index: int
    process: subprocess.Popen[bytes] | None = None
    pulse: Pulse = NO_PULSE
    trouble: str | None = NOT_JOINED
    reported_at: float = 0.0
    counted: Counted = field(default_factory=lambda: Counted([], [], 0.0))
    stops_sent: int = 0
    done_before: int = 0
    failed_before: int = 0
    started_at: float = 0.0
    pause: float = FIRST_PAUSE
    start_at: float = 0.0

    def start(self) -> None:
        environment = {**os.environ, CHILD: str(os.getpid())}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "windlass", *self.arguments],
            env=environment,
            stdout=subprocess.PIPE,
            # Ctrl-C reaches only the supervisor, which stops the children.
            start_new_session=True,
        )
        self.started_at = time.monotonic()
        assert self.process.stdout is not None
        threading.Thread(target=self._read, args=(self.process.stdout,), daemon=True).start()
        telemetry.emit("process.started", process=self.index, pid=self.process.pid)

    def has_died(self) -> bool:
        return self.process is not None and self.process.poll() is not None

    def schedule_restart(self, *, is_expected: bool) -> None:
        """Record that it died, and when to start it again."""
        assert self.process is not None
        code = self.process.returncode
        if is_expected and code == 0:
            self.start_at = 0.0
        else:
            telemetry.emit("process.died", process=self.index, pid=self.process.pid, code=code)
            if time.monotonic() - self.started_at > STEADY_SECONDS:
                self.pause = FIRST_PAUSE
            self.start_at = time.monotonic() + self.pause
            self.pause = min(self.pause * 2, LONGEST_PAUSE)
        self.process = None
        self.done_before += self.pulse.done
        self.failed_before += self.pulse.failed
        self._keep_samples()
        self.pulse, self.trouble = NO_PULSE, NOT_JOINED

    def _keep_samples(self) -> None:
        """What the process did still counts."""
        before, samples, _ = self.counted
        if samples:
            from windlass.watch.metric.process import lasting, together

            self.counted = Counted(together([before, lasting(samples)]), [], 0.0)

    def signal(self, number: int) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(number)

    def _read(self, stream: IO[bytes]) -> None:
        for line in stream:
            try:
                report = msgspec.json.decode(line, type=Report)
            except msgspec.DecodeError:
                # A handler printed this; pass it on.
                sys.stdout.buffer.write(line)
                sys.stdout.buffer.flush()
            else:
                self.pulse, self.trouble = report.pulse, report.trouble
                self.reported_at = time.monotonic()
                # What a process that has died said last was counted when it died.
                is_current = self.process is not None and self.process.stdout is stream
                if report.samples is not None and is_current:
                    self.counted = Counted(self.counted.before, report.samples, self.reported_at)


class Supervisor:
    """Runs `windlass ARGUMENTS` in child processes until a signal stops all of them."""

    def __init__(self, arguments: list[str], *, processes: int, reload: bool = False) -> None:
        self._children = [Child(arguments, index + 1) for index in range(processes)]
        self._files = Files(Path.cwd()) if reload else None
        self._stop_asked = 0

    def run(self) -> int:
        """Supervise until a signal; 0 if all children ended cleanly."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)
        while not self._stop_asked:
            self._check()
            time.sleep(CHECK_SECONDS)
        return self._wait()

    def shown(self) -> Shown:
        """The sums over all children."""
        return Shown(
            processes=sum(child.process is not None for child in self._children),
            running=sum(child.pulse.running for child in self._children),
            done=sum(child.done_before + child.pulse.done for child in self._children),
            failed=sum(child.failed_before + child.pulse.failed for child in self._children),
        )

    def samples(self) -> list[MetricValue]:
        """The metrics of all children together; those that died still count."""
        from windlass.watch.metric.process import together

        now, parts = time.monotonic(), []
        for before, samples, sampled_at in [child.counted for child in self._children]:
            parts += [before, aged(samples, now - sampled_at)]
        return together(parts)

    def trouble(self) -> str | None:
        """Why no process takes work now; None if one does."""
        if self._stop_asked:
            return "it is stopping"
        now, why = time.monotonic(), NOT_JOINED
        for child in self._children:
            is_silent = now - child.reported_at > SILENT_SECONDS
            if child.process is not None and child.trouble is None and not is_silent:
                return None
            why = child.trouble or ("it does not report" if is_silent else NOT_JOINED)
        return f"no worker process takes work; one says: {why}"

    def _check(self) -> None:
        if self._files is not None and self._files.have_changed():
            telemetry.emit("process.reloaded")
            for child in self._children:
                child.start_at = 0.0
                child.signal(signal.SIGTERM)
        if os.getpid() == 1:
            own = {child.process.pid for child in self._children if child.process is not None}
            reap_orphans(own)
        for child in self._children:
            if child.has_died():
                child.schedule_restart(is_expected=self._files is not None)
            is_due = time.monotonic() >= child.start_at
            if child.process is None and is_due and not self._stop_asked:
                child.start()

    def _wait(self) -> int:
        """Pass every signal on to every child, including children that have just started."""
        left = [child for child in self._children if child.process is not None]
        while not all(child.has_died() for child in left):
            for child in left:
                if child.stops_sent < self._stop_asked:
                    child.stops_sent += 1
                    child.signal(signal.SIGTERM)
            time.sleep(CHECK_SECONDS / 4)
        codes = [child.process.returncode for child in left if child.process is not None]
        # A child that SIGTERM killed had not set its handlers yet.
        return 0 if all(code in (0, -signal.SIGTERM) for code in codes) else 1

    def _on_signal(self, _number: int, _frame: object) -> None:
        self._stop_asked += 1


def aged(samples: list[MetricValue], seconds: float) -> list[MetricValue]:
    """What was measured `seconds` ago, as it is now: a heartbeat since then would be reported."""
    return [
        MetricValue(each.name, each.labels, each.value + seconds)
        if each.name == HEARTBEAT_AGE
        else each
        for each in samples
    ]


def send_pulses(worker: Stoppable, samples: Callable[[], list[MetricValue]] | None = None) -> None:
    """Send this worker's numbers to the supervisor; stop the worker when that is gone."""
    supervisor = int(os.environ[CHILD])

    def send() -> None:
        for turn in count():
            if os.getppid() != supervisor:
                worker.stop()
                return
            is_time = samples is not None and turn % PULSES_PER_SAMPLE == 0
            report = Report(
                worker.pulse(), worker.trouble(), samples() if samples and is_time else None
            )
            try:
                sys.stdout.buffer.write(msgspec.json.encode(report) + b"\n")
                sys.stdout.buffer.flush()
            except (OSError, ValueError):
                worker.stop()
                return
            time.sleep(0.5)

    threading.Thread(target=send, name="windlass-pulse", daemon=True).start()


def reap_orphans(own: Collection[int]) -> None:
    """Let processes go that have ended and are not our `own`: children of children that died.

    The system leaves them to the first process of a container, and they would stay as zombies.
    """
    with suppress(ChildProcessError):
        while ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            if ended.si_pid in own:
                # The code that started it waits for it.
                return
            os.waitpid(ended.si_pid, 0)


class Files:
    """The Python files below a folder, and whether one has changed."""

    SKIPPED = frozenset({".venv", "venv", "node_modules", "__pycache__", ".git"})

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._times = self._modified()

    def have_changed(self) -> bool:
        before, self._times = self._times, self._modified()
        return self._times != before

    def _modified(self) -> dict[str, float]:
        times: dict[str, float] = {}
        for folder, folders, files in os.walk(self._folder):
            folders[:] = [name for name in folders if name not in self.SKIPPED and name[0] != "."]
            for name in files:
                if name.endswith(".py"):
                    path = os.path.join(folder, name)
                    with suppress(OSError):
                        times[path] = os.stat(path).st_mtime
        return times
