"""Isolation: a kind with `isolate="process"` has a handler that runs in a process of its own."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from windlass.core.task.size import format_size, parse_size
from windlass.errors import BadDeclaration

# Python and Windlass themselves need a part of it.
LEAST_MEMORY = 100_000_000


@dataclass(frozen=True)
class IsolateTerms:
    """Where a child process finds the handler, and how many bytes of memory it may use."""

    module: str
    name: str
    memory: int | None
    # How many runs of the kind are in processes at once, unless it says.
    at_once: int

    def __str__(self) -> str:
        limit = "" if self.memory is None else f", {format_size(self.memory)}"
        return f"process{limit}"


def isolate_terms(name: str, function: Callable[..., Any], given: Any) -> IsolateTerms | None:
    """What a declaration says about processes; an error names the option that is wrong."""
    what, isolate, memory = f"kind {name!r}", given.isolate, given.memory
    if isolate is None:
        if memory is not None:
            raise BadDeclaration(
                f"{what}: memory={memory!r} limits a process of its own; give "
                'isolate="process", too'
            )
        return None
    if isolate != "process":
        raise BadDeclaration(f'{what}: isolate={isolate!r} is neither "process" nor None')
    if given.many is not None:
        raise BadDeclaration(
            f"{what}: many= and isolate= cannot be combined: if a process is ended, nobody knows "
            "which item of its list is to blame; leave one of them out"
        )
    if given.via is not None:
        raise BadDeclaration(
            f"{what}: via= and isolate= cannot be combined: consumers run its handler elsewhere; "
            "leave one of them out"
        )
    limit = None
    if memory is not None:
        limit = parse_size(memory, what=f"{what}: memory", least=LEAST_MEMORY)
    module, place = _place_of(what, function)
    return IsolateTerms(module, place, limit, _cpus())


def _cpus() -> int:
    """How many CPUs this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _place_of(what: str, function: Callable[..., Any]) -> tuple[str, str]:
    """The module and the qualified name of a function that another process can import."""
    module = getattr(function, "__module__", None)
    place = getattr(function, "__qualname__", None)
    cure = "declare a def or an async def at the top of a module"
    if not module or not place or not inspect.isfunction(function):
        raise BadDeclaration(
            f'{what}: isolate="process" needs a function that a child process can import, and '
            f"{function!r} is not one; {cure}"
        )
    if "<" in place:
        raise BadDeclaration(
            f'{what}: isolate="process" needs a function that a child process can import, and '
            f"{place!r} is made when its surroundings run; {cure}"
        )
    if module == "__main__" and main_of() is None:
        raise BadDeclaration(
            f'{what}: isolate="process" needs a function that a child process can import, and '
            "this one was typed into a session; write it into a file"
        )
    return module, place


def main_of() -> tuple[str | None, str | None] | None:
    """The program that runs: the name of its module, or its file; None in a session."""
    main = sys.modules.get("__main__")
    spec = getattr(main, "__spec__", None)
    if spec is not None and spec.name:
        return spec.name, None
    path = getattr(main, "__file__", None)
    if path is None or not Path(path).is_file():
        return None
    return None, str(Path(path).resolve())
