"""Polling: a system that is silent, hangs or answers nonsense holds up nothing but itself."""

import subprocess
import sys
import threading

import pytest

import windlass
from tests.external.system import Spark
from tests.wait import eventually
from windlass import App, Done, Running, Status
from windlass.external import store


@pytest.fixture
def system():
    return Spark()


def submitted(app, task, *jobs):
    refs = [task.enqueue(job) for job in jobs]
    app.drain()
    return refs


def handle_of(ref):
    return f"handle-{ref.id}"


@pytest.mark.mostly("sqlite")
def test_an_answer_that_is_none_puts_off_its_handle_and_the_others_count(app, clock, system):
    spark = app.external("spark", system, every="5s")
    good, bad = submitted(app, spark, "good", "bad")
    system.answers = {handle_of(good): Done(1), handle_of(bad): "done"}

    clock.forward("6s")
    app.drain()

    assert good.result(timeout=1) == 1
    assert bad.status() is Status.EXTERNAL
    assert len(system.asked) == 1


@pytest.mark.mostly("sqlite")
@pytest.mark.parametrize("answer", [None, "done", 5, [("a", Running())]])
def test_a_poll_that_answers_nonsense_is_a_system_that_is_down(app, clock, answer):
    class Mad(Spark):
        def poll(self, handles):
            super().poll(handles)
            return answer

    system = Mad()
    mad = app.external("mad", system, every="5s", breaker="2 in a row, 1h")
    (ref,) = submitted(app, mad, "load")

    for _ in range(4):
        clock.forward("1m")
        app.drain()

    assert len(system.asked) == 2
    assert ref.status() is Status.EXTERNAL
    assert [alert.what for alert in app.alerts()] == ["breaker opened"]


@pytest.mark.mostly("sqlite")
def test_the_time_out_holds_although_the_system_does_not_answer(app, clock, system):
    spark = app.external("spark", system, every="5s", timeout="10m", breaker="1 in a row, 1d")
    (ref,) = submitted(app, spark, "load")
    system.is_down = True
    clock.forward("6s")
    app.drain()

    clock.forward("10m")
    app.drain()

    with pytest.raises(windlass.TaskFailed, match="did not end within 10m"):
        ref.result(timeout=1)


@pytest.mark.mostly("sqlite")
def test_a_call_that_hangs_is_given_up_and_other_systems_are_asked(app, clock, system):
    class Hanging(Spark):
        def poll(self, handles):
            super().poll(handles)
            go.wait(60)
            return {}

    go = threading.Event()
    hanging = app.external("hanging", Hanging(), every="5s", call_timeout="200ms")
    spark = app.external("spark", system, every="5s")
    stuck, good = hanging.enqueue("load"), spark.enqueue("load")
    app.drain()
    system.answers[handle_of(good)] = Done(1)

    clock.forward("6s")
    app.drain()

    assert good.result(timeout=1) == 1
    assert stuck.status() is Status.EXTERNAL
    go.set()


HANGING = """
import pathlib, sys, time, windlass

class Hanging(windlass.External):
    def submit(self) -> str:
        return "handle"

    def poll(self, handles):
        pathlib.Path("asked").touch()
        time.sleep(600)

app = windlass.App("sqlite:///hanging.db")
hanging = app.external("hanging", Hanging(), every="10ms", call_timeout="10m")
"""


@pytest.mark.mostly("sqlite")
def test_a_worker_leaves_although_a_poll_hangs(tmp_path, database_url):
    (tmp_path / "hanging.py").write_text(HANGING)
    enqueue = "import hanging; hanging.hanging.enqueue()"
    subprocess.run([sys.executable, "-c", enqueue], cwd=tmp_path, check=True, timeout=60)
    command = [sys.executable, "-m", "windlass", "worker", "hanging:app"]
    worker = subprocess.Popen(command, cwd=tmp_path)
    eventually((tmp_path / "asked").exists, 60)

    worker.terminate()

    assert worker.wait(60) == 0


@pytest.mark.mostly("sqlite")
def test_a_submit_that_hangs_is_given_up_and_done_again(app, clock):
    class Hanging(Spark):
        def submit(self, job: str) -> str:
            self.submitted.append((windlass.context().submission, job))
            if len(self.submitted) == 1:
                go.wait(60)
            return "handle"

    go, system = threading.Event(), Hanging()
    hanging = app.external("hanging", system, call_timeout="200ms")
    (ref,) = submitted(app, hanging, "load")
    assert ref.status() is Status.WAITING

    clock.forward("1m")
    app.drain()
    go.set()
    assert ref.status() is Status.EXTERNAL
    assert system.submitted == [(str(ref.id), "load")] * 2


@pytest.mark.mostly("sqlite")
def test_a_system_that_is_paused_does_not_keep_a_drain_from_ending(app, clock, system):
    spark = app.external("spark", system, every="5s")
    (ref,) = submitted(app, spark, "load")
    app.pause("spark", reason="sale")

    clock.forward("6s")
    app.drain()

    assert system.asked == []
    assert ref.status() is Status.EXTERNAL


def test_what_was_told_needs_no_asking_and_closes_no_breaker(app, clock):
    class Hasty(Spark):
        def submit(self, job: str) -> str:
            handle = super().submit(job)
            if job == "early":
                app.pause("hasty", reason="hold it")
                app.notify(windlass.context().task_id, ok=True, result="early")
            return handle

    system = Hasty()
    hasty = app.external("hasty", system, every="5s", breaker="1 in a row, 1h")
    other, early = submitted(app, hasty, "other", "early")
    system.is_down = True
    app.resume("hasty")
    with app.database.engine.begin() as connection:
        connection.exec_driver_sql(f"update windlass_task set due_at = 0 where id = {other.id}")
    app.drain()

    assert early.result(timeout=1) == "early"
    assert [alert.what for alert in app.alerts()] == ["breaker opened"]
    assert other.status() is Status.EXTERNAL


@pytest.mark.parametrize("batch", [0, -1, "x", True, 1_000_000])
@pytest.mark.mostly("sqlite")
def test_a_batch_that_makes_no_sense_is_refused(app, system, batch):
    with pytest.raises(windlass.BadDeclaration, match="is not a number from 1 to 10,000"):
        app.external("spark", system, batch=batch)


@pytest.mark.mostly("sqlite")
@pytest.mark.parametrize("what", [10**30, -1, "\ud800", "a\x00b", "x" * 5000, ""])
def test_a_handle_that_cannot_be_is_unknown(app, what):
    with pytest.raises(windlass.UnknownHandle):
        app.notify(what, ok=True)


@pytest.mark.mostly("sqlite")
def test_a_notification_that_cannot_be_kept_is_refused(app, system):
    spark = app.external("spark", system, every="5s")
    (ref,) = submitted(app, spark, "load")

    with pytest.raises(windlass.BadInput, match="cannot be kept"):
        app.notify(ref, ok=True, result=object())
    with pytest.raises(windlass.BadInput, match="is not a bool"):
        app.notify(ref, ok="yes")
    assert ref.status() is Status.EXTERNAL


def test_a_poll_and_a_notification_of_one_run_do_not_lock_each_other_out(
    app, clock, system, monkeypatch
):
    spark = app.external("spark", system, every="5s")

    @app.flow
    def load(flow):
        flow.add(spark, "a", name="a")
        flow.add(spark, "b", name="b")

    run = load.start()
    app.drain()
    first, second = run.nodes()
    system.answers[f"handle-{first.id}"] = Done(1)
    at, put_off = threading.Event(), store.put_off
    told = threading.Thread(target=lambda: app.notify(second.id, ok=True, result=2))

    def slow(*given, **named):
        done = put_off(*given, **named)
        if not at.is_set():
            at.set()
            told.start()
            # It either has the run or waits for it; if it had it, it would wait for the row.
            told.join(1)
        return done

    monkeypatch.setattr(store, "put_off", slow)
    locked = []
    monkeypatch.setattr(
        type(app.database.dialect),
        "is_conflict",
        lambda _self, problem: locked.append(str(problem)) or True,
    )
    clock.forward("6s")
    app.drain()
    told.join(30)
    app.drain()

    assert run.status() is Status.SUCCEEDED
    assert [problem for problem in locked if "deadlock" in problem.lower()] == []


def test_the_highest_priority_is_asked_for_first_and_all_are(app: App, clock, system):
    spark = app.external("spark", system, every="5s", batch=2)
    for priority in (-5, 0, 7, 7, 32_767, -32_768):
        spark.using(priority=priority).enqueue(str(priority))
    app.drain()

    clock.forward("6s")
    app.drain()

    jobs = {f"handle-{submission}": int(job) for submission, job in system.submitted}
    asked = [sorted(jobs[handle] for handle in handles) for handles in system.asked]
    assert asked == [[7, 32_767], [0, 7], [-32_768, -5]]
