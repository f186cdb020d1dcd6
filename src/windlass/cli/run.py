"""`windlass run NAME -- command args...`: any command, once at a time, its exit code kept."""

from __future__ import annotations

import signal
import subprocess
import sys
from types import FrameType
from typing import Annotated, Any

import typer

from windlass.cli.control import NameArgument, PartitionOption
from windlass.cli.load import AppOption, load_app
from windlass.cli.output import complain
from windlass.engine.controlled import ControlRun
from windlass.errors import AlreadyRunning, RunLost

RUNNING = 8
NOT_FOUND = 127
NOT_EXECUTABLE = 126
FORWARDED = (signal.SIGTERM, signal.SIGINT)


def register(cli: typer.Typer) -> None:
    """Add the command."""
    cli.command()(run)


def run(
    name: NameArgument,
    command: Annotated[
        list[str], typer.Argument(metavar="-- COMMAND [ARGS]...", help="What to run.")
    ],
    partition: PartitionOption = "",
    app: AppOption = None,
    expires: Annotated[
        str | None,
        typer.Option("--expires", help="Who starts it after so long takes over, as 2h."),
    ] = None,
) -> None:
    """Run a command unless it is running; exits with its code, or 8 if it is running already.

    Without --expires it is held as long as this process lives.
    """
    loaded = load_app(app)
    code = 0
    try:
        with loaded.control(name, partition, expires) as entered:
            code = _watch(entered, command)
    except AlreadyRunning as problem:
        complain(str(problem))
        code = RUNNING
    except RunLost as problem:
        complain(str(problem))
        code = code or 1
    sys.exit(code)


def _watch(entered: ControlRun, command: list[str]) -> int:
    """Run the command to its end and keep its exit code: as shells do, 128 + n for signal n."""
    with Forwarding() as forwarding:
        try:
            code = forwarding.run(command)
        except FileNotFoundError:
            complain(f"{command[0]}: command not found")
            code = NOT_FOUND
        except OSError as problem:
            complain(f"{command[0]}: {problem.strerror}")
            code = NOT_EXECUTABLE
    code = code if code >= 0 else 128 - code
    entered.note({"exit_code": code})
    if code:
        entered.error(f"exit code {code}")
    return code


class Forwarding:
    """Hands signals on to a command, which makes of them what it will."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._early: list[int] = []
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Forwarding:
        for number in FORWARDED:
            self._before[number] = signal.signal(number, self._hand_on)
        return self

    def __exit__(self, *_error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def run(self, command: list[str]) -> int:
        """Run the command to its end; its exit code, -n if signal n ended it."""
        self._process = subprocess.Popen(command)
        for number in self._early:
            self._process.send_signal(number)
        return self._process.wait()

    def _hand_on(self, number: int, _frame: FrameType | None) -> None:
        if self._process is None:
            self._early.append(number)
        else:
            self._process.send_signal(number)
