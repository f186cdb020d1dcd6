"""The contract: what Windlass needs from a database, and the rows that it writes and reads.

All parameters are plain numbers and text; a list is sent as one JSON document. So a statement has
the same text for any number of rows, one round trip handles a whole page, and the same statements
run on a caller's own driver connection.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple, TypeVar

import msgspec
from sqlalchemy import (
    URL,
    Connection,
    CursorResult,
    Engine,
    Select,
    Table,
    TextClause,
    delete,
    select,
    text,
    update,
)
from sqlalchemy.exc import DBAPIError

from windlass.database.bound import Bounds
from windlass.database.dialect import statement as sql
from windlass.database.dialect.lane import Executor, LaneStatements, encode
from windlass.database.dialect.qualify import Qualify, qualifier
from windlass.database.dialect.statement import columns_of
from windlass.database.gone import Gone
from windlass.database.schema import offer, task
from windlass.value.bucket import BUCKETS
from windlass.value.outcome import Change, Visits
from windlass.value.status import Status
from windlass.value.task import Claimed, NewTask

# Numbers are taken in blocks of this size.
BLOCK = 64
# Used by all stores, wherever they are.
__all__ = ["Executor", "encode"]

ENDLESS = 1 << 15

Rows = TypeVar("Rows", bound=Select[Any])


class Tier(NamedTuple):
    """The waiting rows of one kind and priority, and when the first of them is due."""

    kind: str
    priority: int
    due_at: int


class Stamp(NamedTuple):
    """The values that a claim writes; without a batch the rows are only read."""

    batch: int | None
    worker: int
    now: int
    lease_end: int


class Most(NamedTuple):
    """Limits of a fetch: how many rows, due until when, lost how often in a row, which buckets."""

    limit: int
    due_until: int
    lost: range = range(ENDLESS)
    buckets: range = range(BUCKETS)


class Count(msgspec.Struct, gc=False):
    """Statistics of one worker, one kind and one minute."""

    minute: int
    kind: str
    worker: int
    done: int = 0
    failed: int = 0
    retried: int = 0
    milliseconds: int = 0


class Login(NamedTuple):
    """The user of a connection, and the version of its TLS; None without."""

    user: str | None = None
    tls: str | None = None


class Dialect(LaneStatements):
    """One database. `insert`, `change` and `remove` return the ids of the rows they touched.

    A claim takes two statements, because not every database can return old values from an update.
    """

    # The family: sqlite, postgresql or mysql.
    name: str
    # Whether it creates and upgrades its tables on first use.
    migrates_itself = False
    # Whether only one transaction writes at a time: no worker can be marked dead during it.
    is_embedded = False
    # Whether a single statement can run in autocommit.
    commits_alone = False
    # Whether `notify` wakes idle workers.
    wakes = False
    # Whether a transaction can be committed although its caller gets an error.
    loses_answers = True
    # Whether numbers must be taken in the transaction that uses them.
    numbers_join = False
    # Whether an index can compare several columns with several values at once.
    compares_rows = True
    # Whether a worker cannot renew its lease while a transaction has its row locked as its fence.
    fence_stops_heartbeat = False
    # A transaction without a statement for this long is ended and loses its locks.
    idle_milliseconds = 4_000

    # The schema of the tables, where they have one of their own, and what names it in statements.
    schema: str | None = None
    qualify: Qualify | None = None

    # Held by each writing transaction, where only one can write.
    turn: AbstractContextManager[object] = nullcontext()
    # Runs first in a caller's transaction: no other can write between its read and its write.
    keep_others_out: TextClause | None = None

    # Added to a select: it sees all committed rows, whatever the caller's snapshot.
    read_now = ""
    # Added to a select: it locks the rows, exclusively or shared.
    hold_alone = "for update"
    hold_shared = ""
    # Tests whether a connection sees the tables of a shard, without an error if not.
    has_shard: str
    # Casts text to the type of a JSON column.
    to_json = "{}"
    # Ends an insert that skips rows of `windlass_task` whose id or key exists, and one that returns
    # the ids of the rows it wrote.
    unless_there = "on conflict do nothing"
    returning = "returning id"
    # Selects the rows in the index of keys: where indexes can be partial, those with a key.
    in_key_index = "t.task_key is not null"

    # Words of the database: the index to use, how to skip locked rows, the greatest of two.
    hint = ""
    lock = "for update skip locked"
    greatest = "greatest"
    # Prefix of the columns to set, where the database needs it.
    of_task = ""
    # Statements on rows that are still {as_taken}; {rows} is the list, {changed} the new values,
    # {remember} an insert of traces.
    change_text: str
    visit_text: str
    remove_text: str
    # Reads the time, in microseconds.
    clock_text: str
    next_number_text = "select next from windlass_number where name = 'id'"
    begin_numbers_text = "update windlass_number set next = :first where name = 'id'"

    # What errors mean, by their `code_of`.
    conflicts: Collection[object]
    locked: Collection[object] = ()
    outages: Collection[object] = ()
    read_only: Collection[object] = ()
    duplicates: Collection[object]
    missing: Collection[object]

    def __init__(self) -> None:
        # The server within its family, by its name in `PerDialect`.
        self.server = self.name
        self._alive = self.often(f"{sql.ALIVE} {self.hold_shared}")
        self._lock_worker = self.often(f"{sql.ALIVE} {self.hold_alone}")
        self._insert = text(
            sql.INSERT.format(
                rows=self.rows("inserts", **columns_of(NewTask)),
                payload=self.to_json.format("payload"),
                unless_there=self.unless_there,
                returning=self.returning,
            )
        )
        self.prepare_lanes()
        counts = self.rows("counts", **columns_of(Count))
        self._count = self.often(sql.COUNT.format(rows=counts, added=self.added()))
        changed = sql.CHANGED.format(
            t=self.of_task,
            result=self.to_json.format("changes.result"),
            payload=self.to_json.format("changes.payload"),
        )
        changes = self.rows("changes", **columns_of(Change))
        self._change = self._as_taken(self.change_text, rows=changes, changed=changed)
        self._visit = self._as_taken(self.visit_text)
        remember = sql.REMEMBER.format(rows=self.rows("traces", **columns_of(Gone)))
        self._remember = self.often(remember)
        self._remove = self._as_taken(self.remove_text, remember="")
        # Whether the tables have a migration; a database that knows its tables says so.
        self.has_tables: Callable[[str], bool] = lambda _version: True
        self._pick = text(sql.PICK.format(hint=self.hint, lock=self.lock))
        self._read = text(sql.PICK.format(hint=self.hint, lock=""))
        self._read_ids = text(sql.PICK_IDS.format(hint=self.hint, lock=""))

    @property
    def keeps_traces(self) -> bool:
        """Whether who deletes task rows leaves traces: not in tables of release 0.1.0."""
        return self.loses_answers and self.has_tables("0003")

    def often(self, statement: str) -> TextClause:
        """A statement that runs often, prepared where that helps."""
        return text(statement)

    def _as_taken(self, statement: str, **words: str) -> dict[bool, TextClause]:
        """The statement by whether the rows were read or claimed."""
        return {
            is_read: self.often(statement.format(as_taken=way, **words))
            for is_read, way in sql.AS_TAKEN.items()
        }

    # Connections and errors

    def use_schema(self, schema: str) -> None:
        """Find all tables in this schema."""
        self.schema, self.qualify = schema, qualifier(schema)

    def qualified(self, statement: str) -> str:
        """A statement for the driver itself, with the schema of the tables if they have one."""
        return statement if self.qualify is None else self.qualify(statement)

    @abstractmethod
    def engine_options(self, url: URL, bounds: Bounds) -> dict[str, Any]: ...

    def clean(self, url: URL) -> URL:
        """The URL for the driver."""
        return url

    def known_options(self) -> Collection[str]:
        """What the driver can be told about a connection."""
        return ()

    def login(self, connection: Connection) -> Login:
        """As whom `connection` is connected, and how it is encrypted."""
        return Login()

    def is_private(self, url: URL) -> bool:
        """Whether only one connection can see the data."""
        return False

    def hazards(self, url: URL) -> list[str]:
        """What can damage the database, and what to do about it."""
        return []

    def connector(self, engine: Engine, bounds: Bounds) -> Callable[..., Any]:
        """What opens a connection for `engine`."""
        return engine.dialect.connect

    @abstractmethod
    def prepare(self, engine: Engine, bounds: Bounds | None) -> None:
        """Set up every new connection of `engine`. Without `bounds` it keeps its own."""

    def writing(self, connection: Connection) -> Connection:
        """The connection, prepared for a transaction that writes."""
        return connection

    def share_turn(self) -> None:
        """Let the turn that this thread has taken end on any thread."""

    def at_one_moment(self, connection: Connection) -> Connection:
        """The connection, prepared to read from one snapshot."""
        return connection.execution_options(isolation_level="REPEATABLE READ")

    def lent(self, connection: Connection) -> AbstractContextManager[object]:
        """Inside the block, `connection` returns values as user code expects."""
        return nullcontext()

    @abstractmethod
    def abort(self, connection: Connection) -> None:
        """Roll back a transaction that another thread still uses, and spoil its connection.

        What that thread does with the connection afterwards is an error, and changes nothing.
        """

    def raw_cursor(self, raw: Any) -> Any:
        """A cursor on a driver's connection that returns plain tuples."""
        return raw.cursor()

    @abstractmethod
    def code_of(self, problem: Exception) -> object:
        """The driver's code of an error."""

    def is_conflict(self, problem: Exception) -> bool:
        """Whether two transactions conflicted, and one of them must be repeated."""
        return self.code_of(problem) in self.conflicts

    def is_locked(self, problem: Exception) -> bool:
        """Whether another transaction held a row for too long."""
        return self.code_of(problem) in self.locked

    def is_outage(self, problem: Exception) -> bool:
        """Whether the server is down or shutting down."""
        return self.code_of(problem) in self.outages

    def is_read_only(self, problem: Exception) -> bool:
        """Whether the server only allows reading: it may have been the primary until a failover."""
        return self.code_of(problem) in self.read_only

    def is_duplicate(self, problem: Exception) -> bool:
        """Whether a row with that key exists already."""
        return self.code_of(problem) in self.duplicates

    def is_elsewhere(self, problem: Exception) -> bool:
        """Whether a table is missing: the statement ran on the wrong database."""
        return self.code_of(problem) in self.missing

    def measure(self, connection: Connection) -> int:
        """The current time of the database."""
        return int(connection.execute(text(self.clock_text)).scalar_one())

    def notify(self, executor: Executor, who: str = "") -> None:
        """Wake idle workers when the transaction commits, where the database `wakes`.

        `who` is the worker that notifies, which need not be woken.
        """
        raise NotImplementedError

    # Numbers

    @abstractmethod
    def take_numbers(self, executor: Executor, count: int) -> list[range]:
        """At least `count` numbers that were never used before."""

    def next_number(self, connection: Connection) -> int:
        """The number that would be taken next."""
        return int(connection.execute(text(self.next_number_text)).scalar_one())

    def begin_numbers(self, connection: Connection, first: int) -> None:
        """Make `first` the next number."""
        connection.execute(text(self.begin_numbers_text), {"first": first})

    # The row of a worker, which fences its transactions

    def alive(self, connection: Connection, worker: int, *, patient: bool = True) -> bool:
        """Whether `worker` is not marked left; it cannot be marked until this transaction ends.

        Unless `patient`, the transaction fails when it waits too long for a row.
        """
        return connection.execute(self._alive, self.fence(worker, patient)).first() is not None

    def fence(self, worker: int, patient: bool) -> dict[str, Any]:
        """The parameters of `alive`."""
        return {"worker": worker}

    def alive_with(
        self, connection: Connection, worker: int, runs: Collection[int], *, patient: bool = True
    ) -> dict[int, int] | None:
        """`alive` and `lock_runs` in one; None if the worker is not alive."""
        if not self.alive(connection, worker, patient=patient):
            return None
        return lock_runs(connection, runs)

    def lock_worker(self, connection: Connection, worker: int, *, patient: bool = True) -> bool:
        """`alive` with an exclusive lock, to mark the worker left."""
        asked = self.fence(worker, patient)
        return connection.execute(self._lock_worker, asked).first() is not None

    # Lists, sent as one document

    @abstractmethod
    def rows(self, name: str, **columns: type) -> str:
        """SQL that turns the list of objects in the parameter `name` into a table of that name.

        Its columns are numbers (int), texts up to the length of a key (str) or longer (LongText).
        """

    @abstractmethod
    def ids(self, ids: Iterable[int]) -> tuple[str, dict[str, str]]:
        """SQL for "is one of these ids", and its parameters."""

    @abstractmethod
    def texts(self, texts: Iterable[str]) -> tuple[str, dict[str, Any]]:
        """SQL for "is one of these texts", and its parameters."""

    # New rows

    def insert(self, executor: Executor, rows: Sequence[NewTask]) -> set[int]:
        """Write new rows, except rows whose id or key exists."""
        inserted = executor.execute(self._insert, {"inserts": document(rows)})
        return {row[0] for row in inserted.fetchall()}

    def insert_alone(self, connection: Connection, row: NewTask, *, notify: bool) -> bool:
        """Write one new row in autocommit; False if its key exists."""
        raise NotImplementedError

    def copy(self, executor: Executor, rows: Sequence[NewTask]) -> bool:
        """Write many new rows without keys the fastest way; False if the database has none."""
        return False

    def ensure(self, connection: Connection, table: Table, **values: object) -> None:
        """Write a row unless a row with its key exists."""
        self.ensure_all(connection, table, [values])

    @abstractmethod
    def ensure_all(
        self, connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]
    ) -> None:
        """Write rows, except those with a key that exists."""

    # Due rows: find, read, claim, rescue

    @abstractmethod
    def estimate_due(self, connection: Connection, tier: Tier, *, until: int) -> int:
        """An estimate of how many rows of `tier` are due by `until`."""

    @abstractmethod
    def tiers(self, connection: Connection, kinds: Collection[str]) -> list[Tier]:
        """Every tier of these kinds that has waiting rows."""

    def read(self, connection: Connection, tier: Tier, most: Most) -> list[Sequence[Any]]:
        """The COLUMNS of unclaimed due rows of `tier`, from its `due_at` on."""
        return list(connection.execute(self._read, wanted(tier, most)).fetchall())

    def read_ids(self, connection: Connection, tier: Tier, most: Most) -> list[int]:
        """The ids of the rows that `read` would return."""
        return list(connection.scalars(self._read_ids, wanted(tier, most)))

    def give_up(self, connection: Connection, ids: Collection[int]) -> None:
        """Offer the unclaimed ones of the rows to all workers."""
        free = task.c.status == Status.WAITING, task.c.batch.is_(None)
        connection.execute(update(task).where(task.c.id.in_(ids), *free).values(batch=0))

    def remove_offers(self, connection: Connection, ids: Collection[int]) -> None:
        """Delete the offers of these rows."""
        connection.execute(delete(offer).where(offer.c.task_id.in_(ids)))

    def claim(self, connection: Connection, tier: Tier, stamp: Stamp, most: Most) -> list[Claimed]:
        """Claim unclaimed due rows of `tier`, from its `due_at` on."""
        if not self.alive(connection, stamp.worker):
            return []
        rows = connection.execute(self._pick, wanted(tier, most)).fetchall()
        if rows:
            self.stamp(connection, [row[0] for row in rows], stamp)
        return [stamped(row, stamp) for row in rows]

    def stamp(self, connection: Connection, ids: Collection[int], stamp: Stamp) -> None:
        """Claim rows that this transaction has locked."""
        self._write(connection, sql.STAMP, ids, **stamp._asdict())

    @abstractmethod
    def free(self, connection: Connection, ids: Collection[int]) -> set[int]:
        """Lock the waiting or running rows that no other transaction has locked."""

    def abandoned(
        self,
        connection: Connection,
        kinds: Collection[str],
        *,
        now: int,
        limit: int,
        lock: bool = True,
    ) -> list[Sequence[Any]]:
        """Lock rows whose worker is marked left; returns their COLUMNS and `lost_in_a_row`."""
        listed, parameters = self.texts(kinds)
        how = self.lock if lock else ""
        statement = text(sql.ABANDONED.format(hint=self.hint, lock=how, kinds=listed))
        rows = connection.execute(statement, {"now": now, "limit": limit, **parameters})
        return list(rows.fetchall())

    def rescue(
        self, connection: Connection, ids: Collection[int], stamp: Stamp, *, attempt: int
    ) -> None:
        """Take over rows that `abandoned` locked."""
        self._write(connection, sql.RESCUE, ids, attempt=attempt, **stamp._asdict())

    def _write(
        self, connection: Connection, statement: str, ids: Collection[int], **values: int | None
    ) -> None:
        listed, parameters = self.ids(ids)
        filled = text(statement.format(greatest=self.greatest, ids=listed))
        connection.execute(filled, {**values, **parameters})

    # Outcomes

    @abstractmethod
    def change(
        self, connection: Connection, changes: Sequence[Change], *, worker: int, is_read: bool
    ) -> dict[int, int | None]:
        """Write the outcomes of rows that have not changed since they were taken: id to `prune_at`.

        The fence of a row is its `due_at` if it was read, its batch if it was claimed. A row that
        must be deleted after its run keeps its `prune_at`.
        """

    @abstractmethod
    def visit(
        self, connection: Connection, visits: Visits, *, worker: int, is_read: bool
    ) -> dict[int, int | None]:
        """`change` for recurring rows with the same outcome, fast enough for thousands a second."""

    @abstractmethod
    def remove(
        self, connection: Connection, fences: Mapping[int, int], *, is_read: bool, now: int
    ) -> set[int]:
        """Delete rows, id to fence, that have not changed since they were taken.

        It leaves traces of all: what was taken from the table was once written to it.
        """

    def remember(self, executor: Executor, traces: Sequence[Gone]) -> None:
        """Write traces of deleted rows."""
        executor.execute(self._remember, {"traces": document(traces)})

    def count(self, connection: Connection, counts: Sequence[Count]) -> None:
        """Add to the statistics."""
        connection.execute(self._count, {"counts": document(counts)})

    def added(self) -> str:
        """Ends an insert into the statistics that adds to existing rows."""
        sums = ", ".join(f"{name} = windlass_stat.{name} + excluded.{name}" for name in sql.COUNTED)
        return f"on conflict (minute, kind, worker) do update set {sums}"


def lock_runs(connection: Connection, runs: Collection[int]) -> dict[int, int]:
    """Lock the running ones of the rows in the order of their ids: id to open slots."""
    running = (
        select(task.c.id, task.c.open_slots)
        .where(task.c.id.in_(runs), task.c.status == Status.RUNNING)
        .order_by(task.c.id)
        .with_for_update()
    )
    return dict(map(tuple, connection.execute(force_index(running, task, "primary"))))


def stamped(row: Sequence[Any], stamp: Stamp, *, attempt: int = 1, lost: int = 0) -> Claimed:
    """The claimed row, from its COLUMNS before the claim and the values of `stamp`."""
    number, kind, key, priority, due_at, payload, attempts, losses, started_at, bucket, flow = row
    return Claimed(
        number,
        kind,
        key,
        priority,
        due_at,
        payload,
        attempts + attempt,
        losses + lost,
        max(stamp.now, (started_at or 0) + 1),
        bucket,
        stamp.batch,
        stamp.worker,
        flow,
    )


def original(problem: Exception) -> BaseException:
    """The driver's own error."""
    if isinstance(problem, DBAPIError) and problem.orig is not None:
        return problem.orig
    return problem


def wanted(tier: Tier, most: Most) -> dict[str, Any]:
    """The parameters of FREE_AND_DUE."""
    return {
        "kind": tier.kind,
        "priority": tier.priority,
        "due_from": tier.due_at,
        "due_until": most.due_until,
        "limit": most.limit,
        "lost_from": most.lost.start,
        "lost_to": most.lost.stop - 1,
        "bucket_from": most.buckets.start,
        "bucket_to": most.buckets.stop - 1,
    }


def document(rows: object) -> str:
    """Rows as one parameter."""
    return encode(rows).decode()


def visited_rows(visits: Visits) -> str:
    """The ids, fences and start times of the rows, as one document."""
    return document(sorted((row.id, row.fence, row.started_at) for row in visits.rows))


def tuples(result: CursorResult[Any]) -> list[Sequence[Any]]:
    """All rows as the driver's tuples: SQLAlchemy's rows would cost more than the query."""
    assert result.cursor is not None
    rows = list(result.cursor.fetchall())
    result.close()
    return rows


def force_index(query: Rows, table: Table, index: str) -> Rows:
    """Force MySQL and MariaDB to read `table` by `index`: a scan waits for rows others locked."""
    hint = f"force index ({index})"
    return query.with_hint(table, hint, "mysql").with_hint(table, hint, "mariadb")
