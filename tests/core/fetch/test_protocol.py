"""The steps of the claim protocol, one by one: each guard has a test that falls without it."""

import threading
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import Connection, select

from tests.core.fetch.manual_worker import DEAD_AFTER, LEASE, Hand, lease_of, row_of, snapshot
from tests.core.ring.silent import mark_dead
from windlass import Status
from windlass.app import FACES
from windlass.clock import SECOND
from windlass.core.fetch.claim import Rows
from windlass.core.ring import store as ring_store
from windlass.core.task.store import task as task_store
from windlass.database.schema import stat
from windlass.value.outcome import Cancelled, Failed, Retried, Snoozed, Succeeded

OUTCOMES = [
    Succeeded(),
    Succeeded("1"),
    Retried(SECOND, "again", "trace"),
    Failed("no", "trace"),
    Cancelled("enough"),
    Snoozed(SECOND),
]


@pytest.fixture(autouse=True)
def kind(app):
    @app.task(keep="1h", max_lost=3)
    async def step() -> None: ...

    return step


@pytest.fixture
def fleeting(app):
    @app.task
    async def fleeting() -> None: ...

    return fleeting


def test_a_lapsed_claim_of_a_living_worker_is_nobody_elses(app, kind, clock):
    kind.enqueue()
    slow, other = Hand(app), Hand(app)
    (taken,) = slow.claim()
    clock.advance(2 * LEASE)

    assert other.claim() == []
    assert other.rescue().again == other.rescue(alone=True).again == []
    assert slow.finish([taken]) == {taken.id}


def test_a_worker_whose_lease_still_runs_is_not_marked_dead(app, kind, clock):
    kind.enqueue()
    holder = Hand(app)
    holder.claim()
    before = snapshot(app)
    clock.advance(DEAD_AFTER - SECOND)

    assert holder.be_marked_dead() is None
    clock.advance(10 * SECOND)
    assert holder.renew()
    assert holder.be_marked_dead() is None
    assert snapshot(app) == before


def test_a_worker_is_marked_dead_once(app, kind):
    kind.enqueue()
    holder = Hand(app)
    holder.claim()

    assert holder.die() == 1
    before = snapshot(app)
    assert holder.be_marked_dead() is None
    assert snapshot(app) == before


@pytest.mark.parametrize("outcome", OUTCOMES, ids=lambda outcome: type(outcome).__name__)
def test_an_outcome_of_a_worker_that_was_marked_left_changes_nothing(app, kind, outcome):
    kind.enqueue()
    zombie, successor = Hand(app), Hand(app)
    tasks = zombie.claim()
    zombie.die()
    abandoned = snapshot(app)

    assert zombie.finish(tasks, outcome) is None
    assert snapshot(app) == abandoned
    (inherited,) = successor.rescue().again
    running = snapshot(app)
    assert zombie.finish(tasks, outcome) is None
    assert snapshot(app) == running
    assert successor.finish([inherited]) == {inherited.id}
    ended = snapshot(app)
    assert zombie.finish(tasks, outcome) is None
    assert snapshot(app) == ended


def test_what_was_taken_under_a_former_id_cannot_be_finished_under_the_next(app, kind):
    kind.enqueue()
    former = Hand(app)
    tasks = former.claim()
    former.die()
    reborn = Hand(app)
    abandoned = snapshot(app)

    # Even a mistaken id does not help: marking it dead took the batch away.
    assert reborn.finish(tasks) == set()
    assert snapshot(app) == abandoned


@pytest.mark.parametrize("outcome", OUTCOMES, ids=lambda outcome: type(outcome).__name__)
@pytest.mark.parametrize("kept", [True, False])
def test_repeating_a_finish_whose_answer_was_lost_changes_nothing(
    app, kind, fleeting, outcome, kept
):
    (kind if kept else fleeting).enqueue()
    worker = Hand(app)
    batch = worker.group(worker.claim(), outcome)
    accepted = worker.write(batch)
    after = snapshot(app)

    assert len(accepted) == 1
    assert worker.write(batch) == set()
    assert snapshot(app) == after
    assert done_in_statistics(app) == 1


def test_repeating_a_finish_after_the_row_was_claimed_again_changes_nothing(app, kind, clock):
    kind.enqueue()
    worker = Hand(app)
    batch = worker.group(worker.claim(), Retried(SECOND, "again", "trace"))
    worker.write(batch)
    clock.advance(2 * SECOND)
    (again,) = worker.claim()
    running = snapshot(app)

    assert worker.write(batch) == set()
    assert snapshot(app) == running
    assert (again.attempt, again.lost) == (2, 0)


def test_one_refused_outcome_does_not_hold_up_the_others_of_its_commit(app, kind):
    kind.enqueue_many([{}] * 3)
    worker = Hand(app)
    tasks = worker.claim(3)
    app.cancel(tasks[1].id)

    assert worker.finish(tasks) == {tasks[0].id, tasks[2].id}
    statuses = [row_of(app, taken.id).status for taken in tasks]
    assert statuses == [Status.SUCCEEDED, Status.CANCELLED, Status.SUCCEEDED]


def test_a_claim_whose_answer_was_lost_is_handed_back_by_the_next_beat(app, kind, clock):
    kind.enqueue_many([{}] * 2)
    worker = app.worker()
    worker.heartbeat.join_ring()
    lost = take_as(app, worker.heartbeat.id)
    clock.advance(LEASE + SECOND)

    worker.heartbeat.tick()

    rows = [row_of(app, taken.id) for taken in lost]
    assert [(row.status, row.attempt, row.lost, row.batch, row.worker) for row in rows] == [
        (Status.WAITING, 0, 0, None, None)
    ] * 2


def test_a_claim_that_is_known_here_is_kept_however_late_it_is(app, kind, clock):
    kind.enqueue_many([{}] * 3)
    worker = app.worker()
    worker.heartbeat.join_ring()
    held = take_as(app, worker.heartbeat.id)
    worker.in_flight.add(held)
    before = snapshot(app)
    clock.advance(LEASE + SECOND)

    worker.heartbeat.tick()

    assert snapshot(app) == before
    assert {values[4] for values in before.values()} == {Status.RUNNING}


def test_an_outcome_that_waits_for_its_commit_is_not_handed_back(app, kind, clock):
    kind.enqueue()
    worker = app.worker()
    worker.heartbeat.join_ring()
    worker.fetcher.tick()
    run = worker.in_flight.advance(None, None, is_async=True)
    worker.in_flight.end(run, Succeeded())
    committing = worker.in_flight.take_ended(10)
    clock.advance(LEASE + SECOND)

    worker.heartbeat.tick()
    worker.in_flight.put_back(committing)
    worker.finish.flush()

    assert row_of(app, run.task.id).status is Status.SUCCEEDED


def test_a_zombie_renews_claims_and_rescues_nothing(app, kind, clock):
    kind.enqueue_many([{}] * 3)
    zombie, victim = Hand(app), Hand(app)
    zombie.claim()
    victim.claim()
    zombie.die()
    assert victim.be_marked_dead() == 1
    before, lease = snapshot(app), lease_of(app, zombie)

    assert not zombie.renew()
    assert zombie.claim() == []
    rescued = zombie.rescue(alone=True)
    assert (rescued.again, rescued.poison) == ([], [])
    assert zombie.leave() is None
    assert snapshot(app) == before
    assert lease_of(app, zombie) == lease


def test_a_worker_that_learns_that_it_was_marked_dead_joins_under_another_id(app, kind, clock):
    kind.enqueue()
    worker = app.worker()
    worker.heartbeat.join_ring()
    former = worker.heartbeat.id
    worker.fetcher.tick()
    run = worker.in_flight.advance(None, None, is_async=True)
    clock.advance(DEAD_AFTER + SECOND)
    now = clock.now()
    assert mark_dead(app.database, FACES, number=former, now=now, why="silent") == 0

    worker.heartbeat.tick()

    assert worker.heartbeat.id != former
    assert worker.in_flight.is_empty
    assert not worker.in_flight.end(run, Succeeded())
    assert row_of(app, run.task.id).attempt == 0


def test_an_exit_hands_back_claims_in_any_state(app, kind, clock):
    kind.enqueue_many([{}] * 4)
    victim, leaver = Hand(app), Hand(app)
    victim.claim()
    (lapsed,) = leaver.claim()
    clock.advance(2 * LEASE)
    leaver.renew()
    victim.be_marked_dead()
    (inherited,) = leaver.rescue().again
    (fresh,) = leaver.claim()

    assert leaver.leave() == 3

    rows = {taken.id: row_of(app, taken.id) for taken in (lapsed, inherited, fresh)}
    for row in rows.values():
        assert (row.status, row.batch, row.worker) == (Status.WAITING, None, None)
    assert [(row.attempt, row.lost) for row in rows.values()] == [(0, 0), (1, 1), (0, 0)]
    before = snapshot(app)
    assert leaver.finish([lapsed, inherited, fresh]) is None
    assert leaver.leave() is None
    assert snapshot(app) == before


def test_an_exit_leaves_what_others_hold_alone(app, kind):
    kind.enqueue_many([{}] * 2)
    leaver, other = Hand(app), Hand(app)
    leaver.claim()
    (kept,) = other.claim()
    before = snapshot(app)[kept.id]

    leaver.leave()

    assert snapshot(app)[kept.id] == before
    assert other.finish([kept]) == {kept.id}


def test_a_later_claim_always_has_the_larger_fence(app, kind, clock):
    kind.enqueue()
    fences = []
    for _ in range(3):
        leaver = Hand(app)
        (taken,) = leaver.claim()
        fences.append(taken.started_at)
        leaver.leave()
    victim, successor = Hand(app), Hand(app)
    fences += [taken.started_at for taken in victim.claim()]
    victim.die()
    fences += [taken.started_at for taken in successor.rescue().again]

    assert len(fences) == 5
    assert fences == sorted(set(fences))


def test_a_cancelled_run_is_refused_and_stays_cancelled(app, kind):
    kind.enqueue()
    worker = Hand(app)
    (taken,) = worker.claim()

    assert app.cancel(taken.id)
    cancelled = snapshot(app)

    for outcome in OUTCOMES:
        assert worker.finish([taken], outcome) == set()
    assert snapshot(app) == cancelled


def test_a_row_that_was_cancelled_and_retried_is_not_finished_by_its_former_run(app, kind):
    kind.enqueue()
    worker = Hand(app)
    (former,) = worker.claim()
    app.cancel(former.id)
    now = app.clock.now()
    app.database.write(lambda connection: task_store.retry(connection, [former.id], now=now))
    (again,) = worker.claim()

    assert worker.finish([former]) == set()
    assert worker.finish([again]) == {again.id}


def test_lost_is_counted_apart_and_ends_as_poison(app, kind):
    kind.enqueue()
    seen = []
    holder = Hand(app)
    holder.claim()
    for alone in (False, True):
        holder.die()
        holder = Hand(app)
        (taken,) = holder.rescue(alone=alone).again
        seen.append((taken.attempt, taken.lost, taken.tries))
    holder.die()
    rescued = Hand(app).rescue()

    assert seen == [(2, 1, 1), (3, 2, 1)]
    assert rescued.again == []
    assert [(taken.attempt, taken.lost) for taken in rescued.poison] == [(3, 3)]


def test_a_row_with_one_life_left_is_taken_by_itself(app, kind):
    kind.enqueue_many([{}] * 3)
    for alone in (False, False):
        holder = Hand(app)
        holder.claim(3)
        holder.rescue(alone=alone)
        holder.die()
    worker = Hand(app)

    together = worker.rescue()
    by_itself = worker.rescue(alone=True)

    assert together.again == []
    assert together.some_quarantined
    assert len(by_itself.again) == 1


def test_marking_a_worker_dead_waits_for_its_finish_and_finds_it_done(app, kind, clock):
    kind.enqueue()
    worker = Hand(app)
    tasks = worker.claim()
    clock.advance(DEAD_AFTER + SECOND)

    with Pause() as pause:
        finishing = Call(worker.write, worker.group(tasks, Succeeded()), meanwhile=pause)
        pause.wait_until_reached()
        marking = Call(worker.be_marked_dead)
        assert marking.is_blocked()

    assert finishing.answer() == {tasks[0].id}
    assert marking.answer() == 0
    assert row_of(app, tasks[0].id).status is Status.SUCCEEDED


@pytest.mark.everywhere
def test_of_a_finish_with_a_callback_and_the_death_of_its_worker_one_comes_first(app, kind, clock):
    kind.enqueue()
    worker = Hand(app)
    (taken,) = worker.claim()
    clock.advance(DEAD_AFTER + SECOND)

    with Pause() as pause:
        finishing = Call(worker.write, worker.group([taken], Succeeded()), on_accepted=pause)
        pause.wait_until_reached()
        marking = Call(worker.be_marked_dead)
        assert marking.is_blocked()

    # Where the fence would stop the heartbeat, such a finish takes it last, and may have to yield.
    answers = finishing.answer(), marking.answer()
    row = row_of(app, taken.id)
    if app.database.dialect.fence_stops_heartbeat and answers[0] is None:
        assert answers == (None, 1)
        assert (row.status, row.due_at <= clock.now()) == (Status.RUNNING, True)
    else:
        assert answers == ({taken.id}, 0)
        assert row.status is Status.SUCCEEDED


def test_a_finish_waits_while_its_worker_is_marked_dead_and_is_refused(app, kind, clock):
    kind.enqueue()
    worker = Hand(app)
    tasks = worker.claim()

    with Pause() as pause:

        def mark_dead(connection: Connection) -> None:
            assert app.database.dialect.lock_worker(connection, worker.id)
            ring_store._leave(connection, worker.id, now=clock.now(), why="silent")
            pause(connection)

        marking = Call(app.database.write, mark_dead)
        pause.wait_until_reached()
        finishing = Call(worker.finish, tasks)
        assert finishing.is_blocked()

    marking.answer()
    assert finishing.answer() is None
    assert row_of(app, tasks[0].id).status is Status.RUNNING


def test_a_claim_waits_while_its_worker_is_marked_dead_and_takes_nothing(app, kind, clock):
    kind.enqueue()
    worker = Hand(app)

    with Pause() as pause:

        def mark_dead(connection: Connection) -> None:
            assert app.database.dialect.lock_worker(connection, worker.id)
            ring_store._leave(connection, worker.id, now=clock.now(), why="silent")
            pause(connection)

        marking = Call(app.database.write, mark_dead)
        pause.wait_until_reached()
        claiming = Call(worker.claim)
        assert claiming.is_blocked()

    marking.answer()
    assert claiming.answer() == []


def test_a_cancel_waits_for_a_finish_under_way_and_comes_too_late(app, kind):
    kind.enqueue()
    worker = Hand(app)
    (taken,) = worker.claim()

    with Pause() as pause:
        finishing = Call(worker.write, worker.group([taken], Succeeded()), on_accepted=pause)
        pause.wait_until_reached()
        cancelling = Call(app.cancel, taken.id)
        assert cancelling.is_blocked()

    assert finishing.answer() == {taken.id}
    assert cancelling.answer() is False
    assert row_of(app, taken.id).status is Status.SUCCEEDED


@pytest.mark.parametrize("outcome", OUTCOMES, ids=lambda outcome: type(outcome).__name__)
def test_a_finish_waits_for_a_cancel_under_way_and_is_refused(app, kind, clock, outcome):
    kind.enqueue()
    worker = Hand(app)
    (taken,) = worker.claim()

    with Pause() as pause:

        def cancel(connection: Connection) -> None:
            assert task_store.cancel(connection, [taken.id], reason="no", now=clock.now(), keep=1)
            pause(connection)

        cancelling = Call(app.database.write, cancel)
        pause.wait_until_reached()
        finishing = Call(worker.finish, [taken], outcome)
        assert finishing.is_blocked()

    cancelling.answer()
    assert finishing.answer() == set()
    assert row_of(app, taken.id).status is Status.CANCELLED


def done_in_statistics(app) -> int:
    query = select(stat.c.done)
    return sum(app.database.read(lambda connection: connection.scalars(query).all()))


def take_as(app, number: int) -> list[Any]:
    """Claim in the name of a worker that will not hear the answer."""
    hand = Hand(app)
    hand.id = number
    taken = hand.claim(10)
    assert taken
    assert Rows(app.database).tiers(app.registry.kinds) == []
    return taken


class Pause:
    """A place inside a transaction where it waits until the block of this pause is left."""

    def __init__(self) -> None:
        self._reached, self._go_on = threading.Event(), threading.Event()

    def __enter__(self) -> "Pause":
        return self

    def __exit__(self, *_: object) -> None:
        self._go_on.set()

    def __call__(self, _connection: Connection) -> None:
        self._reached.set()
        assert self._go_on.wait(20)

    def wait_until_reached(self) -> None:
        assert self._reached.wait(20)


class Call:
    """A call on a thread of its own."""

    def __init__(self, function: Callable[..., Any], *args: Any, **options: Any) -> None:
        self._answer: Any = None
        self._error: BaseException | None = None
        self._thread = threading.Thread(
            target=self._run, args=(function, args, options), daemon=True
        )
        self._thread.start()

    def is_blocked(self) -> bool:
        """Whether it is still at it after as long as an unhindered call would take."""
        self._thread.join(0.15)
        return self._thread.is_alive()

    def answer(self) -> Any:
        self._thread.join(20)
        assert not self._thread.is_alive()
        if self._error is not None:
            raise self._error
        return self._answer

    def _run(
        self, function: Callable[..., Any], args: tuple[Any, ...], options: dict[str, Any]
    ) -> None:
        try:
            self._answer = function(*args, **options)
        except BaseException as error:  # noqa: BLE001 - told to the one who asks
            self._error = error
