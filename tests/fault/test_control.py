"""Named runs whose processes race, are killed, and come back late."""

import contextlib
import signal
from contextlib import closing

import pytest

from tests.fault import runs
from tests.wait import eventually
from windlass import App
from windlass.clock import SECOND, DatabaseClock
from windlass.engine.controlled import LEASE
from windlass.model.control import Place, RunStatus
from windlass.operate import control


class Later(DatabaseClock):
    """The time of the database, when every lease of now has run out."""

    def _read(self) -> int:
        return super()._read() + LEASE + SECOND


@pytest.fixture
def url(database_engine, site_of):
    url = site_of(database_engine).url
    with closing(App(url)) as app:
        app.migrate()
    return url


@pytest.fixture
def log(tmp_path):
    return runs.Log(tmp_path / "log")


@pytest.fixture
def started(url, log):
    """Starts a process, which ends with the test."""
    processes = []

    def start(what):
        processes.append(runs.start(what, url=url, log=log))
        return processes[-1]

    yield start
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            process.kill()


@pytest.fixture
def app(url):
    with closing(App(url)) as app:
        yield app


@pytest.fixture
def later(url):
    """An app that lives a minute later."""
    with closing(App(url)) as app:
        app.fleet.shards[0].clock = Later(app.database.measure)
        yield app


def test_of_fifty_processes_that_start_at_once_exactly_one_wins(started, log, app):
    process = started("race")

    assert process.wait(60.0) == 0, process.log

    answers = [line.split() for line in log.lines()]
    won = [answer for answer in answers if answer[0] == "0"]
    told = [answer for answer in answers if answer[0] == "8"]
    assert (len(won), len(told)) == (1, runs.RACERS - 1)
    _, pid, batch, _ = won[0]
    assert {answer[2] for answer in told} == {batch}
    assert {answer[-1] for answer in told} == {pid}
    assert app.control.get("load").batch == int(batch)


def test_what_was_killed_in_its_second_step_repeats_that_and_skips_the_first(
    started, log, app, later
):
    process = started("load")
    eventually(lambda: "step 2" in log.lines(), 20.0, what="a process in its second step")
    process.kill()
    assert app.control.start("load").code == 8
    done = []

    with later.control("load") as run:
        rows = run.step("rows", pytest.fail) if not run.step(1) else pytest.fail("1 is repeated")
        done += [step for step in (2, 3) if run.step(step)]

    row = app.control.get("load")
    assert (rows, done) == (42, [2, 3])
    assert (row.status, row.tries) == (RunStatus.SUCCEEDED, 2)
    assert row.data == {"pid": process.pid}
    killed = control.history(app.database, Place("load"))[-1]
    assert (killed.status, killed.error, killed.step) == (RunStatus.FAILED, "expired", 2)


def test_an_old_holder_that_was_taken_over_is_fenced_off_while_it_lives(started, log, app):
    process = started("linger")
    eventually(log.lines, 20.0, what="a holder")
    eventually(lambda: app.control.start("load").code == 0, what="a run that has expired")
    before = app.control.get("load")

    assert process.wait() == 0, process.log

    assert log.lines()[1:] == ["lost 451"]
    assert app.control.get("load") == before
    assert (before.status, before.tries) == (RunStatus.RUNNING, 2)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_run_as_interrupted_and_then_the_process(started, log, app, number):
    process = started("hold")
    eventually(log.lines, 20.0, what="a holder")

    process.signal(number)
    code = process.wait()

    row = app.control.get("load")
    assert code == -number
    assert (row.status, row.error, row.step) == (RunStatus.FAILED, "interrupted", "wait")
