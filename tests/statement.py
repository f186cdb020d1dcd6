"""Statements compiled once for all tests, not once per engine that a test makes."""

from functools import partial
from typing import Any

from sqlalchemy import Dialect, create_engine

from windlass.database import database


class Compiled(dict[tuple[Any, ...], Any]):
    """SQLAlchemy's cache of compiled statements, for every engine that speaks alike.

    By itself SQLAlchemy looks for the very dialect object that compiled a statement, and
    each engine has another.
    """

    def get(self, key: tuple[Any, ...], default: Any = None) -> Any:
        return super().get(_alike(key), default)

    def __setitem__(self, key: tuple[Any, ...], compiled: Any) -> None:
        super().__setitem__(_alike(key), compiled)


def compile_once() -> None:
    """Let all apps of this process share what any of them has compiled."""
    shared = partial(create_engine, execution_options={"compiled_cache": Compiled()})
    database.create_engine = shared


def _alike(key: tuple[Any, ...]) -> tuple[Any, ...]:
    dialect: Dialect = key[0]
    return (type(dialect), dialect.server_version_info, *key[1:])
