"""What each database must be able to do, and what two of the three do alike.

All parameters are plain numbers and text: lists travel as one JSON document. A statement is thus
the same text whatever the number of rows, one round trip carries a whole batch, and the same
statements run on a caller's raw driver connection.
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
    CursorResult,
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

BLOCK = 64
ENDLESS = 1 << 15

encode = msgspec.json.Encoder().encode

NEXT_NUMBER = text("select next from windlass_number where name = 'id'")
BEGIN_NUMBERS = text("update windlass_number set next = :first where name = 'id'")


class Lane(NamedTuple):
    """The waiting rows of one kind and priority, and when the first of them is due."""

    kind: str
    priority: int
    due_at: int


class Stamp(NamedTuple):
    """What taking rows makes of them; without a batch they are read and nothing is written."""

    batch: int | None
    worker: int
    now: int
    lease_end: int


class Most(NamedTuple):
    """What is taken at most: so many, due by then, lost that often in a row, in these buckets."""

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


class NewItem(NamedTuple):
    """An item that is about to be written."""

    id: int
    code: str
    bucket: int
    due_at: int


class NewItems(NamedTuple):
    """Items of one rolling kind that are about to be written."""

    kind: str
    priority: int
    created_at: int
    rows: Sequence[NewItem]


class Executor(Protocol):
    """What statements run on: a SQLAlchemy connection, or a raw one in its clothes."""

    def execute(self, statement: TextClause, parameters: Mapping[str, Any]) -> Any: ...


LANES = """
with recursive lane (kind, priority) as (
    select k.kind, (
        select t.priority from windlass_task t {hint}
        where t.status = 0 and t.kind = k.kind and t.due_at is not null
        order by t.priority limit 1
    ) from {kinds} k
    union all
    select lane.kind, (
        select t.priority from windlass_task t {hint}
        where t.status = 0 and t.kind = lane.kind and t.priority > lane.priority
          and t.due_at is not null
        order by t.priority limit 1
    ) from lane where lane.priority is not null
)
select kind, priority, (
    select t.due_at from windlass_task t {hint}
    where t.status = 0 and t.kind = lane.kind and t.priority = lane.priority
      and t.due_at is not null
    order by t.due_at limit 1
) as due_at
from lane where priority is not null
"""

ALIVE = "select id from windlass_worker where id = :worker and left_at is null"

COLUMNS = (
    "id, kind, task_key, priority, due_at, payload, attempt, lost, started_at, bucket, flow_id"
)

PICK = f"""
select {COLUMNS} from windlass_task {{hint}}
where status = 0 and kind = :kind and priority = :priority
  and due_at between :due_from and :due_until and bucket between :bucket_from and :bucket_to
  and batch is null and lost_in_a_row between :lost_from and :lost_to
order by due_at limit :limit {{lock}}
"""

PICK_IDS = PICK.replace(COLUMNS, "id")

# A row as it was taken, with its fence to follow: by whether it was read or claimed. The plus
# keeps planners from any other index than the primary key.
AS_TAKEN = {
    True: "+t.status = 0 and t.batch is null and +t.due_at =",
    False: "+t.status = 1 and t.batch =",
}

# What a visit that went well makes of an item, whenever it began.
VISITED = """status = 0, due_at = :due_at, batch = null, attempt = 0, lost = 0, lost_in_a_row = 0,
    worker = :worker, finished_at = :finished_at, last_status = 2, result = null, remark = null,
    priority = coalesce(:priority, priority)"""

STAMP = """
update windlass_task
set status = 1, batch = :batch, worker = :worker, due_at = :lease_end, attempt = attempt + 1,
    started_at = {greatest}(:now, coalesce(started_at, 0) + 1)
where id {ids}
"""

FALLEN = f"""
select {COLUMNS}, lost_in_a_row
from windlass_task {{hint}}
where status = 1 and kind {{kinds}} and due_at <= :now
  and worker in (select id from windlass_worker where left_at is not null)
limit :limit {{lock}}
"""

RESCUE = """
update windlass_task
set batch = :batch, worker = :worker, due_at = :lease_end, attempt = attempt + :attempt,
    lost = lost + 1, lost_in_a_row = lost_in_a_row + 1,
    started_at = {greatest}(:now, coalesce(started_at, 0) + 1)
where id {ids}
"""


class Dialect(ABC):
    """The contract. `insert`, `change` and `remove` answer with the ids that they touched."""

    # The family, as people write it: sqlite, postgresql or mysql.
    name: str
    # Creates and upgrades its tables on first use; nobody has to run a command.
    migrates_itself = False
    # Compares several columns with several values at once, by an index.
    compares_rows = True
    # Held by each transaction that writes: for a database that lets one of them in at a time.
    turn: AbstractContextManager[object] = nullcontext()
    # Lets a transaction that was begun by others write before it reads, there.
    keep_others_out: TextClause | None = None
    commits_alone = False
    wakes = False
    idle_milliseconds = 4_000
    # Whether nobody can write while somebody does: then nobody can be marked dead either.
    is_embedded = False
    # Whether numbers must be taken in the very transaction that uses them.
    numbers_join = False
    # Makes a select see what is committed, whatever snapshot the caller's transaction has.
    read_now = ""
    # Has a select hold what it reads, together with others, until the transaction ends.
    hold_shared = ""
    # Has a select lock what it reads until the transaction ends.
    hold_alone = "for update"
    # Asks whether a connection sees the tables of a shard, without breaking its transaction.
    has_shard: str
    # How a payload that comes as text is written into its column.
    payload = ":payload"
    # Which rows are in the index of keys; where that can be told, only those that have one.
    in_key_index = "t.task_key is not null"

    @property
    def server(self) -> str:
        """Which server of its family it is, as `PerDialect` names them."""
        return self.name

    @abstractmethod
    def engine_options(self, url: URL) -> dict[str, Any]: ...

    def clean(self, url: URL) -> URL:
        """The URL as the driver takes it."""
        return url

    @abstractmethod
    def prepare(self, engine: Engine) -> None:
        """Set up what every new connection needs."""

    def is_private(self, url: URL) -> bool:
        """Whether only one connection can see the data."""
        return False

    def at_one_moment(self, connection: Connection) -> Connection:
        """The connection, told that all it reads next must be of one moment."""
        return connection.execution_options(isolation_level="REPEATABLE READ")

    def writing(self, connection: Connection) -> Connection:
        """The connection, told that its next transaction will write."""
        return connection

    @abstractmethod
    def is_conflict(self, problem: Exception) -> bool:
        """Whether two transactions met, and one of them must be done again."""

    @abstractmethod
    def is_locked(self, problem: Exception) -> bool:
        """Whether somebody else held a row for too long."""

    @abstractmethod
    def is_outage(self, problem: Exception) -> bool:
        """Whether the server is away, or is going away."""

    @abstractmethod
    def is_duplicate(self, problem: Exception) -> bool:
        """Whether a row with that key is there already."""

    @abstractmethod
    def is_elsewhere(self, problem: Exception) -> bool:
        """Whether a table is not there: the statement met another database than ours."""

    @abstractmethod
    def measure(self, connection: Connection) -> int: ...

    @abstractmethod
    def take_numbers(self, executor: Executor, count: int) -> list[range]:
        """At least `count` numbers that nobody else has or will have."""

    def next_number(self, connection: Connection) -> int:
        """The number that would be given out next."""
        return int(connection.execute(NEXT_NUMBER).scalar_one())

    def begin_numbers(self, connection: Connection, first: int) -> None:
        """Give out numbers from `first` on."""
        connection.execute(BEGIN_NUMBERS, {"first": first})

    @abstractmethod
    def insert(self, executor: Executor, rows: Sequence[NewTask]) -> set[int]:
        """Write new rows; a row whose id or key is taken is left out."""

    def insert_alone(self, connection: Connection, row: NewTask, *, notify: bool) -> bool:
        """Write one new row by one statement that commits alone; False if it met another."""
        raise NotImplementedError

    def copy(self, executor: Executor, rows: Sequence[NewTask]) -> bool:
        """Write many new rows without keys the fastest way; False where there is none."""
        return False

    # Whether `copy_items` is there.
    copies_items = False

    def copy_items(self, connection: Connection, new: NewItems) -> None:
        """Write items of which none is there, the fastest way."""
        raise NotImplementedError

    @abstractmethod
    def insert_items(self, connection: Connection, new: NewItems) -> int:
        """Write the items that are not there yet; how many that were."""

    def ensure(self, connection: Connection, table: Table, **values: object) -> None:
        """Write a row unless one with its key is there."""
        self.ensure_all(connection, table, [values])

    @abstractmethod
    def ensure_all(
        self, connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]
    ) -> None:
        """Write rows, each unless one with one of its keys is there."""

    @abstractmethod
    def texts(self, texts: Iterable[str]) -> tuple[str, dict[str, Any]]:
        """SQL for "is one of these texts", and its parameters."""

    @abstractmethod
    def estimate_due(self, connection: Connection, lane: Lane, *, until: int) -> int:
        """About how many rows of `lane` are due by `until`, without counting millions."""

    @abstractmethod
    def lanes(self, connection: Connection, kinds: Collection[str]) -> list[Lane]: ...

    @abstractmethod
    def alive(self, connection: Connection, worker: int, *, patient: bool = True) -> bool:
        """Whether `worker` is not marked left; it cannot be until this transaction ends.

        Unless it is `patient`, the transaction fails when it has to wait long for a row.
        """

    def alive_with(
        self, connection: Connection, worker: int, runs: Collection[int], *, patient: bool = True
    ) -> dict[int, int] | None:
        """As `alive`, with those of the runs locked that go on: id to nodes left; None if not."""
        if not self.alive(connection, worker, patient=patient):
            return None
        return lock_runs(connection, runs)

    @abstractmethod
    def free(self, connection: Connection, ids: Collection[int]) -> set[int]:
        """Those of the running rows that nobody else has locked; they are locked now."""

    @abstractmethod
    def lock_worker(self, connection: Connection, worker: int, *, patient: bool = True) -> bool:
        """As `alive`, but alone: for its funeral or its exit."""

    @abstractmethod
    def read(self, connection: Connection, lane: Lane, most: Most) -> list[Sequence[Any]]:
        """Due rows of `lane` that nobody has claimed, from its `due_at` on: columns as in PICK."""

    @abstractmethod
    def read_ids(self, connection: Connection, lane: Lane, most: Most) -> list[int]:
        """The ids of what `read` would find."""

    def give_up(self, connection: Connection, ids: Collection[int]) -> None:
        """Give up those of the rows that nobody has claimed."""
        free = task.c.status == Status.WAITING, task.c.batch.is_(None)
        connection.execute(update(task).where(task.c.id.in_(ids), *free).values(batch=0))

    def remove_offers(self, connection: Connection, ids: Collection[int]) -> None:
        """Delete the entries of rows that are offered no more."""
        connection.execute(delete(offer).where(offer.c.task_id.in_(ids)))

    @abstractmethod
    def claim(self, connection: Connection, lane: Lane, stamp: Stamp, most: Most) -> list[Claimed]:
        """Take due rows of `lane` that nobody has claimed, from its `due_at` on."""

    @abstractmethod
    def stamp(self, connection: Connection, ids: Collection[int], stamp: Stamp) -> None:
        """Claim rows that the transaction has locked."""

    @abstractmethod
    def abandoned(
        self, connection: Connection, kinds: Collection[str], *, now: int, limit: int
    ) -> list[Sequence[Any]]:
        """Lock rows whose worker is marked left: their columns as in PICK, and `lost_in_a_row`."""

    @abstractmethod
    def rescue(
        self, connection: Connection, ids: Collection[int], stamp: Stamp, *, attempt: int
    ) -> None:
        """Take over rows that `abandoned` locked."""

    @abstractmethod
    def change(
        self, connection: Connection, changes: Sequence[Change], *, worker: int, is_read: bool
    ) -> dict[int, int | None]:
        """Write the outcomes of rows that are still as they were taken: id to `prune_at`.

        Those that were read have their `due_at` as fence, those that were claimed their batch. The
        `prune_at` of an item that is about to go stays as it is.
        """

    @abstractmethod
    def visit(
        self, connection: Connection, visits: Visits, *, worker: int, is_read: bool
    ) -> dict[int, int | None]:
        """As `change`, of items of which the same becomes: for thousands a second."""

    @abstractmethod
    def remove(
        self, connection: Connection, fences: Mapping[int, int], *, is_read: bool
    ) -> set[int]:
        """Delete rows, id to fence, that are still as they were taken."""

    @abstractmethod
    def count(self, connection: Connection, counts: Sequence[Count]) -> None:
        """Add to the statistics."""

    def notify(self, executor: Executor, who: str = "") -> None:
        """Wake idle workers when the transaction commits, where the database `wakes`.

        `who` is the worker that does, and need not be woken.
        """
        raise NotImplementedError

    def lent(self, connection: Connection) -> AbstractContextManager[object]:
        """Have `connection` read values as others expect, while the block lasts."""
        del connection
        return nullcontext()

    def raw_cursor(self, raw: Any) -> Any:
        """A cursor on a raw driver connection that gives plain tuples."""
        return raw.cursor()


class PickAndStamp(Dialect):
    """For databases that cannot return the old values of what they update: two statements."""

    hint: str
    lock: str
    greatest: str

    def __init__(self) -> None:
        self._pick = text(PICK.format(hint=self.hint, lock=self.lock))
        self._read = text(PICK.format(hint=self.hint, lock=""))
        self._read_ids = text(PICK_IDS.format(hint=self.hint, lock=""))

    @abstractmethod
    def ids(self, ids: Iterable[int]) -> tuple[str, dict[str, str]]:
        """SQL for "is one of these ids", and its parameters."""

    def read(self, connection: Connection, lane: Lane, most: Most) -> list[Sequence[Any]]:
        return list(connection.execute(self._read, wanted(lane, most)).fetchall())

    def read_ids(self, connection: Connection, lane: Lane, most: Most) -> list[int]:
        return list(connection.scalars(self._read_ids, wanted(lane, most)))

    def claim(self, connection: Connection, lane: Lane, stamp: Stamp, most: Most) -> list[Claimed]:
        if not self.alive(connection, stamp.worker):
            return []
        rows = connection.execute(self._pick, wanted(lane, most)).fetchall()
        if not rows:
            return []
        self.stamp(connection, [row[0] for row in rows], stamp)
        return [stamped(row, stamp) for row in rows]

    def stamp(self, connection: Connection, ids: Collection[int], stamp: Stamp) -> None:
        listed, parameters = self.ids(ids)
        connection.execute(
            text(STAMP.format(greatest=self.greatest, ids=listed)),
            {**stamp._asdict(), **parameters},
        )

    def abandoned(
        self, connection: Connection, kinds: Collection[str], *, now: int, limit: int
    ) -> list[Sequence[Any]]:
        listed, parameters = self.texts(kinds)
        statement = text(FALLEN.format(hint=self.hint, lock=self.lock, kinds=listed))
        rows = connection.execute(statement, {"now": now, "limit": limit, **parameters})
        return list(rows.fetchall())

    def rescue(
        self, connection: Connection, ids: Collection[int], stamp: Stamp, *, attempt: int
    ) -> None:
        listed, parameters = self.ids(ids)
        connection.execute(
            text(RESCUE.format(greatest=self.greatest, ids=listed)),
            {**stamp._asdict(), "attempt": attempt, **parameters},
        )


def wanted(lane: Lane, most: Most) -> dict[str, Any]:
    """What PICK is to find."""
    place = {"kind": lane.kind, "priority": lane.priority, "due_from": lane.due_at}
    return {**place, **most.parameters}


def visited(visits: Visits, worker: int) -> dict[str, Any]:
    """What VISITED is to write."""
    return {
        "due_at": visits.due_at,
        "finished_at": visits.finished_at,
        "priority": visits.priority,
        "worker": worker,
    }


def visited_rows(visits: Visits) -> str:
    """The items with their fences and when their visits began, as one document."""
    rows = sorted((row.id, row.fence, row.started_at) for row in visits.rows)
    return encode(rows).decode()


def tuples(result: CursorResult[Any]) -> list[Sequence[Any]]:
    """All rows as a driver gives them that has them already, without what SQLAlchemy adds to each.

    For a thousand rows that costs more than the rows.
    """
    assert result.cursor is not None
    rows = list(result.cursor.fetchall())
    result.close()
    return rows


def lock_runs(connection: Connection, runs: Collection[int]) -> dict[int, int]:
    """Lock the rows of runs that go on, in the order of their ids: id to nodes that are left."""
    rows = connection.execute(
        select(task.c.id, task.c.open_slots)
        .where(task.c.id.in_(runs), task.c.status == Status.RUNNING)
        .order_by(task.c.id)
        .with_for_update()
    )
    return dict(map(tuple, rows))


def stamped(row: Sequence[Any], stamp: Stamp, *, attempt: int = 1, lost: int = 0) -> Claimed:
    """A row as it was before, and as `stamp` makes it: so many attempts and losses more."""
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
