"""The rows of rolling items: they are visited again and again, and never end."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection, Row, delete, func, insert, select, text, update

from windlass.clock import to_datetime
from windlass.database.dialect import Dialect, PerDialect
from windlass.database.dialect.base import encode
from windlass.database.dialect.by_id import delete_by_id
from windlass.database.dialect.psycopg import copy_lines, escaped
from windlass.database.schema import bucket, tally, task
from windlass.rolling.model import Item
from windlass.value.period import GOES, HURRIED, PAYLOAD
from windlass.value.status import Status

CHECKED_AT_ONCE = 1_000
# Sorts after every character that a code may continue with.
LAST = chr(0x10FFFF)
# Not removed while it was running.
STAYS = func.coalesce(task.c.prune_at, 0) != GOES


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

    @property
    def shared(self) -> dict[str, str | int]:
        """What all of them have, as parameters."""
        return {"kind": self.kind, "priority": self.priority, "created_at": self.created_at}


def add(connection: Connection, dialect: Dialect, new: NewItems, *, again: bool, fast: bool) -> int:
    """Write items that are not there yet; how many.

    `again` says that they may have been written before, by a transaction whose answer was lost.
    `fast` writes them without checking whether they are there, and raises if one of them is.
    """
    revived = _revive(connection, dialect, new)
    before = _written(connection, new) if again else 0
    if fast and not revived:
        _copy(connection, dialect, new)
        added = len(new.rows)
    else:
        added = INSERTS.of(dialect)(connection, new)
        if again:
            added = _written(connection, new) - before
    if added or revived:
        count(connection, new.kind, added + revived)
    return added + revived + before


def remove(connection: Connection, dialect: Dialect, kind: str, codes: Collection[str]) -> int:
    """Delete items; how many. An item that is running is deleted when its run ends."""
    listed, parameters = dialect.texts(codes)
    rows = connection.execute(
        text(
            "select id, status, batch, prune_at from windlass_task "
            f"where kind = :kind and task_key {listed} order by id {dialect.hold_alone}"
        ),
        {"kind": kind, **parameters},
    ).fetchall()
    # A running row without a batch was abandoned by a dead worker.
    held = {row.id for row in rows if row.status == Status.RUNNING and row.batch is not None}
    running = [row.id for row in rows if row.id in held and row.prune_at != GOES]
    resting = [row.id for row in rows if row.id not in held]
    if running:
        connection.execute(update(task).where(task.c.id.in_(running)).values(prune_at=GOES))
    if resting:
        delete_by_id(connection, task, resting)
    removed = len([row for row in rows if row.prune_at != GOES])
    if removed:
        count(connection, kind, -removed)
    return removed


def hurry(
    connection: Connection,
    dialect: Dialect,
    kind: str,
    codes: Collection[str],
    *,
    due_at: int,
    now: int,
    new: Collection[int] = (),
) -> None:
    """Make waiting items the next to be visited: items that are not due become due at `due_at`.

    Items that are due by `now` may be running without a written claim. The end of their visit is
    recognised by their due time, so that stays; they get the highest priority instead. The rows
    with the ids in `new` were written for this: once they were visited, they stay as they are.
    """
    listed, parameters = dialect.texts(codes)
    unvisited = ""
    if new:
        written, ids = dialect.ids(new)
        unvisited, parameters = f"and (finished_at is null or not id {written}) ", parameters | ids
    for change in (
        f"due_at = :due_at where due_at > :now {unvisited}",
        f"priority = {HURRIED} where due_at <= :now and priority < {HURRIED}",
    ):
        connection.execute(
            text(
                f"update windlass_task set {change} "
                f"and kind = :kind and task_key {listed} and status = 0"
            ),
            {"kind": kind, "due_at": due_at, "now": now, **parameters},
        )


def front(connection: Connection, dialect: Dialect, kind: str, *, until: int) -> int:
    """A due time before that of every waiting item, and not after `until`."""
    first = [tier.due_at for tier in dialect.tiers(connection, [kind])]
    return min([until, *(due_at - 1 for due_at in first)])


ITEM = (
    task.c.task_key,
    task.c.status,
    task.c.last_status,
    task.c.started_at,
    task.c.finished_at,
    task.c.due_at,
    task.c.remark,
)


def item(connection: Connection, kind: str, code: str) -> Item | None:
    """One item; None if it was never added, or was removed."""
    query = select(*ITEM).where(task.c.kind == kind, task.c.task_key == code, STAYS)
    row = connection.execute(query).first()
    return None if row is None else _item(row)


class ItemStanding(NamedTuple):
    """How an item stands: whether it runs, when it was visited last, and when it is next."""

    status: int
    finished_at: int | None
    due_at: int | None
    priority: int

    def is_next(self, now: int) -> bool:
        """Whether it runs, or is visited before all others."""
        is_due = self.due_at is not None and self.due_at <= now
        return self.status == Status.RUNNING or (is_due and self.priority >= HURRIED)


def standing(connection: Connection, kind: str, code: str) -> ItemStanding | None:
    """How one item stands; None if there is none."""
    columns = [task.c[name] for name in ItemStanding._fields]
    query = select(*columns).where(task.c.kind == kind, task.c.task_key == code, STAYS)
    row = connection.execute(query).first()
    return None if row is None else ItemStanding(*row)


def items(connection: Connection, kind: str, *, prefix: str, after: str, limit: int) -> list[Item]:
    """Items whose codes begin with `prefix`, in byte order, after `after`."""
    query = select(*ITEM).where(task.c.kind == kind, task.c.task_key > after, STAYS)
    if prefix:
        query = query.where(task.c.task_key.between(prefix, prefix + LAST))
    rows = connection.execute(query.order_by(task.c.task_key).limit(limit))
    return [_item(row) for row in rows]


def _item(row: Row[*tuple[Any, ...]]) -> Item:
    is_running = row.status == Status.RUNNING
    status = row.status if is_running or row.last_status is None else row.last_status
    started, finished, due = (
        None if moment is None else to_datetime(moment)
        for moment in (row.started_at, row.finished_at, None if is_running else row.due_at)
    )
    return Item(row.task_key, Status(status), started, finished, due, row.remark)


def find(connection: Connection, kind: str, code: str) -> int | None:
    """The id of an item's row."""
    return connection.scalar(select(task.c.id).where(task.c.kind == kind, task.c.task_key == code))


def holders(connection: Connection, kind: str, code: str) -> tuple[int | None, int | None]:
    """The worker that has an item by a claim, and the one that owns its bucket."""
    row = connection.execute(
        select(task.c.status, task.c.worker, bucket.c.owner)
        .join(bucket, bucket.c.bucket == task.c.bucket)
        .where(task.c.kind == kind, task.c.task_key == code)
    ).first()
    if row is None:
        return None, None
    return row.worker if row.status == Status.RUNNING else None, row.owner


def codes_after(
    connection: Connection, kind: str, after: str, *, limit: int
) -> tuple[list[str], str | None]:
    """The codes of items in byte order, after `after`, and the last code read; None at the end."""
    rows = connection.execute(
        select(task.c.task_key, task.c.prune_at)
        .where(task.c.kind == kind, task.c.task_key > after)
        .order_by(task.c.task_key)
        .limit(limit)
    ).all()
    codes = [code for code, prune_at in rows if code is not None and prune_at != GOES]
    return codes, rows[-1].task_key if len(rows) == limit else None


def count(connection: Connection, kind: str, delta: int) -> None:
    """Record in the tally that there are `delta` more items."""
    connection.execute(insert(tally).values(kind=kind, delta=delta))


def add_up(connection: Connection, *, limit: int) -> bool:
    """Replace rows of the tally by their sums; whether a kind has more than `limit` rows."""
    many = connection.scalars(
        select(tally.c.kind).group_by(tally.c.kind).having(func.count() > 1).limit(100)
    ).all()
    is_more = False
    for kind in many:
        rows = connection.execute(
            select(tally.c.id, tally.c.delta)
            .where(tally.c.kind == kind)
            .order_by(tally.c.id)
            .limit(limit)
            .with_for_update(skip_locked=True)
        ).all()
        if len(rows) > 1:
            connection.execute(delete(tally).where(tally.c.id.in_([row.id for row in rows])))
            count(connection, kind, sum(row.delta for row in rows))
        is_more = is_more or len(rows) == limit
    return is_more


def _revive(connection: Connection, dialect: Dialect, new: NewItems) -> int:
    """Keep items that were removed while they are running, as they are added again."""
    some_go = select(task.c.id).where(task.c.prune_at == GOES).limit(1)
    if connection.scalar(some_go) is None:
        return 0
    revived = 0
    for begin in range(0, len(new.rows), CHECKED_AT_ONCE):
        codes = [row.code for row in new.rows[begin : begin + CHECKED_AT_ONCE]]
        listed, parameters = dialect.texts(codes)
        revived += connection.execute(
            text(
                "update windlass_task set prune_at = null "
                f"where kind = :kind and task_key {listed} and prune_at = :goes"
            ),
            {"kind": new.kind, "goes": GOES, **parameters},
        ).rowcount
    return revived


def _written(connection: Connection, new: NewItems) -> int:
    """How many of the rows are there under their numbers."""
    written = 0
    for begin in range(0, len(new.rows), CHECKED_AT_ONCE):
        numbers = [row.id for row in new.rows[begin : begin + CHECKED_AT_ONCE]]
        query = select(func.count()).where(task.c.id.in_(numbers))
        written += connection.execute(query).scalar_one()
    return written


def kinds_with_items(connection: Connection) -> set[str]:
    """The rolling kinds that have items here."""
    return set(connection.scalars(select(tally.c.kind).distinct()))


def counted(
    connection: Connection,
    rows: Sequence[Mapping[str, Any]],
    sign: int,
    items: Collection[str],
) -> None:
    """Add items that came with a move between shards to the tally, or take them from it."""
    kinds = [row["kind"] for row in rows if row["task_key"] is not None and row["kind"] in items]
    for kind in sorted(set(kinds)):
        count(connection, kind, sign * kinds.count(kind))


INSERT_IN_SQLITE = """
    insert into windlass_task
        (id, task_key, bucket, due_at, kind, priority, payload, created_at, status)
    values (?, ?, ?, ?, ?, ?, ?, ?, 0) on conflict do nothing
"""


def _insert_one_by_one(connection: Connection, new: NewItems) -> int:
    shared = (new.kind, new.priority, PAYLOAD, new.created_at)
    rows = [(*row, *shared) for row in new.rows]
    return connection.exec_driver_sql(INSERT_IN_SQLITE, rows).rowcount


INSERT_FROM_JSON = text(f"""
    insert into windlass_task
        (id, kind, task_key, bucket, status, priority, due_at, payload, created_at)
    select id, :kind, code, bucket, 0, :priority, due_at, '{PAYLOAD}', :created_at
    from json_table(:rows, '$[*]' columns (
        id bigint path '$[0]', code varchar(255) path '$[1]', bucket smallint path '$[2]',
        due_at bigint path '$[3]')) as r
    on duplicate key update id = windlass_task.id
""")
COUNT_BETWEEN = text(
    "select count(*) from windlass_task where id between :first and :last and kind = :kind"
)


def _insert_as_json(connection: Connection, new: NewItems) -> int:
    connection.execute(INSERT_FROM_JSON, {**new.shared, "rows": encode(new.rows).decode()})
    # MySQL does not say how many are new: count them by their numbers.
    made = 0
    for numbers in _stretches([row.id for row in new.rows]):
        between = {"first": numbers[0], "last": numbers[-1], "kind": new.kind}
        made += int(connection.execute(COUNT_BETWEEN, between).scalar_one())
    return made


def _stretches(numbers: Sequence[int]) -> Iterator[Sequence[int]]:
    """Numbers that follow each other, together."""
    begin = 0
    for index in range(1, len(numbers) + 1):
        if index == len(numbers) or numbers[index] != numbers[index - 1] + 1:
            yield numbers[begin:index]
            begin = index


INSERT_FROM_ARRAYS = text(f"""
    with made as (
        insert into windlass_task
            (id, kind, task_key, bucket, status, priority, due_at, payload, created_at)
        select id, :kind, code, bucket, 0, :priority, due_at, cast('{PAYLOAD}' as json),
            :created_at
        from unnest(cast(:ids as bigint[]), cast(:codes as text[]),
            cast(:buckets as smallint[]), cast(:due_at as bigint[]))
            as r (id, code, bucket, due_at)
        on conflict do nothing returning 1
    )
    select count(*) from made
""")


def _insert_as_arrays(connection: Connection, new: NewItems) -> int:
    names = ("ids", "codes", "buckets", "due_at")
    columns = dict(zip(names, map(list, zip(*new.rows, strict=True)), strict=True))
    return int(connection.execute(INSERT_FROM_ARRAYS, {**new.shared, **columns}).scalar_one())


# Writes the items that are not there yet; how many that were.
INSERTS = PerDialect[Callable[[Connection, NewItems], int]](
    sqlite=_insert_one_by_one, postgresql=_insert_as_arrays, mysql=_insert_as_json
)
# Whether the database has a faster way to write items of which none is there.
CAN_COPY = PerDialect(sqlite=False, postgresql=True, mysql=False)
COPY = """
    copy windlass_task
        (id, kind, task_key, bucket, due_at, status, priority, payload, created_at) from stdin
"""


def _copy(connection: Connection, dialect: Dialect, new: NewItems) -> None:
    kind = escaped(new.kind)
    end = f"\t0\t{new.priority}\t{PAYLOAD}\t{new.created_at}\n"

    def line(row: NewItem) -> str:
        return f"{row.id}\t{kind}\t{escaped(row.code)}\t{row.bucket}\t{row.due_at}{end}"

    is_copied = copy_lines(connection, dialect.qualified(COPY), new.rows, line)
    assert is_copied
