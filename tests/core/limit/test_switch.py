"""Switches: pause, resume and set, by the app or by plain SQL, before and while workers run."""

import asyncio
import threading
from collections.abc import Callable
from contextlib import closing

import pytest

from tests.core.fetch.dead import lose
from tests.core.run.working import listening, sql, switch_of, working
from tests.table import count, task, tasks
from tests.wait import eventually
from windlass import App, Status
from windlass.clock import SECOND
from windlass.core.fetch.claim import Rows
from windlass.database.dialect.base import Most, Stamp
from windlass.value.outcome import Succeeded

pytestmark = pytest.mark.mostly("sqlite", "postgresql")


def task_due(app, clock, seen):
    @app.task
    def work() -> None:
        seen.append("work")

    work.enqueue()


def cron_due(app, clock, seen):
    @app.cron("0 * * * *")
    async def work() -> None:
        seen.append("work")

    app.drain()
    clock.forward("1h")


def rolling_due(app, clock, seen):
    @app.rolling(every="1d")
    def work(code: str) -> None:
        seen.append("work")

    work.add(["a"], now=True)


every_sort = pytest.mark.parametrize(
    "make_due", [task_due, cron_due, rolling_due], ids=["task", "cron", "rolling"]
)


@pytest.fixture
def seen():
    return []


@pytest.fixture
def other(app, seen):
    """A kind that nobody switches."""

    @app.task
    def other() -> None:
        seen.append("other")

    return other


class Doors:
    """Handlers wait inside until they are let out, one by one."""

    def __init__(self) -> None:
        self._out = threading.Semaphore(0)
        self._lock = threading.Lock()
        self.inside = self.total = 0

    def pass_through(self) -> None:
        with self._lock:
            self.inside += 1
            self.total += 1
        self._out.acquire(timeout=30)
        with self._lock:
            self.inside -= 1

    def let_out(self, count: int) -> None:
        self._out.release(count)

    def __enter__(self) -> "Doors":
        return self

    def __exit__(self, *_: object) -> None:
        self.let_out(10_000)


@pytest.fixture
def doors():
    return Doors()


# Drained


@every_sort
def test_a_paused_kind_does_not_run_until_it_is_resumed(app, clock, seen, make_due):
    make_due(app, clock, seen)
    before = tasks(app)

    app.pause("work")
    app.drain()
    assert seen == []
    assert tasks(app) == before

    app.resume("work")
    app.drain()
    assert seen == ["work"]


@every_sort
def test_other_kinds_go_on_while_one_is_paused(app, clock, seen, other, make_due):
    make_due(app, clock, seen)
    app.pause("work")

    other.enqueue()
    app.drain()

    assert seen == ["other"]


@every_sort
def test_a_window_that_is_set_holds_every_sort_of_kind(app, clock, seen, make_due):
    make_due(app, clock, seen)

    app.set("work", window="12:00-14:00")
    app.drain()
    assert seen == []

    clock.forward("12h")
    app.drain()
    assert seen[:1] == ["work"]


def test_turns_of_a_cron_that_was_paused_collapse_into_one(app, clock, seen):
    cron_due(app, clock, seen)
    app.pause("work")
    clock.forward("5h")
    app.drain()

    app.resume("work")
    app.drain()
    app.drain()

    assert seen == ["work"]


@pytest.mark.timeout(20)
def test_a_handler_that_pauses_its_own_kind_lets_drain_end(app, seen):
    @app.task(concurrency=1)
    def work() -> None:
        seen.append(1)
        app.pause("work", reason="enough")

    work.enqueue_many([{}] * 500)
    app.drain()

    assert 1 <= len(seen) < 500
    assert {(row["status"], row["attempt"]) for row in tasks(app)} == {(Status.WAITING, 0)}


def test_a_reason_may_be_long_and_strange(app, other):
    app.pause("other", reason="🛑\0" + "x" * 100_000, who="w" * 1_000)

    row = switch_of(app, "other")
    assert row["reason"].startswith("🛑")
    assert len(row["who"]) == 255


async def test_switches_have_async_twins(app, seen):
    @app.task
    async def work() -> None:
        seen.append(1)

    await work.aenqueue()
    await app.apause("work", reason="sale", who="ann")
    await app.aset("work", concurrency=3)
    await app.adrain()
    assert seen == []
    row = switch_of(app, "work")
    assert (row["off"], row["reason"], row["who"], row["concurrency"]) == (1, "sale", "ann", 3)

    await app.aresume("work")
    await app.adrain()
    assert seen == [1]


# Step by step


@pytest.fixture
def step(app):
    @app.task(keep="1h")
    async def step() -> None: ...

    return step


def begin(app, **settings):
    """A worker that has joined, to be moved by hand."""
    worker = app.worker(**settings)
    worker.heartbeat.join_ring()
    return worker


def claim_all(app, worker):
    """All that is due, by written claims of a worker that is moved by hand."""
    now = app.clock.now()
    taken = []
    for tier in Rows(app.database).tiers(app.registry.kinds):
        stamp = Stamp(
            app.fleet.shards[0].numbers.take()[0], worker.heartbeat.id, now, now + 60 * SECOND
        )
        taken += Rows(app.database).claim(tier, stamp, Most(100, now))
    return taken


def facts(row):
    names = ("status", "attempt", "lost", "due_at", "batch", "worker", "last_status", "remark")
    return {name: row[name] for name in names}


def test_what_was_claimed_and_has_not_begun_is_given_back_as_if_never_taken(app, step):
    refs = step.enqueue_many([{}] * 6)
    before = [facts(row) for row in tasks(app)]
    worker = begin(app)
    worker.in_flight.add(claim_all(app, worker))
    assert {row["status"] for row in tasks(app)} == {Status.RUNNING}
    run = worker.in_flight.advance(None, None, is_async=True)

    app.pause("step")
    worker.switchboard.obey()

    after = {row["id"]: facts(row) for row in tasks(app)}
    assert after.pop(run.task.id)["status"] == Status.RUNNING
    assert list(after.values()) == before[1:]
    worker.in_flight.end(run, Succeeded())
    worker.finish.flush()
    assert [ref.status() for ref in refs] == [Status.SUCCEEDED] + [Status.WAITING] * 5
    assert worker.in_flight.is_empty


def test_what_was_read_and_has_not_begun_is_forgotten(app, step):
    step.enqueue_many([{}] * 6)
    before = [facts(row) for row in tasks(app)]
    worker = begin(app)
    worker.fetcher.tick()
    assert len(worker.in_flight.rows) == 6

    app.pause("step")
    worker.switchboard.obey()

    assert worker.in_flight.is_empty
    assert [facts(row) for row in tasks(app)] == before


def test_a_task_that_had_been_retried_is_given_back_with_its_attempts(app, step, clock):
    step.enqueue()
    sql(app, "update windlass_task set attempt = 4, lost = 1")
    before = facts(tasks(app)[0])
    worker = begin(app)
    worker.in_flight.add(claim_all(app, worker))

    app.pause("step")
    worker.switchboard.obey()

    assert facts(tasks(app)[0]) == before


def test_a_claim_that_was_under_way_when_its_kind_was_paused_is_given_back_too(app, step):
    step.enqueue_many([{}] * 3)
    before = [facts(row) for row in tasks(app)]
    worker = begin(app)
    taken = claim_all(app, worker)
    assert len(taken) == 3

    app.pause("step")
    worker.switchboard.obey()
    worker.in_flight.add(taken)
    worker.switchboard.obey()

    assert [facts(row) for row in tasks(app)] == before
    assert worker.in_flight.is_empty


def test_a_removed_item_that_is_given_back_does_not_come_back(app):
    @app.rolling(every="1d")
    async def visit(code: str) -> None: ...

    visit.add(["a", "b"], now=True)
    worker = begin(app)
    worker.fetcher.tick()
    visit.remove(["a"])

    app.pause("visit")
    worker.switchboard.obey()

    assert [row["task_key"] for row in tasks(app)] == ["b"]


def test_a_worker_that_was_marked_dead_gives_nothing_back(app, step, clock):
    step.enqueue()
    worker = begin(app)
    worker.fetcher.tick()
    sql(app, "update windlass_worker set left_at = 1, left_why = 'a test'")
    before = tasks(app)

    app.pause("step")
    worker.switchboard.obey()

    assert tasks(app) == before


# While a worker runs


def test_a_running_worker_obeys_a_pause_and_lets_what_runs_finish(app, doors, other, seen):
    @app.task(keep="1h")
    def work(quick: bool = False) -> None:
        if not quick:
            doors.pass_through()

    with working(app, concurrency=8), doors, listening("kind.held_back") as heard:
        work.enqueue_many([{"quick": True}] * 40)
        refs = work.enqueue_many([{}] * 40)
        eventually(lambda: doors.inside == 8, what="a worker that is full")
        app.pause("work")

        eventually(lambda: heard, 3.0, what="the worker obeying")
        eventually(lambda: len(tasks(app, kind="work", status=Status.WAITING)) == 32)
        assert {row["attempt"] for row in tasks(app, status=Status.WAITING)} == {0}
        doors.let_out(8)
        eventually(lambda: doors.inside == 0)
        other.enqueue()
        eventually(lambda: "other" in seen, what="another kind that goes on")
        assert doors.total == 8
        finished = [ref for ref in refs if ref.status() is Status.SUCCEEDED]
        assert len(finished) == 8

        app.resume("work")
        eventually(lambda: doors.inside == 8, 3.0, what="the kind running again")


def test_a_cron_of_a_running_worker_waits_while_it_is_paused(app, clock, other, seen):
    cron_due(app, clock, seen)
    app.pause("work")

    with working(app):
        other.enqueue()
        eventually(lambda: seen == ["other"])
        app.resume("work")

        eventually(lambda: seen == ["other", "work"], 3.0, what="the cron's turn")


def test_a_row_changed_by_plain_sql_is_obeyed(app, other, seen):
    @app.task
    def work() -> None:
        seen.append("work")

    with working(app):
        work.enqueue()
        eventually(lambda: seen == ["work"])
        with listening("kind.held_back", "kind.opened") as heard:
            sql(app, "insert into windlass_switch (kind, off) values ('work', 1)")
            eventually(lambda: [event.name for event in heard] == ["kind.held_back"], 3.0)
            ref = work.enqueue()
            other.enqueue()
            eventually(lambda: seen == ["work", "other"])
            assert ref.status() is Status.WAITING

            sql(app, "update windlass_switch set off = 0 where kind = 'work'")
            eventually(lambda: seen == ["work", "other", "work"], 3.0)
            assert [event.name for event in heard] == ["kind.held_back", "kind.opened"]


def test_a_row_that_is_deleted_by_plain_sql_switches_nothing_any_more(app, seen):
    task_due(app, None, seen)
    app.pause("work")

    with working(app):
        sql(app, "delete from windlass_switch")

        eventually(lambda: seen == ["work"], 3.0, what="the kind running again")


def test_a_concurrency_that_is_set_holds_in_a_running_worker(app, doors):
    @app.task(concurrency=1)
    def work() -> None:
        doors.pass_through()

    work.enqueue_many([{}] * 30)
    with working(app) as worker, doors:
        eventually(lambda: doors.inside == 1)
        app.set("work", concurrency=3)
        eventually(lambda: doors.inside == 3, 3.0, what="three at once")

        app.set("work", concurrency=2)
        eventually(lambda: worker.in_flight.loads["work"].limit == 2, 3.0)
        doors.let_out(1)
        eventually(lambda: doors.inside == 2)
        doors.let_out(1)
        eventually(lambda: (doors.inside, doors.total) == (2, 4))

        app.set("work", concurrency=None)
        eventually(lambda: worker.in_flight.loads["work"].limit == 1, 3.0)
        doors.let_out(2)
        eventually(lambda: (doors.inside, doors.total) == (1, 5))


def test_what_is_queued_begins_when_the_concurrency_is_raised(app):
    started, release = [], threading.Event()

    @app.task(concurrency=1)
    async def work(quick: bool) -> None:
        if not quick:
            started.append(1)
            await asyncio.to_thread(release.wait, 20)

    with working(app, concurrency=10) as worker:
        work.enqueue_many([{"quick": True}] * 300 + [{"quick": False}] * 4)
        eventually(lambda: started == [1])
        eventually(lambda: worker.pulse().queued > 0, 3.0, what="rows claimed ahead")

        app.set("work", concurrency=4)
        try:
            eventually(lambda: len(started) == 4, 3.0, what="four at once")
        finally:
            release.set()


def test_a_rate_that_is_set_holds_in_a_running_worker_until_it_is_taken_away(app, seen):
    @app.task
    def work() -> None:
        seen.append(1)

    app.set("work", rate="1/h")
    work.enqueue_many([{}] * 50)
    with working(app):
        eventually(lambda: len(seen) == 1)
        app.set("work", rate=None)

        eventually(lambda: len(seen) == 50, 3.0, what="the declared rate, which is none")


def test_a_declared_rate_is_taken_away_by_none_in_words_and_comes_back_by_none(app, seen):
    @app.task(rate="1/h")
    def work() -> None:
        seen.append(1)

    work.enqueue_many([{}] * 50)
    with working(app):
        eventually(lambda: len(seen) == 1)
        app.set("work", rate="none")
        eventually(lambda: len(seen) == 50, 3.0, what="no rate at all")

    app.set("work", rate=None)
    work.enqueue_many([{}] * 5)
    with working(app) as worker:
        eventually(
            lambda: worker.fetcher._claims._refused == {"work"}, what="a rate that holds back"
        )
        assert len(seen) <= 51


def test_a_window_that_is_set_holds_in_a_running_worker(app, other, seen):
    @app.task(window="00:00-01:00")
    def work() -> None:
        seen.append("work")

    with working(app), listening("kind.held_back") as heard:
        work.enqueue()
        eventually(lambda: seen == ["work"])
        app.set("work", window="12:00-13:00")
        eventually(lambda: heard, 3.0, what="the kind held back")
        work.enqueue()
        other.enqueue()
        eventually(lambda: seen == ["work", "other"])

        app.set("work", window="none")
        eventually(lambda: seen == ["work", "other", "work"], 3.0, what="no window")
        app.set("work", window="12:00-13:00")
        eventually(lambda: len(heard) == 2, 3.0)
        work.enqueue()
        app.set("work", window=None)
        eventually(lambda: len(seen) == 4, 3.0, what="the declared window")


# Several at once


def at_once(*acts: Callable[[], None]) -> None:
    """Do all of them at the same time, and fail if one fails."""
    barrier = threading.Barrier(len(acts))
    problems: list[BaseException] = []

    def do(act: Callable[[], None]) -> None:
        try:
            barrier.wait(10)
            act()
        except BaseException as problem:  # noqa: BLE001
            problems.append(problem)

    threads = [threading.Thread(target=do, args=[act]) for act in acts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert problems == []


def test_two_operators_at_once_both_have_their_effect(app, database_url, clock):
    with closing(App(database_url, clock=clock)) as second:
        for each in (app, second):
            for number in range(5):
                each.task(name=f"kind{number}")(lambda: None)

        for number in range(5):
            kind = f"kind{number}"
            at_once(
                lambda kind=kind: app.pause(kind, reason="sale", who="ann"),
                lambda kind=kind: second.set(kind, rate="5/s"),
                lambda kind=kind: app.set(kind, window="01:00-02:00"),
                lambda kind=kind: second.set(kind, concurrency=3),
            )

            row = switch_of(app, kind)
            assert (row["off"], row["who"], row["rate"]) == (1, "ann", "5/s")
            assert (row["time_window"], row["concurrency"]) == ("01:00-02:00", 3)


def test_all_workers_obey(app, database_url, clock, seen):
    with closing(App(database_url, clock=clock)) as second:

        @app.task(name="work")
        def first_work() -> None:
            seen.append("first")

        @second.task(name="work")
        def second_work() -> None:
            seen.append("second")

        with listening("kind.held_back") as heard, working(app), working(second):
            app.pause("work")
            eventually(lambda: len(heard) == 2, 3.0, what="both workers obeying")
            ref = second_work.enqueue()
            first_work.enqueue()
            assert ref.status() is Status.WAITING
            assert seen == []

            second.resume("work")
            eventually(lambda: count(app) == 0, 3.0, what="both tasks run")
    assert len(seen) == 2


# Rescue


def test_what_a_dead_worker_held_of_a_paused_kind_waits_until_it_is_resumed(app, other, seen):
    @app.task(keep="1h")
    def work() -> None:
        seen.append("work")

    ref = work.enqueue()
    lose(app)
    app.pause("work")

    other.enqueue()
    app.drain()
    app.drain()
    assert seen == ["other"]

    app.resume("work")
    app.drain()
    assert seen == ["other", "work"]
    row = task(app, ref)
    assert (row["status"], row["attempt"], row["lost"]) == (Status.SUCCEEDED, 2, 1)


def test_a_task_of_a_paused_kind_is_lost_no_more_often_however_long_the_pause(app, clock):
    @app.task(max_lost=2)
    def work() -> None: ...

    ref = work.enqueue()
    lose(app)
    app.pause("work")

    for _ in range(4):
        clock.forward("1h")
        app.drain()

    assert task(app, ref)["lost"] <= 1
    app.resume("work")
    app.drain()
    assert ref.status() is Status.SUCCEEDED


@pytest.mark.timeout(20)
def test_what_must_run_alone_of_a_paused_kind_holds_up_no_other(app, seen):
    @app.task(priority=5)
    def work() -> None:
        seen.append("work")

    @app.task
    def other() -> None:
        seen.append("other")

    ref = work.enqueue()
    other.enqueue()
    sql(app, "update windlass_task set attempt = 2, lost = 2")
    before = facts(task(app, ref))
    app.pause("work")

    app.drain()

    assert seen == ["other"]
    assert facts(task(app, ref)) == before


def test_a_rescued_task_that_has_not_begun_is_given_back_with_what_it_lost(app, step):
    ref = step.enqueue()
    lose(app)
    worker = begin(app)
    worker.fetcher.tick()
    assert task(app, ref)["attempt"] == 2

    app.pause("step")
    worker.switchboard.obey()

    row = task(app, ref)
    assert (row["status"], row["attempt"], row["lost"]) == (Status.WAITING, 1, 1)
    assert row["due_at"] <= app.clock.now()
