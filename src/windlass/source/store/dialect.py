"""What differs between databases when their tables are read as sources."""

from __future__ import annotations

import sqlite3
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from sqlalchemy import (
    URL,
    ColumnElement,
    Engine,
    Enum,
    LargeBinary,
    cast,
    collate,
    create_engine,
    event,
)
from sqlalchemy.dialects.mysql import SET
from sqlalchemy.exc import NoSuchModuleError
from sqlalchemy.types import TypeEngine

from windlass.database.access import Password, ask_password
from windlass.database.bound import Bounds
from windlass.database.dialect import PerDialect, dialect_of
from windlass.database.dialect.sqlite import BUSY_SECONDS
from windlass.errors import BadDatabase, BadSource

# The server sorts all keys before it sends the first one, and a mirror may read them slowly.
SORT_SECONDS = 900
TAKE_SECONDS = 3_600


class SourceDialect(ABC):
    """How one kind of database is read. `name` is the name of the source, for errors."""

    # Whether text that is compared with a numeric column is read as a number.
    converts_text = False
    # Types that are sorted in another order than that of their text.
    unordered: tuple[type[TypeEngine[Any]], ...] = ()

    @abstractmethod
    def in_byte_order(self, text: ColumnElement[str]) -> ColumnElement[Any]:
        """`text` so that it is compared byte by byte, whatever the collation of its column."""

    def engine(self, url: URL, name: str, password: Password | None = None) -> Engine:
        """An engine that reads."""
        try:
            engine = create_engine(dialect_of(url).clean(url), **self._options(url))
        except (ImportError, NoSuchModuleError) as problem:
            raise BadDatabase(
                f"{name} needs a driver that is not installed; run: pip install 'windlass[all]'"
            ) from problem
        if password is not None:

            @event.listens_for(engine, "do_connect")
            def on_connect(dialect: Any, _record: object, unnamed: Any, named: Any) -> Any:
                secret = ask_password(url, password)
                return dialect.connect(*unnamed, **{**named, "password": secret})

        return engine

    def _options(self, url: URL) -> dict[str, Any]:
        own = {"pool_size": 2, "pool_pre_ping": True, "hide_parameters": True}
        return {**dialect_of(url).engine_options(url, Bounds()), **own}


class _Postgresql(SourceDialect):
    def in_byte_order(self, text: ColumnElement[str]) -> ColumnElement[Any]:
        return collate(text, "C")


class _Mysql(SourceDialect):
    unordered = (Enum, SET)

    def in_byte_order(self, text: ColumnElement[str]) -> ColumnElement[Any]:
        return cast(text, LargeBinary())

    def _options(self, url: URL) -> dict[str, Any]:
        options = super()._options(url)
        options["connect_args"] |= {
            "read_timeout": SORT_SECONDS,
            # In a zone with daylight saving time an hour comes twice, so a time could not be a key.
            "init_command": f"set session net_write_timeout = {TAKE_SECONDS}, time_zone = '+00:00'",
        }
        return options


class _Sqlite(SourceDialect):
    converts_text = True

    def in_byte_order(self, text: ColumnElement[str]) -> ColumnElement[Any]:
        return collate(text, "binary")

    def engine(self, url: URL, name: str, password: Password | None = None) -> Engine:
        options = self._options(url)
        return create_engine("sqlite://", creator=lambda: _open_file(url, name), **options)


SOURCES: PerDialect[SourceDialect] = PerDialect(
    sqlite=_Sqlite(), postgresql=_Postgresql(), mysql=_Mysql()
)


def file_of(url: URL) -> Path | None:
    """The file of a SQLite database; None if it is in memory."""
    name = url.database or ""
    if name.startswith("file:"):
        if "mode=memory" in name or url.query.get("mode") == "memory":
            return None
        name = unquote(urlsplit(name).path)
    return None if name in ("", ":memory:") else Path(name).resolve()


def _open_file(url: URL, name: str) -> sqlite3.Connection:
    """Open an existing file for reading only; its journal mode stays as it is."""
    file = file_of(url)
    if file is None:
        raise BadSource(
            f"{name}: a database in memory cannot be read from outside; use one in a file"
        )
    if not file.is_file():
        raise BadSource(f"{name}: no such file: {file}; check the path")
    return sqlite3.connect(
        f"{file.as_uri()}?mode=ro",
        uri=True,
        timeout=BUSY_SECONDS,
        check_same_thread=False,
        isolation_level=None,
    )
