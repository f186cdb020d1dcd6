"""What the catalog of a database says about a table: its columns, their types and its indexes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from sqlalchemy import Boolean, Enum, Float, Inspector, Integer, String
from sqlalchemy.dialects.postgresql import DOMAIN
from sqlalchemy.engine.interfaces import ReflectedIndex
from sqlalchemy.types import NullType, TypeEngine

from windlass.errors import BadSource
from windlass.source.store.dialect import SourceDialect


@dataclass(frozen=True)
class Shape:
    """A table as the catalog has it now. `name` is the name of the source, for errors."""

    inspector: Inspector
    name: str
    table: str
    schema: str | None
    key: list[str]

    def types(self, columns: Sequence[str]) -> dict[str, TypeEngine[Any]]:
        """The types of all columns; raises `BadSource` unless `columns` are among them."""
        if not self.inspector.has_table(self.table, self.schema):
            raise BadSource(f"{self.name}: there is no such table; {self._similar()}")
        found = self.inspector.get_columns(self.table, self.schema)
        types: dict[str, TypeEngine[Any]] = {each["name"]: each["type"] for each in found}
        for name in (*self.key, *columns):
            if name not in types:
                raise BadSource(
                    f"{self.name} has no column {name!r}; its columns: {', '.join(types)}"
                )
        return types

    def has_whole_numbers(self) -> bool:
        """Whether the one key column holds whole numbers; False if it holds text."""
        (key,) = self.key
        kind = self.types(())[key]
        while isinstance(kind, DOMAIN):
            kind = kind.data_type
        if isinstance(kind, Integer):
            return True
        if isinstance(kind, String) and not isinstance(kind, Enum):
            return False
        said = "no type" if isinstance(kind, NullType) else f"type {kind}"
        raise BadSource(
            f"{self.name}: column {key!r} has {said}, and a key must be text or a whole "
            "number; use another column, or a view that casts it to text"
        )

    def check_sortable(self, types: dict[str, TypeEngine[Any]], dialect: SourceDialect) -> None:
        """Raise `BadSource` if rows cannot be read in the order of the key."""
        for name in self.key:
            if isinstance(types[name], Float | Boolean):
                raise BadSource(
                    f"{self.name}: column {name!r} has type {types[name]}, which cannot be a key; "
                    "use a whole number, text, a UUID or a time"
                )
            if isinstance(types[name], dialect.unordered):
                raise BadSource(
                    f"{self.name}: column {name!r} has type {types[name]}, whose order is not "
                    "that of its text; use another column as key"
                )

    def is_unique(self) -> bool:
        """Whether the database itself guarantees that no key occurs twice."""
        primary, constraints, indexes = self._indexed()
        sets = (primary, *constraints)
        return any(sorted(columns) == sorted(self.key) for columns in sets) or any(
            index["unique"] and index["column_names"] == self.key for index in indexes
        )

    def has_index(self) -> bool:
        """Whether an index begins with the key, in its order."""
        primary, constraints, indexes = self._indexed()
        begins: list[Sequence[str | None]] = [primary, *constraints]
        begins += [index["column_names"] for index in indexes]
        return any(list(columns)[: len(self.key)] == self.key for columns in begins)

    def _indexed(self) -> tuple[Sequence[str], list[Sequence[str]], list[ReflectedIndex]]:
        """The columns of the primary key and of unique constraints, and indexes of all rows."""
        where = self.table, self.schema
        primary = self.inspector.get_pk_constraint(*where)["constrained_columns"]
        unique = self.inspector.get_unique_constraints(*where)
        indexes = self.inspector.get_indexes(*where)
        return (
            primary,
            [each["column_names"] for each in unique],
            [index for index in indexes if not _is_partial(index)],
        )

    def _similar(self) -> str:
        inspector, schema = self.inspector, self.schema
        there = inspector.get_table_names(schema) + inspector.get_view_names(schema)
        similar = get_close_matches(self.table, there)
        return f"similar: {', '.join(similar)}" if similar else "check the name and the database"


def _is_partial(index: ReflectedIndex) -> bool:
    return any(option.endswith("_where") for option in index.get("dialect_options", {}))
