"""Loads the app that a command is about, and its audit log. A signal meanwhile ends the process."""

from __future__ import annotations

import importlib
import os
import signal
import sys
import traceback
from typing import TYPE_CHECKING, Annotated, Any

import typer

from windlass.cli.output import refuse
from windlass.errors import WindlassError
from windlass.view.action import Operator, whoami

if TYPE_CHECKING:
    from windlass.app import App

if TYPE_CHECKING:
    from windlass.app import App
    from windlass.watch.operate.audit import AuditLog


AppOption = Annotated[
    str | None,
    typer.Option(
        "--app", envvar="WINDLASS_APP", metavar="MODULE:APP", help="Where the app is declared."
    ),
]
AppArgument = Annotated[
    str,
    typer.Argument(metavar="MODULE:APP", envvar="WINDLASS_APP", help="Where the app is declared."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON value.")]

DEFAULT_HANDLERS: dict[signal.Signals, Any] = {
    signal.SIGTERM: signal.SIG_DFL,
    signal.SIGINT: signal.default_int_handler,
}


class StoppedEarly(BaseException):
    """A signal arrived. Not an `Exception`, because modules may catch those during import."""


def load_app(name: str | None, *, needs_kinds: bool = True) -> App:
    """The app at `module:attribute`; the current directory is first on the path.

    A command that needs no kinds can use $WINDLASS_DATABASE_URL alone.
    """
    from windlass.app import App

    if name is None and not needs_kinds and os.environ.get("WINDLASS_DATABASE_URL"):
        return App()
    if name is None:
        instead = "" if needs_kinds else " or WINDLASS_DATABASE_URL"
        refuse(f"which app? give --app module:app, or set WINDLASS_APP{instead}")
    module_name, _, attribute = name.partition(":")
    attribute = attribute or "app"
    here = os.getcwd()
    sys.path[:] = [here, *(entry for entry in sys.path if entry != here)]
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as problem:
        if problem.name is not None and f"{module_name}.".startswith(f"{problem.name}."):
            refuse(
                f"module {module_name!r} was not found from {here}; run it in the folder of "
                f"{module_name.partition('.')[0]}.py, or install the package that has it"
            )
        refuse(_where_it_broke(module_name))
    except WindlassError as problem:
        refuse(f"{module_name}: {problem}")
    except (Exception, SystemExit):
        refuse(_where_it_broke(module_name))
    found = getattr(module, attribute, None)
    if found is None:
        refuse(f"module {module_name!r} has no {attribute!r}; name the App as module:variable")
    if not isinstance(found, App):
        refuse(f"{name!r} is {type(found).__name__}, not a windlass.App")
    return found


def end_quietly() -> None:
    """Let SIGTERM and SIGINT end the command until it sets its own handlers."""
    for number in DEFAULT_HANDLERS:
        signal.signal(number, _end)


def restore_signals() -> None:
    """Restore the default handlers unless the command has set its own."""
    for number, default in DEFAULT_HANDLERS.items():
        if signal.getsignal(number) is _end:
            signal.signal(number, default)


def _where_it_broke(module_name: str) -> str:
    """The user's error, with the file and line that raised it."""
    error = sys.exc_info()[1]
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__ if error else None)
        if "importlib" not in frame.filename and not frame.filename.endswith("cli/load.py")
    ]
    where = f" ({frames[-1].filename}:{frames[-1].lineno})" if frames else ""
    return f"importing {module_name!r} failed: {type(error).__name__}: {error}{where}"


def _end(_number: int, _frame: object) -> None:
    raise StoppedEarly


TERMINAL = "cli"
# The log lists at most this many arguments of a command.
MOST_TOLD = 100


def audit_log(loaded: App, who: str | None = None) -> AuditLog:
    """Records what `who`, by default the user of this terminal, does with the app."""
    from windlass.watch.operate.audit import AuditLog

    return AuditLog(loaded.fleet, Operator(who or whoami(), TERMINAL))
