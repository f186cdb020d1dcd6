"""Packages that import their names on first use."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from importlib import import_module
from sys import modules as loaded


def attributes_of(
    package: str, homes: Mapping[str, Collection[str]], *, modules: Collection[str] = ()
) -> Callable[[str], object]:
    """The `__getattr__` of `package`: `homes` says which module has which names.

    `modules` are submodules that need no import before their use.
    """
    home_of = {name: home for home, names in homes.items() for name in names}

    def attribute(name: str) -> object:
        if name in modules:
            return import_module(f"{package}.{name}")
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value: object = getattr(import_module(home_of[name]), name)
        setattr(loaded[package], name, value)
        return value

    return attribute
