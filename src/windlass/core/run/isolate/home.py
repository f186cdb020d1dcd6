"""Where a child finds the handlers of its worker: the same modules, imported once more."""

from __future__ import annotations

import importlib
import importlib.util
import logging
import os
import runpy
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from windlass.core.run.isolate.wire import HandlerPlace, Home
from windlass.core.task.isolate import main_of
from windlass.core.task.kind import Kind, make_kind
from windlass.core.task.option import Options
from windlass.errors import BadDeclaration
from windlass.fork import Importing

# The name of the program's module in a child: what is behind `if __name__ == "__main__"` does
# not run there.
MAIN = "__windlass_main__"


def home_here(first: HandlerPlace, *, memory: int | None) -> Home:
    """What a child of this process must know."""
    return Home(
        worker=os.getpid(),
        path=[each for each in sys.path if isinstance(each, str)],
        arguments=list(sys.argv),
        main=main_of(),
        django=_django(),
        levels=_levels(),
        disabled=logging.root.manager.disable,
        memory=memory,
        first=first,
    )


def place_of(kind: Kind) -> HandlerPlace:
    """Where the handler of an isolated kind is."""
    terms = kind.isolate
    assert terms is not None
    path = getattr(sys.modules.get(terms.module), "__file__", None)
    file = None if path is None else str(Path(path).resolve())
    return HandlerPlace(kind.name, terms.module, terms.name, file)


def move_in(home: Home) -> None:
    """Let this process import what the worker has imported, and log what it logs."""
    sys.path[:] = home.path
    sys.argv[:] = home.arguments
    if home.django is not None:
        os.environ.setdefault("DJANGO_SETTINGS_MODULE", home.django)
        importlib.import_module("django").setup()
    keep_levels(home)


def keep_levels(home: Home) -> None:
    """Log what the worker logs; modules that were imported may have said otherwise."""
    logging.disable(home.disabled)
    for name, level in home.levels.items():
        logging.getLogger(name or None).setLevel(level)


def find_kind(home: Home, place: HandlerPlace) -> Kind:
    """The kind whose function is at that place."""
    name, module = place.kind, place.module
    Importing.is_going_on = True
    try:
        found: Any = _main(home) if module == "__main__" else _imported(module, place.file)
    finally:
        Importing.is_going_on = False
    try:
        for part in place.name.split("."):
            found = getattr(found, part)
    except AttributeError:
        raise BadDeclaration(
            f"kind {name!r}: a child process has imported {module!r}, and finds no "
            f"{place.name!r} there; give the declared function a name at the top of its module"
        ) from None
    declared = found
    while declared is not None:
        kind = getattr(declared, "_kind", None)
        if isinstance(kind, Kind) and kind.name == name:
            return kind
        declared = getattr(declared, "__wrapped__", None)
    # It was declared elsewhere, and this is the plain function.
    return make_kind(found, Options(name=name))


def _imported(module: str, file: str | None) -> ModuleType:
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as problem:
        if file is None or problem.name not in (module, module.partition(".")[0]):
            raise
    spec = importlib.util.spec_from_file_location(module, file)
    if spec is None or spec.loader is None:
        raise ImportError(f"a child process cannot import {module!r} from {file}")
    made = importlib.util.module_from_spec(spec)
    sys.modules[module] = made
    try:
        spec.loader.exec_module(made)
    except BaseException:
        del sys.modules[module]
        raise
    return made


def _main(home: Home) -> ModuleType:
    """The program of the worker as a module, which does not run as a program."""
    if MAIN in sys.modules:
        return sys.modules[MAIN]
    name, path = home.main or (None, None)
    if name is not None:
        found = runpy.run_module(name, run_name=MAIN, alter_sys=True)
    elif path is not None:
        found = runpy.run_path(path, run_name=MAIN)
    else:
        raise ImportError("a child process cannot import a program that was typed into a session")
    made = ModuleType(MAIN)
    vars(made).update(found)
    sys.modules[MAIN] = sys.modules["__main__"] = made
    return made


def _django() -> str | None:
    """The settings of the Django project that is set up here."""
    apps = getattr(sys.modules.get("django.apps"), "apps", None)
    is_ready = getattr(apps, "ready", False)
    return os.environ.get("DJANGO_SETTINGS_MODULE") if is_ready else None


def _levels() -> dict[str, int]:
    """The levels that loggers have here; "" is the root."""
    found = {"": logging.root.level}
    for name, logger in list(logging.root.manager.loggerDict.items()):
        if isinstance(logger, logging.Logger) and logger.level:
            found[name] = logger.level
    return found
