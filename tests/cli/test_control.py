"""`windlass control list|show|release`, and `windlass run`."""

import json
import os
import re
import signal
import subprocess
import sys

import pytest

from tests.wait import eventually
from windlass.cli import control as command
from windlass.model.control import RunStatus

EXIT_3 = [sys.executable, "-c", "raise SystemExit(3)"]
EXIT_0 = [sys.executable, "-c", "print('loaded')"]


def fail_at(shop, *steps, partition=""):
    shop.app.control.start("load", partition, data={"file": "a.csv"})
    for step in steps:
        shop.app.control.step("load", step, partition)
    shop.app.control.error("load", "OSError: disk full\n\nTraceback: here", partition)


def test_the_list_tells_who_runs_what_and_how_the_rest_ended(windlass, shop):
    fail_at(shop, 1, "parse", partition="2026-11")
    shop.app.control.start("sync")

    answer = windlass("control", "list")
    found = windlass("control", "list", "--json").json

    assert answer.code == 0
    assert re.search(r"load +2026-11 +failed +parse .*OSError: disk full", answer.out)
    assert re.search(rf"sync +- +running .* {os.getpid()}\b", answer.out)
    assert "Traceback" not in answer.out
    assert [(run["name"], run["partition"], run["status"]) for run in found] == [
        ("load", "2026-11", -1),
        ("sync", "", 8),
    ]


def test_an_empty_list_says_so(windlass, shop):
    assert "Nothing was ever started" in windlass("control", "list").out
    assert windlass("control", "list", "--json").json == []


def test_show_prints_the_steps_where_it_stopped_the_error_and_the_history(windlass, shop):
    fail_at(shop, 1, "parse")

    answer = windlass("control", "show", "load")
    found = windlass("control", "show", "load", "--json").json

    assert answer.code == 0
    assert re.search(r"stopped at step +parse", answer.out)
    assert re.search(r"^1 +done .*\d(us|ms|s)", answer.out, re.MULTILINE)
    assert re.search(r"^parse +interrupted", answer.out, re.MULTILINE)
    assert "Traceback: here" in answer.out
    assert "1 step done" in answer.out
    assert [(step["step"], step["state"]) for step in found["steps"]] == [
        (1, "done"),
        ("parse", "interrupted"),
    ]
    assert (found["data"], found["tries"]) == ({"file": "a.csv"}, 1)
    assert [run["status"] for run in found["history"]] == [-1]


def test_what_was_never_started_is_not_found(windlass, shop):
    shop.app.control.start("load", "2026-11")

    missing = windlass("control", "show", "load")

    assert missing.code == 1
    assert missing.err == "error: control 'load' was never started; its partitions: '2026-11'\n"
    assert windlass("control", "release", "nothing", "--yes").code == 1


def test_release_frees_a_run_and_fences_its_holder_off(windlass, shop):
    shop.app.control.start("load", "p")

    answer = windlass("control", "release", "load", "--partition", "p", "--yes")

    row = shop.app.control.get("load", "p")
    assert (answer.code, row.status) == (0, RunStatus.FAILED)
    assert re.fullmatch(r"released by .+@.+", row.error)
    assert shop.app.control.finish("load", "p").code == 451
    assert windlass("control", "release", "load", "--partition", "p", "--yes").code == 1
    assert shop.app.control.start("load", "p").data["tries"] == 2


@pytest.mark.parametrize("answer", [True, False])
def test_release_asks_first(windlass, shop, monkeypatch, answer):
    shop.app.control.start("load")
    asked = []
    monkeypatch.setattr(command.typer, "confirm", lambda question: asked.append(question) or answer)

    done = windlass("control", "release", "load")

    assert asked == ["Release 'load'?"]
    assert done.code == int(not answer)
    status = RunStatus.FAILED if answer else RunStatus.RUNNING
    assert shop.app.control.get("load").status is status


def test_release_with_json_prints_the_run(windlass, shop):
    shop.app.control.start("load")

    found = windlass("control", "release", "load", "--yes", "--json").json

    assert (found["name"], found["status"]) == ("load", -1)


def test_a_bad_name_is_a_line_on_standard_error(windlass, shop):
    answer = windlass("control", "show", "")

    assert (answer.code, answer.out) == (1, "")
    assert answer.err == "error: control: the run has no name; give one of 1 to 255 characters\n"


def test_a_command_that_ends_well_is_a_run_that_succeeded(windlass_process, shop):
    answer = windlass_process("run", "load", "--partition", "p", "--", *EXIT_0)

    row = shop.app.control.get("load", "p")
    assert (answer.code, answer.out) == (0, "loaded\n")
    assert (row.status, row.data) == (RunStatus.SUCCEEDED, {"exit_code": 0})


def test_the_exit_code_of_a_command_is_passed_on_and_kept(windlass_process, shop):
    answer = windlass_process("run", "load", "--expires", "2h", "--", *EXIT_3)

    row = shop.app.control.get("load")
    assert answer.code == 3
    assert (row.status, row.error) == (RunStatus.FAILED, "exit code 3")
    assert row.data == {"exit_code": 3}
    assert row.expire_time - row.start_time == 7200 * 1_000_000


def test_a_command_that_is_running_is_not_started_again(windlass, shop, folder):
    shop.app.control.start("load")

    answer = windlass("run", "load", "--", "touch", "ran")

    assert answer.code == 8
    assert "has been running it since" in answer.err
    assert not (folder / "ran").exists()


def test_a_command_that_is_not_there_is_a_run_that_failed(windlass, shop):
    answer = windlass("run", "load", "--", "no-such-command")

    assert (answer.code, answer.err) == (127, "error: no-such-command: command not found\n")
    assert shop.app.control.get("load").data == {"exit_code": 127}


def test_a_run_without_a_command_is_a_matter_of_usage(windlass, shop):
    assert windlass("run", "load").code == 2
    assert windlass("run", "load", "--expires", "soon", "--", "true").code == 1
    assert shop.app.control.get("load") is None


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_is_handed_on_to_the_command(shop, folder, number):
    script = (
        "import signal, sys, time; from pathlib import Path\n"
        "def stop(number, frame): Path('got').write_text(str(number)); sys.exit(7)\n"
        f"signal.signal({int(number)}, stop); Path('ready').touch()\n"
        "while True: time.sleep(0.01)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-m", "windlass", "run", "load", "--", sys.executable, "-c", script],
        cwd=folder,
        start_new_session=True,
    )
    try:
        eventually((folder / "ready").exists, 20.0, what="a command that runs")

        process.send_signal(number)
        code = process.wait(20)
    finally:
        process.kill()

    assert code == 7
    assert json.loads((folder / "got").read_text()) == number
    assert shop.app.control.get("load").data == {"exit_code": 7}
