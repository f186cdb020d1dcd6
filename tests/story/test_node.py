"""`examples/node`: a program in Node takes part in a control run, with a producer's token."""

import os
import re
import signal
import subprocess
from contextlib import ExitStack, closing, contextmanager

import pytest

from tests.spawn import Spawned
from tests.tidy.source import ROOT
from tests.wait import eventually
from windlass import App, RunStatus
from windlass.operate.token.operate import FleetTokens
from windlass.view.role import Role

EXAMPLE = ROOT / "examples" / "node"
SECRET = "correct horse battery staple"
DAY = "2026-11-16"


class Place:
    """A worker, a console, and who runs the program."""

    def __init__(self, folder, database_url):
        self.folder = folder
        self.app = App(database_url)
        self.token = FleetTokens(self.app.fleet).create("import", Role.PRODUCER, who="Ada").token
        self.environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "src"))),
            "WINDLASS_DATABASE_URL": database_url,
            "WINDLASS_CONSOLE_SECRET": SECRET,
        }

    @contextmanager
    def windlass(self, name, *options):
        """`windlass NAME` until the end of the block; what it has written so far."""
        log = self.folder / f"{name}.log"
        process = Spawned(
            "windlass",
            *(name, "examples.node.shop:app", *options),
            folder=self.folder,
            log=log,
            environment=self.environment,
        )
        try:
            yield log
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(30)

    def node(self, *arguments, expires="1h"):
        """What the program says, and its exit code."""
        ended = subprocess.run(
            ["node", EXAMPLE / "import.mjs", *arguments],
            capture_output=True,
            check=False,
            text=True,
            timeout=60,
            env=self.environment | {"WINDLASS_TOKEN": self.token, "EXPIRES": expires},
        )
        assert not ended.stderr, ended.stderr
        return ended.stdout, ended.returncode


@pytest.fixture
def place(tmp_path, database_url):
    made = Place(tmp_path, database_url)
    with closing(made.app), ExitStack() as stack:
        stack.enter_context(made.windlass("worker"))
        log = stack.enter_context(made.windlass("console", "--port", "0", "--rate", "100/s"))
        address = re.compile(r"http://[\d.]+:\d+")
        found = eventually(lambda: address.search(log.read_text()), 40, what="the console")
        made.environment["WINDLASS_URL"] = found[0]
        yield made


def test_a_program_that_breaks_half_way_is_run_again_and_skips_what_is_done(place):
    first, code = place.node(DAY, "break")
    row = place.app.control.get("import-prices", DAY)
    again, ended = place.node(DAY)
    after, never = place.node(DAY)

    assert (code, ended, never) == (1, 0, 2)
    assert "try 1, status 9, done before: nothing\nbolts.csv: 1200 rows\n" in first
    assert (row.status, row.error) == (RunStatus.FAILED, "Error: the disk is full")
    assert row.who == "token import"
    assert "try 2, status 9, done before: 1\nbolts.csv was loaded before\n" in again
    assert "nuts.csv: 800 rows\nwashers.csv: 400 rows\nfinished in" in again
    assert "it has succeeded already" in after
    row = place.app.control.get("import-prices", DAY)
    assert row.data == {"bolts.csv": 1200, "nuts.csv": 800, "washers.csv": 400, "files": 3}
    assert [step.data["file"] for step in row.steps] == ["bolts.csv", "nuts.csv", "washers.csv"]


def test_the_run_of_a_program_that_is_killed_is_held_until_it_expires(place):
    killed = place.node(DAY, "kill", expires="5s")[1]
    held, code = place.node(DAY)
    eventually(lambda: place.app.control.get("import-prices", DAY).expired, 30)
    again, ended = place.node(DAY)

    assert (killed, code) == (-signal.SIGKILL, 8)
    assert "token import has been running it since" in held
    assert "bolts.csv was loaded before" in again
    assert ended == 0
