"""External systems: submitted once, asked in bulk, told by notifications, and never waited for."""

from collections.abc import Iterator

import pytest

import windlass
from tests.external.job_server import JobServer
from tests.external.system import Spark
from tests.server.process import free_port
from windlass import Done, Failed, Status, UnknownHandle
from windlass.external import HttpJob


@pytest.fixture
def system():
    return Spark()


@pytest.fixture
def spark(app, system):
    return app.external("spark", system, every="5s", timeout="6h", breaker="2 in a row, 1m")


def submit(app, spark, *jobs):
    refs = [spark.enqueue(job) for job in jobs]
    app.drain()
    return refs


def test_a_task_that_was_submitted_holds_no_runner_and_is_asked_for_later(
    app, clock, system, spark
):
    (ref,) = submit(app, spark, "load")
    assert ref.status() is Status.EXTERNAL
    assert system.asked == []

    clock.forward("6s")
    app.drain()
    assert system.asked == [[f"handle-{ref.id}"]]
    assert ref.status() is Status.EXTERNAL

    system.answers[f"handle-{ref.id}"] = Done({"rows": 7})
    clock.forward("10s")
    app.drain()
    assert ref.result(timeout=1) == {"rows": 7}


def test_all_due_handles_are_asked_for_together(app, clock, system, spark):
    refs = submit(app, spark, *[f"job-{number}" for number in range(20)])

    clock.forward("6s")
    app.drain()

    assert [len(handles) for handles in system.asked] == [20]
    assert len(refs) == 20


def test_a_task_that_failed_over_there_has_failed(app, clock, system, spark):
    (ref,) = submit(app, spark, "load")

    system.answers[f"handle-{ref.id}"] = Failed("out of memory")
    clock.forward("6s")
    app.drain()

    with pytest.raises(windlass.TaskFailed, match="out of memory"):
        ref.result(timeout=1)


def test_a_task_that_failed_over_there_is_submitted_again_under_another_id(app, clock, system):
    again = app.external("again", system, every="5s", retries=1)
    (ref,) = submit(app, again, "load")
    system.answers[f"handle-{ref.id}"] = Failed("out of memory")

    for _ in range(3):
        clock.forward("6s")
        app.drain()
    assert [submission for submission, _ in system.submitted] == [str(ref.id), f"{ref.id}-2"]

    system.answers[f"handle-{ref.id}-2"] = Done()
    clock.forward("30s")
    app.drain()
    assert ref.status() is Status.SUCCEEDED


def test_a_task_whose_time_is_out_has_failed_and_is_cancelled_over_there(app, clock, system, spark):
    (ref,) = submit(app, spark, "load")

    clock.forward("7h")
    app.drain()

    assert ref.status() is Status.FAILED
    assert system.cancelled == [f"handle-{ref.id}"]


def test_a_notification_ends_a_task_at_once_and_a_second_one_does_nothing(app, system, spark):
    by_handle, by_ref, by_id = submit(app, spark, "one", "two", "three")

    assert app.notify(f"handle-{by_handle.id}", ok=True, result=1)
    assert app.notify(by_ref, ok=True, result=2)
    assert app.notify(by_id.id, ok=False, reason="no space left")

    assert (by_handle.result(timeout=1), by_ref.result(timeout=1)) == (1, 2)
    assert by_id.status() is Status.FAILED
    assert not app.notify(by_ref, ok=False)
    assert by_ref.status() is Status.SUCCEEDED
    assert system.asked == []
    with pytest.raises(UnknownHandle, match="no external task has the handle 'gone'"):
        app.notify("gone", ok=True)


def test_a_notification_that_comes_before_the_handle_is_not_lost(app, clock, system):
    class Hasty(Spark):
        def submit(self, job: str) -> str:
            handle = super().submit(job)
            app.notify(windlass.context().task_id, ok=True, result="early")
            return handle

    hasty = app.external("hasty", Hasty(), every="1h")
    (ref,) = submit(app, hasty, "load")
    app.drain()

    assert ref.result(timeout=1) == "early"


def test_a_system_that_is_down_opens_its_breaker_and_nothing_is_lost(app, clock, system, spark):
    (ref,) = submit(app, spark, "load")
    system.is_down = True

    for _ in range(6):
        clock.forward("30s")
        app.drain()
    assert ref.status() is Status.EXTERNAL
    assert any(alert.what == "breaker opened" for alert in app.alerts())

    late = spark.enqueue("late")
    app.drain()
    system.is_down = False
    system.answers[f"handle-{ref.id}"] = Done("at last")
    for _ in range(20):
        clock.forward("2m")
        app.drain()
    assert ref.result(timeout=1) == "at last"
    assert late.status() is Status.EXTERNAL


def test_an_external_task_is_a_node(app, clock, system, spark):
    seen = []

    @app.task
    def after(rows: int) -> None:
        seen.append(rows)

    @app.flow
    def load(flow, job: str):
        node = flow.add(spark, job, name="spark")
        flow.add(after, node.result["rows"], after=node)

    run = load.start("users")
    app.drain()
    states = [str(node.status) for node in run.nodes()]
    assert states == ["external", "blocked"]

    app.notify(run.nodes()[0].id, ok=True, result={"rows": 3})
    app.drain()
    assert run.status() is Status.SUCCEEDED
    assert seen == [3]


def test_cancelling_a_run_cancels_what_is_executed_elsewhere(app, system, spark):
    @app.flow
    def load(flow):
        flow.add(spark, "users")

    run = load.start()
    app.drain()
    run.cancel()
    app.drain()

    assert system.cancelled == [f"handle-{run.nodes()[0].id}"]
    assert not app.notify(run.nodes()[0].id, ok=True)
    assert run.status() is Status.CANCELLED


# Against a real server


@pytest.fixture
def jobs(tmp_path) -> Iterator[JobServer]:
    server = JobServer(tmp_path, free_port())
    yield server.start()
    server.kill()


@pytest.fixture
def http(app, jobs):
    return app.external(
        "http", HttpJob(f"{jobs.url}/jobs", f"{jobs.url}/jobs/{{handle}}"), every="5s"
    )


def test_a_job_behind_http_is_started_once_although_its_answer_was_lost(app, clock, jobs, http):
    ref = http.enqueue(drop=True)
    app.drain()
    assert ref.status() is Status.WAITING
    assert jobs.jobs()[str(ref.id)]["starts"] == 1

    jobs.change(ref.id, body={}, status="running")
    jobs.path.write_text(jobs.path.read_text().replace('"drop": true', '"drop": false'))
    app.database.write(
        lambda connection: connection.exec_driver_sql("update windlass_task set payload = '{}'")
    )
    clock.forward("1h")
    app.drain()

    assert ref.status() is Status.EXTERNAL
    # Asked to start twice, it knows one job.
    assert {key: job["starts"] for key, job in jobs.jobs().items()} == {str(ref.id): 2}


def test_a_server_that_was_killed_and_is_back_is_asked_again(app, clock, jobs, http):
    ref = http.enqueue(name="report")
    app.drain()
    jobs.kill()
    clock.forward("6s")
    app.drain()
    assert ref.status() is Status.EXTERNAL

    jobs.start()
    jobs.change(ref.id, status="done", result=[1, 2])
    clock.forward("5m")
    app.drain()

    assert ref.result(timeout=1) == [1, 2]


def test_a_job_that_cannot_be_asked_for_holds_up_no_other(app, clock, jobs, http):
    bad, good = http.enqueue(name="bad"), http.enqueue(name="good")
    app.drain()
    jobs.change(bad.id, code=500)
    jobs.change(good.id, status="done", result=1)

    clock.forward("6s")
    app.drain()

    assert good.result(timeout=1) == 1
    assert bad.status() is Status.EXTERNAL


@pytest.mark.mostly("sqlite")
def test_a_job_that_the_server_refuses_has_failed(app, clock, jobs, http):
    refused, later = http.enqueue(code=422), http.enqueue(code=429)
    app.drain()

    with pytest.raises(windlass.TaskFailed, match="was answered by 422"):
        refused.result(timeout=1)
    assert later.status() is Status.WAITING
    assert jobs.jobs()["refused"]["starts"] == 2


@pytest.mark.mostly("sqlite")
def test_a_secret_does_not_follow_a_redirect(app, jobs, tmp_path_factory):
    elsewhere = JobServer(tmp_path_factory.mktemp("elsewhere"), free_port()).start()
    http = app.external(
        "redirected",
        HttpJob(f"{jobs.url}/jobs", f"{jobs.url}/jobs/{{handle}}", callback="http://127.0.0.1"),
    )
    ref = http.enqueue(code=307, location=f"{elsewhere.url}/jobs")
    app.drain()

    assert elsewhere.jobs() == {}
    with pytest.raises(windlass.TaskFailed, match="was answered by 307"):
        ref.result(timeout=1)
    elsewhere.kill()


@pytest.mark.mostly("sqlite")
def test_a_job_that_was_cancelled_is_deleted_over_there(app, jobs):
    url = f"{jobs.url}/jobs/{{handle}}"
    http = app.external("stoppable", HttpJob(f"{jobs.url}/jobs", url, cancel=url))
    ref = http.enqueue(name="report")
    app.drain()

    ref.cancel()
    app.drain()

    assert jobs.jobs()[str(ref.id)]["status"] == "cancelled"
