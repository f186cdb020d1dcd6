"""Processes on this machine that outlive the worker that started them.

Each submission has a folder. The process that runs the command, and the command itself, hold a lock
in it while they live, and the exit code is written last. So every worker on this machine can tell
whether a command is running, how it ended, or that it was killed. It is never started twice.
Arguments and output may be secret, so only the user of the worker can read the folders.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import msgspec

from windlass import telemetry
from windlass.core.run.context import current_run
from windlass.errors import BadInput, ExternalFailed
from windlass.external.engine.submission import submission_of
from windlass.external.model import Answer, Done, External, Failed, Running
from windlass.external.system.private import (
    make_parent,
    open_file,
    open_folder,
    read_text,
    write_text,
)
from windlass.value.duration import Duration, parse_duration

SHOWN = 2_000
TIDY_SECONDS = 600.0

Argv = Annotated[list[str], msgspec.Meta(min_length=1)]


class Command(External):
    """Runs each command as a process, with its files in a folder below `folder`.

    It starts only the `programs` that it names, compared letter by letter with the first word of a
    command; their arguments are free. Only the user of the worker can read the files; a folder that
    belongs to another user is refused. A folder is removed after the process has ended and `keep`
    has passed. All workers that serve it must be on one machine: a process on another machine
    counts as running until its `timeout`.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        programs: Iterable[str] = (),
        keep: Duration = "7d",
    ) -> None:
        self._programs = _checked(programs)
        self._folder = Path(folder).absolute()
        self._keep = parse_duration(keep, what="Command: keep") / 1e6
        self._host = re.sub(r"[^A-Za-z0-9.-]", "-", socket.gethostname())
        self._tidied_at = 0.0

    def submit(self, argv: Argv) -> str:
        """Start a command, unless this submission has already started it."""
        if argv[0] not in self._programs:
            raise ExternalFailed(
                f"{argv[0][:SHOWN]!r} is not among the programs of this Command: "
                f"{', '.join(sorted(self._programs))}"
            )
        name = submission_of(current_run()).name
        make_parent(self._folder)
        with open_folder(self._folder / name, make=True) as folder:
            lock = open_file(folder, "lock", os.O_RDWR | os.O_CREAT)
            try:
                if _take(lock) and "pid" not in os.listdir(folder):
                    write_text(folder, "command", json.dumps(argv))
                    _start(folder, lock)
            finally:
                os.close(lock)
        return f"{name}@{self._host}"

    def poll(self, handles: list[str]) -> dict[str, Answer]:
        """Read the files of each; a handle whose files cannot be read is left out."""
        self._tidy()
        answers: dict[str, Answer] = {}
        problem: Exception | None = None
        for handle in handles:
            try:
                answers[handle] = self._poll(handle)
            except (OSError, ValueError) as error:
                problem = error
        if problem is not None and not answers:
            raise problem
        return answers

    def cancel(self, handle: str) -> None:
        """End the process and every process that it started."""
        place, host = self._place(handle)
        if host != self._host:
            raise OSError(f"command {handle!r} runs on {host}, and this is {self._host}")
        if is_locked(place):
            with open_folder(place) as folder:
                os.killpg(int(read_text(folder, "pid")), signal.SIGTERM)

    def _poll(self, handle: str) -> Answer:
        place, host = self._place(handle)
        if host != self._host:
            return Running()
        is_running = is_locked(place)
        # Read after the lock: the exit code is written before the lock is released.
        code, output = read_exit(place)
        if code is None:
            return Running() if is_running else Failed("the process ended without an exit code")
        if code:
            return Failed(f"exit code {code}: {output.strip()[-500:]}")
        return Done({"code": code, "output": output})

    def _place(self, handle: str) -> tuple[Path, str]:
        """The folder of a handle, and the machine that it is on."""
        match = re.fullmatch(r"([0-9]+(?:-[0-9]+)?)@([A-Za-z0-9.-]*)", handle)
        if match is None:
            raise ValueError(f"{handle!r} is not the handle of a command")
        return self._folder / match[1], match[2]

    def _tidy(self) -> None:
        """Remove old folders, at most every ten minutes."""
        if time.monotonic() < self._tidied_at + TIDY_SECONDS and self._tidied_at:
            return
        self._tidied_at = time.monotonic()
        try:
            for entry in os.scandir(self._folder):
                state = entry.stat(follow_symlinks=False)
                # The folder changes last when the exit code is written.
                is_old = state.st_mtime < time.time() - self._keep
                is_ours = (
                    re.fullmatch(r"[0-9]+(-[0-9]+)?", entry.name)
                    and entry.is_dir(follow_symlinks=False)
                    and state.st_uid == os.geteuid()
                )
                if is_ours and is_old and not is_locked(Path(entry.path)):
                    shutil.rmtree(entry.path, ignore_errors=True)
        except OSError as problem:
            telemetry.log.warning("old commands cannot be removed: %s", problem)


def _checked(programs: Iterable[str]) -> frozenset[str]:
    """The programs that a command may start: at least one, each by its name or path."""
    named = () if isinstance(programs, str) else tuple(programs)
    if not named or not all(isinstance(each, str) and each for each in named):
        raise BadInput(
            "Command: name the programs that it may start, as in "
            'Command(folder, programs=["spark-submit"]); everyone who may enqueue it runs them '
            "with any arguments, so name no shell unless you mean any program"
        )
    return frozenset(named)


def _start(folder: int, lock: int) -> None:
    output = open_file(folder, "output", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    try:
        keeper = subprocess.Popen(
            [sys.executable, "-m", "windlass.external.system.keeper", str(folder), str(lock)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            pass_fds=(folder, lock),
        )
    finally:
        os.close(output)
    # The keeper also writes it, in case this process dies here.
    write_text(folder, "pid", str(keeper.pid))


def is_locked(place: Path) -> bool:
    """Whether the process of a submission, or its command, is alive."""
    try:
        with open_folder(place) as folder:
            file = open_file(folder, "lock", os.O_RDWR)
    except FileNotFoundError:
        return False
    try:
        return not _take(file)
    finally:
        os.close(file)


def _take(lock: int) -> bool:
    """Lock an open file; False if another process has the lock."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def read_exit(place: Path) -> tuple[int | None, str]:
    """The exit code, None if it was not written, and the end of the output."""
    try:
        with open_folder(place) as folder:
            return int(read_text(folder, "exit")), _end_of_output(folder)
    except (FileNotFoundError, ValueError):
        return None, ""


def _end_of_output(folder: int) -> str:
    try:
        with open(open_file(folder, "output", os.O_RDONLY), "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - SHOWN))
            return file.read(SHOWN).decode(errors="replace")
    except FileNotFoundError:
        return ""
