"""`Table`: a table or view of any supported database, as a source of keys or of rows."""

from __future__ import annotations

import re
import threading
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from sqlalchemy import (
    URL,
    ColumnElement,
    Connection,
    Engine,
    Text,
    bindparam,
    cast,
    column,
    func,
    inspect,
    select,
    table,
)
from sqlalchemy.exc import DBAPIError, StatementError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.types import NullType

from windlass import lent
from windlass.database.access import Password, check_password, reach
from windlass.database.database import normalise
from windlass.database.dialect import dialect_of
from windlass.database.dialect.base import original
from windlass.database.plan import explain, sorts
from windlass.database.url import place_of
from windlass.errors import BadKey, BadSource, DatabaseUnavailable
from windlass.source.store.dialect import SOURCES
from windlass.source.store.keyset import Keyset
from windlass.source.store.shape import Shape
from windlass.value.task import check_key

PART = 10_000
# A statement with more keys than this is too long for some databases.
ASKED_AT_ONCE = 500

WHOLE = re.compile(r"-?[0-9]{1,20}")


class Table:
    """A table or view, given by the URL of its database or by your own engine.

    To be mirrored, it needs one key column of text or whole numbers; the key of a number is its
    decimal text. To be swept, it may have any sortable column as key, or several:
    `key=("shop", "number")`. Handlers get all columns of a row, or those in `columns`; `where`, a
    condition in SQL, leaves rows out. `password` is called as that of an App. Creating a `Table`
    reads nothing. It only reads, and threads may share it.
    """

    def __init__(
        self,
        url: str | URL | Engine,
        table: str,
        *,
        key: str | Sequence[str],
        columns: Sequence[str] | None = None,
        where: str | None = None,
        password: Password | None = None,
    ) -> None:
        self._own_engine = url if isinstance(url, Engine) else None
        # The environment is about the database of Windlass, not about this one.
        self.url = normalise(url.url) if isinstance(url, Engine) else reach(url, environment={})
        self._declared_url = self.url
        self._password = check_password(self.url, password)
        self.schema, self.table = _names(table)
        self.key_columns = _key_columns(table, key)
        self.key = ", ".join(self.key_columns)
        self.columns = None if columns is None else _columns(table, columns)
        self.where = where
        if where is not None and (not isinstance(where, str) or not where.strip()):
            raise BadSource(f"table {table!r}: where={where!r} is not a condition in SQL")
        self._lock = threading.Lock()
        self._use(self.url, self._own_engine)
        lent.register(self)

    def _use(self, url: URL, engine: Engine | None) -> None:
        self.url, self._own_engine, self._engine = url, engine, engine
        self._dialect = dialect_of(url)
        self._reading = SOURCES.of(self._dialect)
        self._is_whole: bool | None = None
        self._is_checked = False
        self._counted: int | None = None
        self._keyset = Keyset(
            self.table,
            self.schema,
            self.key_columns,
            columns=self.columns,
            where=self.where,
            compares_rows=self._dialect.compares_rows,
        )

    def borrow(self, loan: lent.Loan) -> lent.GiveBack | None:
        """Move to the lent database that stands for its own; returns how to move back."""
        url, engine, place = self.url, self._own_engine, loan.places.get(place_of(self.url))
        if place is None:
            return None
        self._use(normalise(place.url), None)

        def give_back() -> None:
            self.close()
            self._use(url, engine)

        return give_back

    @property
    def name(self) -> str:
        """The table and its database, for people."""
        place = self.url.set(query={}).render_as_string(hide_password=True)
        return f"{self._full_name} in {place}"

    @property
    def fields(self) -> dict[str, Any]:
        """What makes it again, with the password of its URL, without one from a function."""
        return {
            "url": self._declared_url.render_as_string(hide_password=False),
            "table": self._full_name,
            "key": list(self.key_columns),
            "columns": None if self.columns is None else list(self.columns),
            "where": self.where,
        }

    @property
    def asks_for_password(self) -> bool:
        """Whether a function gives its password."""
        return self._password is not None

    def sibling(self, **fields: Any) -> Table:
        """Another table of the same database, reached as this one is."""
        return Table(self._own_engine or self._declared_url, password=self._password, **fields)

    def check(self) -> None:
        """Raise `BadSource` unless it can be mirrored: every row has a key of its own."""
        if len(self.key_columns) > 1 or self.where is not None:
            raise BadSource(
                f"{self.name}: only a table with one key column and without where= can be mirrored "
                "or followed; use a view"
            )
        with self.connect() as connection:
            shape = self._shape(connection)
            self._is_whole = shape.has_whole_numbers()
            if self._keyset.has_null(connection):
                raise BadSource(
                    f"{self.name}: column {self.key!r} is null in some row; give every row a key, "
                    "or use a view without those rows"
                )
            if not shape.is_unique():
                self._refuse_duplicates(connection)

    def keys(self) -> Iterator[list[str]]:
        """All keys as they are at one moment, in the byte order of UTF-8, in lists of 10,000."""
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
                    _skip_rest(raw)
                    connection.invalidate()

    def present(self, keys: Collection[str]) -> set[str]:
        """Those of `keys` that the table has now, compared byte by byte."""
        asked: list[Any] = list(keys)
        found: set[str] = set()
        # A value without a type takes the type of the column, so its index is used.
        values = bindparam("values", expanding=True, type_=NullType())
        statement = select(self._text).select_from(self._from).where(column(self.key).in_(values))
        with self.connect() as connection:
            if self._is_whole is None:
                self._is_whole = self._shape(connection).has_whole_numbers()
            if self._is_whole and not self._reading.converts_text:
                asked = [int(key) for key in asked if WHOLE.fullmatch(key)]
            for begin in range(0, len(asked), ASKED_AT_ONCE):
                some = asked[begin : begin + ASKED_AT_ONCE]
                found.update(connection.execute(statement, {"values": some}).scalars())
        return found.intersection(keys)

    def bounds(self, ranges: int) -> Sequence[Any]:
        """Keys that cut the rows into parts with the same number of rows."""
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
                # Rows were deleted meanwhile.
                found.pop()
            return found

    def middle(self, after: Any | None, upto: Any | None) -> Any | None:
        """The key in the middle of the rows; None if there are fewer than two."""
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
        """The key of the row `count` rows further, or of the last one; None if there is none."""
        with self.connect() as connection:
            return self._keyset.edge(connection, after, upto, count)

    def count(self) -> int:
        """How many rows there are; the next call of `bounds` uses this number."""
        with self.connect() as connection:
            self._counted = self._keyset.count(connection, None, None)
            return self._counted

    def find(self, key: Any) -> Any | None:
        """The row with that key."""
        with self.connect() as connection:
            return self._keyset.find(connection, key)

    def locate(self, key: Any) -> tuple[Any, Any] | None:
        """The row with that key, after the key as the table has it."""
        row = self.find(key)
        if row is None:
            return None
        own = tuple(row[name] for name in self.key_columns)
        return (own if len(own) > 1 else own[0]), row

    def check_sweep(self) -> None:
        """Raise `BadSource` unless it can be swept: every row has a key of its own."""
        with self.connect() as connection:
            shape = self._shape(connection)
            shape.check_sortable(shape.types(self.columns or ()), self._reading)
            if self._keyset.has_null(connection):
                raise BadSource(
                    f"{self.name}: {self.key} is null in some row; give every row a key, or leave "
                    "those rows out with where="
                )
            if not self._is_checked and not shape.is_unique():
                twice = self._keyset.duplicate(connection)
                if twice is not None:
                    raise self._duplicate(twice)
            self._is_checked = True

    def plan(self) -> str | None:
        """The plan of the database for a page, if reading it sorts rows for lack of an index."""
        with self.connect() as connection:
            if self._shape(connection).has_index():
                return None
            found = explain(connection, self._keyset.page(1_000))
            return found if sorts(found) else None

    @contextmanager
    def connect(self) -> Iterator[Connection]:
        """A connection that reads; its errors become errors of Windlass."""
        lent.check(lambda: place_of(self.url), lambda: self.name)
        try:
            with self._open_engine().connect() as connection:
                yield connection
        except (StatementError, PoolTimeout) as problem:
            raise self._error(problem) from problem

    def close(self) -> None:
        """Close all connections. Using the table again opens new ones."""
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
        return self._declared_url, self.schema, self.table, self.key_columns, columns, self.where

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
        return self._reading.in_byte_order(self._text)

    def _open_engine(self) -> Engine:
        with self._lock:
            if self._engine is None:
                self._engine = self._reading.engine(self.url, self.name, self._password)
            return self._engine

    def _shape(self, connection: Connection) -> Shape:
        key = list(self.key_columns)
        return Shape(inspect(connection), self.name, self.table, self.schema, key)

    def _error(self, problem: StatementError | PoolTimeout) -> Exception:
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

    def _refuse_duplicates(self, connection: Connection) -> None:
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
        """The last key of `part`, once all are known to be valid and in order."""
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


def _skip_rest(raw: object) -> None:
    """Keep PyMySQL from reading all rows that are left before it closes the connection."""
    result = getattr(raw, "_result", None)
    if result is not None and hasattr(result, "unbuffered_active"):
        result.unbuffered_active = False


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
