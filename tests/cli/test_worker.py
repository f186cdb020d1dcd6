"""`windlass worker` and `dev`, as processes of their own."""

import json
import os
import signal
import subprocess
import sys
from contextlib import contextmanager

import pytest

from tests.spawn import Forked
from tests.table import workers
from tests.wait import eventually
from windlass import Status

pytestmark = pytest.mark.mostly("sqlite")


def test_worker_once_runs_what_is_due_and_exits(windlass_process, shop):
    refs = shop.send_mail.enqueue_many([{"to": f"{number}@b.c"} for number in range(20)])
    later = shop.quick.using(delay="1h").enqueue()

    answer = windlass_process("worker", f"{shop.__name__}:app", "--once")

    assert answer.code == 0, answer.err
    assert [ref.status() for ref in refs] == [Status.SUCCEEDED] * 20
    assert later.status() is Status.WAITING
    assert answer.out == ""


def test_a_worker_logs_lines_that_programs_can_read(windlass_process, shop):
    ref = shop.send_mail.enqueue("nobody")

    answer = windlass_process("worker", f"{shop.__name__}:app", "--once", "--json")

    lines = [json.loads(line) for line in answer.err.splitlines()]
    events = {line["event"]: line for line in lines}
    assert answer.code == 0
    assert {"worker.joined", "task.failed", "worker.left"} <= set(events)
    failed = events["task.failed"]
    assert (failed["level"], failed["task"], failed["kind"]) == ("error", ref.id, "send_mail")
    assert failed["error"] == "ValueError: no such address"


def test_a_worker_logs_lines_that_people_can_read(windlass_process, shop):
    shop.send_mail.enqueue("nobody")

    answer = windlass_process("worker", f"{shop.__name__}:app", "--once")

    (line,) = [line for line in answer.err.splitlines() if "task send_mail " in line]
    assert "error" in line
    assert "failed (attempt 1 of 1): ValueError: no such address" in line


def test_a_worker_may_be_given_some_kinds(windlass_process, shop):
    mail = shop.send_mail.enqueue("a@b.c")
    quick = shop.quick.enqueue()

    answer = windlass_process("worker", f"{shop.__name__}:app", "--once", "--kind", "send_mail")

    assert answer.code == 0
    assert mail.status() is Status.SUCCEEDED
    assert quick.status() is Status.WAITING


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["nowhere:app"], 2, "run it in the folder of nowhere.py"),
        (["{module}:nothing"], 2, "is int, not a windlass.App"),
        (["{module}:app", "--kind", "post"], 1, "kind 'post' is not declared"),
        (["{module}:app", "--processes", "0"], 2, "--processes"),
        (["{module}:app", "--concurrency", "0"], 2, "--concurrency"),
        (["{module}:app", "--grace", "soon"], 2, "grace: cannot read 'soon'"),
    ],
)
def test_a_worker_that_cannot_begin_says_why(windlass, shop, arguments, code, said):
    answer = windlass("worker", *(each.format(module=shop.__name__) for each in arguments))

    assert answer.code == code
    assert said in answer.err
    assert "Traceback" not in answer.err


def test_a_worker_needs_an_app(windlass):
    answer = windlass("worker")

    assert answer.code == 2
    assert "MODULE:APP" in answer.err


@contextmanager
def started(folder, *arguments):
    """A `windlass` process that runs until it is told to stop, or until the end of the test."""
    process = Forked(
        [sys.executable, "-m", "windlass", *arguments],
        cwd=folder,
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def is_there(app):
    return lambda: [row for row in workers(app) if row["left_at"] is None]


def test_a_worker_works_until_sigterm_and_leaves_cleanly(folder, shop):
    with started(folder, "worker", f"{shop.__name__}:app") as process:
        ref = shop.send_mail.enqueue("a@b.c")
        eventually(lambda: ref.status() is Status.SUCCEEDED, 20, what="the task's success")
        process.send_signal(signal.SIGTERM)
        code = process.wait(20)

    assert code == 0
    assert [row["left_why"] for row in workers(shop.app)] == ["stopped"]


def test_a_worker_of_two_processes_has_two_workers_and_stops_both(folder, shop):
    with started(folder, "worker", f"{shop.__name__}:app", "--processes", "2") as process:
        eventually(lambda: len(is_there(shop.app)()) == 2, 30, what="two workers")
        process.send_signal(signal.SIGTERM)
        code = process.wait(30)

    assert code == 0
    assert [row["left_why"] for row in workers(shop.app)] == ["stopped", "stopped"]


@pytest.mark.mostly("sqlite")
@pytest.mark.parametrize(
    ("command", "who", "number"),
    [
        ("worker", "parent", signal.SIGINT),
        ("worker", "child", signal.SIGTERM),
        ("console", "parent", signal.SIGTERM),
    ],
)
def test_a_signal_in_the_first_moments_ends_a_command_quietly(
    folder, write_module, sqlite_url, command, who, number
):
    module = write_module(
        "import os, pathlib, time, windlass\n"
        f"app = windlass.App({sqlite_url!r})\n"
        f"if ('WINDLASS_CHILD' in os.environ) == ({who!r} == 'child'):\n"
        "    pathlib.Path('begun').touch()\n"
        "    time.sleep(60)\n"
    )
    more = ["--processes", "2"] if command == "worker" else ["--port", "0"]

    with started(folder, command, f"{module}:app", *more) as process:
        eventually((folder / "begun").exists, 30, what="a process that is about to begin")
        process.send_signal(number)
        _, told = process.communicate(timeout=30)

    assert process.returncode == 0
    assert "Traceback" not in told
    assert who == "child" or told == ""


def test_dev_runs_tasks_and_starts_again_when_the_code_changes(folder, shop, database_engine):
    if database_engine != "sqlite":
        pytest.skip("the same on every database")
    path = folder / f"{shop.__name__}.py"

    with started(folder, "dev", f"{shop.__name__}:app") as process:
        eventually(is_there(shop.app), 30, what="the first worker")
        path.write_text(path.read_text().replace("sent to", "delivered to"))
        os.utime(path, (1, 1))
        eventually(lambda: len(workers(shop.app)) >= 2, 30, what="the second worker")
        ref = shop.send_mail.enqueue("a@b.c")
        answer = ref.result(timeout="20s")
        process.send_signal(signal.SIGTERM)
        code = process.wait(30)

    assert answer == "delivered to a@b.c"
    assert code == 0


def test_a_handlers_print_reaches_standard_output(
    folder, write_module, sqlite_url, windlass_process
):
    module = write_module(
        f"from windlass import App\napp = App({sqlite_url!r})\n"
        "@app.task\ndef speak(): print('hello from a handler')\n"
    )
    assert windlass_process("task", "enqueue", "speak", "--app", f"{module}:app").code == 0

    answer = windlass_process("worker", f"{module}:app", "--once")

    assert answer.out == "hello from a handler\n"


def test_ctrl_c_ends_a_worker_as_well_as_sigterm(folder, shop, database_engine):
    if database_engine != "sqlite":
        pytest.skip("the same on every database")

    with started(folder, "worker", f"{shop.__name__}:app", "--grace", "5s") as process:
        eventually(is_there(shop.app), 20, what="the worker")
        process.send_signal(signal.SIGINT)
        code = process.wait(20)

    assert code == 0
    assert [row["left_why"] for row in workers(shop.app)] == ["stopped"]
