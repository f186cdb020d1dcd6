"""Loads the app that a command is about."""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from windlass.cli.output import complain
from windlass.errors import WindlassError

if TYPE_CHECKING:
    from windlass.app import App

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


def load_app(name: str | None, *, needs_kinds: bool = True) -> App:
    """The app at `module:attribute`; the current directory is first on the path.

    A command that needs no kinds can use $WINDLASS_DATABASE_URL alone.
    """
    from windlass.app import App

    if name is None and not needs_kinds and os.environ.get("WINDLASS_DATABASE_URL"):
        return App()
    if name is None:
        instead = "" if needs_kinds else " or WINDLASS_DATABASE_URL"
        _refuse(f"which app? give --app module:app, or set WINDLASS_APP{instead}")
    module_name, _, attribute = name.partition(":")
    attribute = attribute or "app"
    here = os.getcwd()
    sys.path[:] = [here, *(entry for entry in sys.path if entry != here)]
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as problem:
        if problem.name is not None and f"{module_name}.".startswith(f"{problem.name}."):
            _refuse(
                f"module {module_name!r} was not found from {here}; run it in the folder of "
                f"{module_name.partition('.')[0]}.py, or install the package that has it"
            )
        _refuse(_where_it_broke(module_name))
    except WindlassError as problem:
        _refuse(f"{module_name}: {problem}")
    except (Exception, SystemExit):
        _refuse(_where_it_broke(module_name))
    found = getattr(module, attribute, None)
    if found is None:
        _refuse(f"module {module_name!r} has no {attribute!r}; name the App as module:variable")
    if not isinstance(found, App):
        _refuse(f"{name!r} is {type(found).__name__}, not a windlass.App")
    return found


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


def _refuse(message: str) -> NoReturn:
    complain(message)
    raise typer.Exit(2)
