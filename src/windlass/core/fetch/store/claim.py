"""Written claims: rows that are stamped with a batch and belong to a worker until it ends them.

Each function is one transaction and begins by making sure that the worker is alive: the one who
marks it dead has to wait, or has been there already and nothing is taken.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import msgspec
from msgspec.structs import replace
from sqlalchemy import Connection, Select, bindparam, case, delete, false, or_, select, true, update

from windlass.core.finish.store import finish
from windlass.core.finish.store.finish import Batch
from windlass.core.ring.store import bucket
from windlass.database.database import Database
from windlass.database.dialect.base import Lane, Most, Stamp, stamped
from windlass.database.schema import task, worker
from windlass.flow.store import slot
from windlass.value.period import GOES
from windlass.value.status import Status
from windlass.value.task import Claimed

NOTHING: Mapping[str, int] = MappingProxyType({})

PICKED = (
    task.c.id,
    task.c.kind,
    task.c.task_key,
    task.c.priority,
    task.c.due_at,
    task.c.payload,
    task.c.attempt,
    task.c.lost,
    task.c.started_at,
    task.c.bucket,
    task.c.flow_id,
)


def lanes(database: Database, kinds: Collection[str]) -> list[Lane]:
    """The lanes of `kinds` that have waiting rows, each with its first due time."""
    return database.read(lambda connection: database.dialect.lanes(connection, kinds))


def claim(database: Database, lane: Lane, stamp: Stamp, most: Most) -> list[Claimed]:
    """Take due rows of `lane`, oldest first."""
    return database.single(lambda connection: database.dialect.claim(connection, lane, stamp, most))


def read(database: Database, lane: Lane, stamp: Stamp, most: Most) -> list[Claimed]:
    """Due rows of `lane` in buckets of the worker, oldest first; nothing is written."""
    rows = database.read(lambda connection: database.dialect.read(connection, lane, most))
    return [stamped(row, stamp) for row in rows]


def mark(connection: Connection, rows: Sequence[Claimed], stamp: Stamp) -> set[int]:
    """Write down the claims of rows that were read; the ids of those that are as they were read.

    Call it in a transaction that knows the worker to be alive.
    """
    connection.execute(
        update(task)
        .where(task.c.id == bindparam("number"), task.c.status == Status.WAITING)
        .where(task.c.batch.is_(None), task.c.due_at == bindparam("due"))
        .values(
            status=Status.RUNNING,
            batch=stamp.batch,
            worker=stamp.worker,
            due_at=stamp.lease_end,
            attempt=task.c.attempt + 1,
            started_at=bindparam("started"),
        ),
        [
            {"number": row.id, "due": row.due_at, "started": row.started_at}
            for row in sorted(rows, key=lambda row: row.id)
        ],
    )
    ids = [row.id for row in rows]
    marked = select(task.c.id).where(task.c.id.in_(ids), task.c.batch == stamp.batch)
    return set(connection.scalars(marked))


def claim_foreign(
    database: Database, lane: Lane, stamp: Stamp, most: Most, *, owners: Collection[int]
) -> list[Claimed]:
    """Take due rows of `lane` in buckets whose owners do not serve its kind, oldest first.

    While it takes them nobody who does can come to own those buckets.
    """

    def work(connection: Connection) -> list[Claimed]:
        if not database.dialect.alive(connection, stamp.worker):
            return []
        buckets = bucket.keep(connection, owners)
        if not buckets:
            return []
        rows = connection.execute(
            select(*PICKED)
            .where(task.c.status == Status.WAITING, task.c.kind == lane.kind)
            .where(task.c.priority == lane.priority)
            .where(task.c.due_at.between(lane.due_at, most.due_until))
            .where(task.c.bucket.in_(buckets), task.c.batch.is_(None))
            .where(task.c.lost_in_a_row.between(most.lost.start, most.lost.stop - 1))
            .order_by(task.c.due_at)
            .limit(most.limit)
            .with_hint(task, "force index (windlass_task_due)", "mysql")
            .with_hint(task, "force index (windlass_task_due)", "mariadb")
            .with_for_update(skip_locked=True)
        ).all()
        if rows:
            database.dialect.stamp(connection, [row.id for row in rows], stamp)
        return [stamped(row, stamp) for row in rows]

    return database.write(work)


def claim_one(
    database: Database, number: int, stamp: Stamp, *, max_lost: int, is_rested: bool
) -> list[Claimed]:
    """Take one row, due or not, that waits or fell; nothing if somebody has it or it is gone.

    Also nothing if its bucket has an owner that serves its kind, who may have read it, unless the
    kind `is_rested`: nobody has read anything of it for a while. One that would be poison is left
    to a worker.
    """

    def work(connection: Connection) -> list[Claimed]:
        if not database.dialect.alive(connection, stamp.worker):
            return []
        found = connection.execute(
            select(task.c.kind, task.c.bucket).where(task.c.id == number)
        ).first()
        if found is None:
            return []
        if not is_rested and _is_read_by_owner(connection, found.kind, found.bucket):
            return []
        row = connection.execute(
            select(*PICKED, task.c.status, task.c.lost_in_a_row)
            .where(task.c.id == number, task.c.batch.is_(None))
            .where(task.c.status.in_((Status.WAITING, Status.RUNNING)))
            .with_for_update()
        ).first()
        if row is None:
            return []
        lost = int(row.status == Status.RUNNING)
        taken = stamped(row[:-2], stamp, lost=lost)
        if row.lost_in_a_row + lost >= max_lost:
            return []
        connection.execute(
            update(task)
            .where(task.c.id == number)
            .values(
                status=Status.RUNNING,
                batch=stamp.batch,
                worker=stamp.worker,
                due_at=stamp.lease_end,
                attempt=taken.attempt,
                lost=taken.lost,
                lost_in_a_row=row.lost_in_a_row + lost,
                started_at=taken.started_at,
            )
        )
        return [taken]

    return database.write(work)


def _is_read_by_owner(connection: Connection, kind: str, number: int) -> bool:
    """Whether the bucket has an owner that serves the kind; if not, none can come meanwhile."""
    owner = bucket.owner(connection, number)
    if owner is None:
        return False
    kinds = connection.scalar(
        select(worker.c.kinds).where(worker.c.id == owner, worker.c.left_at.is_(None))
    )
    return kinds is not None and kind in msgspec.json.decode(kinds)["serves"]


@dataclass
class Rescued:
    """Rows of dead workers: to run again, failed as poison, put back for later, or to run alone."""

    again: list[Claimed] = field(default_factory=list)
    poison: list[Claimed] = field(default_factory=list)
    put_back: list[Claimed] = field(default_factory=list)
    some_quarantined: bool = False
    # The kinds of which more may have abandoned than there was room for.
    left: set[str] = field(default_factory=set)


def rescue(
    database: Database,
    max_lost: dict[str, int],
    stamp: Stamp,
    *,
    limit: int,
    alone: bool,
    rest: Mapping[str, int] = NOTHING,
    room: Mapping[Any, int] | None = None,
    fail_as_poison: Callable[[list[Claimed], Connection], Batch],
) -> Rescued:
    """Take over rows whose worker is marked left; each of them has been lost once more.

    `max_lost` by kind, in a row, decides what is poison, and `fail_as_poison` what to write of it: that
    happens in the same transaction, so that nobody ever holds a poison row. A row with one heartbeat
    left is taken only when the worker says that it is `alone`, and then by itself, so that no
    innocent row dies beside it. Rows of kinds that `rest` become waiting again, due when it says,
    for whoever may take them. Of the others so many are taken as there is `room`: of each kind, and
    under None of all.
    """

    triage = _Triage(max_lost, stamp, alone=alone, rest=rest, room=room)

    def work(connection: Connection) -> Rescued:
        if not database.dialect.alive(connection, stamp.worker):
            return Rescued()
        abandoned = database.dialect.abandoned(connection, max_lost, now=stamp.now, limit=limit)
        rescued = triage.sort(abandoned)
        if len(abandoned) == limit:
            rescued.left.update(max_lost)
        taken = rescued.again, rescued.put_back
        for rows, attempt in (*((rows, 1) for rows in taken), (rescued.poison, 0)):
            if rows:
                ids = [row.id for row in rows]
                database.dialect.rescue(connection, ids, stamp, attempt=attempt)
        if rescued.put_back:
            put_back(connection, rescued.put_back)
        if rescued.poison:
            batch = fail_as_poison(rescued.poison, connection)
            before = slot.lock_runs(connection, batch.runs) if batch.runs else {}
            accepted = finish.apply(connection, database.dialect, batch)
            finish.fill(connection, database.dialect, batch, accepted, before=before)
        return rescued

    return database.write(work)


@dataclass(frozen=True)
class _Triage:
    """What becomes of each row that fell."""

    max_lost: Mapping[str, int]
    stamp: Stamp
    alone: bool
    rest: Mapping[str, int]
    room: Mapping[Any, int] | None

    def sort(self, abandoned: Iterable[Sequence[Any]]) -> Rescued:
        rescued, free = Rescued(), Counter(self.room)
        for *row, lost_before in abandoned:
            kind, lost, most = row[1], lost_before + 1, self.max_lost[row[1]]
            if lost >= most:
                rescued.poison.append(stamped(row, self.stamp, attempt=0, lost=1))
            elif kind in self.rest:
                due = {"due_at": self.rest[kind]}
                rescued.put_back.append(replace(stamped(row, self.stamp, lost=1), **due))
            elif lost < max(1, most - 1):
                if self.room is not None and min(free[kind], free[None]) < 1:
                    rescued.left.add(kind)
                    continue
                rescued.again.append(stamped(row, self.stamp, lost=1))
                free.subtract((kind, None))
            elif self.alone and not rescued.again:
                rescued.again.append(stamped(row, self.stamp, lost=1))
                break
            else:
                rescued.some_quarantined = True
        return rescued


def some_quarantined(
    database: Database,
    lanes: Iterable[Lane],
    lives: Callable[[str], int],
    *,
    buckets: Iterable[range],
    now: int,
) -> bool:
    """Whether a due row of `lanes` in these buckets was lost so often that it runs alone."""
    ours = [task.c.bucket.between(run.start, run.stop - 1) for run in buckets]

    def work(connection: Connection) -> bool:
        return any(
            connection.scalar(
                select(task.c.id)
                .where(task.c.status == Status.WAITING, task.c.kind == lane.kind)
                # From its first due row on: what was ended before it may still lie in the index.
                .where(task.c.priority == lane.priority, task.c.due_at.between(lane.due_at, now))
                .where(task.c.lost_in_a_row >= lives(lane.kind), or_(false(), *ours))
                .limit(1)
            )
            for lane in lanes
        )

    return database.read(work)


def push(connection: Connection, held: dict[int, int], *, worker: int, until: int) -> set[int]:
    """Move the lease of held rows, id to batch, to `until`; returns those that are still held."""
    kept = set(
        connection.scalars(
            select(task.c.id)
            .where(task.c.id.in_(held), task.c.status == Status.RUNNING, task.c.worker == worker)
            .where(task.c.batch.in_(set(held.values())))
            .order_by(task.c.id)
            .with_for_update()
        )
    )
    if kept:
        connection.execute(update(task).where(task.c.id.in_(kept)).values(due_at=until))
    return kept


def still_held(connection: Connection, held: dict[int, int]) -> set[int]:
    """Which of the held rows, id to batch, are still ours."""
    rows = connection.execute(
        select(task.c.id, task.c.batch).where(task.c.id.in_(held), task.c.status == Status.RUNNING)
    )
    return {number for number, batch in rows if held[number] == batch}


def claimed_by(worker: int) -> Select[int]:
    """The rows that `worker` holds by a claim, by way of the index that has all that runs.

    It takes no locks, which would wait for rows of other workers on the way. Call it when nothing
    else can act for `worker`, or lock what it finds by id and look again.
    """
    return (
        select(task.c.id)
        .where(task.c.status == Status.RUNNING, task.c.due_at.is_not(None))
        .where(task.c.worker == worker)
        .with_hint(task, "force index (windlass_task_due)", "mysql")
        .with_hint(task, "force index (windlass_task_due)", "mariadb")
    )


def let_go(connection: Connection, ids: Collection[int]) -> None:
    """Delete the items among rows that were just freed whose run was all that kept them."""
    connection.execute(
        delete(task)
        .where(task.c.id.in_(ids), task.c.batch.is_(None))
        .where(task.c.prune_at == GOES)
    )


def put_back(connection: Connection, rows: Sequence[Claimed]) -> None:
    """Make claimed rows that have not begun waiting again, as if they had never been taken."""
    connection.execute(
        update(task)
        .where(task.c.id == bindparam("number"), task.c.status == Status.RUNNING)
        .where(task.c.batch == bindparam("claim"))
        .values(
            status=Status.WAITING,
            batch=None,
            worker=None,
            due_at=bindparam("due"),
            attempt=task.c.attempt - 1,
        ),
        [{"number": row.id, "claim": row.batch, "due": row.due_at} for row in rows],
    )
    let_go(connection, [row.id for row in rows])


def hand_back(
    connection: Connection,
    *,
    worker: int,
    now: int,
    due: Mapping[str, int] = NOTHING,
    unless: Callable[[int], bool] | None = None,
) -> int:
    """Make the claims of `worker` waiting again as if they had never been taken.

    They are due now, or when `due` says for their kind: at its last tick, if it has one.

    With `unless`, only lapsed claims are handed back, and of those only the ones it does not know:
    claims whose answer was lost on the way.
    """
    query = claimed_by(worker)
    if unless is not None:
        query = query.where(task.c.due_at <= now)
    ids = [number for number in connection.scalars(query) if unless is None or not unless(number)]
    if ids:
        connection.execute(
            update(task)
            .where(task.c.id.in_(ids), task.c.status == Status.RUNNING, task.c.worker == worker)
            .where(task.c.due_at <= now if unless is not None else true())
            .values(
                status=Status.WAITING,
                batch=None,
                worker=None,
                due_at=case(dict(due), value=task.c.kind, else_=now) if due else now,
                attempt=task.c.attempt - 1,
            )
        )
        let_go(connection, ids)
    return len(ids)
