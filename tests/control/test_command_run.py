"""`windlass run`: any command, once at a time, its exit code kept."""

import contextlib
import os
import signal
import sqlite3
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import make_url

from tests.cli.terminal import Terminal
from tests.server.relay import Relay
from tests.spawn import Forked
from tests.wait import eventually
from windlass.control import operate
from windlass.control.command.run import LONGEST_COMMAND
from windlass.control.model.argument import ControlKey
from windlass.control.model.control import RunStatus

pytestmark = pytest.mark.mostly("sqlite", "postgresql")

PYTHON = [sys.executable, "-c"]
EXIT_3 = [*PYTHON, "raise SystemExit(3)"]
EXIT_0 = [*PYTHON, "print('loaded')"]
# Waits until there is a code in the file "go", and exits with it.
WAIT = """
import time; from pathlib import Path
Path("ready").touch(); go = Path("go"); go.touch()
while not go.read_text(): time.sleep(0.01)
raise SystemExit(int(go.read_text()))
"""
# Exits with 7 and keeps which signal it got.
LISTEN = """
import signal, sys, time; from pathlib import Path
def stop(number, frame): Path("got").write_text(str(number)); sys.exit(7)
for name in ("TERM", "INT", "HUP", "QUIT", "USR1", "USR2"):
    signal.signal(signal.Signals["SIG" + name], stop)
Path("ready").touch()
while True: time.sleep(0.01)
"""
# Counts how often ctrl-C came, until it is asked.
COUNT = """
import signal, sys, time
came = []
def count(number, frame): came.append(number); print("came", flush=True)
def tell(number, frame): print("in all", len(came), flush=True); sys.exit(4)
signal.signal(signal.SIGINT, count)
signal.signal(signal.SIGUSR1, tell)
print("ready", flush=True)
while True: time.sleep(0.01)
"""


# An app whose start takes as long as somebody wants.
SLOW = """
import time; from pathlib import Path
from windlass import App
from windlass.clock import DatabaseClock
class Slow(DatabaseClock):
    def now(self):
        Path("ready").touch()
        while not Path("go").exists(): time.sleep(0.01)
        return super().now()
app = App({url!r})
app = App({url!r}, clock=Slow(app.database.measure))
"""


@pytest.fixture
def start(folder):
    """Start `windlass run load` beside the test, and wait until its command runs."""
    started = []

    def start(script: str, **environment: str) -> Forked:
        (folder / "ready").unlink(missing_ok=True)
        process = Forked(
            [sys.executable, "-m", "windlass", "run", "load", "--", *PYTHON, script],
            cwd=folder,
            env={**os.environ, **environment},
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        started.append(process)
        eventually((folder / "ready").exists, 20.0, what="a command that runs")
        return process

    yield start
    for process in started:
        # With its command, which would outlive it and keep the pipe open.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def test_a_command_that_ends_well_is_a_run_that_succeeded(windlass_process, shop):
    answer = windlass_process("run", "load", "--partition", "p", "--", *EXIT_0)

    row = shop.app.control.get("load", "p")
    assert (answer.code, answer.out) == (0, "loaded\n")
    assert (row.status, row.data) == (RunStatus.SUCCEEDED, {"command": EXIT_0, "exit_code": 0})


def test_the_exit_code_of_a_command_is_passed_on_and_kept(windlass_process, shop):
    answer = windlass_process("run", "load", "--expires", "2h", "--", *EXIT_3)

    row = shop.app.control.get("load")
    assert answer.code == 3
    assert (row.status, row.error) == (RunStatus.FAILED, "exit code 3")
    assert row.data == {"command": EXIT_3, "exit_code": 3}
    assert row.expire_time - row.start_time == timedelta(hours=2)


def test_a_command_that_is_running_is_not_started_again(windlass, shop, folder):
    shop.app.control.start("load")

    answer = windlass("run", "load", "--", "touch", "ran")

    assert answer.code == 8
    assert "has been running it since" in answer.err
    assert not (folder / "ran").exists()


def test_a_command_that_happens_once_is_not_started_after_success(windlass, shop, folder):
    failed = windlass("run", "load", "--once", "--", "false")
    first = windlass("run", "load", "--once", "--", "true")
    again = windlass("run", "load", "--once", "--", "touch", "ran")

    assert (failed.code, first.code, again.code) == (1, 0, 0)
    assert "control 'load': it happens once, and has succeeded at 20" in again.err
    assert not (folder / "ran").exists()
    assert shop.app.control.get("load").tries == 2


@pytest.mark.parametrize(
    ("name", "code", "why"),
    [
        ("no-such-command", 127, "command not found"),
        ("/", 126, "Permission denied"),
    ],
)
def test_a_command_that_cannot_be_run_is_a_run_that_failed(windlass, sqlite_shop, name, code, why):
    answer = windlass("run", "load", "--", name)

    row = sqlite_shop.app.control.get("load")
    assert (answer.code, answer.err) == (code, f"error: {name}: {why}\n")
    assert row.error == f"{name}: {why} (exit code {code})"
    assert row.data == {"command": [name], "exit_code": code}


@pytest.mark.parametrize(
    "arguments",
    [
        ["load"],
        ["load", "--"],
        ["load", "--", ""],
        ["load", "ls", "-l"],
        ["load", "git", "--", "log"],
        ["--", "load", "ls"],
    ],
)
def test_a_run_without_a_command_after_dashes_is_a_matter_of_usage(
    windlass, sqlite_shop, arguments
):
    answer = windlass("run", *arguments)

    assert (answer.code, answer.out) == (2, "")
    assert "--" in answer.err
    assert sqlite_shop.app.control.get("load") is None


def test_options_after_the_dashes_are_those_of_the_command(windlass_process, sqlite_shop):
    command = [*PYTHON, "import sys; print(sys.argv[1:])", "--app", "--", "--help"]

    answer = windlass_process("run", "load", "--", *command)

    assert (answer.code, answer.out) == (0, "['--app', '--', '--help']\n")


def test_a_bad_expiry_starts_nothing(windlass, sqlite_shop):
    assert windlass("run", "load", "--expires", "soon", "--", "true").code == 2
    assert sqlite_shop.app.control.get("load") is None


def test_of_a_long_command_the_beginning_is_kept(windlass_process, sqlite_shop):
    words = ["true", "x" * 600, os.fsdecode(b"\xff"), *["y" * 600] * 3]

    assert windlass_process("run", "load", "--", *words).code == 0

    kept = sqlite_shop.app.control.get("load").data["command"]
    assert kept[:3] == ["true", "x" * 600, "\\udcff"]
    assert kept[3].endswith("y…")
    assert sum(map(len, kept)) <= LONGEST_COMMAND
    assert len(kept) == 4


def test_the_exit_code_of_an_earlier_try_is_not_that_of_this_one(start, folder, sqlite_shop):
    sqlite_shop.app.control.start("load", data={"exit_code": 3})
    sqlite_shop.app.control.error("load", "exit code 3")

    process = start(WAIT)
    data = sqlite_shop.app.control.get("load").data
    (folder / "go").write_text("0")

    assert data == {"command": [*PYTHON, WAIT]}
    assert process.wait(20) == 0


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT"])
def test_a_signal_is_handed_on_to_the_command(start, folder, sqlite_shop, name):
    process = start(LISTEN)

    process.send_signal(signal.Signals[name])
    code = process.wait(20)

    row = sqlite_shop.app.control.get("load")
    assert (code, (folder / "got").read_text()) == (7, str(int(signal.Signals[name])))
    assert (row.error, row.data["exit_code"]) == (f"interrupted: {name} (exit code 7)", 7)


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT"])
def test_a_signal_before_the_command_has_begun_ends_windlass(
    start, folder, write_module, sqlite_url, sqlite_shop, name
):
    module = write_module(SLOW.format(url=sqlite_url))
    process = start("from pathlib import Path; Path('ran').touch()", WINDLASS_APP=module)

    process.send_signal(signal.Signals[name])
    _, said = process.communicate(timeout=20)

    assert process.returncode == 128 + signal.Signals[name]
    assert said == ""
    assert not (folder / "ran").exists()
    assert sqlite_shop.app.control.start("load").data["tries"] == 1


@pytest.mark.parametrize("name", ["SIGUSR1", "SIGUSR2"])
def test_a_signal_that_asks_for_no_end_is_handed_on_too(start, folder, sqlite_shop, name):
    process = start(LISTEN)

    process.send_signal(signal.Signals[name])

    assert process.wait(20) == 7
    assert (folder / "got").read_text() == str(int(signal.Signals[name]))
    assert sqlite_shop.app.control.get("load").error == "exit code 7"


@pytest.mark.parametrize(
    ("number", "error"),
    [
        (signal.SIGKILL, "killed by SIGKILL (exit code 137)"),
        (signal.SIGRTMIN + 1, f"killed by signal {signal.SIGRTMIN + 1} (exit code 163)"),
    ],
)
def test_a_command_that_was_killed_says_by_what(windlass_process, sqlite_shop, number, error):
    script = f"import os; os.kill(os.getpid(), {int(number)})"

    answer = windlass_process("run", "load", "--", *PYTHON, script)

    assert answer.code == 128 + number
    assert sqlite_shop.app.control.get("load").error == error


def test_ctrl_c_on_a_terminal_reaches_the_command_once(sqlite_shop):
    with Terminal("run", "load", "--", *PYTHON, COUNT) as terminal:
        terminal.wait_for("ready")
        # Windlass gets it after the command has had it: two at once would look like one.
        terminal.process.send_signal(signal.SIGSTOP)
        terminal.type("\x03")
        terminal.wait_for("came")
        terminal.process.send_signal(signal.SIGCONT)
        # By when this comes to the command, what was to be handed on before it has come.
        terminal.process.send_signal(signal.SIGUSR1)
        code = terminal.close()

    assert "in all 1" in terminal.text
    assert code == 4
    assert sqlite_shop.app.control.get("load").error == "interrupted: SIGINT (exit code 4)"


def test_a_terminal_that_is_closed_ends_the_command_and_the_run(folder, sqlite_shop):
    with Terminal("run", "load", "--", *PYTHON, LISTEN) as terminal:
        eventually((folder / "ready").exists, 20.0, what="a command that runs")
        terminal.hang_up()
        terminal.process.wait(20)

    row = sqlite_shop.app.control.get("load")
    assert row.error == "interrupted: SIGHUP (exit code 7)"


def test_a_signal_that_is_ignored_stays_ignored_for_the_command(folder, sqlite_shop):
    script = "import signal; print(signal.getsignal(signal.SIGINT).name)"
    inner = [sys.executable, "-m", "windlass", "run", "load", "--", *PYTHON, script]

    said = subprocess.run(
        ["sh", "-c", 'trap "" INT; exec "$@"', "sh", *inner],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )

    assert said.stdout == "SIG_IGN\n"


@pytest.mark.parametrize("code", [0, 42])
def test_a_command_that_has_ended_keeps_its_code_if_it_cannot_be_recorded(
    start, folder, sqlite_shop, code
):
    process = start(WAIT)
    path = make_url(str(sqlite_shop.app.database.engine.url)).database
    with sqlite3.connect(path) as connection:
        connection.execute("drop table windlass_control")
    (folder / "go").write_text(str(code))
    _, said = process.communicate(timeout=60)

    assert process.returncode == code
    assert f"ended with code {code}, which could not be recorded: " in said
    assert "Traceback" not in said


def test_a_command_that_has_ended_keeps_its_code_if_the_database_is_away(
    start, folder, postgresql_url
):
    with Relay(make_url(postgresql_url).port) as relay:
        process = start(WAIT, WINDLASS_DATABASE_URL=relay.url(postgresql_url))
        relay.refuse()
        (folder / "go").write_text("0")
        _, said = process.communicate(timeout=120)

    assert process.returncode == 0
    assert "ended with code 0, which could not be recorded: " in said
    assert "Traceback" not in said


def test_a_run_that_was_lost_is_not_a_success(start, folder, sqlite_shop):
    process = start(WAIT)
    operate.release(sqlite_shop.app.fleet, ControlKey("load"))

    (folder / "go").write_text("0")
    _, said = process.communicate(timeout=60)

    assert process.returncode == 1
    assert "control 'load'" in said


def test_the_database_is_enough_to_guard_a_command(windlass_process, sqlite_url):
    answer = windlass_process("run", "load", "--", *EXIT_0, WINDLASS_DATABASE_URL=sqlite_url)

    assert (answer.code, answer.out) == (0, "loaded\n")
    path = Path(make_url(sqlite_url).database)
    with sqlite3.connect(path) as connection:
        assert connection.execute("select name from windlass_control").fetchall() == [("load",)]
