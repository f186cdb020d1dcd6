"""Python programs in processes of their own that begin at once.

A fresh interpreter takes a second to import Windlass and what it needs. Here one that has all of
it imported is forked: the child then runs its module as `python -m` does, in its own session, with
its own folder, environment and log.
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
from collections.abc import Mapping, Sequence
from pathlib import Path

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


class Spawned:
    """One such process, with the verbs of `subprocess.Popen`.

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
    """What the child does."""
    os.setsid()
    for stream, path in zip((sys.stdout, sys.stderr), files, strict=True):
        file = os.open(path, os.O_WRONLY | os.O_APPEND)
        os.dup2(file, stream.fileno())
        os.close(file)
        stream.reconfigure(write_through=True)
    faulthandler.enable()
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = [module, *arguments]
    sys.path.insert(0, str(folder))
    try:
        try:
            runpy.run_module(module, run_name="__main__", alter_sys=True)
        finally:
            atexit._run_exitfuncs()
    except KeyboardInterrupt:
        # As the interpreter does: whoever waits for the process learns what ended it.
        traceback.print_exc()
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
