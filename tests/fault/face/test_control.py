"""Named runs whose processes race, are killed, and come back late."""

import contextlib
import signal
from contextlib import closing
from datetime import timedelta

import pytest

from tests.fault.face import runs
from tests.wait import eventually
from windlass import App
from windlass.control import operate as control
from windlass.control.model.argument import ControlKey
from windlass.control.model.control import RunStatus


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


@pytest.mark.parametrize(
    "before",
    [
        "nothing",
        "failed",
        pytest.param("succeeded", marks=pytest.mark.slow),
        pytest.param("expired", marks=pytest.mark.slow),
    ],
)
def test_of_fifty_processes_that_start_at_once_exactly_one_wins(started, log, app, before):
    if before != "nothing":
        app.control.start("load", expires="1ms")
    if before == "failed":
        app.control.error("load", "disk full")
    if before == "succeeded":
        app.control.finish("load")
    process = started("race" if before == "nothing" else "small_race")

    assert process.wait(60.0) == 0, process.log

    answers = [line.split() for line in log.lines()]
    won = [answer for answer in answers if answer[0] == "0"]
    told = [answer for answer in answers if answer[0] == "8"]
    racers = runs.RACERS if before == "nothing" else runs.FEW_RACERS
    assert (len(won), len(told)) == (1, racers - 1)
    _, pid, batch, _ = won[0]
    assert {answer[2] for answer in told} == {batch}
    assert {answer[-1] for answer in told} == {pid}
    assert app.control.get("load").batch == int(batch)


def test_what_was_killed_in_its_second_step_repeats_that_and_skips_the_first(started, log, app):
    process = started("load")
    eventually(lambda: "step 2" in log.lines(), 20.0, what="a process in its second step")
    process.kill()
    assert app.control.start("load").code == 8
    done = []

    def is_free():
        return app.control.get("load").expired

    eventually(is_free, 20.0, what="a lease that has run out")
    with app.control("load") as run:
        rows = run.step("rows", pytest.fail) if not run.step(1) else pytest.fail("1 is repeated")
        done += [step for step in (2, 3) if run.step(step)]

    row = app.control.get("load")
    assert (rows, done) == (42, [2, 3])
    assert (row.status, row.tries) == (RunStatus.SUCCEEDED, 2)
    assert row.data == {"pid": process.pid}
    killed = control.history(app.fleet, ControlKey("load"))[-1]
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


def test_a_run_is_held_for_longer_than_its_lease_while_its_process_lives(started, log, app):
    started("hold")
    eventually(log.lines, 20.0, what="a holder")
    lease = app.control.get("load").expire_time

    def is_later():
        assert app.control.start("load").code == 8
        return app.control.get("load").expire_time > lease + timedelta(seconds=2)

    eventually(is_later, 20.0, what="a lease that was renewed for longer than it lasts")


def test_a_child_by_fork_neither_ends_the_run_of_its_parent_nor_minds_its_signals(
    started, log, app
):
    process = started("fork")

    assert process.wait() == 0, process.log

    assert log.lines() == ["exited 3", "killed 15", "stepped"]
    assert app.control.get("load").status is RunStatus.SUCCEEDED


@pytest.mark.mostly("mariadb")
@pytest.mark.parametrize("part", ["together", "in_turn"])
def test_a_signal_ends_all_runs_of_an_event_loop_as_interrupted(started, log, app, part):
    process = started(part)
    eventually(lambda: len(log.lines()) == 3, 20.0, what="three holders")

    process.signal(signal.SIGTERM)
    code = process.wait()

    assert code == -signal.SIGTERM
    assert {app.control.get("load", each).error for each in "abc"} == {"interrupted"}


@pytest.mark.mostly("postgresql")
def test_a_signal_during_the_end_of_an_inner_run_ends_the_outer_one(started, log, app):
    process = started("nested")

    code = process.wait()

    assert code == -signal.SIGTERM, process.log
    assert app.control.get("load", "inner").status is RunStatus.SUCCEEDED
    assert app.control.get("load", "outer").error == "interrupted"
    assert log.lines() == []


@pytest.mark.mostly("sqlite")
def test_a_handler_of_the_program_is_left_alone(started, log, app):
    process = started("own")
    eventually(log.lines, 20.0, what="a holder")

    process.signal(signal.SIGTERM)

    assert process.wait() == 7
    assert log.lines()[1:] == ["handled"]


@pytest.mark.mostly("sqlite", "postgresql")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_run_as_interrupted_and_then_the_process(started, log, app, number):
    process = started("hold")
    eventually(log.lines, 20.0, what="a holder")

    process.signal(number)
    code = process.wait()

    row = app.control.get("load")
    assert code == -number
    assert (row.status, row.error, row.step) == (RunStatus.FAILED, "interrupted", "wait")
