"""Python programs in processes of their own that begin at once.

A fresh interpreter takes a second to import Windlass and what it needs. Here one that has all of
it imported is forked: the child then runs its module as `python -m` does, with its own folder,
environment and files.
"""

import atexit
import faulthandler
import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
import traceback
import types
from collections.abc import Callable, Mapping, Sequence
from multiprocessing.reduction import DupFd
from pathlib import Path
from typing import Any

PRELOADED = (
    "psycopg",
    "pymysql",
    "sqlalchemy.dialects.mysql.pymysql",
    "sqlalchemy.dialects.postgresql.psycopg",
    "sqlalchemy.dialects.sqlite",
    "tests.spawn",
    "uvicorn",
    "windlass.cli",
    "windlass.database.migration.run",
    "windlass.external.command.server",
    "windlass.web.site",
)

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(list(PRELOADED))


class Forked(subprocess.Popen[Any]):
    """`subprocess.Popen` of `[sys.executable, "-m", MODULE, ...]` or of `"-c", CODE` instead.

    Not for a terminal: how wide it is, and whether it is one, is asked when Windlass is imported.
    """

    def _execute_child(self, args: Sequence[str], *given: Any) -> None:
        folder, environment, pipes, own_session = given[4], given[5], given[9:15], given[20]
        ends = (pipes[0], pipes[3], pipes[5])
        files = [Handed(number if end == -1 else end) for number, end in enumerate(ends)]
        told = (args[1:], folder or Path.cwd(), dict(environment or os.environ), own_session)
        self._process = _context.Process(target=run_command, args=(files, *told))
        self._process.start()
        self.pid = self._process.pid
        self._child_created = True
        self._close_pipe_fds(*pipes)

    def _internal_poll(self, **_: Any) -> int | None:
        self.returncode = self._process.exitcode
        return self.returncode

    def poll(self) -> int | None:
        return self._internal_poll()

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        if self.poll() is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0)
        return self.returncode


def run_forked(
    command: Sequence[str], *, check: bool = True, timeout: float = 60.0, **options: Any
) -> subprocess.CompletedProcess[str]:
    """`subprocess.run` with such a process: what it wrote, and how it ended."""
    pipe = subprocess.PIPE
    with Forked(command, stdout=pipe, stderr=pipe, text=True, **options) as process:
        try:
            out, err = process.communicate(timeout=timeout)
        except BaseException:
            process.kill()
            raise
    done = subprocess.CompletedProcess(command, process.returncode, out, err)
    if check:
        done.check_returncode()
    return done


class Handed:
    """An open file that goes to a forked process."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __reduce__(self) -> tuple[Any, ...]:
        return (_received, (DupFd(self.number),))


def _received(file: Any) -> int:
    return file.detach()


class Spawned:
    """One such process in its own session, with the verbs of `subprocess.Popen`.

    It writes to the file `log`, and its errors to `errors` if that is another one.
    """

    def __init__(
        self,
        module: str,
        *arguments: str,
        folder: Path,
        log: Path,
        errors: Path | None = None,
        environment: Mapping[str, str],
    ) -> None:
        files = (log, errors or log)
        for file in files:
            file.write_bytes(b"")
        given = (module, arguments, folder, files, dict(environment))
        self._process = _context.Process(target=run, args=given)
        self._process.start()

    @property
    def pid(self) -> int:
        pid = self._process.pid
        assert pid is not None
        return pid

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def poll(self) -> int | None:
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        code = self.returncode
        if code is None:
            raise subprocess.TimeoutExpired(self._process.name, timeout or 0)
        return code

    def send_signal(self, number: signal.Signals) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def run(
    module: str,
    arguments: Sequence[str],
    folder: Path,
    files: Sequence[Path],
    environment: Mapping[str, str],
) -> None:
    """What the child of `Spawned` does."""
    os.setsid()
    out, err = (os.open(path, os.O_WRONLY | os.O_APPEND) for path in files)
    _enter(folder, environment, {1: out, 2: err})
    _run_as_main(lambda: _module(module, arguments))


def run_command(
    files: Sequence[int],
    command: Sequence[str],
    folder: Path,
    environment: Mapping[str, str],
    own_session: bool,
) -> None:
    """What the child of `Forked` does."""
    if own_session:
        os.setsid()
    _enter(folder, environment, dict(enumerate(files)))
    sys.stdin = os.fdopen(0, closefd=False)
    sys.path[1:1] = filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))
    how, what, *arguments = command
    if how == "-m":
        _run_as_main(lambda: _module(what, arguments))
    else:
        assert how == "-c", command
        _run_as_main(lambda: _code(what, arguments))


def _enter(folder: Path, environment: Mapping[str, str], files: Mapping[int, int]) -> None:
    for number, file in files.items():
        os.dup2(file, number)
        os.close(file)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(write_through=True)
    faulthandler.enable()
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.path.insert(0, str(folder))


def _module(name: str, arguments: Sequence[str]) -> None:
    sys.argv = [name, *arguments]
    runpy.run_module(name, run_name="__main__", alter_sys=True)


def _code(text: str, arguments: Sequence[str]) -> None:
    sys.argv = ["-c", *arguments]
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    exec(text, vars(main))


def _run_as_main(what: Callable[[], None]) -> None:
    try:
        try:
            what()
        finally:
            atexit._run_exitfuncs()
    except KeyboardInterrupt:
        # As the interpreter does: whoever waits for the process learns what ended it.
        traceback.print_exc()
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
