"""Submissions: each has an id and a secret of its own, and old ones change nothing any more."""

import threading

import pytest
from sqlalchemy import text

import windlass
from tests.external.system import Spark
from windlass import Done, External, ExternalFailed, Failed, Status
from windlass.app import FACES
from windlass.core.maintenance import Maintenance
from windlass.operate.task import operate


@pytest.fixture
def system():
    return Spark()


@pytest.fixture
def spark(app, system):
    return app.external("spark", system, every="5s", timeout="6h", breaker="2 in a row, 1m")


def ask(app, clock, *, times=1):
    for _ in range(times):
        clock.forward("40s")
        app.drain()


def submissions(system):
    return [submission for submission, _ in system.submitted]


def test_a_task_that_is_retried_by_hand_is_another_submission_with_all_its_tries(
    app, clock, system
):
    spark = app.external("spark", system, every="5s", retries=1)
    ref = spark.enqueue("load")
    app.drain()
    for number in ("", "-2", "-3"):
        system.answers[f"handle-{ref.id}{number}"] = Failed("boom")
    ask(app, clock, times=3)
    assert ref.status() is Status.FAILED

    assert operate.retry(app.fleet, ref.id)
    ask(app, clock, times=3)

    names = [str(ref.id), f"{ref.id}-2", f"{ref.id}-3", f"{ref.id}-4"]
    assert submissions(system) == names
    assert ref.status() is Status.EXTERNAL


def test_a_node_that_is_retried_is_another_submission_and_forgets_what_was_told(app, clock):
    class Hasty(Spark):
        def submit(self, job: str) -> str:
            if not self.submitted:
                app.notify(windlass.context().task_id, ok=False, reason="too early")
            return super().submit(job)

    system = Hasty()
    hasty = app.external("hasty", system, every="5s")

    @app.flow
    def load(flow):
        flow.add(hasty, "users", name="node")

    run = load.start()
    app.drain()
    assert run.status() is Status.FAILED

    run.retry()
    app.drain()
    number = run.nodes()[0].id
    assert submissions(system) == [str(number), f"{number}-2"]

    system.answers[f"handle-{number}-2"] = Done(1)
    ask(app, clock)
    assert run.status() is Status.SUCCEEDED


def test_a_key_that_is_enqueued_again_is_another_submission(app, system, spark):
    ref = spark.using(key="users").enqueue("first")
    app.drain()
    app.notify(ref, ok=True)

    spark.using(key="users", on_conflict="replace").enqueue("second")
    app.drain()

    assert system.submitted == [(str(ref.id), "first"), (f"{ref.id}-2", "second")]
    assert ref.status() is Status.EXTERNAL


def test_what_is_said_of_an_old_submission_changes_nothing(app, clock):
    class Open(Spark):
        def submit(self, job: str) -> str:
            self.secrets.append(windlass.context().secret)
            return super().submit(job)

    system = Open()
    system.secrets = []
    again = app.external("again", system, every="5s", retries=3)
    ref = again.enqueue("load")
    app.drain()
    system.answers[f"handle-{ref.id}"] = Failed("boom")
    clock.forward("6s")
    app.drain()
    # Between two submissions there is none that anything could be said of.
    assert not app.notify(ref, ok=True, result="stale")
    ask(app, clock)
    first, second = system.secrets

    assert first != second
    assert not app.notify(f"handle-{ref.id}", ok=True, result="stale")
    assert not app.external.notify(ref.id, ok=True, result="stale", secret=first)
    assert ref.status() is Status.EXTERNAL
    assert app.external.notify(ref.id, ok=True, result="new", secret=second)
    assert ref.result(timeout=1) == "new"


def test_a_task_that_is_cancelled_is_stopped_over_there_and_so_is_a_node_that_is_skipped(
    app, system, spark
):
    @app.flow
    def load(flow):
        flow.add(spark, "users", name="node")

    ref, run = spark.enqueue("load"), load.start()
    app.drain()
    assert ref.cancel()
    run.skip("node")
    app.drain()

    assert set(system.cancelled) == {f"handle-{ref.id}", f"handle-{run.nodes()[0].id}"}
    assert run.status() is Status.SUCCEEDED


def test_what_is_cancelled_while_it_is_being_submitted_is_stopped_over_there(app, clock):
    class Slow(Spark):
        def submit(self, job: str) -> str:
            at.set()
            assert go.wait(30)
            return super().submit(job)

    at, go, system = threading.Event(), threading.Event(), Slow()
    slow = app.external("slow", system, every="5s")

    @app.flow
    def load(flow):
        flow.add(slow, "users")

    run = load.start()
    worker = threading.Thread(target=app.drain)
    worker.start()
    assert at.wait(30)
    run.cancel()
    go.set()
    worker.join(30)
    app.drain()

    assert system.cancelled == [f"handle-{run.nodes()[0].id}"]
    assert run.status() is Status.CANCELLED


def test_a_cancel_that_fails_is_tried_a_few_times_and_not_forever(app, clock):
    class Stubborn(Spark):
        def cancel(self, handle):
            super().cancel(handle)
            raise ConnectionError("nobody there")

    system = Stubborn()
    stubborn = app.external("stubborn", system, every="5s")
    ref = stubborn.enqueue("load")
    app.drain()
    ref.cancel()
    app.drain()
    assert len(system.cancelled) == 1

    ask(app, clock, times=12)
    assert 1 < len(system.cancelled) < 10


@pytest.mark.parametrize("handle", ["x" * 300, "", 7, None, "a\x00b", "\ud800"])
@pytest.mark.mostly("sqlite")
def test_a_handle_that_cannot_be_one_ends_the_try(app, clock, handle):
    calls = []

    class Wrong(External):
        def submit(self, job: str) -> str:
            calls.append(windlass.context().submission)
            return handle

        def poll(self, handles):
            return {}

    wrong = app.external("wrong", Wrong(), retries=1, breaker="1 in a row, 1h")
    ref = wrong.enqueue("load")
    app.drain()
    ask(app, clock, times=2)

    assert calls == [str(ref.id), f"{ref.id}-2"]
    with pytest.raises(windlass.TaskFailed, match="it must return text of up to 255"):
        ref.result(timeout=1)


@pytest.mark.mostly("sqlite")
def test_a_job_that_is_refused_counts_against_the_retries_and_not_for_the_breaker(app, clock):
    class Strict(Spark):
        def submit(self, job: str) -> str:
            if job == "bad":
                raise ExternalFailed("no such job")
            return super().submit(job)

    strict = app.external("strict", Strict(), breaker="1 in a row, 1h")
    bad, good = strict.enqueue("bad"), strict.enqueue("good")
    app.drain()

    with pytest.raises(windlass.TaskFailed, match="no such job"):
        bad.result(timeout=1)
    assert good.status() is Status.EXTERNAL


def test_a_system_that_is_not_there_uses_up_no_try_but_the_time_out_runs(app, clock, system):
    spark = app.external("spark", system, every="5s", timeout="10m", breaker=None)
    system.is_down = True
    ref = spark.enqueue("load")
    app.drain()
    ask(app, clock, times=5)
    assert ref.status() is Status.WAITING

    clock.forward("10m")
    app.drain()
    with pytest.raises(windlass.TaskFailed, match="did not end within 10m"):
        ref.result(timeout=1)


def test_no_secret_is_in_an_error_that_is_kept(clock, sqlite_url):
    app = windlass.App(sqlite_url, clock=clock)
    spark = app.external("spark", Spark())
    app.prepare()
    with app.database.engine.begin() as connection:
        connection.execute(
            text(
                "create trigger no before insert on windlass_external "
                "begin select raise(abort, 'disk says no'); end"
            )
        )
    ref = spark.enqueue("load")
    app.drain()

    with app.database.engine.begin() as connection:
        kept = connection.execute(text("select error, trace from windlass_failure")).all()
    assert "disk says no" in kept[0][0]
    assert "parameters hidden" in kept[0][1]
    assert ref.status() is Status.WAITING
    app.close()


def test_submissions_go_with_their_task(app, clock, spark):
    ref = spark.enqueue("load")
    app.drain()
    app.notify(ref, ok=True)
    clock.forward("30d")

    Maintenance(app.database, app.clock, FACES, numbers=app.fleet.shards[0].numbers).tick()

    with app.database.engine.begin() as connection:
        assert connection.scalar(text("select count(*) from windlass_external")) == 0
