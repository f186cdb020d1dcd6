"""The contract: what Windlass needs from a database, and the rows that it writes and reads.

All parameters are plain numbers and text; a list is sent as one JSON document. So a statement has
the same text for any number of rows, one round trip handles a whole page, and the same statements
run on a caller's own driver connection.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple, Protocol

import msgspec
from sqlalchemy import URL, Connection, Engine, Table, TextClause, delete, select, text, update
from sqlalchemy.exc import DBAPIError

from windlass.database.schema import offer, task
from windlass.value.bucket import BUCKETS
from windlass.value.outcome import Change, Visits
from windlass.value.status import Status
from windlass.value.task import Claimed, NewTask

# Numbers are taken in blocks of this size.
BLOCK = 64
ENDLESS = 1 << 15
# The columns that a run needs, in the order that `stamped` expects.
COLUMNS = (
    "id, kind, task_key, priority, due_at, payload, attempt, lost, started_at, bucket, flow_id"
)

NEXT_NUMBER = text("select next from windlass_number where name = 'id'")
BEGIN_NUMBERS = text("update windlass_number set next = :first where name = 'id'")

encode = msgspec.json.Encoder().encode


def document(rows: object) -> str:
    """Rows as one parameter."""
    return encode(rows).decode()


class LongText(str):
    """A text that may be longer than a key."""


class Lane(NamedTuple):
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

    @property
    def parameters(self) -> dict[str, int]:
        return {
            "limit": self.limit,
            "due_until": self.due_until,
            "lost_from": self.lost.start,
            "lost_to": self.lost.stop - 1,
            "bucket_from": self.buckets.start,
            "bucket_to": self.buckets.stop - 1,
        }


class Count(msgspec.Struct, gc=False):
    """Statistics of one worker, one kind and one minute."""

    minute: int
    kind: str
    worker: int
    done: int = 0
    failed: int = 0
    retried: int = 0
    milliseconds: int = 0


class Executor(Protocol):
    """Runs statements: a SQLAlchemy connection, or an adapter for a driver's connection."""

    def execute(self, statement: TextClause, parameters: Mapping[str, Any]) -> Any: ...


class Dialect(ABC):
    """One database. `insert`, `change` and `remove` return the ids of the rows they touched."""

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
    # Whether numbers must be taken in the transaction that uses them.
    numbers_join = False
    # Whether an index can compare several columns with several values at once.
    compares_rows = True
    # A transaction without a statement for this long is ended and loses its locks.
    idle_milliseconds = 4_000

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
    # Ends an insert that skips rows of `windlass_task` whose id or key exists.
    unless_there = "on conflict do nothing"
    # Selects the rows in the index of keys: where indexes can be partial, those with a key.
    in_key_index = "t.task_key is not null"

    # What errors mean, by their `code_of`.
    conflicts: Collection[object]
    locked: Collection[object] = ()
    outages: Collection[object] = ()
    duplicates: Collection[object]
    missing: Collection[object]

    @property
    def server(self) -> str:
        """The server within its family, by its name in `PerDialect`."""
        return self.name

    # Connections and errors

    @abstractmethod
    def engine_options(self, url: URL) -> dict[str, Any]: ...

    def clean(self, url: URL) -> URL:
        """The URL for the driver."""
        return url

    def is_private(self, url: URL) -> bool:
        """Whether only one connection can see the data."""
        return False

    @abstractmethod
    def prepare(self, engine: Engine) -> None:
        """Set up every new connection of `engine`."""

    def writing(self, connection: Connection) -> Connection:
        """The connection, prepared for a transaction that writes."""
        return connection

    def at_one_moment(self, connection: Connection) -> Connection:
        """The connection, prepared to read from one snapshot."""
        return connection.execution_options(isolation_level="REPEATABLE READ")

    def lent(self, connection: Connection) -> AbstractContextManager[object]:
        """Inside the block, `connection` returns values as user code expects."""
        del connection
        return nullcontext()

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

    def is_duplicate(self, problem: Exception) -> bool:
        """Whether a row with that key exists already."""
        return self.code_of(problem) in self.duplicates

    def is_elsewhere(self, problem: Exception) -> bool:
        """Whether a table is missing: the statement ran on the wrong database."""
        return self.code_of(problem) in self.missing

    @abstractmethod
    def measure(self, connection: Connection) -> int:
        """The current time of the database."""

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
        return int(connection.execute(NEXT_NUMBER).scalar_one())

    def begin_numbers(self, connection: Connection, first: int) -> None:
        """Make `first` the next number."""
        connection.execute(BEGIN_NUMBERS, {"first": first})

    # The row of a worker, which fences its transactions

    @abstractmethod
    def alive(self, connection: Connection, worker: int, *, patient: bool = True) -> bool:
        """Whether `worker` is not marked left; it cannot be marked until this transaction ends.

        Unless `patient`, the transaction fails when it waits too long for a row.
        """

    def alive_with(
        self, connection: Connection, worker: int, runs: Collection[int], *, patient: bool = True
    ) -> dict[int, int] | None:
        """`alive` and `lock_runs` in one; None if the worker is not alive."""
        if not self.alive(connection, worker, patient=patient):
            return None
        return lock_runs(connection, runs)

    @abstractmethod
    def lock_worker(self, connection: Connection, worker: int, *, patient: bool = True) -> bool:
        """`alive` with an exclusive lock, to mark the worker left."""

    # Lists, sent as one document

    @abstractmethod
    def rows(self, name: str, **columns: type) -> str:
        """SQL that turns the list of objects in the parameter `name` into a table of that name.

        Its columns are numbers (int), texts up to the length of a key (str) or longer (LongText).
        """

    @abstractmethod
    def texts(self, texts: Iterable[str]) -> tuple[str, dict[str, Any]]:
        """SQL for "is one of these texts", and its parameters."""

    # New rows

    @abstractmethod
    def insert(self, executor: Executor, rows: Sequence[NewTask]) -> set[int]:
        """Write new rows, except rows whose id or key exists."""

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
    def estimate_due(self, connection: Connection, lane: Lane, *, until: int) -> int:
        """An estimate of how many rows of `lane` are due by `until`."""

    @abstractmethod
    def lanes(self, connection: Connection, kinds: Collection[str]) -> list[Lane]:
        """Every lane of these kinds that has waiting rows."""

    @abstractmethod
    def read(self, connection: Connection, lane: Lane, most: Most) -> list[Sequence[Any]]:
        """The COLUMNS of unclaimed due rows of `lane`, from its `due_at` on."""

    @abstractmethod
    def read_ids(self, connection: Connection, lane: Lane, most: Most) -> list[int]:
        """The ids of the rows that `read` would return."""

    def give_up(self, connection: Connection, ids: Collection[int]) -> None:
        """Offer the unclaimed ones of the rows to all workers."""
        free = task.c.status == Status.WAITING, task.c.batch.is_(None)
        connection.execute(update(task).where(task.c.id.in_(ids), *free).values(batch=0))

    def remove_offers(self, connection: Connection, ids: Collection[int]) -> None:
        """Delete the offers of these rows."""
        connection.execute(delete(offer).where(offer.c.task_id.in_(ids)))

    @abstractmethod
    def claim(self, connection: Connection, lane: Lane, stamp: Stamp, most: Most) -> list[Claimed]:
        """Claim unclaimed due rows of `lane`, from its `due_at` on."""

    @abstractmethod
    def stamp(self, connection: Connection, ids: Collection[int], stamp: Stamp) -> None:
        """Claim rows that this transaction has locked."""

    @abstractmethod
    def free(self, connection: Connection, ids: Collection[int]) -> set[int]:
        """Lock the waiting or running rows that no other transaction has locked."""

    @abstractmethod
    def abandoned(
        self, connection: Connection, kinds: Collection[str], *, now: int, limit: int
    ) -> list[Sequence[Any]]:
        """Lock rows whose worker is marked left; returns their COLUMNS and `lost_in_a_row`."""

    @abstractmethod
    def rescue(
        self, connection: Connection, ids: Collection[int], stamp: Stamp, *, attempt: int
    ) -> None:
        """Take over rows that `abandoned` locked."""

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
        self, connection: Connection, fences: Mapping[int, int], *, is_read: bool
    ) -> set[int]:
        """Delete rows, id to fence, that have not changed since they were taken."""

    @abstractmethod
    def count(self, connection: Connection, counts: Sequence[Count]) -> None:
        """Add to the statistics."""


def lock_runs(connection: Connection, runs: Collection[int]) -> dict[int, int]:
    """Lock the running ones of the rows in the order of their ids: id to open slots."""
    rows = connection.execute(
        select(task.c.id, task.c.open_slots)
        .where(task.c.id.in_(runs), task.c.status == Status.RUNNING)
        .order_by(task.c.id)
        .with_for_update()
    )
    return dict(map(tuple, rows))


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
