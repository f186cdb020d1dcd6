"""Run every shape on every system, and cut off who takes too long."""

from __future__ import annotations

import json
import os
import selectors
import signal
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from bench import command, tally
from bench.flow.contract import RAN, WARM
from bench.flow.shape import named
from bench.flow.system import FlowSystem
from bench.measure import FAILURES, Stores

ANSWER = '{"seconds"'
LIMIT_SECONDS = 120.0
WARM_LIMIT_SECONDS = 300.0
MORE_LIMIT_SECONDS = 300.0
STOP_LIMIT_SECONDS = 20.0
NOT_WARM = command.CommandFailed(f"not warm after {WARM_LIMIT_SECONDS:.0f} s")
NO_ANSWER = command.CommandFailed(f"ran, but said no more within {MORE_LIMIT_SECONDS:.0f} s")


class CutOff(Exception):
    """A run that did not end within the limit."""


@dataclass
class FlowRecord:
    """What one system took for one shape, over all rounds."""

    system: FlowSystem
    shape: str
    seconds: list[float] = field(default_factory=list)
    more: dict[str, list[float]] = field(default_factory=dict)
    is_cut_off: bool = False
    is_tried: bool = True
    """False where the system was cut off at a smaller shape."""
    failure: str | None = None

    @property
    def median(self) -> float | None:
        return statistics.median(self.seconds) if self.seconds else None


def measure(
    systems: Sequence[FlowSystem],
    running: Stores,
    *,
    shapes: Sequence[str],
    rounds: int,
    tell: Callable[[str], None],
) -> list[FlowRecord]:
    """Run shape by shape, so that all systems meet the same minutes of the machine."""
    records = [FlowRecord(system, shape) for shape in shapes for system in systems]
    for number in range(rounds):
        for record in records:
            record.is_tried = not _is_beaten(record, records)
            if record.is_cut_off or record.failure or not record.is_tried:
                continue
            _attempt(record, running)
            took = "failed" if record.failure else "cut off"
            if record.seconds:
                took = f"{record.seconds[-1]:.2f} s"
            name = f"{record.system.name} {record.shape}"
            tell(f"round {number + 1} of {rounds}: {name}: {took}")
    return records


def _is_beaten(record: FlowRecord, records: Sequence[FlowRecord]) -> bool:
    """Whether the system was cut off at a smaller shape."""
    return any(
        other.is_cut_off and len(named(other.shape)) < len(named(record.shape))
        for other in records
        if other.system is record.system
    )


def _attempt(record: FlowRecord, running: Stores) -> None:
    try:
        answer = _trial(record, running)
    except CutOff:
        record.is_cut_off = True
    except FAILURES as failure:
        record.failure = str(failure)
    else:
        record.seconds += answer["seconds"]
        for title, seconds in answer["more"].items():
            record.more.setdefault(title, []).extend(seconds)


def _trial(record: FlowRecord, running: Stores) -> dict[str, dict[str, list[float]]]:
    system = record.system
    arguments = [*system.command(), record.shape]
    with tempfile.TemporaryDirectory(prefix="windlass-flow-", ignore_cleanup_errors=True) as folder:
        environment = system.environment | {tally.FOLDER_VARIABLE: folder}
        if system.store is None:
            return _run(arguments, environment, Path(folder))
        store = running.get(system.store)
        database = f"flow_{os.urandom(4).hex()}"
        environment["BENCH_URL"] = store.create_database(database)
        try:
            return _run(arguments, environment, Path(folder))
        finally:
            store.drop_database(database)


def _run(
    arguments: Sequence[str], environment: dict[str, str], folder: Path
) -> dict[str, dict[str, list[float]]]:
    """The answer of a system; its words go to a file, the end of which tells why it failed."""
    said = folder / "said.log"
    with said.open("wb") as errors:
        process = subprocess.Popen(
            arguments,
            cwd=command.ROOT,
            env=os.environ | environment,
            stdout=subprocess.PIPE,
            stderr=errors,
            start_new_session=True,
        )
        try:
            lines = _Lines(process)
            answer = (
                lines.next(WARM, WARM_LIMIT_SECONDS, late=NOT_WARM)
                and lines.next(RAN, LIMIT_SECONDS, late=CutOff())
                and lines.next(ANSWER, MORE_LIMIT_SECONDS, late=NO_ANSWER)
            )
            if answer:
                # It ends by itself now, and what it started with it.
                with suppress(subprocess.TimeoutExpired):
                    process.wait(STOP_LIMIT_SECONDS)
                return dict(json.loads(answer))
        finally:
            _stop(process)
    words = said.read_text(errors="replace").strip()[-1500:]
    raise command.CommandFailed(words or f"ended with {process.returncode} and without a word")


class _Lines:
    """The lines that a process prints, read with a limit."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        self._file = process.stdout.fileno()
        self._buffer = b""
        self._ready = selectors.DefaultSelector()
        self._ready.register(self._file, selectors.EVENT_READ)

    def next(self, beginning: str, limit_seconds: float, *, late: Exception) -> str | None:
        """The next line that begins so, skipping others; none if the process ended."""
        deadline = time.monotonic() + limit_seconds
        while True:
            while b"\n" in self._buffer:
                line, _, self._buffer = self._buffer.partition(b"\n")
                if line.startswith(beginning.encode()):
                    return line.decode()
            if not self._ready.select(max(deadline - time.monotonic(), 0)):
                raise late
            chunk = os.read(self._file, 65_536)
            if not chunk:
                return None
            self._buffer += chunk


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Tell it to end, then end whatever is left of its process group."""
    process.terminate()
    try:
        process.wait(STOP_LIMIT_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
