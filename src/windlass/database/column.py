"""Columns and their types. Migrations use them too, so what was released never changes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    Dialect,
    Index,
    Integer,
    SmallInteger,
    String,
    Text,
    TypeDecorator,
    text,
)
from sqlalchemy.dialects import mysql
from sqlalchemy.schema import SchemaItem
from sqlalchemy.types import TypeEngine, UserDefinedType

# These compare text byte by byte, including trailing blanks. SQLite does so by default.
EXACT_COLLATIONS = {
    "sqlite": None,
    "postgresql": "C",
    "mysql": "utf8mb4_0900_bin",
    "mariadb": "utf8mb4_nopad_bin",
}

OPTIONS: dict[str, Any] = {
    "mysql_engine": "InnoDB",
    "mysql_charset": "utf8mb4",
    "mariadb_engine": "InnoDB",
    "mariadb_charset": "utf8mb4",
}


def server_of(dialect: Dialect) -> str:
    """The server: sqlite, postgresql, mysql or mariadb.

    A mysql URL may lead to MariaDB, which is known after the first connection.
    """
    return "mariadb" if getattr(dialect, "is_mariadb", False) else dialect.name


class Exact(TypeDecorator[str]):
    """Short text that compares byte by byte, trailing blanks included, in every database."""

    impl = String
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        length = self.impl_instance.length if isinstance(self.impl_instance, String) else None
        assert length is not None
        collation = EXACT_COLLATIONS[server_of(dialect)]
        if dialect.name in ("mysql", "mariadb"):
            return mysql.VARCHAR(length, charset="utf8mb4", collation=collation)
        return String(length, collation=collation)


class StatusCode(TypeDecorator[int]):
    """A status as its number. A driver that does not know the enum would write its name."""

    impl = SmallInteger
    cache_ok = True

    def process_bind_param(self, value: int | None, dialect: Dialect) -> int | None:
        return None if value is None else int(value)


class JsonText(UserDefinedType[str]):
    """PostgreSQL's JSON, written and read as text."""

    cache_ok = True

    def get_col_spec(self, **_options: object) -> str:
        return "JSON"


Number = BigInteger().with_variant(Integer, "sqlite")
Long = Text().with_variant(mysql.MEDIUMTEXT(charset="utf8mb4"), "mysql", "mariadb")
Json = (
    Text()
    .with_variant(JsonText(), "postgresql")
    .with_variant(mysql.MEDIUMTEXT(charset="utf8mb4"), "mysql", "mariadb")
)


Kind = TypeEngine[Any] | type[TypeEngine[Any]]
Part = list[Column[Any]] | SchemaItem


def key(**columns: Kind) -> list[Column[Any]]:
    """The columns of the primary key; the database does not number the rows."""
    return [
        Column(name, kind, primary_key=True, autoincrement=False) for name, kind in columns.items()
    ]


def required(**columns: Kind) -> list[Column[Any]]:
    """Columns that every row must fill."""
    return [Column(name, kind, nullable=False) for name, kind in columns.items()]


def zero(**columns: Kind) -> list[Column[Any]]:
    """Columns that are 0 in a new row."""
    zero = text("0")
    return [
        Column(name, kind, nullable=False, server_default=zero) for name, kind in columns.items()
    ]


def optional(**columns: Kind) -> list[Column[Any]]:
    """Columns that may be null."""
    return [Column(name, kind) for name, kind in columns.items()]


def partial_index(name: str, *columns: str, where: str, unique: bool = False) -> Index:
    """An index of the rows `where`, if the database has partial indexes; else of all rows."""
    only = text(where)
    return Index(name, *columns, unique=unique, postgresql_where=only, sqlite_where=only)


def flat(parts: Iterable[Part]) -> list[SchemaItem]:
    """All columns, indexes and constraints of a table."""
    return [each for part in parts for each in (part if isinstance(part, list) else [part])]
