"""Handlers that hang, crash or eat memory are ended, and the rest goes on."""

import os

import pytest

from tests.core.run.isolate import jobs
from tests.core.run.working import listening, working
from tests.table import failures, task
from tests.wait import eventually
from windlass import HandlerDied, Status, TaskCancelled, TaskFailed

pytestmark = pytest.mark.mostly("sqlite")


def is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_handlers_that_hang_in_c_are_killed_at_their_timeout_and_others_run(app):
    hang = app.task(isolate="process", timeout="300ms", concurrency=3)(jobs.hang)
    pid = app.task(isolate="process", keep="1d")(jobs.pid)

    with working(app) as worker:
        refs = [hang.enqueue(how) for how in ("gil", "regex", "sleep", "stubborn")]
        for ref in refs:
            with pytest.raises(TaskFailed, match=r"TimeoutError: .* within 0\.3 s"):
                ref.result(timeout="60s")
        other = pid.enqueue().result(timeout="60s")
        pool = worker.coroutines._isolator.pool
        eventually(lambda: pool.pids == {other}, 20.0, what="children that are gone")


def test_a_crash_is_a_failure_that_says_how_and_what_was_said_last(app):
    die = app.task(isolate="process", retries={HandlerDied: 0}, concurrency=3)(jobs.die)

    with listening("child.died") as died:
        refs = {how: die.enqueue(how) for how in ("exit", "SIGSEGV", "SIGKILL")}
        app.drain()

    errors = {how: task(app, ref)["remark"] for how, ref in refs.items()}
    assert "HandlerDied: the process of the handler ended with exit code 3" in errors["exit"]
    assert "was ended by SIGSEGV" in errors["SIGSEGV"]
    assert "was ended by SIGKILL" in errors["SIGKILL"]
    assert all("its last words" in error for error in errors.values())
    assert len(died) == 3


def test_after_a_crash_the_retry_gets_another_child(app, clock):
    die_once = app.task(isolate="process", retries=1, backoff="1s", keep="1d")(jobs.die_once)
    ref = die_once.enqueue()

    app.drain()
    clock.forward("1m")
    app.drain()

    assert ref.result() != os.getpid()
    assert [failure["attempt"] for failure in failures(app)] == [1]
    # The worker has not died.
    assert task(app, ref)["lost"] == 0


def test_sys_exit_is_an_error_of_the_handler(app):
    ref = app.task(isolate="process", retries=5)(jobs.die).enqueue("sys.exit")

    app.drain()

    with pytest.raises(TaskFailed, match="SystemExit: enough"):
        ref.result()


@pytest.mark.parametrize("handler", [jobs.eat, jobs.eat_slowly])
def test_who_eats_too_much_memory_fails_alone(app, handler):
    greedy = app.task(isolate="process", memory="200MB")(handler)
    modest = app.task(isolate="process", memory="200MB", keep="1d")(jobs.pid)

    refs = greedy.enqueue(), modest.enqueue()
    app.drain()

    with pytest.raises(TaskFailed, match=r"MemoryError|HandlerDied"):
        refs[0].result()
    assert refs[1].result() != os.getpid()


@pytest.mark.parametrize(("handler", "said"), [(jobs.tidy, "tidied up"), (jobs.ahang, "cancelled")])
def test_cancelling_a_running_task_lets_it_tidy_up_and_ends_it(app, tmp_path, handler, said):
    path, begun = tmp_path / "said", tmp_path / "said.begun"
    endless = app.task(isolate="process")(handler)

    with working(app) as worker:
        ref = endless.enqueue(str(path))
        eventually(begun.exists, 60.0, what="a handler that runs")
        (child,) = worker.coroutines._isolator.pool.pids
        ref.cancel("no longer wanted")
        eventually(lambda: not is_there(child), 20.0, what="a child that is gone")

    assert path.read_text() == said
    with pytest.raises(TaskCancelled):
        ref.result()


def test_what_the_handler_has_started_ends_with_it(app, tmp_path):
    path = tmp_path / "pid"
    start_another = app.task(isolate="process", timeout="500ms")(jobs.start_another)

    ref = start_another.enqueue(str(path))
    app.drain()

    assert ref.status() is Status.FAILED
    other = int(path.read_text())
    eventually(lambda: not is_there(other), what="a process that is gone")
