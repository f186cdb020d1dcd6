"""Enqueueing: calls become rows in one transaction, ours or the caller's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import KW_ONLY, dataclass
from typing import NamedTuple

from windlass import telemetry
from windlass.clock import SECOND, Clock, to_datetime
from windlass.core.face import Faces
from windlass.core.task.current import is_running
from windlass.core.task.declare import How
from windlass.core.task.fate import LOST, Fate
from windlass.core.task.kind import Kind
from windlass.core.task.store import gone, lane
from windlass.core.task.store import task as store
from windlass.core.wake.bell import Bell
from windlass.database.connection import Connection, joined
from windlass.database.database import TRIES, Database, DatabaseError, Numbers
from windlass.database.dialect.base import Executor
from windlass.errors import DatabaseUnavailable, DuplicateKey, PastTime
from windlass.value.bucket import bucket_of, bucket_of_lane, lane_number, place_of
from windlass.value.status import Status
from windlass.value.task import Call, NewLaneTask, NewTask

PAST_ALLOWED = SECOND
INSERT_TRIES = 5
# The second try tells whether the server is gone, or only the connection.
HASTY_TRIES = 2

Holders = dict[str, tuple[int, Status]]

# Raises, in the transaction that writes, if the rows must not be written there.
Guard = Callable[[Executor], None]


class Order(NamedTuple):
    """Calls to write as rows, with everything but their ids."""

    kind: Kind
    calls: Sequence[Call]
    payloads: Sequence[str]
    how: How
    created_at: int
    due_at: int


class Vanished(Exception):
    """A row with a key is gone, or has moved."""


@dataclass(eq=False)
class TaskWriter:
    """Writes new rows into one database."""

    database: Database
    clock: Clock
    numbers: Numbers
    bell: Bell
    _: KW_ONLY
    faces: Faces
    max_payload: int

    def submit(
        self,
        kind: Kind,
        calls: Sequence[Call],
        how: How,
        *,
        guard: Guard | None = None,
        hasty: bool = False,
        new: set[int] | None = None,
    ) -> list[int]:
        """Write a row for each call; the ids, in order. All or none, and safe to repeat.

        Nothing is written if `guard` raises. A `hasty` caller can write elsewhere: the call gives
        up early if nothing can have been written. `new` gets the ids of new rows.
        """
        order = self._order(kind, calls, how)
        if how.conn is None:
            ids = self._submit(order, guard, hasty=hasty, new=new)
        else:
            with self._joined(how.conn) as executor:
                if guard is not None:
                    guard(executor)
                made = self._rows(order, executor)
                ids = self._write(executor, order, made, fate=None)
                _note_new(new, made, ids)
        self.bell.ring_here()
        return ids

    def _joined(self, conn: object) -> AbstractContextManager[Executor]:
        return joined(conn, self.database.engine, self.database.dialect)

    def _submit(
        self, order: Order, guard: Guard | None, *, hasty: bool, new: set[int] | None
    ) -> list[int]:
        fate = Fate[list[int]](self.database)
        rows = None
        if not self.database.dialect.numbers_join:
            # With the same ids, a repeat after a lost answer changes nothing.
            rows = self._rows(order, None, tries=HASTY_TRIES if hasty else TRIES)

        def work(connection: Connection) -> list[int]:
            again = fate.is_unknown
            if guard is not None and not again:
                guard(connection)
            made = rows or self._rows(order, connection)
            ids = self._write(connection, order, made, fate=fate)
            if guard is not None and again:
                # Now, because it does not matter if the first try counted.
                guard(connection)
            _note_new(new, made, ids)
            return fate.sends(ids, [row.id for row in made])

        def write() -> list[int]:
            # Not for a hasty caller: with one statement it could not tell whether it was sent.
            is_plain = guard is None and not hasty
            if is_plain and rows and len(rows) == 1 and self._write_alone(rows[0], fate):
                _note_new(new, rows, [rows[0].id])
                return [rows[0].id]
            try:
                return self.database.write(work, tries=HASTY_TRIES if hasty else TRIES)
            except LOST:
                if not hasty or not fate.is_unknown:
                    raise
                # It may not go elsewhere before that is known.
                return self.database.write(work)

        return fate.settle(write)

    def meet(self, kind: Kind, calls: Sequence[Call], how: How, *, guard: Guard) -> list[int]:
        """Handle the rows that already have the keys of `calls` as `how` says; make no new row.

        Raises Vanished if one of them is gone.
        """
        order, keys = self._order(kind, calls, how), {str(call.key) for call in calls}
        fate = Fate[list[int]](self.database)
        rows: list[NewTask] = []
        if how.on_conflict == "replace" and how.conn is None:
            rows = self._rows(order, None)

        def work(executor: Executor) -> list[int]:
            again = fate.is_unknown
            if not again:
                guard(executor)
            dialect = self.database.dialect
            held = store.find_keys(executor, dialect, kind.name, keys, is_locked=again)
            if again:
                fate.check(executor, [row.id for row in rows])
                guard(executor)
            if held.keys() != keys:
                raise Vanished
            if how.on_conflict != "skip":
                made = rows or self._rows(order, executor)
                self._meet(executor, _first_of_each_key(made), held, order)
            self.bell.ring_inside(executor, is_ours=how.conn is None)
            ids = [held[str(call.key)][0] for call in calls]
            return fate.sends(ids, [row.id for row in rows])

        if how.conn is not None:
            with self._joined(how.conn) as executor:
                return work(executor)
        ids = fate.settle(lambda: self.database.write(work))
        self.bell.ring_here()
        return ids

    def take_back(self, ids: Sequence[int]) -> int:
        """Delete rows that were just written and have not started; how many."""
        return self.database.write(lambda connection: store.take_back(connection, ids))

    def _write_alone(self, row: NewTask, fate: Fate[list[int]]) -> bool:
        """Write one row in one round trip, if the database can; False if it was not written.

        Also False if the answer was lost: a transaction must find out whether it was written.
        """
        dialect = self.database.dialect
        if not dialect.commits_alone or isinstance(row, NewLaneTask):
            return False
        notify = self.bell.is_due()

        def once(connection: Connection) -> bool:
            if fate.is_unknown:
                return False
            fate.sends([row.id], [row.id])
            try:
                is_written = dialect.insert_alone(connection, row, notify=notify)
            except DatabaseError as problem:
                # Otherwise the server has refused it, and that is an answer.
                fate.is_unknown = self.database.can_retry(problem)
                raise
            fate.is_unknown = False
            return is_written

        return self.database.single(once)

    def _order(self, kind: Kind, calls: Sequence[Call], how: How) -> Order:
        if any(call.lane is not None for call in calls):
            self.database.schema.need(lane.TABLES, "a lane")
        encode, largest = kind.arguments.encode, self.max_payload
        payloads = [
            encode(call.args, call.kwargs, largest=largest, trace=how.trace) for call in calls
        ]
        first = self.clock.reserve(len(calls))
        return Order(kind, calls, payloads, how, first, due_of(kind, how, first))

    def _rows(self, order: Order, inside: Executor | None, *, tries: int = TRIES) -> list[NewTask]:
        numbers = self.numbers.take(len(order.calls), inside=inside, tries=tries)
        kind, created_at, due_at = order.kind, order.created_at, order.due_at
        priority = kind.priority if order.how.priority is None else order.how.priority
        return [
            NewTask(
                number,
                kind.name,
                call.key,
                bucket_of(call.key or str(number)),
                priority,
                due_at + index,
                payload,
                created_at + index,
            )
            if call.lane is None
            else self._laned(
                kind,
                call,
                call.lane,
                number=number,
                priority=priority,
                due_at=due_at + index,
                payload=payload,
                created_at=created_at + index,
            )
            for index, (number, call, payload) in enumerate(
                zip(numbers, order.calls, order.payloads, strict=True)
            )
        ]

    @staticmethod
    def _laned(
        kind: Kind,
        call: Call,
        name: str,
        *,
        number: int,
        priority: int,
        due_at: int,
        payload: str,
        created_at: int,
    ) -> NewTask:
        """A row of a lane, in the bucket of its lane."""
        number_of_lane = lane_number(kind.name, name)
        return NewLaneTask(
            number,
            kind.name,
            call.key,
            bucket_of_lane(number_of_lane),
            priority,
            due_at,
            payload,
            created_at,
            name,
            place_of(number_of_lane),
        )

    def _write(
        self,
        executor: Executor,
        order: Order,
        rows: list[NewTask],
        *,
        fate: Fate[list[int]] | None,
    ) -> list[int]:
        """Write rows in our transaction, or in a caller's, which has no fate here."""
        unique = _first_of_each_key(rows)
        again = fate is not None and fate.is_unknown
        inserted, held = self._insert(executor, unique, again=again)
        if fate is not None:
            fate.check(executor, [row.id for row in unique])
        if held:
            left = [row for row in unique if row.id not in inserted]
            self._meet(executor, left, held, order)
        self.bell.ring_inside(executor, is_ours=fate is not None)
        if rows[0].task_key is None:
            return [row.id for row in rows]
        owner = {row.task_key: row.id for row in unique if row.id in inserted}
        owner |= {key: number for key, (number, _status) in held.items()}
        return [row.id if row.task_key is None else owner[row.task_key] for row in rows]

    def _insert(
        self, executor: Executor, rows: list[NewTask], *, again: bool
    ) -> tuple[set[int], Holders]:
        """Insert rows whose keys are free; their ids, and the rows that hold the other keys."""
        dialect = self.database.dialect
        inserted: set[int] = set()
        held: Holders = {}
        for _ in range(INSERT_TRIES):
            inserted |= store.insert(executor, dialect, rows, again=again)
            met = [row for row in rows if row.id not in inserted and row.task_key is not None]
            if not met:
                return inserted, held
            keys = {str(row.task_key) for row in met}
            held |= store.find_keys(executor, dialect, met[0].kind, keys, is_locked=again)
            # A holder may have been deleted in between: then the key is free.
            rows = [row for row in met if row.task_key not in held]
            if not rows:
                return inserted, held
        raise DatabaseUnavailable(
            f"kind {rows[0].kind!r}: key {rows[0].task_key!r} is taken and freed all the time"
        )

    def _meet(
        self, executor: Executor, rows: Sequence[NewTask], held: Holders, order: Order
    ) -> None:
        """Apply `on_conflict` to rows whose keys were taken."""
        how, dialect = order.how, self.database.dialect
        replaced: list[int] = []
        for row in rows:
            if row.task_key not in held:
                continue
            number, status = held[row.task_key]
            if number == row.id:
                continue
            if is_running(number):
                # The caller is the handler of that task, whose claim may not be written.
                status = Status.RUNNING
            if how.on_conflict == "raise" or (
                how.on_conflict == "replace"
                and (is_running(number) or not store.replace(executor, dialect, row))
            ):
                raise DuplicateKey(row.kind, row.task_key, task_id=number, status=str(status))
            if how.on_conflict == "replace":
                self.faces.replaced(executor, row.kind, row.task_key)
                replaced.append(row.id)
        if how.conn is None:
            # Their ids are used up: a repeat must know that they counted.
            gone.remember(executor, dialect, replaced, now=order.created_at)


def _note_new(new: set[int] | None, made: Sequence[NewTask], ids: Sequence[int]) -> None:
    """Add the ids of new rows to `new`; other ids are of rows that had the keys already."""
    if new is not None:
        new.update({row.id for row in made}.intersection(ids))


def due_of(kind: Kind, how: How, now: int) -> int:
    """The due time of a task that is enqueued now."""
    if how.delay is not None:
        return now + how.delay
    if how.at is None:
        return now
    if how.at >= now - PAST_ALLOWED:
        return how.at
    at = to_datetime(how.at).isoformat()
    if how.on_past == "raise":
        raise PastTime(
            f"kind {kind.name!r}: at={at} has passed (it is "
            f"{to_datetime(now).isoformat(timespec='seconds')}); leave it out to start now"
        )
    telemetry.emit("task.past", kind=kind.name, at=at)
    return now


def _first_of_each_key(rows: list[NewTask]) -> list[NewTask]:
    if len(rows) == 1 or rows[0].task_key is None:
        return rows
    seen: dict[str | None, NewTask] = {}
    for row in rows:
        seen.setdefault(row.task_key, row)
    return list(seen.values())
