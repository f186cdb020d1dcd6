"""Command groups that import their module on first use."""

from __future__ import annotations

from collections.abc import MutableMapping
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup


def lazy_group(module: str) -> typer.Typer:
    """The commands of `module.cli`, imported on first use."""

    class LazyGroup(TyperGroup):
        @property
        def commands(self) -> MutableMapping[str, Any]:
            if not self._commands:
                self._commands.update(typer.main.get_group(import_module(module).cli).commands)
            return self._commands

        @commands.setter
        def commands(self, given: MutableMapping[str, Any]) -> None:
            self._commands = given

    return typer.Typer(cls=LazyGroup)
