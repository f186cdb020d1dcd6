"""What the ledger says differently to each database: lists of rows meet a table by its keys."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from sqlalchemy import Connection, TextClause, text
from sqlalchemy.dialects.mysql import pymysql
from sqlalchemy.exc import DBAPIError

from windlass.database.dialect.base import Dialect, Executor, encode, original
from windlass.database.dialect.postgresql import often

# So many rows, with the longest names, are a message that every server takes.
AT_ONCE = 2_000
# Up to so many updates are quicker one by one than as a list, where JSON is slow.
FEW = 2
# What a block of MariaDB says, and as which error it comes, when a row is not as it should be.
UNMET, SIGNALLED = "45000", 1644
# Stands between texts that are escaped as one. It is no character, and no escape contains it.
BETWEEN = "\uffff"
# How long PostgreSQL waits for rows that somebody else holds, and for the next word of a process
# that holds some; the dialect of MySQL tells each connection.
BOUNDED = (
    "select set_config('lock_timeout', '1s', true) as waits, "
    "set_config('idle_in_transaction_session_timeout', '4s', true) as idles"
)
# What a column of a list is in MySQL: a key, a number, or a long text.
TYPES = {str: "varchar(255)", int: "bigint", bytes: "mediumtext"}


class Part(NamedTuple):
    """A statement about rows that travel as one list, in the parameter of its name.

    `plain` says the same of one row, whose columns are the parameters.
    """

    statement: str
    plain: str
    rows: Sequence[Mapping[str, Any]]


class Condition(NamedTuple):
    """What must be true of the rows of a table, t, whose keys are in the list of a part.

    With a guard: there is one for each in the list, which fulfils it; without: there is none.
    """

    table: str
    keys: Sequence[str]
    guard: str | None = None
    columns: Mapping[str, type] = {}


Conditions = Mapping[str, Condition]


class Lists(ABC):
    """The contract: queries and statements about the rows whose keys are in a list."""

    # How the rows that a query finds are locked, in the order of some columns.
    lock = ""
    # A text as JSON, and JSON as its text.
    to_json = "{}"
    from_json = "{}"
    # Whether to write in the hope that all is well is quicker than to look first.
    hopes = False
    # Whether `execute_alone` is there.
    executes_alone = False
    # Said first in a transaction, so that it neither waits nor holds rows for long.
    bounded: str | None = None
    # Whether to lock what is not there keeps others from writing beside it.
    locks_gaps = False

    def said(self, statement: str) -> TextClause:
        """A statement that is said again and again."""
        return text(statement)

    @abstractmethod
    def rows(self, name: str, **columns: type) -> str:
        """The list of objects in the parameter `name`, as a table of that name."""

    def find(self, table: str, columns: str, name: str, keys: Sequence[str]) -> str:
        """A query for those rows of a table, t, whose keys are in the list `name`."""
        of = self.rows(name, **dict.fromkeys(keys, str))
        return f"select {columns} from {of} join {table} as t on {_are_equal(name, keys)}"

    def update(
        self, table: str, name: str, keys: Sequence[str], *, changes: str, where: str, **more: type
    ) -> str:
        """A statement that changes those rows of a table, t, whose keys are in the list `name`.

        The list has `more` columns, from which the changes come.
        """
        of = self.rows(name, **dict.fromkeys(keys, str), **more)
        on = _are_equal(name, keys)
        return f"update {table} as t set {changes} from {of} where {on} and {where}"

    def execute_all(self, executor: Executor, parts: Mapping[str, Part]) -> dict[str, int]:
        """Execute statements in their order; how many rows each of them touched.

        One that touches less than it should is the last.
        """
        counts: dict[str, int] = {}
        for name, part in parts.items():
            counts[name] = self.execute(executor, name, part)
            if counts[name] != len(part.rows):
                break
        return counts

    def execute(self, executor: Executor, name: str, part: Part) -> int:
        """Execute one statement; how many rows it touched."""
        count = 0
        for begin in range(0, len(part.rows), AT_ONCE):
            rows = {name: encode(part.rows[begin : begin + AT_ONCE]).decode()}
            count += executor.execute(_text(part.statement), rows).rowcount
        return count

    def execute_alone(
        self, executor: Executor, parts: Mapping[str, Part], conditions: Conditions
    ) -> bool:
        """Execute all of `parts` in one statement if the conditions hold; whether they do."""
        raise NotImplementedError


class ListsOfSQLite(Lists):
    """Everything is near, and nobody else writes: it is read and written in turn."""

    def rows(self, name: str, **columns: type) -> str:
        values = ", ".join(f"value ->> '{column}' as {column}" for column in columns)
        return f"(select {values} from json_each(:{name})) as {name}"


class ListsOfMySQL(Lists):
    """Its planner is told what to read first, and by which index."""

    lock = " for update"
    hopes = True
    locks_gaps = True

    def rows(self, name: str, **columns: type) -> str:
        typed = ", ".join(
            f"{column} {TYPES[kind]} path '$.{column}'" for column, kind in columns.items()
        )
        return f"json_table(:{name}, '$[*]' columns ({typed})) as {name}"

    def find(self, table: str, columns: str, name: str, keys: Sequence[str]) -> str:
        of = self.rows(name, **dict.fromkeys(keys, str))
        return f"select {columns} from {of} {self._met(table, name, keys)}"

    def update(
        self, table: str, name: str, keys: Sequence[str], *, changes: str, where: str, **more: type
    ) -> str:
        of = self.rows(name, **dict.fromkeys(keys, str), **more)
        return f"update {of} {self._met(table, name, keys)} set {changes} where {where}"

    def execute_all(self, executor: Executor, parts: Mapping[str, Part]) -> dict[str, int]:
        if isinstance(executor, Connection) and _knows_blocks(executor):
            block = _block(executor, parts)
            if block is not None:
                return _execute_block(executor, block, parts)
        return super().execute_all(executor, parts)

    def execute(self, executor: Executor, name: str, part: Part) -> int:
        if not isinstance(executor, Connection):
            return super().execute(executor, name, part)
        if part.plain.startswith("insert"):
            chunks = (part.rows[at : at + AT_ONCE] for at in range(0, len(part.rows), AT_ONCE))
            return sum(_insert_literally(executor, part.plain, rows) for rows in chunks)
        if len(part.rows) <= FEW:
            return int(executor.execute(_text(part.plain), list(part.rows)).rowcount)
        return super().execute(executor, name, part)

    @staticmethod
    def _met(table: str, name: str, keys: Sequence[str]) -> str:
        on = _are_equal(name, keys)
        return f"straight_join {table} as t force index (primary) on {on}"


class ListsOfPostgreSQL(Lists):
    """One statement does what several do, and so needs one round trip."""

    lock = " order by {order} for update of t"
    to_json = "cast({} as json)"
    from_json = "cast({} as text)"
    hopes = True
    executes_alone = True
    bounded = BOUNDED

    def __init__(self) -> None:
        # By the names of their parts, of which the same are always the same statements.
        self._together: dict[tuple[str, ...], TextClause] = {}
        self._alone: dict[tuple[str, ...], TextClause] = {}

    def said(self, statement: str) -> TextClause:
        return often(statement)

    def rows(self, name: str, **columns: type) -> str:
        typed = ", ".join(
            f"{column} {'bigint' if kind is int else 'text'}" for column, kind in columns.items()
        )
        return f"json_to_recordset(cast(:{name} as json)) as {name} ({typed})"

    def find(self, table: str, columns: str, name: str, keys: Sequence[str]) -> str:
        return f"{super().find(table, columns, name, keys)} where {_is_short(name, keys)}"

    def update(
        self, table: str, name: str, keys: Sequence[str], *, changes: str, where: str, **more: type
    ) -> str:
        plain = super().update(table, name, keys, changes=changes, where=where, **more)
        return f"{plain} and {_is_short(name, keys)}"

    def execute_all(self, executor: Executor, parts: Mapping[str, Part]) -> dict[str, int]:
        names = tuple(parts)
        if names not in self._together:
            self._together[names] = self._build_together(parts)
        (counts,) = executor.execute(self._together[names], _documents(parts)).fetchall()
        return dict(zip(parts, counts, strict=True))

    def _build_together(self, parts: Mapping[str, Part]) -> TextClause:
        """One statement that does what several do, and counts the rows of each."""
        made = ", ".join(
            f"of_{name} as ({part.statement} returning 1)" for name, part in parts.items()
        )
        counts = ", ".join(f"(select count(*) from of_{name})" for name in parts)
        return self.said(f"with {made} select {counts}")

    def execute_alone(
        self, executor: Executor, parts: Mapping[str, Part], conditions: Conditions
    ) -> bool:
        names = tuple(parts)
        if names not in self._alone:
            self._alone[names] = self._build_alone(parts, conditions)
        counts = {f"count_{name}": len(part.rows) for name, part in parts.items()}
        rows = executor.execute(self._alone[names], _documents(parts) | counts).fetchall()
        return bool(rows[0][0])

    def _build_alone(self, parts: Mapping[str, Part], conditions: Conditions) -> TextClause:
        found = [f"setting as materialized ({BOUNDED})"]
        found += [
            f"met_{name} as materialized ({self._met(name, condition)})"
            for name, condition in conditions.items()
            if condition.guard is not None
        ]
        holds = " and ".join(self._holds(name, each) for name, each in conditions.items())
        met = ", ".join((*found, f"met as materialized (select {holds} as all_of_it)"))
        only = "and (select all_of_it from met) returning 1"
        made = ", ".join(f"of_{name} as ({part.statement} {only})" for name, part in parts.items())
        counts = ", ".join(f"(select count(*) from of_{name})" for name in parts)
        return self.said(f"with {met}, {made} select (select all_of_it from met), {counts}")

    def _met(self, name: str, condition: Condition) -> str:
        """The rows that fulfil the guard, locked in the order in which everybody locks them."""
        more = {**dict.fromkeys(condition.keys, str), **condition.columns}
        order = ", ".join(f"t.{key}" for key in condition.keys)
        found = f"{self.rows(name, **more)} join {condition.table} as t"
        return (
            f"select 1 from {found} on {_are_equal(name, condition.keys)} "
            f"where {_is_short(name, condition.keys)} and {condition.guard} "
            "and (select waits from setting) is not null" + self.lock.format(order=order)
        )

    def _holds(self, name: str, condition: Condition) -> str:
        if condition.guard is not None:
            return f"(select count(*) from met_{name}) = cast(:count_{name} as bigint)"
        return f"not exists ({self.find(condition.table, '1', name, condition.keys)})"


OF_DIALECT: dict[str, Lists] = {
    "sqlite": ListsOfSQLite(),
    "mysql": ListsOfMySQL(),
    "postgresql": ListsOfPostgreSQL(),
}


def lists_of(dialect: Dialect) -> Lists:
    """How lists meet tables in the database of `dialect`."""
    return OF_DIALECT[dialect.name]


def _are_equal(name: str, keys: Sequence[str]) -> str:
    return " and ".join(f"t.{key} = {name}.{key}" for key in keys)


def _is_short(name: str, keys: Sequence[str]) -> str:
    """True, and a hint for the planner: by it the list has a row or two, so that it leads and each
    row of the table is found by its key, whatever is known of a table that grows by the second."""
    return f"{name}.{keys[0]} || '' = {name}.{keys[0]}"


def _documents(parts: Mapping[str, Part]) -> dict[str, Any]:
    return {name: encode(part.rows).decode() for name, part in parts.items()}


def _knows_blocks(connection: Connection) -> bool:
    is_mariadb = getattr(connection.dialect, "is_mariadb", False)
    return is_mariadb and connection.dialect.driver == "pymysql"


def _block(connection: Connection, parts: Mapping[str, Part]) -> str | None:
    """All of `parts` as one block of MariaDB, which is one round trip; None if it is none.

    It ends at the first that does not touch its row, and says of which part that is.
    """
    said: list[str] = []
    for name, part in parts.items():
        if part.plain.startswith("insert"):
            is_short = len(part.rows) <= AT_ONCE
            insertion = _insertion(connection, part.plain, part.rows) if is_short else None
            if insertion is None:
                return None
            said.append(insertion)
        elif len(part.rows) <= FEW:
            unmet = f"signal sqlstate '{UNMET}' set message_text = '{name}'"
            for row in part.rows:
                said += [
                    _literally(connection, part.plain, row),
                    f"if row_count() <> 1 then {unmet}; end if",
                ]
        else:
            return None
    return f"begin not atomic {'; '.join(said)}; end"


def _execute_block(connection: Connection, block: str, parts: Mapping[str, Part]) -> dict[str, int]:
    counts = {name: len(part.rows) for name, part in parts.items()}
    try:
        connection.exec_driver_sql(block, execution_options={"no_parameters": True})
    except DBAPIError as problem:
        number, *words = original(problem).args
        if number != SIGNALLED or words[0] not in parts:
            raise
        counts[words[0]] = 0
    return counts


def _literally(connection: Connection, statement: str, row: Mapping[str, Any]) -> str:
    """A statement with the values of a row in it."""
    driver: Any = connection.connection.driver_connection
    with driver.cursor() as cursor:
        return str(cursor.mogrify(_for_driver(statement), row))


def _insert_literally(
    connection: Connection, statement: str, rows: Sequence[Mapping[str, Any]]
) -> int:
    """Insert rows by one statement; how many."""
    insertion = _insertion(connection, statement, rows)
    if insertion is None:
        return int(connection.execute(_text(statement), list(rows)).rowcount)
    done = connection.exec_driver_sql(insertion, execution_options={"no_parameters": True})
    return int(done.rowcount)


def _insertion(
    connection: Connection, statement: str, rows: Sequence[Mapping[str, Any]]
) -> str | None:
    """The statement that inserts rows, with their values in it; None if they cannot be.

    JSON is slow there, and the driver escapes value by value: all texts are escaped as one instead.
    """
    values = [value for row in rows for value in row.values()]
    texts = [value for value in values if isinstance(value, str)]
    together = BETWEEN.join(texts)
    if together.count(BETWEEN) != len(texts) - 1:
        return None
    driver: Any = connection.connection.driver_connection
    escaped = iter(driver.escape(together)[1:-1].split(BETWEEN))

    def literal(value: object) -> str:
        return f"'{next(escaped)}'" if isinstance(value, str) else f"{value:d}"

    literals = ["null" if value is None else literal(value) for value in values]
    width = len(rows[0])
    lists = (",".join(literals[at : at + width]) for at in range(0, len(literals), width))
    into = f"{statement.partition(' (')[0]} ({', '.join(rows[0])})"
    return f"{into} values ({'),('.join(lists)})"


@cache
def _for_driver(statement: str) -> str:
    """The statement as PyMySQL takes it, with the names of its values."""
    return str(_text(statement).compile(dialect=pymysql.dialect(paramstyle="pyformat")))


@cache
def _text(statement: str) -> TextClause:
    """The statement, compiled once and not for each execution."""
    return text(statement)
