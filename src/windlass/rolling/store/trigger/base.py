"""What each database must be able to do to follow a table."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from zlib import crc32

from sqlalchemy import Connection

from windlass.source.store.table import Table


@dataclass(frozen=True)
class Follow:
    """The table that is followed, where Windlass keeps its own, and the kind that follows."""

    schema: str
    table: str
    key: str
    home: str
    kind: str
    priority: int

    def name(self, event: str) -> str:
        """What the trigger for `event` is called."""
        what = "\0".join((self.kind, self.table, self.schema, self.home))
        return f"windlass_follow_{crc32(what.encode()):08x}_{event}"


class Triggers(ABC):
    """The contract. Statements have no parameters: no trigger can keep one."""

    events: tuple[str, ...] = ("insert", "delete", "update")
    # Finds one of all triggers that write into the database of the connection.
    any_found: str

    @abstractmethod
    def place_of(self, source: Table) -> str:
        """The schema or database in which a table is found that is named without one."""

    @abstractmethod
    def home(self, connection: Connection) -> str:
        """The schema or database in which the tables of Windlass are."""

    @abstractmethod
    def found(self, connection: Connection, follow: Follow) -> set[str]:
        """The names of those triggers that are there."""

    @abstractmethod
    def creation(self, connection: Connection, follow: Follow) -> Iterable[str]:
        """Statements that make the triggers, in place of those that are there."""

    @abstractmethod
    def removal(self, connection: Connection, follow: Follow) -> Iterable[str]:
        """Statements that remove the triggers that are there."""

    def names(self, follow: Follow) -> set[str]:
        """What the triggers are called."""
        return {follow.name(event) for event in self.events}

    def install(self, connection: Connection, follow: Follow) -> None:
        for statement in self.creation(connection, follow):
            run(connection, statement)

    def uninstall(self, connection: Connection, follow: Follow) -> bool:
        was_there = bool(self.found(connection, follow))
        for statement in self.removal(connection, follow):
            run(connection, statement)
        return was_there


def run(connection: Connection, statement: str) -> None:
    """Execute `statement` to the letter: percent signs and colons mean themselves."""
    connection.exec_driver_sql(statement, execution_options={"no_parameters": True})


def quoted(connection: Connection, *names: str) -> str:
    """A name as SQL writes it, after the names of what it is in."""
    preparer = connection.dialect.identifier_preparer
    name = ".".join(preparer.quote_identifier(name) for name in names)
    # The preparer doubles percent signs for drivers that look for parameters.
    is_doubled = connection.dialect.paramstyle in {"format", "pyformat"}
    return name.replace("%%", "%") if is_doubled else name
