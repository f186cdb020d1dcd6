"""External systems: submitted once, asked in bulk, told by notifications, and never waited for."""

import json
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest

import windlass
from tests.job_server import JobServer
from tests.server.process import free_port
from tests.wait import eventually
from windlass import Done, External, Failed, Running, Status, UnknownHandle
from windlass.external import Command, HttpJob
from windlass.web.callback import make_server


class Spark(External):
    """A system in memory that remembers what it was asked."""

    def __init__(self):
        self.submitted = []
        self.asked = []
        self.answers = {}
        self.cancelled = []
        self.is_down = False

    def submit(self, job: str) -> str:
        if self.is_down:
            raise ConnectionError("nobody there")
        self.submitted.append((windlass.context().submission, job))
        return f"handle-{windlass.context().submission}"

    def poll(self, handles):
        if self.is_down:
            raise ConnectionError("nobody there")
        self.asked.append(sorted(handles))
        return {handle: self.answers.get(handle, Running()) for handle in handles}

    def cancel(self, handle):
        self.cancelled.append(handle)


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


def test_a_callback_with_the_secret_of_the_task_ends_it(app, jobs):
    server = make_server(app, "127.0.0.1", free_port())
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_address[1]}"
    http = app.external(
        "called",
        HttpJob(f"{jobs.url}/jobs", f"{jobs.url}/jobs/{{handle}}", callback=address),
        every="1h",
    )
    ref = http.enqueue(name="report")
    app.drain()
    job = jobs.jobs()[str(ref.id)]

    def call(secret, body=b'{"ok": true, "result": 5}'):
        request = urllib.request.Request(
            job["callback"], data=body, headers={"Authorization": f"Bearer {secret}"}
        )
        try:
            with urllib.request.urlopen(request, timeout=5) as response:
                return response.status, json.load(response)
        except urllib.error.HTTPError as problem:
            return problem.code, json.load(problem)

    assert call("wrong")[0] == 404
    assert call(job["secret"], b"nonsense")[0] == 400
    assert ref.status() is Status.EXTERNAL
    assert call(job["secret"]) == (200, {"changed": True})
    assert call(job["secret"]) == (200, {"changed": False})
    assert ref.result(timeout=1) == 5
    server.shutdown()


def test_a_command_outlives_who_started_it(app, clock, tmp_path):
    command = app.external("command", Command(tmp_path / "commands"), every="1s")
    code = "import sys, time; print('hello'); time.sleep(0.3); sys.exit(int(sys.argv[1]))"
    good = command.enqueue([sys.executable, "-c", code, "0"])
    bad = command.enqueue([sys.executable, "-c", code, "3"])
    app.drain()
    assert good.status() is Status.EXTERNAL

    def have_ended():
        clock.forward("30s")
        app.drain()
        return good.status().is_final and bad.status().is_final

    eventually(have_ended, 20)
    assert good.result(timeout=1) == {"code": 0, "output": "hello\n"}
    with pytest.raises(windlass.TaskFailed, match="exit code 3"):
        bad.result(timeout=1)
