"""`on_finish` callbacks: a time limit, and nobody waits for them longer than that."""

import threading
from contextlib import closing

import pytest
from sqlalchemy import text

from tests.core.run.working import listening, working
from tests.table import failures, workers
from tests.wait import eventually
from windlass import App, BadDuration, Status, TaskFailed, context
from windlass.core.finish.callback import Callbacks
from windlass.core.ring.ring import write_down


@pytest.fixture
def real(database_url):
    """An app on the clock of its database."""
    with closing(App(database_url)) as app:
        app.prepare()
        app.database.write(
            lambda connection: connection.execute(text("create table effect (number bigint)"))
        )
        yield app


def write_effect(connection):
    connection.execute(text("insert into effect values (7)"))


def effects(app):
    return app.database.read(
        lambda connection: connection.scalars(text("select number from effect")).all()
    )


class Stuck:
    """A callback that writes, waits until it is let go, and goes on writing in every way."""

    def __init__(self):
        self.is_inside = threading.Event()
        self.may_go_on = threading.Event()
        self.errors = []
        self.ended = threading.Semaphore(0)

    def __call__(self, connection):
        raw = connection.connection.driver_connection
        write_effect(connection)
        self.is_inside.set()
        self.may_go_on.wait(60)
        for write in (
            lambda: write_effect(connection),
            lambda: raw.cursor().execute("insert into effect values (8)"),
            raw.commit,
            connection.commit,
        ):
            try:
                write()
            except Exception as error:  # noqa: BLE001
                self.errors.append(error)
        self.ended.release()


@pytest.fixture
def stuck():
    stuck = Stuck()
    yield stuck
    stuck.may_go_on.set()


def test_an_on_finish_that_is_late_fails_its_run_and_commits_nothing(real, database_url, stuck):
    @real.task(finish_timeout="300ms")
    def work() -> str:
        context().on_finish(stuck)
        return "done"

    @real.task(keep="1h")
    def innocent() -> int:
        return 1

    ref = work.enqueue()
    with working(real), closing(App(database_url)) as other:
        eventually(lambda: ref.status() is Status.FAILED, what="a failed run")
        # It is still inside, but neither this process nor another one is locked out.
        beside = innocent.enqueue()
        other.database.write(write_effect)
        assert beside.result(timeout=10) == 1
        assert not stuck.may_go_on.is_set()

        stuck.may_go_on.set()
        assert stuck.ended.acquire(timeout=10)

    with pytest.raises(TaskFailed, match="TimeoutError: on_finish did not end within 300ms"):
        ref.result()
    assert len(failures(real)) == 1
    assert effects(real) == [7]
    assert len(stuck.errors) >= 2


def test_a_late_statement_is_stopped(real):
    slow = {
        "sqlite": "insert into effect with recursive n(i) as (select 1 union all select i + 1 "
        "from n where i < 1000000000) select max(i) from n",
        "postgresql": "select pg_sleep(60)",
        "mysql": "select sleep(60)",
    }[real.database.dialect.name]

    @real.task(finish_timeout="300ms")
    def work() -> None:
        context().on_finish(lambda connection: connection.execute(text(slow)))

    @real.task(keep="1h")
    def innocent() -> int:
        return 1

    ref = work.enqueue()
    with working(real):
        eventually(lambda: ref.status() is Status.FAILED, what="a failed run")
        assert innocent.enqueue().result(timeout=10) == 1

    assert effects(real) == []


def test_a_late_on_finish_is_retried_like_any_failure(real, stuck):
    @real.task(retries=1, backoff="10ms", finish_timeout="300ms")
    def work() -> str:
        context().on_finish(stuck if context().attempt == 1 else write_effect)
        return "done"

    ref = work.enqueue()
    with working(real), listening("task.abandoned") as abandoned:
        assert ref.result(timeout=20) == "done"

    assert effects(real) == [7]
    assert [event.fields["kind"] for event in abandoned] == ["work"]


def test_other_outcomes_and_the_heartbeat_do_not_wait_for_an_on_finish(real, stuck):
    if real.database.dialect.is_embedded:
        pytest.skip("SQLite has one writer at a time")

    @real.task(keep="1h", finish_timeout="30s")
    def work(how: str) -> str:
        if how == "stuck":
            context().on_finish(stuck)
        elif how == "quick":
            context().on_finish(write_effect)
        return how

    def lease():
        return workers(real)[0]["lease_until"]

    with working(real, concurrency=4), listening("worker.lost") as lost:
        first = work.enqueue("stuck")
        assert stuck.is_inside.wait(10)
        began = lease()
        others = [work.enqueue(how) for how in ("plain", "quick", "plain", "quick")]
        assert [ref.result(timeout=3) for ref in others] == ["plain", "quick", "plain", "quick"]
        eventually(lambda: lease() > began, timeout=3, what="a heartbeat")
        assert first.status() is not Status.SUCCEEDED
        stuck.may_go_on.set()
        eventually(lambda: first.status() in (Status.SUCCEEDED, Status.FAILED), what="its end")

    assert lost == []


def test_a_row_whose_claim_is_written_down_meanwhile_is_finished(real, monkeypatch):
    with working(real) as worker:
        worker.stop()
    add = Callbacks.add

    def mark_first(callbacks, runs):
        in_flight = callbacks._in_flight
        with in_flight.writing:
            stamp = site.stamp(runs[0].task.worker, 30_000_000)
            reads = [run for run in runs if run.task.is_read]
            write_down(real.database, in_flight, reads, stamp)
            marked.extend(reads)
        add(callbacks, runs)

    @real.task(keep="1h")
    def work() -> str:
        context().on_finish(write_effect)
        return "done"

    marked = []
    monkeypatch.setattr(Callbacks, "add", mark_first)
    ref = work.enqueue()
    with working(real) as worker:
        site = worker.finish._site
        assert ref.result(timeout=10) == "done"

    assert len(marked) == 1
    assert effects(real) == [7]


def test_a_worker_that_leaves_waits_for_callbacks(real, stuck):
    @real.task(keep="1h", finish_timeout="20s")
    def work() -> str:
        context().on_finish(lambda connection: (stuck.is_inside.set(), write_effect(connection)))
        return "done"

    ref = work.enqueue()
    with working(real):
        assert stuck.is_inside.wait(10)

    assert ref.result() == "done"
    assert effects(real) == [7]


@pytest.mark.parametrize("given", [5, "0s", "-1s", None, "soon"])
def test_a_limit_that_is_not_a_duration_is_refused(app, given):
    with pytest.raises(BadDuration, match="finish_timeout"):
        app.task(name="work", finish_timeout=given)(lambda: None)
