"""The ledger's statements that differ between the databases: lists of rows meet tables by key.

Rows travel as one JSON document in one bound parameter. A statement is thus the same text however
many rows it is about.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, NamedTuple

from sqlalchemy import Connection, Table, Text, TextClause, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.types import TypeEngine

from windlass.database.column import Exact
from windlass.database.dialect import PerDialect
from windlass.database.dialect.base import Dialect, Executor, encode, original
from windlass.database.dialect.mysql_server import HOLD_T
from windlass.database.dialect.postgresql import often
from windlass.database.dialect.statement import LongText

# A message with this many rows is short enough for every server, also with the longest names.
AT_ONCE = 2_000
# The error by which a block of MariaDB says that a row is not as it should be.
SIGNALLED = 1644
# PostgreSQL waits this long for locked rows, and for the next statement of a process that holds
# locks; MySQL and MariaDB set it for each connection.
TIME_LIMITS = (
    "select set_config('lock_timeout', '1s', true) as waits, "
    "set_config('idle_in_transaction_session_timeout', '4s', true) as idles"
)
# And the commit of this statement does not wait for the disk: others get its rows at once.
RELEASES_EARLY = f"{TIME_LIMITS}, set_config('synchronous_commit', 'off', true) as commits"
# Its own commit waits for the disk, and so for all that was committed before it.
FLUSH = often("select pg_logical_emit_message(true, 'windlass', '')")
PLANNER = text("select current_setting('enable_seqscan'), current_setting('enable_sort')")
PLAN = text(
    "select set_config('enable_seqscan', :scan, true), set_config('enable_sort', :sort, true)"
)


Columns = Mapping[str, type]
Row = Mapping[str, Any]


@cache
def kinds(table: Table) -> Columns:
    """The columns of a table as `Dialect.rows` takes them; those of JSON are long texts."""
    return {column.name: _kind(column.type) for column in table.columns}


def _kind(of: TypeEngine[Any]) -> type:
    if isinstance(of, Text):
        return LongText
    return str if isinstance(of, Exact) else int


@cache
def keys(table: Table) -> tuple[str, ...]:
    """The columns of the primary key."""
    return tuple(column.name for column in table.primary_key)


@dataclass(frozen=True)
class Insert:
    """New rows of a table. Where callers choose the key, it may exist already.

    The `guard` is a condition on the list, {0}.
    """

    table: Table
    key_is_chosen: bool = False
    guard: str = "true"

    @cached_property
    def columns(self) -> Columns:
        number = self.table.autoincrement_column
        return {
            name: kind
            for name, kind in kinds(self.table).items()
            if number is None or name != number.name
        }


@dataclass(frozen=True)
class Update:
    """A change of rows by their keys: of some columns to new values, and of others by adding.

    The `guard` is a condition on the table, t, and on the list, {0}.
    """

    table: Table
    sets: Sequence[str] = ()
    adds: Sequence[str] = ()
    guard: str = "true"

    @cached_property
    def columns(self) -> Columns:
        known = kinds(self.table)
        return {name: known[name] for name in (*keys(self.table), *self.sets, *self.adds)}

    def assignments(self, name: str, *, target: str = "{}") -> str:
        """The new values, from the list `name`."""
        values = {each: f"{name}.{each}" for each in self.sets}
        values |= {each: f"t.{each} + {name}.{each}" for each in self.adds}
        return ", ".join(f"{target.format(each)} = {value}" for each, value in values.items())


class Write(NamedTuple):
    """An insert or an update, and its rows."""

    of: Insert | Update
    rows: Sequence[Row]


# By name, which is also the name of the list and of its parameter.
Writes = Mapping[str, Write]


class Met(NamedTuple):
    """Whether everything was written, and for how many seconds the statement waited for rows."""

    is_so: bool
    waited: float


class RowLists:
    """Queries and statements about the rows whose keys are in a list.

    As it is, it suits SQLite: a statement costs no round trip, and one transaction writes at a
    time, so rows are read first and then written.
    """

    lock = ""
    # A text as JSON, and JSON as its text.
    to_json = "{}"
    from_json = "{}"
    # Whether it is quicker to write at once, and to read only if a guard or a key forbids that.
    writes_first = False
    # Whether `execute_if_met` exists.
    executes_if_met = False
    # Commits what was committed before it to the disk; only where `execute_if_met` may not wait.
    flush: TextClause | None = None
    # Executed first in a transaction, so that it neither waits for rows nor holds them for long.
    time_limits: TextClause | None = None
    # Whether locking a row that does not exist keeps others from inserting beside it.
    locks_gaps = False

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        # The same names always stand for the same statements.
        self._statements: dict[tuple[str, ...], TextClause] = {}

    def text(self, statement: str) -> TextClause:
        """A statement that is executed again and again."""
        return text(statement)

    def select(self, table: Table, columns: Iterable[str], *, of: str = "t") -> str:
        """The columns as a query names them, with JSON as its text."""
        known = kinds(table)
        return ", ".join(
            self.from_json.format(f"{of}.{name}") if known[name] is LongText else f"{of}.{name}"
            for name in columns
        )

    @contextmanager
    def read_by_index(self, executor: Executor) -> Iterator[None]:
        """Have queries in the block read tables by their indexes, in their order."""
        del executor
        yield

    def find(self, table: Table, found: str, by: Sequence[str], *, name: str = "wanted") -> str:
        """A query for the rows of `table`, t, whose columns `by` are in the list `name`."""
        listed = self._dialect.rows(name, **dict.fromkeys(by, str))
        return f"select {found} from {listed} {self._join(table, name, by)}"

    def _join(self, table: Table, name: str, by: Sequence[str]) -> str:
        return f"join {table.name} as t on {_equal(name, by)}"

    def locking(self, table: Table) -> str:
        """What a query ends with that locks rows of `table`, t, in the order of their keys."""
        return self.lock.format(order=", ".join(f"t.{key}" for key in keys(table)))

    def write(self, name: str, of: Insert | Update) -> str:
        """The statement that inserts or updates the rows in the list `name`."""
        listed = self._dialect.rows(name, **of.columns)
        if isinstance(of, Update):
            return self._update(name, listed, of)
        values = ", ".join(
            self.to_json.format(column) if kind is LongText else column
            for column, kind in of.columns.items()
        )
        into = f"{of.table.name} ({', '.join(of.columns)})"
        return f"insert into {into} select {values} from {listed} where {of.guard.format(name)}"

    def _update(self, name: str, listed: str, of: Update) -> str:
        return (
            f"update {of.table.name} as t set {of.assignments(name)} from {listed} "
            f"where {_equal(name, keys(of.table))} and {of.guard.format(name)}"
        )

    def execute(
        self, executor: Executor, writes: Writes, *, commits: bool = False
    ) -> dict[str, int]:
        """Execute statements in their order; returns how many rows each of them touched.

        Ends after the first that touches fewer rows than its list has. `commits` allows to commit
        at once; the caller commits in any case.
        """
        del commits
        counts: dict[str, int] = {}
        for name, (of, rows) in writes.items():
            if (name,) not in self._statements:
                self._statements[name,] = self.text(self.write(name, of))
            counts[name] = sum(
                executor.execute(self._statements[name,], {name: document}).rowcount
                for document in documents(rows)
            )
            if counts[name] != len(rows):
                break
        return counts

    def execute_if_met(self, executor: Executor, writes: Writes, *, early: bool) -> Met:
        """Execute all writes by one statement if all guards hold and all chosen keys are new.

        If `early`, others get the rows before the disk has the commit: `flush` must follow.
        """
        raise NotImplementedError


class MySQLRowLists(RowLists):
    """The planner is told what to read first, and by which index."""

    lock = f" {HOLD_T}"
    writes_first = True
    locks_gaps = True

    def _join(self, table: Table, name: str, by: Sequence[str]) -> str:
        return f"straight_join {table.name} as t force index (primary) on {_equal(name, by)}"

    def _update(self, name: str, listed: str, of: Update) -> str:
        found = self._join(of.table, name, keys(of.table))
        assignments = of.assignments(name, target="t.{}")
        return f"update {listed} {found} set {assignments} where {of.guard.format(name)}"

    def execute(
        self, executor: Executor, writes: Writes, *, commits: bool = False
    ) -> dict[str, int]:
        is_short = sum(len(rows) for _, rows in writes.values()) <= AT_ONCE
        if is_short and isinstance(executor, Connection) and _takes_blocks(executor):
            return self._execute_block(executor, writes, commits=commits)
        return super().execute(executor, writes)

    def _execute_block(
        self, connection: Connection, writes: Writes, *, commits: bool
    ) -> dict[str, int]:
        """All writes in one round trip; the first that misses a row ends the block."""
        names = ("commit" if commits else "block", *writes)
        if names not in self._statements:
            self._statements[names] = self._build_block(writes, "commit; " if commits else "")
        sizes = {name: len(rows) for name, (_, rows) in writes.items()}
        try:
            connection.execute(self._statements[names], _documents(writes))
        except DBAPIError as problem:
            number, *words = original(problem).args
            if number != SIGNALLED or words[0] not in writes:
                raise
            return sizes | {words[0]: 0}
        return sizes

    def _build_block(self, writes: Writes, ending: str) -> TextClause:
        parts = (
            self._loop(name, of) if isinstance(of, Update) else self.write(name, of)
            for name, (of, _) in writes.items()
        )
        return self.text(f"begin not atomic {'; '.join(parts)}; {ending}end")

    def _loop(self, name: str, of: Update) -> str:
        """An update row by row, which MariaDB does ten times as fast as a join with a list."""
        assignments = of.assignments(name, target="t.{}")
        where = f"{_equal(name, keys(of.table))} and {of.guard.format(name)}"
        missed = f"signal sqlstate '45000' set message_text = '{name}'"
        return (
            f"for {name} in (select * from {self._dialect.rows(name, **of.columns)}) do "
            f"update {of.table.name} as t set {assignments} where {where}; "
            f"if row_count() <> 1 then {missed}; end if; end for"
        )


class PostgreSQLRowLists(RowLists):
    """One statement does what several do, and needs one round trip."""

    lock = " order by {order} for update of t"
    to_json = "cast({} as json)"
    from_json = "cast({} as text)"
    writes_first = True
    executes_if_met = True
    time_limits = often(TIME_LIMITS)
    flush = FLUSH

    def text(self, statement: str) -> TextClause:
        return often(statement)

    @contextmanager
    def read_by_index(self, executor: Executor) -> Iterator[None]:
        # Without statistics it would read and sort the whole table for every page.
        (before,) = executor.execute(PLANNER, {}).fetchall()
        executor.execute(PLAN, {"scan": "off", "sort": "off"}).fetchall()
        yield
        executor.execute(PLAN, {"scan": before[0], "sort": before[1]}).fetchall()

    def find(self, table: Table, found: str, by: Sequence[str], *, name: str = "wanted") -> str:
        return f"{super().find(table, found, by, name=name)} where {_is_short(name, by)}"

    def _update(self, name: str, listed: str, of: Update) -> str:
        return f"{super()._update(name, listed, of)} and {_is_short(name, keys(of.table))}"

    def execute(
        self, executor: Executor, writes: Writes, *, commits: bool = False
    ) -> dict[str, int]:
        names = tuple(writes)
        if names not in self._statements:
            made, counted = self._parts(writes, "returning 1")
            self._statements[names] = self.text(f"with {made} select {counted}")
        (counts,) = executor.execute(self._statements[names], _documents(writes)).fetchall()
        return dict(zip(writes, counts, strict=True))

    def execute_if_met(self, executor: Executor, writes: Writes, *, early: bool) -> Met:
        names = ("early" if early else "if met", *writes)
        if names not in self._statements:
            setting = RELEASES_EARLY if early else TIME_LIMITS
            self._statements[names] = self._build_if_met(writes, setting)
        counts = {f"count_{name}": len(rows) for name, (_, rows) in writes.items()}
        parameters = _documents(writes) | counts
        rows = executor.execute(self._statements[names], parameters).fetchall()
        return Met(bool(rows[0][0]), float(rows[0][1]))

    def _parts(self, writes: Writes, ending: str) -> tuple[str, str]:
        made = (
            f"of_{name} as ({self.write(name, of)} {ending})" for name, (of, _) in writes.items()
        )
        counted = (f"(select count(*) from of_{name})" for name in writes)
        return ", ".join(made), ", ".join(counted)

    def _build_if_met(self, writes: Writes, setting: str) -> TextClause:
        found, conditions = [f"setting as materialized ({setting})"], []
        for name, (of, _) in writes.items():
            if isinstance(of, Update):
                found.append(f"met_{name} as materialized ({self._met(name, of)})")
                count = f"cast(:count_{name} as bigint)"
                conditions.append(f"(select count(*) from met_{name}) = {count}")
            elif of.key_is_chosen:
                # Asked before the rows of others are locked.
                used = self.find(of.table, "1", keys(of.table), name=name)
                conditions.insert(0, f"not exists ({used})")
        waited = "extract(epoch from clock_timestamp() - statement_timestamp())"
        found.append(
            f"met as materialized (select {' and '.join(conditions)} as is_so, {waited} as waited)"
        )
        made, counted = self._parts(writes, "and (select is_so from met) returning 1")
        return self.text(
            f"with {', '.join(found)}, {made} select (select is_so from met), "
            f"(select waited from met), {counted}"
        )

    def _met(self, name: str, of: Update) -> str:
        """The rows that fulfil the guard, locked in the order in which everybody locks them."""
        by = keys(of.table)
        listed = self._dialect.rows(name, **of.columns)
        return (
            f"select 1 from {listed} {self._join(of.table, name, by)} "
            f"where {_is_short(name, by)} and {of.guard.format(name)} "
            "and (select waits from setting) is not null" + self.locking(of.table)
        )


ROW_LISTS = PerDialect[type[RowLists]](
    sqlite=RowLists, postgresql=PostgreSQLRowLists, mysql=MySQLRowLists
)
HAS_BLOCKS = PerDialect(sqlite=False, postgresql=False, mysql=False, mariadb=True)


def row_lists(dialect: Dialect) -> RowLists:
    """How lists meet tables in the database of `dialect`."""
    return ROW_LISTS.of(dialect)(dialect)


def documents(rows: Sequence[Row]) -> list[str]:
    """The rows as JSON, in as many documents as every server takes."""
    return [
        encode(rows[begin : begin + AT_ONCE]).decode() for begin in range(0, len(rows), AT_ONCE)
    ]


def _documents(writes: Writes) -> dict[str, Any]:
    return {name: encode(rows).decode() for name, (_, rows) in writes.items()}


def _equal(name: str, by: Sequence[str]) -> str:
    return " and ".join(f"t.{key} = {name}.{key}" for key in by)


def _is_short(name: str, by: Sequence[str]) -> str:
    # Always true, and a hint for the planner: it expects a row or two from the list, so it reads
    # the list first and each row of the table by its key, whatever its statistics say.
    return f"{name}.{by[0]} || '' = {name}.{by[0]}"


def _takes_blocks(connection: Connection) -> bool:
    # A block needs its parameters in its text, where only PyMySQL writes them.
    return HAS_BLOCKS.on(connection) and connection.dialect.driver == "pymysql"
