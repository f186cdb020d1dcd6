"""`Table`: a table or view in any of the databases, as a source of keys or of rows."""

from __future__ import annotations

import re
import sqlite3
import threading
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from sqlalchemy import (
    URL,
    Boolean,
    ColumnElement,
    Connection,
    Engine,
    Enum,
    Float,
    Inspector,
    Integer,
    LargeBinary,
    String,
    Text,
    bindparam,
    cast,
    collate,
    column,
    create_engine,
    func,
    inspect,
    select,
    table,
)
from sqlalchemy.dialects.mysql import SET
from sqlalchemy.dialects.postgresql import DOMAIN
from sqlalchemy.engine.interfaces import ReflectedIndex
from sqlalchemy.exc import DBAPIError, NoSuchModuleError, StatementError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.types import NullType, TypeEngine

from windlass.database.database import normalise
from windlass.database.dialect import dialect_of
from windlass.database.dialect.base import original
from windlass.database.dialect.sqlite import BUSY_SECONDS
from windlass.database.plan import explain, sorts
from windlass.errors import BadDatabase, BadKey, BadSource, DatabaseUnavailable
from windlass.source.store.keyset import Keyset
from windlass.value.task import check_key

PART = 10_000
# Short enough for the limits of every database on the length of a statement.
ASKED_AT_ONCE = 500
# The server sorts all keys before the first one comes, and a mirror may be slow to take them.
SORT_SECONDS = 900
TAKE_SECONDS = 3_600

WHOLE = re.compile(r"-?[0-9]{1,20}")


class Table:
    """A table or view, given by the URL of its database, or by an engine of yours.

    Mirrored, its key column holds text or whole numbers; a number's key is its decimal text. Swept,
    the key may be any column that can be sorted by, or several: `key=("shop", "number")`. Handlers
    then get the `columns`, or all, of the rows for which `where` is true, a condition in SQL.
    Making one reads nothing. It may be shared between threads, and only ever reads.
    """

    def __init__(
        self,
        url: str | URL | Engine,
        table: str,
        *,
        key: str | Sequence[str],
        columns: Sequence[str] | None = None,
        where: str | None = None,
    ) -> None:
        self._own_engine = url if isinstance(url, Engine) else None
        self.url = normalise(url.url if isinstance(url, Engine) else url)
        self.schema, self.table = _names(table)
        self.key_columns = _key_columns(table, key)
        self.key = ", ".join(self.key_columns)
        self.columns = None if columns is None else _columns(table, columns)
        self.where = where
        if where is not None and (not isinstance(where, str) or not where.strip()):
            raise BadSource(f"table {table!r}: where={where!r} is not a condition in SQL")
        self._dialect = dialect_of(self.url)
        self._lock = threading.Lock()
        self._engine: Engine | None = self._own_engine
        self._is_whole: bool | None = None
        self._is_checked = False
        self._counted: int | None = None
        self._keyset = Keyset(
            self.table,
            self.schema,
            self.key_columns,
            columns=self.columns,
            where=where,
            compares_rows=self._dialect.compares_rows,
        )

    @property
    def name(self) -> str:
        """The table and its database, for people."""
        place = self.url.set(query={}).render_as_string(hide_password=True)
        return f"{self._full_name} in {place}"

    def check(self) -> None:
        """Raise `BadSource` unless it can be mirrored: every row has a key of its own."""
        if len(self.key_columns) > 1 or self.where is not None:
            raise BadSource(
                f"{self.name}: only a table with one key column and without where= can be mirrored "
                "or followed; use a view"
            )
        with self.connect() as connection:
            inspector = inspect(connection)
            self._is_whole = self._inspect_key(inspector)
            null = select(self._text).select_from(self._from).where(column(self.key).is_(None))
            if connection.execute(null.limit(1)).first() is not None:
                raise BadSource(
                    f"{self.name}: column {self.key!r} is null in some row; give every row a key, "
                    "or use a view without those rows"
                )
            if not self._is_unique(inspector):
                self._look_for_duplicate(connection)

    def keys(self) -> Iterator[list[str]]:
        """All keys as they are at one moment, in the byte order of UTF-8, up to 10,000 a list."""
        statement = select(self._text).select_from(self._from).order_by(self._bytes)
        with self.connect() as connection:
            rows = connection.execution_options(yield_per=PART).execute(statement).scalars()
            raw, is_complete = connection.connection.driver_connection, False
            try:
                last = ""
                for part in rows.partitions():
                    last = self._checked(part, after=last)
                    yield list(part)
                is_complete = True
            finally:
                if not is_complete:
                    _forget_rest(raw)
                    connection.invalidate()

    def present(self, keys: Collection[str]) -> set[str]:
        """Those of `keys` that the table has now, byte by byte, found by the column's index."""
        asked: list[Any] = list(keys)
        found: set[str] = set()
        # A value without a type takes the column's own, which is what the index is made of.
        values = bindparam("values", expanding=True, type_=NullType())
        statement = select(self._text).select_from(self._from).where(column(self.key).in_(values))
        with self.connect() as connection:
            if self._is_whole is None:
                self._is_whole = self._inspect_key(inspect(connection))
            # SQLite itself compares text with numbers by the type of the column.
            if self._is_whole and self._dialect.name != "sqlite":
                asked = [int(key) for key in asked if WHOLE.fullmatch(key)]
            for begin in range(0, len(asked), ASKED_AT_ONCE):
                some = asked[begin : begin + ASKED_AT_ONCE]
                found.update(connection.execute(statement, {"values": some}).scalars())
        return found.intersection(keys)

    # Swept: rows in the order of the key

    def bounds(self, ranges: int) -> Sequence[Any]:
        """Keys that cut the rows into parts of equal number, however they are clustered."""
        with self.connect() as connection:
            total = self._counted or self._keyset.count(connection, None, None)
            self._counted = None
            found: list[Any] = []
            for part in range(1, min(ranges, total)):
                step = total * part // ranges - total * (part - 1) // ranges
                last = found[-1] if found else None
                key = self._keyset.edge(connection, last, None, step) if step else None
                if key is not None:
                    found.append(key)
            if found and self._keyset.edge(connection, found[-1], None, 1) is None:
                # Rows have gone meanwhile.
                found.pop()
            return found

    def middle(self, after: Any | None, upto: Any | None) -> Any | None:
        """The key with as many rows up to it as beyond it; None if there are fewer than two."""
        with self.connect() as connection:
            count = self._keyset.count(connection, after, upto)
            if count < 2:
                return None
            key = self._keyset.edge(connection, after, upto, count // 2)
            is_last = key is None or self._keyset.edge(connection, key, upto, 1) is None
            return None if is_last else key

    def read(self, after: Any | None, upto: Any | None, limit: int) -> Sequence[tuple[Any, Any]]:
        """The next rows as mappings, each with its key."""
        with self.connect() as connection:
            return self._keyset.read(connection, after, upto, limit)

    def edge(self, after: Any | None, upto: Any | None, count: int) -> Any | None:
        """The key of the row that many further on, or of the last one; None if there is none."""
        with self.connect() as connection:
            return self._keyset.edge(connection, after, upto, count)

    def count(self) -> int:
        """How many rows there are; the next `bounds` need not count them again."""
        with self.connect() as connection:
            self._counted = self._keyset.count(connection, None, None)
            return self._counted

    def find(self, key: Any) -> Any | None:
        """The row with that key."""
        with self.connect() as connection:
            return self._keyset.find(connection, key)

    def locate(self, key: Any) -> tuple[Any, Any] | None:
        """The row with that key, and the key as the row has it."""
        row = self.find(key)
        if row is None:
            return None
        own = tuple(row[name] for name in self.key_columns)
        return (own if len(own) > 1 else own[0]), row

    def check_sweep(self) -> None:
        """Raise `BadSource` unless it can be swept: every row has a key of its own."""
        with self.connect() as connection:
            inspector = inspect(connection)
            self._check_types(self._inspect_columns(inspector))
            if self._keyset.has_null(connection):
                raise BadSource(
                    f"{self.name}: {self.key} is null in some row; give every row a key, or leave "
                    "those rows out with where="
                )
            if not self._is_checked and not self._is_unique(inspector):
                twice = self._keyset.duplicate(connection)
                if twice is not None:
                    raise self._duplicate(twice)
            self._is_checked = True

    def plan(self) -> str | None:
        """The database's plan for a page, if it has no index in the order of the key."""
        with self.connect() as connection:
            if self._has_index(inspect(connection)):
                return None
            told = explain(connection, self._keyset.page(1_000))
            return told if sorts(told) else None

    @contextmanager
    def connect(self) -> Iterator[Connection]:
        """A connection that reads; what goes wrong on it is told as an error of Windlass."""
        try:
            with self._made_engine().connect() as connection:
                yield connection
        except (StatementError, PoolTimeout) as problem:
            raise self._told(problem) from problem

    def close(self) -> None:
        """Give back all connections. Using the table again makes new ones."""
        with self._lock:
            engine, self._engine = self._engine, self._own_engine
        if engine is not None and engine is not self._own_engine:
            engine.dispose()

    def __repr__(self) -> str:
        place = self.url.set(query={}).render_as_string(hide_password=True)
        return f"Table({place!r}, {self._full_name!r}, key={self.key!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Table) and self._value == other._value

    def __hash__(self) -> int:
        return hash(self._value)

    @property
    def _value(self) -> tuple[Any, ...]:
        columns = None if self.columns is None else tuple(self.columns)
        return self.url, self.schema, self.table, self.key_columns, columns, self.where

    @property
    def _full_name(self) -> str:
        return self.table if self.schema is None else f"{self.schema}.{self.table}"

    @property
    def _from(self) -> Any:
        return table(self.table, column(self.key), schema=self.schema)

    @property
    def _text(self) -> ColumnElement[str]:
        return cast(column(self.key), Text())

    @property
    def _bytes(self) -> ColumnElement[Any]:
        """The key for comparing byte by byte, whatever the collation of its column."""
        match self._dialect.name:
            case "postgresql":
                return collate(self._text, "C")
            case "sqlite":
                return collate(self._text, "binary")
        return cast(self._text, LargeBinary())

    def _made_engine(self) -> Engine:
        with self._lock:
            if self._engine is None:
                self._engine = _engine(self.url, self.name)
            return self._engine

    def _told(self, problem: StatementError | PoolTimeout) -> Exception:
        lines = str(original(problem)).strip().splitlines()
        line = lines[0][:300] if lines else type(problem).__name__
        if self.url.password:
            line = line.replace(str(self.url.password), "***")
        message = f"{self.name}: {line}"
        is_away = isinstance(problem, PoolTimeout) or (
            isinstance(problem, DBAPIError)
            and (
                problem.connection_invalidated
                or self._dialect.is_conflict(problem)
                or self._dialect.is_outage(problem)
            )
        )
        return DatabaseUnavailable(message) if is_away else BadSource(message)

    def _inspect_key(self, inspector: Inspector) -> bool:
        """Whether the keys are whole numbers rather than text."""
        kind = self._inspect_columns(inspector)[self.key]
        while isinstance(kind, DOMAIN):
            kind = kind.data_type
        if isinstance(kind, Integer):
            return True
        if isinstance(kind, String) and not isinstance(kind, Enum):
            return False
        said = "no type" if isinstance(kind, NullType) else f"type {kind}"
        raise BadSource(
            f"{self.name}: column {self.key!r} has {said}, and a key must be text or a whole "
            "number; use another column, or a view that casts it to text"
        )

    def _check_types(self, types: dict[str, TypeEngine[Any]]) -> None:
        for name in self.key_columns:
            if isinstance(types[name], Float | Boolean):
                raise BadSource(
                    f"{self.name}: column {name!r} has type {types[name]}, which cannot be a key; "
                    "use a whole number, text, a UUID or a time"
                )
            if self._dialect.name == "mysql" and isinstance(types[name], Enum | SET):
                # They are sorted by the number of a value, and compared with text as text.
                raise BadSource(
                    f"{self.name}: column {name!r} has type {types[name]}, whose order is not that "
                    "of its text; use another column as key"
                )

    def _similar(self, inspector: Inspector) -> str:
        there = inspector.get_table_names(self.schema) + inspector.get_view_names(self.schema)
        similar = get_close_matches(self.table, there)
        return f"similar: {', '.join(similar)}" if similar else "check the name and the database"

    def _is_unique(self, inspector: Inspector) -> bool:
        """Whether the database itself promises that no key comes twice."""
        primary = inspector.get_pk_constraint(self.table, self.schema)
        key = list(self.key_columns)
        if sorted(primary["constrained_columns"]) == sorted(key):
            return True
        constraints = inspector.get_unique_constraints(self.table, self.schema)
        if any(sorted(each["column_names"]) == sorted(key) for each in constraints):
            return True
        return any(
            index["unique"] and index["column_names"] == key and not _is_partial(index)
            for index in inspector.get_indexes(self.table, self.schema)
        )

    def _has_index(self, inspector: Inspector) -> bool:
        """Whether an index begins with the key, in its order."""
        key = list(self.key_columns)
        primary = inspector.get_pk_constraint(self.table, self.schema)
        constraints = inspector.get_unique_constraints(self.table, self.schema)
        indexes = inspector.get_indexes(self.table, self.schema)
        begins: list[Sequence[str | None]] = [
            primary["constrained_columns"],
            *(constraint["column_names"] for constraint in constraints),
            *(index["column_names"] for index in indexes if not _is_partial(index)),
        ]
        return any(list(columns)[: len(key)] == key for columns in begins)

    def _inspect_columns(self, inspector: Inspector) -> dict[str, TypeEngine[Any]]:
        """The types of all columns, if those that are asked for are there."""
        if not inspector.has_table(self.table, self.schema):
            raise BadSource(f"{self.name}: there is no such table; {self._similar(inspector)}")
        columns = inspector.get_columns(self.table, self.schema)
        types: dict[str, TypeEngine[Any]] = {found["name"]: found["type"] for found in columns}
        for name in (*self.key_columns, *(self.columns or ())):
            if name not in types:
                raise BadSource(
                    f"{self.name} has no column {name!r}; its columns: {', '.join(types)}"
                )
        return types

    def _look_for_duplicate(self, connection: Connection) -> None:
        twice = select(func.min(self._text)).select_from(self._from).group_by(self._bytes)
        found = connection.execute(twice.having(func.count() > 1).limit(1)).scalar()
        if found is not None:
            raise self._duplicate(found)

    def _duplicate(self, key: str) -> BadSource:
        return BadSource(
            f"{self.name}: column {self.key!r} is not unique, {key!r} comes more than once; "
            "use a unique column, or a view that shows each key once"
        )

    def _checked(self, part: Sequence[str], *, after: str) -> str:
        """The last of `part`, if all of it can be keys and is in order."""
        for key in part:
            try:
                check_key(self.table, key)
            except BadKey as problem:
                raise BadSource(
                    f"{self.name}: column {self.key!r} has a value that cannot be a key: {problem}"
                ) from problem
            # Python compares text by code point, which is the order of its UTF-8.
            if key <= after:
                if key == after:
                    raise self._duplicate(key)
                raise BadSource(
                    f"{self.name}: {key!r} came after {after!r}, which is not the order of UTF-8; "
                    "use a database whose encoding is UTF-8"
                )
            after = key
        return after


def file_of(url: URL) -> Path | None:
    """The file of a SQLite database; None if it is in memory."""
    name = url.database or ""
    if name.startswith("file:"):
        if "mode=memory" in name or url.query.get("mode") == "memory":
            return None
        name = unquote(urlsplit(name).path)
    return None if name in ("", ":memory:") else Path(name).resolve()


def _forget_rest(raw: object) -> None:
    """Keep PyMySQL from reading all the rest first, even if its connection is no more."""
    result = getattr(raw, "_result", None)
    if result is not None and hasattr(result, "unbuffered_active"):
        result.unbuffered_active = False


def _is_partial(index: ReflectedIndex) -> bool:
    return any(option.endswith("_where") for option in index.get("dialect_options", {}))


def _names(given: str) -> tuple[str | None, str]:
    """Schema and table of "schema.table" or "table"."""
    parts = given.split(".") if isinstance(given, str) else []
    if not 1 <= len(parts) <= 2 or not all(part.strip() for part in parts):
        raise BadSource(
            f"table={given!r} is not the name of a table; "
            'write it as "product", or with its schema as "shop.product"'
        )
    return (parts[0] if len(parts) == 2 else None), parts[-1]


def _key_columns(table: str, given: str | Sequence[str]) -> tuple[str, ...]:
    names = (given,) if isinstance(given, str) else given
    is_list = isinstance(names, tuple | list) and 0 < len(set(names)) == len(names)
    if is_list and all(isinstance(name, str) and name.strip() for name in names):
        return tuple(names)
    raise BadSource(
        f"table {table!r}: key={given!r} is not a column; give the column's name, "
        "or a tuple of names"
    )


def _columns(table: str, given: Sequence[str]) -> list[str]:
    is_list = not isinstance(given, str) and isinstance(given, Sequence)
    if not is_list or not all(isinstance(name, str) and name.strip() for name in given):
        raise BadSource(f"table {table!r}: columns={given!r} is not a list of columns")
    return list(given)


def _engine(url: URL, name: str) -> Engine:
    dialect = dialect_of(url)
    options: dict[str, Any] = {
        **dialect.engine_options(url),
        "pool_size": 2,
        "pool_pre_ping": True,
        "hide_parameters": True,
    }
    if dialect.name == "sqlite":
        return create_engine("sqlite://", creator=lambda: _open(url, name), **options)
    if dialect.name == "mysql":
        options["connect_args"] |= {
            "read_timeout": SORT_SECONDS,
            # A time in a zone of its own has hours that come twice, and would be no key.
            "init_command": f"set session net_write_timeout = {TAKE_SECONDS}, time_zone = '+00:00'",
        }
    try:
        return create_engine(url, **options)
    except (ImportError, NoSuchModuleError) as problem:
        raise BadDatabase(
            f"{name} needs a driver that is not installed; run: pip install 'windlass[all]'"
        ) from problem


def _open(url: URL, name: str) -> sqlite3.Connection:
    """The file as it is: not made, not written to, its journal left alone."""
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
