"""The store against a model of it: any order of steps leaves the rows that the model foretells."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)
from sqlalchemy import delete, select, update

from tests.core.fetch.manual_worker import DEAD_AFTER, LEASE, Hand, lease_of
from tests.fixture.machine import campaign, walk
from windlass import App, Status
from windlass.clock import SECOND, ManualClock
from windlass.core.fetch.claim import Rows
from windlass.core.ring import store as ring_store
from windlass.core.task.store import task as task_store
from windlass.database.dialect.base import Most
from windlass.database.schema import bucket as bucket_table
from windlass.database.schema import metadata, task
from windlass.database.schema import number as number_table
from windlass.database.schema import shard as shard_table
from windlass.value.outcome import (
    Cancelled,
    Failed,
    Outcome,
    Retried,
    Snoozed,
    Succeeded,
)
from windlass.value.task import Claimed

MAX_LOST = {"kept": 3, "fleeting": 2}
T = TypeVar("T")
HOUR = 3600 * SECOND
OUTCOMES = st.sampled_from(
    [
        Succeeded(),
        Retried(2 * SECOND, "again", "trace"),
        Retried(0, "again", "trace"),
        Failed("no", "trace"),
        Cancelled("enough"),
        Snoozed(3 * SECOND),
    ]
)
WAITS = st.sampled_from([SECOND, 3 * SECOND, DEAD_AFTER + SECOND, LEASE + SECOND, 2 * HOUR])
PICKS = st.integers(0, 19)
COLUMNS = (
    *("id", "kind", "task_key", "status", "due_at", "batch", "worker"),
    *("attempt", "lost", "lost_in_a_row"),
)


@dataclass(frozen=True)
class Row:
    """What the model knows of a row. `accepted` counts the tries whose outcome was accepted."""

    id: int
    kind: str
    task_key: str | None
    priority: int
    due_at: int | None
    status: Status = Status.WAITING
    batch: int | None = None
    worker: int | None = None
    attempt: int = 0
    lost: int = 0
    lost_in_a_row: int = 0
    prune_at: int | None = None
    accepted: int = 0

    @property
    def max_lost(self) -> int:
        return MAX_LOST[self.kind]

    @property
    def shown(self) -> tuple[object, ...]:
        return tuple(getattr(self, column) for column in COLUMNS)


@dataclass
class Worker:
    """A worker of the model, with the claims that it knows of and those it never heard of."""

    hand: Hand
    lease_until: int
    known: dict[int, Claimed]
    is_left: bool = False


class Store(RuleBasedStateMachine):
    """Enqueue, claim, finish, die, rescue, cancel, retry, hand back, leave and prune."""

    url: str

    def __init__(self) -> None:
        super().__init__()
        self.clock = ManualClock()
        self.app = App(self.url, clock=self.clock)
        self.kept = self.app.task(name="kept", keep="1h", max_lost=MAX_LOST["kept"])(_handler)
        self.fleeting = self.app.task(name="fleeting", max_lost=MAX_LOST["fleeting"])(_handler)
        self.rows: dict[int, Row] = {}
        self.gone: set[int] = set()
        self.workers: list[Worker] = []
        self.forgotten: set[int] = set()
        self.history: list[tuple[Worker, Claimed]] = []

    @initialize()
    def begin(self) -> None:
        def empty(connection) -> None:
            for table in metadata.sorted_tables:
                if table not in (number_table, bucket_table, shard_table):
                    connection.execute(delete(table))
            connection.execute(update(bucket_table).values(owner=None, careful_to=0))

        self.app.prepare()
        self.app.database.write(empty)
        self.join()
        self.join()
        for kept in (True, False):
            for priority in (0, 0, 7):
                self.enqueue(kept, None, 0, priority)

    def teardown(self) -> None:
        self.app.close()

    # Steps

    @rule()
    def join(self) -> None:
        """A worker joins; of those that have left, only the last two are still heard of."""
        left = [worker for worker in self.workers if worker.is_left]
        for worker in left[:-2]:
            self.workers.remove(worker)
            self.forgotten.add(worker.hand.id)
        if len(self.workers) < 5:
            hand = Hand(self.app)
            self.workers.append(Worker(hand, self._lease_of(hand), {}))

    @rule(
        kept=st.booleans(),
        key=st.sampled_from([None, None, "a", "b"]),
        delay=st.sampled_from([0, 5]),
        priority=st.sampled_from([0, 7]),
    )
    def enqueue(self, kept: bool, key: str | None, delay: int, priority: int) -> None:
        kind = self.kept if kept else self.fleeting
        holder = next(
            (
                row.id
                for row in self.rows.values()
                if key and (row.kind, row.task_key) == (kind.kind, key)
            ),
            None,
        )
        ref = kind.using(key=key, delay=f"{delay}s", priority=priority).enqueue()
        if holder is not None:
            assert ref.id == holder
            return
        assert ref.id not in self.rows
        assert ref.id not in self.gone
        due_at = self._column(ref.id, "due_at")
        self.rows[ref.id] = Row(ref.id, kind.kind, key, priority, due_at)

    @rule(wait=WAITS)
    def wait(self, wait: int) -> None:
        self.clock.advance(wait)

    @precondition(lambda self: self.workers)
    @rule(pick=PICKS, limit=st.integers(1, 3), hears=st.booleans())
    def claim(self, pick: int, limit: int, hears: bool) -> None:
        """Claim; a worker that does not hear the answer does not know what it holds."""
        self._claim(pick_from(self.workers, pick), limit, hears=hears)

    def _claim(self, worker: Worker, limit: int, *, hears: bool) -> None:
        tiers = Rows(self.app.database).tiers(self.app.registry.kinds)
        assert {tier[:2] for tier in tiers} == {
            (row.kind, row.priority) for row in self._in(Status.WAITING)
        }
        for tier in tiers:
            stamp = worker.hand.stamp()
            due = sorted(
                row.due_at
                for row in self._in(Status.WAITING)
                if (row.kind, row.priority) == tier[:2] and row.due_at <= stamp.now
            )
            taken = Rows(self.app.database).claim(tier, stamp, Most(limit, stamp.now))
            expected = [] if worker.is_left else due[:limit]
            assert [row.due_at for row in taken] == expected
            for got in taken:
                self._stamped(got, lost=0)
                self.history.append((worker, got))
                if hears:
                    worker.known[got.id] = got

    @rule(pick=PICKS, one=st.booleans())
    def succeed(self, pick: int, one: bool) -> None:
        self._finish(pick, Succeeded(), one)

    @rule(pick=PICKS, outcome=OUTCOMES, one=st.booleans())
    def finish(self, pick: int, outcome: Outcome, one: bool) -> None:
        """Finish one or all of what a worker knows, whether or not it is still its own."""
        self._finish(pick, outcome, one)

    def _finish(self, pick: int, outcome: Outcome, one: bool) -> None:
        worker = pick_from(self.workers, pick)
        if not worker.known:
            self._claim(worker, 2, hears=True)
        if not worker.known:
            return
        tasks = list(worker.known.values())
        if one:
            tasks = [pick_from(tasks, pick)]
        batch = worker.hand.group(tasks, outcome)
        ours = {got.id for got in tasks if self._is_held(got)}

        accepted = worker.hand.write(batch)

        assert accepted == (None if worker.is_left else ours)
        for got in tasks:
            del worker.known[got.id]
            if accepted and got.id in accepted:
                self._finished(got, outcome)

    @precondition(lambda self: self.history)
    @rule(pick=PICKS, outcome=OUTCOMES)
    def finish_what_is_no_longer_held(self, pick: int, outcome: Outcome) -> None:
        """An outcome that comes late, or again, is refused whatever became of its row."""
        former = [(worker, got) for worker, got in self.history if not self._is_held(got)]
        again = [(worker, got) for worker, got in former if self._runs(got.id)]
        if former:
            # The interesting ones are those that somebody holds again.
            former = again or former
            worker, got = pick_from(former, pick)
            refused = None if worker.is_left else set()
            assert worker.hand.write(worker.hand.group([got], outcome)) == refused

    @precondition(lambda self: self.workers)
    @rule(pick=PICKS, forgets=st.booleans())
    def renew(self, pick: int, forgets: bool) -> None:
        """Renew, and hand back lapsed claims whose answer was never heard."""
        worker = pick_from(self.workers, pick)
        if forgets:
            self._claim(worker, 2, hears=False)
        assert worker.hand.renew() is not worker.is_left
        if worker.is_left:
            return
        worker.lease_until = self._lease_of(worker.hand)
        now = self.clock.now()
        handed_back = self.app.database.write(
            lambda connection: ring_store.hand_back(
                connection, worker=worker.hand.id, now=now, unless=worker.known
            )
        )
        unheard = [
            row for row in self._held_by(worker) if row.due_at <= now and row.id not in worker.known
        ]
        assert handed_back == len(unheard)
        for row in unheard:
            self._handed_back(row)

    @precondition(lambda self: self.workers)
    @rule(pick=PICKS)
    def mark_dead(self, pick: int) -> None:
        self._mark_dead(pick_from(self.workers, pick))

    def _mark_dead(self, worker: Worker) -> None:
        held = self._held_by(worker)
        abandoned = worker.hand.be_marked_dead()
        if worker.is_left or worker.lease_until >= self.clock.now() - 1:
            assert abandoned is None
            return
        assert abandoned == len(held)
        worker.is_left = True
        for row in held:
            self.rows[row.id] = replace(row, due_at=self._column(row.id, "due_at"), batch=None)
        self.join()

    @rule(limit=st.integers(1, 3), alone=st.booleans())
    def die_with_something_in_hand(self, limit: int, alone: bool) -> None:
        """A new worker takes what it can get, and dies of it."""
        worker = Worker(Hand(self.app), 0, {})
        worker.lease_until = self._lease_of(worker.hand)
        self.workers.append(worker)
        self._rescue(worker, alone=alone)
        self._claim(worker, limit, hears=True)
        self.clock.advance(DEAD_AFTER + SECOND)
        self._mark_dead(worker)

    @precondition(lambda self: self.workers)
    @rule(pick=PICKS, alone=st.booleans())
    def rescue(self, pick: int, alone: bool) -> None:
        self._rescue(pick_from(self.workers, pick), alone=alone)

    def _rescue(self, worker: Worker, *, alone: bool) -> None:
        left = {one.hand.id for one in self.workers if one.is_left} | self.forgotten
        abandoned = [
            row
            for row in self._in(Status.RUNNING)
            if row.worker in left and row.due_at <= self.clock.now()
        ]

        rescued = worker.hand.rescue(alone=alone)

        if worker.is_left:
            assert (rescued.again, rescued.poison) == ([], [])
            return
        again = {got.id for got in rescued.again}
        poison = {got.id for got in rescued.poison}
        doomed = {row.id for row in abandoned if row.lost_in_a_row + 1 >= row.max_lost}
        free = {row.id for row in abandoned if row.lost_in_a_row + 1 < max(1, row.max_lost - 1)}
        last_life = {row.id for row in abandoned} - doomed - free
        assert poison <= doomed
        assert again <= free | last_life
        if again & last_life:
            assert alone
            assert len(again) == 1
        elif not alone:
            assert (again, poison) == (free, doomed)
            assert rescued.some_quarantined == bool(last_life)
        for got in rescued.again:
            self._stamped(got, lost=1)
            self.history.append((worker, got))
            worker.known[got.id] = got
        for got in rescued.poison:
            row = self.rows[got.id]
            row = replace(row, lost=row.lost + 1, lost_in_a_row=0, worker=got.worker)
            self._ended(row, Status.FAILED)

    @precondition(lambda self: self.workers)
    @rule(pick=PICKS)
    def leave(self, pick: int) -> None:
        worker = pick_from(self.workers, pick)
        held = self._held_by(worker)
        assert worker.hand.leave() == (None if worker.is_left else len(held))
        if not worker.is_left:
            worker.is_left = True
            for row in held:
                self._handed_back(row)
            self.join()

    @precondition(lambda self: self.rows)
    @rule(pick=PICKS)
    def cancel(self, pick: int) -> None:
        row = self.rows[pick_from(sorted(self.rows), pick)]
        assert self.app.cancel(row.id) is not row.status.is_final
        if not row.status.is_final:
            self._ended(row, Status.CANCELLED)

    @precondition(lambda self: self.rows)
    @rule(pick=PICKS)
    def retry(self, pick: int) -> None:
        row = self.rows[pick_from(sorted(self.rows), pick)]
        now = self.clock.now()
        changed = self.app.database.write(
            lambda connection: task_store.retry(connection, [row.id], now=now)
        )
        may = row.status in (Status.FAILED, Status.CANCELLED)
        assert changed == ([row.id] if may else [])
        if may:
            self.rows[row.id] = replace(
                row,
                status=Status.WAITING,
                due_at=now,
                batch=None,
                attempt=0,
                lost=0,
                lost_in_a_row=0,
                accepted=0,
                prune_at=None,
            )

    @rule()
    def prune(self) -> None:
        now = self.clock.now()
        over = {row.id for row in self.rows.values() if row.prune_at and row.prune_at <= now}
        pruned = self.app.database.write(
            lambda connection: task_store.prune(connection, now=now, limit=100)
        )
        assert set(pruned) == over
        for number in over:
            self._remove(number)

    # What must always hold

    @invariant()
    def the_rows_are_what_the_model_says(self) -> None:
        query = select(*(task.c[column] for column in COLUMNS))
        found = self.app.database.read(lambda connection: connection.execute(query).all())
        assert sorted(tuple(row) for row in found) == sorted(
            row.shown for row in self.rows.values()
        )

    @invariant()
    def attempts_are_what_was_accepted_and_lost_and_what_runs(self) -> None:
        for row in self.rows.values():
            is_under_way = row.status is Status.RUNNING
            # The try that was under way when somebody cancelled it ended without an outcome.
            if row.status is not Status.CANCELLED:
                assert row.attempt == row.accepted + row.lost + is_under_way, row

    @invariant()
    def live_claims_are_disjoint(self) -> None:
        claims = [
            number
            for worker in self.workers
            if not worker.is_left
            for number, got in worker.known.items()
            if self._is_held(got)
        ]
        assert len(claims) == len(set(claims))

    # The model's own moves

    def _in(self, status: Status) -> list[Row]:
        return [row for row in self.rows.values() if row.status is status]

    def _held_by(self, worker: Worker) -> list[Row]:
        return [row for row in self._in(Status.RUNNING) if row.worker == worker.hand.id]

    def _runs(self, number: int) -> bool:
        return number in self.rows and self.rows[number].status is Status.RUNNING

    def _is_held(self, got: Claimed) -> bool:
        row = self.rows.get(got.id)
        return row is not None and row.status is Status.RUNNING and row.batch == got.batch

    def _stamped(self, got: Claimed, *, lost: int) -> None:
        row = self.rows[got.id]
        self.rows[got.id] = replace(
            row,
            status=Status.RUNNING,
            batch=got.batch,
            worker=got.worker,
            due_at=self._column(got.id, "due_at"),
            attempt=row.attempt + 1,
            lost=row.lost + lost,
            lost_in_a_row=row.lost_in_a_row + lost,
        )
        assert (got.attempt, got.lost) == (row.attempt + 1, row.lost + lost)
        assert got.task_key == row.task_key

    def _handed_back(self, row: Row) -> None:
        self.rows[row.id] = replace(
            row,
            status=Status.WAITING,
            batch=None,
            worker=None,
            due_at=self._column(row.id, "due_at"),
            attempt=row.attempt - 1,
        )

    def _finished(self, got: Claimed, outcome: Outcome) -> None:
        # It ended by itself, so workers that died before no longer tell anything.
        row = replace(self.rows[got.id], lost_in_a_row=0)
        accepted = row.accepted + 1
        match outcome:
            case Retried():
                due_at = self._column(row.id, "due_at")
                self.rows[row.id] = replace(
                    row, status=Status.WAITING, batch=None, due_at=due_at, accepted=accepted
                )
            case Snoozed():
                due_at = self._column(row.id, "due_at")
                self.rows[row.id] = replace(
                    row,
                    status=Status.WAITING,
                    batch=None,
                    due_at=due_at,
                    attempt=row.attempt - 1 - row.lost,
                    lost=0,
                )
            case Succeeded() if row.kind == "fleeting" and row.task_key is None:
                self._remove(row.id)
            case Succeeded():
                self._ended(replace(row, accepted=accepted), Status.SUCCEEDED)
            case Failed():
                self._ended(replace(row, accepted=accepted), Status.FAILED)
            case Cancelled():
                self._ended(replace(row, accepted=accepted), Status.CANCELLED)

    def _ended(self, row: Row, status: Status) -> None:
        self.rows[row.id] = replace(
            row,
            status=status,
            due_at=None,
            batch=None,
            prune_at=self._column(row.id, "prune_at"),
        )
        assert self.rows[row.id].prune_at is not None

    def _remove(self, number: int) -> None:
        del self.rows[number]
        self.gone.add(number)

    def _column(self, number: int, column: str):
        query = select(task.c[column]).where(task.c.id == number)
        return self.app.database.read(lambda connection: connection.execute(query).scalar_one())

    def _lease_of(self, hand: Hand) -> int:
        return lease_of(self.app, hand)


async def _handler() -> None: ...


def pick_from(things: Sequence[T], pick: int) -> T:
    return things[pick % len(things)]


def test_any_order_of_steps_leaves_the_rows_that_the_model_foretells(database_engine, database_url):
    examples = 20 if database_engine == "sqlite" else 8
    walk(Store, database_engine, database_url, examples=examples, steps=50)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_long_campaign_of_steps_leaves_the_rows_that_the_model_foretells(
    database_engine, database_url
):
    campaign(Store, database_engine, database_url, steps=50, walks=600)
