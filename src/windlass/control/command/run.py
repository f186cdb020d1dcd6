"""`windlass run NAME -- command args...`: a command, once at a time, with its exit code."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
from typer.core import TyperCommand

from windlass.cli.load import AppOption, load_app
from windlass.cli.output import complain
from windlass.control.engine.terminate import Terminated
from windlass.control.model.control import RUNNING
from windlass.errors import AlreadyDone, AlreadyRunning, RunLost
from windlass.value.outcome import storable

if TYPE_CHECKING:
    from windlass.control.engine.run import ControlRun

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The name of the run.")]
PartitionOption = Annotated[
    str, typer.Option("--partition", metavar="P", help="Its partition; default: none.")
]

NOT_EXECUTABLE = 126
NOT_FOUND = 127
LONGEST_COMMAND = 1_000

FROM_KEYBOARD = ("SIGINT", "SIGQUIT")
INTERRUPTING = ("SIGTERM", "SIGHUP", *FROM_KEYBOARD)
FORWARDED = (*INTERRUPTING, "SIGUSR1", "SIGUSR2")


class AfterDashes(TyperCommand):
    """A command whose last arguments come after `--`, so that their options are theirs."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        command = args[args.index("--") + 1 :] if "--" in args else []
        if not command and "--help" not in args:
            _refuse("give the command after --, as in: windlass run backup -- pg_dump shop")
        rest = super().parse_args(ctx, list(args))
        if ctx.params["command"] != command:
            _refuse("put -- between the name and the command: windlass run backup -- pg_dump shop")
        return rest

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        return ["NAME", "[OPTIONS]", "--", "COMMAND", "[ARGS]..."]


def run(
    name: NameArgument,
    command: Annotated[list[str], typer.Argument(metavar="COMMAND", help="What to run, after --.")],
    partition: PartitionOption = "",
    app: AppOption = None,
    expires: Annotated[
        str | None,
        typer.Option(
            "--expires",
            metavar="DURATION",
            help="After this time (2h) another start may take it over, even if this still runs. "
            "Default: never, as long as this process lives.",
        ),
    ] = None,
    once: Annotated[
        bool, typer.Option("--once", help="Never again after it has succeeded: exit with 0.")
    ] = False,
) -> None:
    """Run a command unless it is running; exits with its code, or 8 if it is running already."""
    if not command[0]:
        _refuse("the command is empty; give one after --")
    loaded = load_app(app, needs_kinds=False)
    held = loaded.control(name, partition, expires, data={"command": _told(command)}, once=once)
    with CommandProcess(command) as child:
        try:
            with held as entered:
                child.run()
                _keep(entered, child)
        except AlreadyDone as problem:
            complain(str(problem))
            sys.exit(0)
        except AlreadyRunning as problem:
            complain(str(problem))
            sys.exit(RUNNING)
        except RunLost as problem:
            complain(str(problem))
            sys.exit(child.code or 1)
        except Exception as problem:
            if child.code is None:
                raise
            why = str(problem).partition("\n")[0]
            complain(
                f"control {name!r}: the command ended with code {child.code}, "
                f"which could not be recorded: {why}"
            )
    sys.exit(child.code)


def _keep(entered: ControlRun, child: CommandProcess) -> None:
    if child.error is not None:
        entered.error(child.error)
    # The end of the block is written next, and fails if the database is still away.
    with suppress(Exception):
        entered.note({"exit_code": child.code})


def _told(command: list[str]) -> list[str]:
    """The command line as `ps` shows it to everybody, cut if it is long."""
    kept, room = [], LONGEST_COMMAND
    for word in map(storable, command):
        kept.append(word if len(word) < room else f"{word[:room]}…")
        room -= len(word) + 1
        if room <= 0:
            break
    return kept


def _refuse(message: str) -> NoReturn:
    complain(message)
    raise typer.Exit(2)


class CommandProcess:
    """The command as a process, which gets our signals.

    Before it has begun they end us instead, and while its end is recorded they do nothing.
    """

    def __init__(self, command: list[str]) -> None:
        self._command = command
        self._is_begun = False
        self._process: subprocess.Popen[bytes] | None = None
        self._early: list[int] = []
        self._interruption: str | None = None
        self._before: dict[signal.Signals, Any] = {}
        self.code: int | None = None
        self.error: str | None = None

    def __enter__(self) -> CommandProcess:
        for number in signal.Signals:
            # A signal that is ignored, as with nohup, stays ignored for the command.
            if number.name in FORWARDED and signal.getsignal(number) is not signal.SIG_IGN:
                self._before[number] = signal.signal(number, self._forward)
        self._before[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, lambda *_: None)
        return self

    def __exit__(self, *_error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def run(self) -> None:
        """Run it to its end. As in shells, the code is 128 + n if signal n ended it."""
        self._is_begun = True
        try:
            self._process = subprocess.Popen(self._command)
        except FileNotFoundError:
            self._fail(NOT_FOUND, "command not found")
            return
        except OSError as problem:
            self._fail(NOT_EXECUTABLE, problem.strerror or "cannot be run")
            return
        for number in self._early:
            self._process.send_signal(number)
        self._end(self._wait(self._process))

    def _wait(self, process: subprocess.Popen[bytes]) -> int:
        """Wait for its end; every signal wakes this up, whichever thread received it."""
        woken, wake = socket.socketpair()
        with woken, wake:
            wake.setblocking(False)
            before = signal.set_wakeup_fd(wake.fileno(), warn_on_full_buffer=False)
            try:
                while (code := process.poll()) is None:
                    woken.recv(4096)
            finally:
                signal.set_wakeup_fd(before)
        return code

    def _fail(self, code: int, why: str) -> None:
        complain(f"{self._command[0]}: {why}")
        self.code, self.error = code, f"{self._command[0]}: {why} (exit code {code})"

    def _end(self, code: int) -> None:
        self.code = code if code >= 0 else 128 - code
        self.error = f"exit code {self.code}" if code else None
        if code and self._interruption is not None:
            self.error = f"interrupted: {self._interruption} ({self.error})"
        elif code < 0:
            self.error = f"killed by {_name_of(-code)} ({self.error})"

    def _forward(self, number: int, _frame: FrameType | None) -> None:
        name = _name_of(number)
        if name in INTERRUPTING:
            self._interruption = name
        if not self._is_begun:
            raise Terminated(128 + number)
        if self._process is None:
            self._early.append(number)
        # The terminal sends it to the command, too, and many commands treat a second one as urgent.
        elif name not in FROM_KEYBOARD or not _has_terminal():
            self._process.send_signal(number)


def _name_of(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _has_terminal() -> bool:
    """Whether we are in the foreground of a terminal."""
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)
