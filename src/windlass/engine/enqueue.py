"""Enqueueing: calls become rows, in one transaction, ours or the caller's."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

from sqlalchemy import Connection

from windlass.clock import SECOND, Clock, to_datetime
from windlass.declare.kind import Kind
from windlass.declare.task import Call, How
from windlass.engine.context import is_running
from windlass.engine.wake import Bell
from windlass.errors import DatabaseUnavailable, DuplicateKey, PastTime
from windlass.model.bucket import bucket_of
from windlass.model.status import Status
from windlass.model.task import NewTask
from windlass.store import task as store
from windlass.store.connection import join
from windlass.store.database import Database
from windlass.store.dialect.base import Executor
from windlass.store.number import Numbers

PAST_ALLOWED = SECOND
INSERT_TRIES = 5

Holders = dict[str, tuple[int, Status]]


class Enqueue:
    """Writes new rows into one database."""

    def __init__(
        self, database: Database, clock: Clock, numbers: Numbers, bell: Bell, *, max_payload: int
    ) -> None:
        self._database = database
        self._clock = clock
        self._numbers = numbers
        self._bell = bell
        self._max_payload = max_payload

    def submit(self, kind: Kind, calls: Sequence[Call], how: How) -> list[int]:
        """Write a row for each call; the ids, in order. All or none, and safe to repeat."""
        encode, largest = kind.arguments.encode, self._max_payload
        payloads = [encode(call.args, call.kwargs, largest=largest) for call in calls]
        first = self._clock.reserve(len(calls))
        due_at = self._due_at(kind, how, first)
        if how.conn is not None:
            executor = join(how.conn, self._database.engine, self._database.dialect)
            ids = self._write(executor, kind, calls, payloads, how, (first, due_at), is_ours=False)
            self._bell.ring_here()
            return ids
        rows = None
        if not self._database.dialect.numbers_join:
            # Under the same numbers, doing it again after a lost answer has no second effect.
            rows = self._rows(kind, calls, payloads, how, (first, due_at), None)
            if len(rows) == 1 and self._write_alone(rows[0]):
                self._bell.ring_here()
                return [rows[0].id]

        tries = count()

        def work(connection: Connection) -> list[int]:
            return self._write(
                connection,
                kind,
                calls,
                payloads,
                how,
                (first, due_at),
                is_ours=True,
                rows=rows,
                again=next(tries) > 0,
            )

        ids = self._database.write(work)
        self._bell.ring_here()
        return ids

    def _write_alone(self, row: NewTask) -> bool:
        """One row by one round trip, where the database can; False if it met another."""
        dialect = self._database.dialect
        if not dialect.commits_alone:
            return False
        notify = self._bell.is_due()
        return self._database.single(
            lambda connection: dialect.insert_alone(connection, row, notify=notify)
        )

    def _due_at(self, kind: Kind, how: How, now: int) -> int:
        if how.delay is not None:
            return now + how.delay
        if how.at is None:
            return now
        if how.at < now - PAST_ALLOWED:
            raise PastTime(
                f"kind {kind.name!r}: at={to_datetime(how.at).isoformat()} has passed (it is "
                f"{to_datetime(now).isoformat(timespec='seconds')}); leave it out to start now"
            )
        return how.at

    def _rows(
        self,
        kind: Kind,
        calls: Sequence[Call],
        payloads: Sequence[str],
        how: How,
        times: tuple[int, int],
        inside: Executor | None,
    ) -> list[NewTask]:
        numbers = self._numbers.take(len(calls), inside=inside)
        created_at, due_at = times
        priority = kind.priority if how.priority is None else how.priority
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
            for index, (number, call, payload) in enumerate(
                zip(numbers, calls, payloads, strict=True)
            )
        ]

    def _write(
        self,
        executor: Executor,
        kind: Kind,
        calls: Sequence[Call],
        payloads: Sequence[str],
        how: How,
        times: tuple[int, int],
        *,
        is_ours: bool,
        rows: list[NewTask] | None = None,
        again: bool = False,
    ) -> list[int]:
        if rows is None:
            rows = self._rows(kind, calls, payloads, how, times, executor)
        unique = _first_of_each_key(rows)
        inserted, held = self._insert(executor, unique, again=again)
        if held:
            self._meet(executor, unique, inserted, held, how)
        self._bell.ring_inside(executor, is_ours=is_ours)
        if rows[0].task_key is None:
            return [row.id for row in rows]
        owner = {row.task_key: row.id for row in unique if row.id in inserted}
        owner |= {key: number for key, (number, _status) in held.items()}
        return [row.id if row.task_key is None else owner[row.task_key] for row in rows]

    def _insert(
        self, executor: Executor, rows: list[NewTask], *, again: bool
    ) -> tuple[set[int], Holders]:
        """Write what can be written; which rows were, and who holds the keys of the others."""
        dialect = self._database.dialect
        inserted: set[int] = set()
        held: Holders = {}
        for _ in range(INSERT_TRIES):
            inserted |= store.insert(executor, dialect, rows, again=again)
            met = [row for row in rows if row.id not in inserted and row.task_key is not None]
            if not met:
                return inserted, held
            keys = {str(row.task_key) for row in met}
            held |= store.find_keys(executor, dialect, met[0].kind, keys)
            # A holder may have been deleted in between: then the key is free after all.
            rows = [row for row in met if row.task_key not in held]
            if not rows:
                return inserted, held
        raise DatabaseUnavailable(
            f"kind {rows[0].kind!r}: key {rows[0].task_key!r} was taken and freed again and again"
        )

    def _meet(
        self,
        executor: Executor,
        rows: Sequence[NewTask],
        inserted: set[int],
        held: Holders,
        how: How,
    ) -> None:
        """Some keys were taken: do what `on_conflict` says about each."""
        for row in rows:
            if row.task_key not in held or row.id in inserted:
                continue
            number, status = held[row.task_key]
            if number == row.id:
                continue
            if is_running(number):
                # Its caller is the very run of that task, which need not be written down.
                status = Status.RUNNING
            if how.on_conflict == "raise" or (
                how.on_conflict == "replace"
                and (is_running(number) or not store.replace(executor, self._database.dialect, row))
            ):
                raise DuplicateKey(row.kind, row.task_key, task_id=number, status=str(status))


def _first_of_each_key(rows: list[NewTask]) -> list[NewTask]:
    if len(rows) == 1 or rows[0].task_key is None:
        return rows
    seen: dict[str | None, NewTask] = {}
    for row in rows:
        seen.setdefault(row.task_key, row)
    return list(seen.values())
