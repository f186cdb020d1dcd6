"""The contract that every measured system keeps, so that one clock serves all.

A system is a command that takes a verb and a number, and prints one line of JSON:

    prepare            make the tables or whatever the system needs
    enqueue-one N      enqueue N no-op tasks, one call and one commit each
    enqueue-bulk N     enqueue N no-op tasks by the system's own bulk call, if it has one
    drain N            start the workers, run the N tasks that wait, stop the workers

`{"seconds": 1.25, "ran": 100000}`: `seconds` is the time of the verb without
the start of the interpreter, `ran` is how many runs of the handler were counted.

The drain's clock starts when the first handler of any process runs and ends
when the system's own store says that nothing is left: neither waiting, nor
taken, nor finished but not yet written down. So the start of interpreters,
connections and pools costs nobody anything, and the last commit is paid by all.

This module needs nothing but Python, because peers import it from environments
of their own. `BENCH_URL` names the store, `BENCH_TALLY` the folder of the tallies.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Protocol

from bench import tally

POLL_SECONDS = 0.01
DOUBT_SECONDS = 1.0
STALL_SECONDS = 60.0
STOP_LIMIT_SECONDS = 20.0


class Verbs(Protocol):
    """What a system's module offers; a module itself serves as one.

    An enqueue that runs in a process of its own returns its own seconds, so
    that the start of that process is not counted. A system that has no bulk
    call leaves `enqueue_bulk` out.
    """

    def prepare(self) -> None: ...
    def enqueue_one(self, tasks: int) -> float | None: ...
    def enqueue_bulk(self, tasks: int) -> float | None: ...
    def workers(self) -> Sequence[Command]: ...
    def is_empty(self) -> bool: ...


@dataclass(frozen=True)
class Command:
    """A worker process to start for a drain."""

    arguments: Sequence[str]
    environment: dict[str, str] = field(default_factory=dict)


class DrainFailed(Exception):
    """A drain that did not come to its end; the message says why."""


def url() -> str:
    return os.environ["BENCH_URL"]


def main(verbs: Verbs, arguments: Sequence[str] = ()) -> None:
    """Carry out one verb of the command line and print what it took."""
    end_in_order_when_told()
    verb, *numbers = arguments or sys.argv[1:]
    tasks = int(numbers[0]) if numbers else 0
    ran = 0
    match verb:
        case "prepare":
            seconds = _timed(verbs.prepare)
        case "enqueue-one":
            seconds = _timed(lambda: verbs.enqueue_one(tasks))
        case "enqueue-bulk":
            seconds = _timed(lambda: verbs.enqueue_bulk(tasks))
        case "drain":
            seconds, ran = drain(verbs, tasks)
        case _:
            raise SystemExit(f"{verb!r} is no verb; use prepare, enqueue-one, enqueue-bulk, drain")
    print(json.dumps({"seconds": seconds, "ran": ran}))


def end_in_order_when_told() -> None:
    """Let SIGTERM unwind the stack, so that nothing we started outlives us."""
    signal.signal(signal.SIGTERM, lambda _number, _frame: sys.exit(143))


def drain(verbs: Verbs, tasks: int) -> tuple[float, int]:
    """Run the waiting tasks with real workers; seconds, and runs of the handler."""
    tally.clear(_folder())
    with running(verbs.workers()) as processes:
        return clock(tasks, verbs.is_empty, processes)


def clock(
    tasks: int, is_empty: Callable[[], bool], processes: Sequence[subprocess.Popen[bytes]]
) -> tuple[float, int]:
    """Seconds from the first run of a handler until the store is empty, and runs of the handler."""
    folder = _folder()
    _wait_until_all_ran(folder, tasks, is_empty, processes)
    ended_ns = time.time_ns()
    progress = tally.read(folder)
    if progress.first_ns is None:
        raise DrainFailed("the store is empty but no handler ran; were the tasks enqueued?")
    return (ended_ns - progress.first_ns) / 1e9, progress.runs


@contextmanager
def running(commands: Sequence[Command]) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Worker processes that live as long as the block; their words go to `worker.log`."""
    processes: list[subprocess.Popen[bytes]] = []
    with (_folder() / "worker.log").open("ab") as log:
        try:
            processes.extend(_start(command, log) for command in commands)
            yield processes
        finally:
            for process in processes:
                process.send_signal(signal.SIGTERM)
            for process in processes:
                _stop(process)


def _wait_until_all_ran(
    folder: Path,
    tasks: int,
    is_empty: Callable[[], bool],
    processes: Sequence[subprocess.Popen[bytes]],
) -> None:
    """Return when the store is empty.

    The tally is watched first, for it costs nothing: the store is asked only
    when all tasks have run, and once a second in case the count is short.
    """
    doubted = moved = time.monotonic()
    runs = 0
    while True:
        now = time.monotonic()
        before, runs = runs, tally.read(folder).runs
        if runs > before:
            moved = now
        if runs >= tasks or now - doubted > DOUBT_SECONDS:
            doubted = now
            if is_empty():
                return
        for process in processes:
            if process.poll() is not None:
                raise DrainFailed(f"a worker ended with {process.returncode}\n{_tail(folder)}")
        if now - moved > STALL_SECONDS:
            stall = f"nothing ran for {STALL_SECONDS:.0f} s, {runs} of {tasks} had"
            raise DrainFailed(f"{stall}\n{_tail(folder)}")
        time.sleep(POLL_SECONDS)


def _start(command: Command, log: IO[bytes]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        command.arguments,
        env=os.environ | command.environment,
        stdout=log,
        stderr=log,
        start_new_session=True,
    )


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Wait for the worker, then end whatever is left of its process group."""
    try:
        process.wait(STOP_LIMIT_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def _folder() -> Path:
    return Path(os.environ[tally.FOLDER_VARIABLE])


def _timed(work: Callable[[], float | None]) -> float:
    begin = time.perf_counter()
    own_seconds = work()
    return time.perf_counter() - begin if own_seconds is None else own_seconds


def _tail(folder: Path) -> str:
    return "\n".join((folder / "worker.log").read_text(errors="replace").splitlines()[-30:])
