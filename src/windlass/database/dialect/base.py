"""The contract: what Windlass asks of a database, and the rows that go in and come out.

All parameters are plain numbers and text: a list travels as one JSON document. The text of a
statement is thus the same for any number of rows, one round trip carries a whole batch, and the
same statements run on a caller's own driver connection.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple, Protocol

import msgspec
from sqlalchemy import (
    URL,
    Connection,
    Engine,
    Table,
    TextClause,
    delete,
    select,
    text,
    update,
)
from sqlalchemy.exc import DBAPIError

from windlass.database.schema import offer, task
from windlass.value.bucket import BUCKETS
from windlass.value.outcome import Change, Visits
from windlass.value.status import Status
from windlass.value.task import Claimed, NewTask

# So many numbers are taken together.
BLOCK = 64
ENDLESS = 1 << 15
# What of a row is read to run it, in the order in which `stamped` takes it.
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
    """What a claim writes into rows; without a batch they are only read."""

    batch: int | None
    worker: int
    now: int
    lease_end: int


class Most(NamedTuple):
    """The most that is taken: how many, due by when, lost how often in a row, in which buckets."""

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
    """What one worker did of one kind in one minute."""

    minute: int
    kind: str
    worker: int
    done: int = 0
    failed: int = 0
    retried: int = 0
    milliseconds: int = 0


class Executor(Protocol):
    """What statements run on: a SQLAlchemy connection, or a driver's that acts as one."""

    def execute(self, statement: TextClause, parameters: Mapping[str, Any]) -> Any: ...


class Dialect(ABC):
    """One database. `insert`, `change` and `remove` return the ids of the rows they touched."""

    # The family, as people write it: sqlite, postgresql or mysql.
    name: str
    # Creates and upgrades its tables on first use; nobody has to run a command.
    migrates_itself = False
    # Whether one transaction writes at a time: then no worker can be marked dead meanwhile.
    is_embedded = False
    # Whether a single statement can commit by itself.
    commits_alone = False
    # Whether `notify` wakes idle workers.
    wakes = False
    # Whether numbers must be taken in the transaction that uses them.
    numbers_join = False
    # Whether several columns can be compared with several values at once, by an index.
    compares_rows = True
    # After this long without a statement a transaction ends, and its locks with it.
    idle_milliseconds = 4_000

    # Held by each transaction that writes, where only one can.
    turn: AbstractContextManager[object] = nullcontext()
    # Run first in a caller's transaction, so that nobody can write between its read and its write.
    keep_others_out: TextClause | None = None

    # Added to a select: it sees what is committed, whatever the caller's snapshot.
    read_now = ""
    # Added to a select: it locks the rows, alone or together with other readers.
    hold_alone = "for update"
    hold_shared = ""
    # Asks whether a connection sees the tables of a shard, without breaking its transaction.
    has_shard: str
    # How text is written into a column of JSON.
    to_json = "{}"
    # Ends an insert that leaves out rows of `windlass_task` whose id or key is taken.
    unless_there = "on conflict do nothing"
    # Which rows are in the index of keys: only those with a key, where indexes can be partial.
    in_key_index = "t.task_key is not null"

    # Which errors mean what, by their `code_of`.
    conflicts: Collection[object]
    locked: Collection[object] = ()
    outages: Collection[object] = ()
    duplicates: Collection[object]
    missing: Collection[object]

    @property
    def server(self) -> str:
        """Which server of its family it is, as `PerDialect` names them."""
        return self.name

    # How it connects, and what its errors mean

    @abstractmethod
    def engine_options(self, url: URL) -> dict[str, Any]: ...

    def clean(self, url: URL) -> URL:
        """The URL as the driver takes it."""
        return url

    def is_private(self, url: URL) -> bool:
        """Whether only one connection can see the data."""
        return False

    @abstractmethod
    def prepare(self, engine: Engine) -> None:
        """Set up what every new connection needs."""

    def writing(self, connection: Connection) -> Connection:
        """The connection, told that its next transaction will write."""
        return connection

    def at_one_moment(self, connection: Connection) -> Connection:
        """The connection, told that all it reads next must be of one moment."""
        return connection.execution_options(isolation_level="REPEATABLE READ")

    def lent(self, connection: Connection) -> AbstractContextManager[object]:
        """Have `connection` read values as user code expects, while the block lasts."""
        del connection
        return nullcontext()

    def raw_cursor(self, raw: Any) -> Any:
        """A cursor on a driver's connection that gives plain tuples."""
        return raw.cursor()

    @abstractmethod
    def code_of(self, problem: Exception) -> object:
        """What the driver calls an error."""

    def is_conflict(self, problem: Exception) -> bool:
        """Whether two transactions met, and one of them must be done again."""
        return self.code_of(problem) in self.conflicts

    def is_locked(self, problem: Exception) -> bool:
        """Whether another transaction held a row for too long."""
        return self.code_of(problem) in self.locked

    def is_outage(self, problem: Exception) -> bool:
        """Whether the server is away, or is going away."""
        return self.code_of(problem) in self.outages

    def is_duplicate(self, problem: Exception) -> bool:
        """Whether a row with that key is there already."""
        return self.code_of(problem) in self.duplicates

    def is_elsewhere(self, problem: Exception) -> bool:
        """Whether a table is missing: the statement ran on another database than ours."""
        return self.code_of(problem) in self.missing

    @abstractmethod
    def measure(self, connection: Connection) -> int:
        """The time of the database now."""

    def notify(self, executor: Executor, who: str = "") -> None:
        """Wake idle workers when the transaction commits, where the database `wakes`.

        `who` is the worker that does so, and need not be woken.
        """
        raise NotImplementedError

    # Numbers

    @abstractmethod
    def take_numbers(self, executor: Executor, count: int) -> list[range]:
        """At least `count` numbers that were never given out before."""

    def next_number(self, connection: Connection) -> int:
        """The number that would be given out next."""
        return int(connection.execute(NEXT_NUMBER).scalar_one())

    def begin_numbers(self, connection: Connection, first: int) -> None:
        """Give out numbers from `first` on."""
        connection.execute(BEGIN_NUMBERS, {"first": first})

    # The worker's row: the fence of each of its transactions

    @abstractmethod
    def alive(self, connection: Connection, worker: int, *, patient: bool = True) -> bool:
        """Whether `worker` is not marked left; it cannot be until this transaction ends.

        Unless it is `patient`, the transaction fails when it has to wait long for a row.
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
        """As `alive`, but alone: to mark it left."""

    # Lists, which travel as one document

    @abstractmethod
    def rows(self, name: str, **columns: type) -> str:
        """The list of objects in the parameter `name`, as a table of that name.

        Its columns are numbers (int), texts as short as a key (str) or any texts (LongText).
        """

    @abstractmethod
    def texts(self, texts: Iterable[str]) -> tuple[str, dict[str, Any]]:
        """SQL for "is one of these texts", and its parameters."""

    # New rows

    @abstractmethod
    def insert(self, executor: Executor, rows: Sequence[NewTask]) -> set[int]:
        """Write new rows; a row whose id or key is taken is left out."""

    def insert_alone(self, connection: Connection, row: NewTask, *, notify: bool) -> bool:
        """Write one new row by a statement that commits alone; False if its key was taken."""
        raise NotImplementedError

    def copy(self, executor: Executor, rows: Sequence[NewTask]) -> bool:
        """Write many new rows without keys the fastest way; False where there is none."""
        return False

    def ensure(self, connection: Connection, table: Table, **values: object) -> None:
        """Write a row unless one with its key is there."""
        self.ensure_all(connection, table, [values])

    @abstractmethod
    def ensure_all(
        self, connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]
    ) -> None:
        """Write rows, each unless one with one of its keys is there."""

    # Due rows: looked for, read, claimed, rescued

    @abstractmethod
    def estimate_due(self, connection: Connection, lane: Lane, *, until: int) -> int:
        """About how many rows of `lane` are due by `until`, without counting millions."""

    @abstractmethod
    def lanes(self, connection: Connection, kinds: Collection[str]) -> list[Lane]:
        """Every lane of these kinds that has waiting rows."""

    @abstractmethod
    def read(self, connection: Connection, lane: Lane, most: Most) -> list[Sequence[Any]]:
        """Due rows of `lane` that are not claimed, from its `due_at` on: their COLUMNS."""

    @abstractmethod
    def read_ids(self, connection: Connection, lane: Lane, most: Most) -> list[int]:
        """The ids of what `read` would find."""

    def give_up(self, connection: Connection, ids: Collection[int]) -> None:
        """Offer those of the rows that are not claimed to any worker."""
        free = task.c.status == Status.WAITING, task.c.batch.is_(None)
        connection.execute(update(task).where(task.c.id.in_(ids), *free).values(batch=0))

    def remove_offers(self, connection: Connection, ids: Collection[int]) -> None:
        """Delete the entries of rows that are not offered any more."""
        connection.execute(delete(offer).where(offer.c.task_id.in_(ids)))

    @abstractmethod
    def claim(self, connection: Connection, lane: Lane, stamp: Stamp, most: Most) -> list[Claimed]:
        """Claim due rows of `lane` that are not claimed, from its `due_at` on."""

    @abstractmethod
    def stamp(self, connection: Connection, ids: Collection[int], stamp: Stamp) -> None:
        """Claim rows that the transaction has locked."""

    @abstractmethod
    def free(self, connection: Connection, ids: Collection[int]) -> set[int]:
        """Lock those of the running rows that no other transaction has locked."""

    @abstractmethod
    def abandoned(
        self, connection: Connection, kinds: Collection[str], *, now: int, limit: int
    ) -> list[Sequence[Any]]:
        """Lock rows whose worker is marked left: their COLUMNS and `lost_in_a_row`."""

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
        """Write the outcomes of rows that are still as they were taken: id to `prune_at`.

        The fence of a row that was read is its `due_at`, of one that was claimed its batch. A row
        that is to be deleted after its run keeps its `prune_at`.
        """

    @abstractmethod
    def visit(
        self, connection: Connection, visits: Visits, *, worker: int, is_read: bool
    ) -> dict[int, int | None]:
        """As `change`, for recurring rows with the same outcome: for thousands a second."""

    @abstractmethod
    def remove(
        self, connection: Connection, fences: Mapping[int, int], *, is_read: bool
    ) -> set[int]:
        """Delete rows, id to fence, that are still as they were taken."""

    @abstractmethod
    def count(self, connection: Connection, counts: Sequence[Count]) -> None:
        """Add to the statistics."""


def lock_runs(connection: Connection, runs: Collection[int]) -> dict[int, int]:
    """Lock those of the rows that are running, in the order of their ids: id to open slots."""
    rows = connection.execute(
        select(task.c.id, task.c.open_slots)
        .where(task.c.id.in_(runs), task.c.status == Status.RUNNING)
        .order_by(task.c.id)
        .with_for_update()
    )
    return dict(map(tuple, rows))


def stamped(row: Sequence[Any], stamp: Stamp, *, attempt: int = 1, lost: int = 0) -> Claimed:
    """A row's COLUMNS as they were before, and what `stamp` makes of them."""
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
