"""What each database must be able to do to follow a table."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from zlib import crc32

from sqlalchemy import Connection, text

from windlass.source.store.table import Table


@dataclass(frozen=True)
class Follow:
    """The table that is followed, the schema of Windlass' own tables, and the kind that follows."""

    schema: str
    table: str
    key: str
    home: str
    kind: str
    priority: int

    def name(self, event: str) -> str:
        """The name of the trigger for `event`."""
        what = "\0".join((self.kind, self.table, self.schema, self.home))
        return f"windlass_follow_{crc32(what.encode()):08x}_{event}"


class Triggers(ABC):
    """The contract. Statements have no parameters, because a trigger cannot keep them."""

    events: tuple[str, ...] = ("insert", "delete", "update")
    # Finds one of all triggers that write into the database of the connection.
    any_found: str
    # The schema or database of Windlass' own tables.
    home: str
    # The names of the triggers on the table :schema, :table, and maybe on others.
    listed: str

    @abstractmethod
    def schema_of(self, source: Table) -> str:
        """The schema or database of a table that is named without one."""

    @abstractmethod
    def creation(self, connection: Connection, follow: Follow) -> Iterable[str]:
        """Statements that create the triggers, or replace them."""

    def removal(self, connection: Connection, follow: Follow) -> Iterable[str]:
        """Statements that remove the triggers that are there."""
        for event in self.events:
            yield f"drop trigger if exists {self.quoted_name(connection, follow, event)}"

    def quoted_name(self, connection: Connection, follow: Follow, event: str) -> str:
        """The name of a trigger, as SQL writes it."""
        return quoted(connection, follow.schema, follow.name(event))

    def follow(self, connection: Connection, source: Table, kind: str, priority: int) -> Follow:
        """What is followed, by what."""
        return Follow(
            schema=source.schema or self.schema_of(source),
            table=source.table,
            key=source.key,
            home=str(connection.scalar(text(self.home))),
            kind=kind,
            priority=priority,
        )

    def are_any(self, connection: Connection) -> bool:
        """Whether triggers of any kind, on any table, write into this database."""
        return connection.execute(text(self.any_found)).first() is not None

    def missing(self, connection: Connection, follow: Follow) -> set[str]:
        """The events for which there is no trigger."""
        there = set(connection.scalars(text(self.listed), asdict(follow)))
        return {event for event in self.events if follow.name(event) not in there}

    def install(self, connection: Connection, follow: Follow) -> None:
        """Create or replace the triggers."""
        for statement in self.creation(connection, follow):
            run(connection, statement)

    def uninstall(self, connection: Connection, follow: Follow) -> bool:
        """Remove the triggers; False if there were none."""
        was_there = self.missing(connection, follow) != set(self.events)
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
