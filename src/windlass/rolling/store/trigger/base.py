"""What each database must be able to do to follow a table, and which tables it can follow."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from zlib import crc32

from sqlalchemy import URL, Connection, text

from windlass.source.store.dialect import file_of
from windlass.source.store.table import Table

PORTS = {"mysql": 3306, "postgresql": 5432}
LOCAL = {"", "localhost", "127.0.0.1", "::1"}


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

    def install(self, connection: Connection, source: Table, *, kind: str, priority: int) -> None:
        """Create or replace the triggers."""
        follow = self._follow(connection, source, kind, priority)
        for statement in self.creation(connection, follow):
            run(connection, statement)

    def uninstall(self, connection: Connection, source: Table, *, kind: str) -> bool:
        """Remove the triggers; False if there were none."""
        follow = self._follow(connection, source, kind)
        was_there = any(self._installed(connection, follow))
        for statement in self.removal(connection, follow):
            run(connection, statement)
        return was_there

    def is_installed(self, connection: Connection, source: Table, *, kind: str) -> bool:
        """Whether there is a trigger for every event."""
        return all(self._installed(connection, self._follow(connection, source, kind)))

    def are_any(self, connection: Connection) -> bool:
        """Whether triggers of any kind, on any table, write into this database."""
        return connection.execute(text(self.any_found)).first() is not None

    def _follow(
        self, connection: Connection, source: Table, kind: str, priority: int = 0
    ) -> Follow:
        home = str(connection.scalar(text(self.home)))
        schema = source.schema or self.schema_of(source)
        return Follow(schema, source.table, source.key, home, kind, priority)

    def _installed(self, connection: Connection, follow: Follow) -> list[bool]:
        """For each event, whether there is a trigger."""
        there = set(connection.scalars(text(self.listed), asdict(follow)))
        return [follow.name(event) in there for event in self.events]


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


def is_within_reach(ours: URL, theirs: URL) -> bool:
    """Whether a statement in the database `theirs` can write into the database `ours`."""
    backend = _backend(ours)
    if backend != _backend(theirs):
        return False
    if backend == "sqlite":
        file = file_of(ours)
        return file is not None and file == file_of(theirs)
    if backend == "postgresql" and _database(ours) != _database(theirs):
        return False
    return _server(ours) == _server(theirs)


def _backend(url: URL) -> str:
    return url.get_backend_name().replace("mariadb", "mysql")


def _database(url: URL) -> str | None:
    return url.database or url.username


def _server(url: URL) -> tuple[str, int, object]:
    socket = url.query.get("unix_socket")
    host = str(socket or url.host or url.query.get("host") or "")
    port = url.port or int(str(url.query.get("port") or PORTS[_backend(url)]))
    # A file that says where the server is.
    named = url.query.get("service") or url.query.get("read_default_file")
    return ("" if host in LOCAL else host), port, named
