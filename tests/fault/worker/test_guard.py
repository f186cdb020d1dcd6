"""A handler in C holds the GIL for longer than a worker may be silent: its worker is not dead."""

import os
import signal
from pathlib import Path

import pytest

from tests.fault.crew import Crew, Process, check_accounts, ids_of
from tests.server.process import children_of
from tests.wait import eventually

SECONDS = 60.0


def guard_of(process: Process) -> int:
    """The pid of its guard, once it runs."""

    def found() -> int | None:
        return next((pid for pid in children_of(process.pid) if "guard_process" in words(pid)), None)

    return eventually(found, SECONDS, what="a guard")


def words(pid: int) -> str:
    """The command of a process; empty if it is gone or a zombie."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""


def hold_among_innocents(crew: Crew, seconds: float) -> None:
    """One task holds the GIL while others run beside it, and nothing runs twice."""
    worker, other = crew.start_many(2, "--concurrency", "10")
    guard_of(worker)
    innocents = ids_of(crew.jobs.nap.enqueue_many([{"seconds": 0.5}] * 40))
    crew.wait_busy()
    holders = ids_of(crew.jobs.hold.enqueue_many([{"seconds": seconds}] * 2))

    rows = crew.wait_done([*innocents, *holders], 6 * seconds + SECONDS)

    assert {(row.attempt, row.lost) for row in rows.values()} == {(1, 0)}
    assert crew.effects.count("begin") == dict.fromkeys(rows, 1)
    check_accounts(crew, rows)
    for process in (worker, other):
        assert process.events("worker.lost") == process.events("worker.marked_dead") == []
        assert process.events("guard.failed") == process.events("guard.died") == []
        assert len(process.workers) == 1
    told = [event for each in (worker, other) for event in each.events("worker.guarded")]
    assert told
    assert max(event["seconds"] for event in told) >= seconds


def test_a_handler_that_holds_the_gil_keeps_its_worker_and_no_innocent_runs_twice(crew):
    hold_among_innocents(crew, 6.0)


@pytest.mark.parametrize("means", ["etcd", "zookeeper"])
def test_a_handler_that_holds_the_gil_keeps_its_worker_in_the_eyes_of_a_coordinator(
    crew_by, means
):
    hold_among_innocents(crew_by(means), 6.0)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_thirty_seconds_with_the_usual_settings_cost_nobody_anything(crew_of):
    hold_among_innocents(crew_of(lease="30s", dead_after="5s"), 30.0)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("means", ["etcd", "zookeeper"])
def test_thirty_seconds_cost_nobody_anything_in_the_eyes_of_a_coordinator(
    means, coordinators, site_of, crew_over
):
    usual = {"lease": "30s", "dead_after": "5s", "members": coordinators.of(means).url}
    hold_among_innocents(crew_over(site_of("postgresql").url, **usual), 30.0)
