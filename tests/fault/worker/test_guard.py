"""A handler in C holds the GIL for longer than a worker may be silent: its worker is not dead."""

import os
import signal
from functools import partial
from pathlib import Path

import pytest

from tests.fault.crew import Crew, Process, check_accounts, ids_of
from tests.server.process import children_of
from tests.wait import eventually
from windlass.core.ring import store as ring_store

SECONDS = 60.0
SLOWLY = pytest.param("zookeeper", marks=pytest.mark.slow)


def guard_of(process: Process) -> int:
    """The pid of its guard, once it runs."""

    def found() -> int | None:
        return next(
            (pid for pid in children_of(process.pid) if "guard_process" in words(pid)), None
        )

    return eventually(found, SECONDS, what="a guard")


def words(pid: int) -> str:
    """The command of a process; empty if it is gone or a zombie."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""


def grandchildren(process: Process, count: int) -> list[int] | None:
    """The guards of all its children, if there are so many."""
    found = [pid for child in children_of(process.pid) for pid in children_of(child)]
    found = [pid for pid in found if words(pid)]
    return found if len(found) == count else None


def held(crew: Crew, seconds: float) -> tuple[Process, Process, list[int]]:
    """A worker whose handler holds the GIL and whose guard has renewed, another worker, the row."""
    crew.start_many(2, "--concurrency", "1")
    for process in crew.processes:
        guard_of(process)
    ids = ids_of(crew.jobs.hold.enqueue_many([{"seconds": seconds}]))
    (begun,) = eventually(crew.effects.all, SECONDS, what="a handler that holds the GIL")
    (holder,) = (process for process in crew.processes if process.pid == begun.pid)
    (other,) = (process for process in crew.processes if process is not holder)
    guarded = partial(crew.jobs.app.database.read, ring_store.guarded)
    eventually(lambda: holder.workers[0] in guarded(), SECONDS, what="a guard that renews")
    return holder, other, ids


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


@pytest.mark.mostly("sqlite")
def test_a_handler_that_holds_the_gil_keeps_its_worker_and_no_innocent_runs_twice(crew):
    hold_among_innocents(crew, 6.0)


@pytest.mark.parametrize("means", ["etcd", SLOWLY])
def test_a_handler_that_holds_the_gil_keeps_its_worker_in_the_eyes_of_a_coordinator(crew_by, means):
    hold_among_innocents(crew_by(means), 6.0)


def test_without_a_guard_such_a_worker_is_marked_dead_and_joins_anew(site_of, crew_over):
    crew = crew_over(site_of("postgresql").url, guard=False)
    holder, other = crew.start("--concurrency", "1"), crew.start("--concurrency", "1")
    ids = ids_of(crew.jobs.hold.enqueue_many([{"seconds": 6.0}]))
    eventually(lambda: crew.effects.count("begin")[ids[0]] == 1)
    if crew.effects.all()[0].pid == other.pid:
        holder, other = other, holder

    eventually(lambda: holder.has_joined(2), SECONDS, what="a worker that joined anew")

    assert [event["worker"] for event in other.events("worker.marked_dead")] == holder.workers[:1]
    assert children_of(holder.pid) == children_of(other.pid) == []


def test_a_worker_that_is_killed_while_it_holds_the_gil_is_dead_and_so_is_its_guard(crew):
    holder, other, ids = held(crew, 60.0)
    guard = guard_of(holder)

    holder.kill()

    eventually(lambda: not words(guard), what="the end of the guard")
    eventually(lambda: other.events("worker.marked_dead"), SECONDS, what="its death noticed")
    assert crew.left()[holder.workers[0]] == "it missed its heartbeat"
    eventually(lambda: crew.effects.count("begin")[ids[0]] == 2, SECONDS, what="the second run")


@pytest.mark.parametrize("means", ["database", "etcd", SLOWLY])
def test_a_worker_that_is_stopped_while_it_holds_the_gil_is_dead(crew_by, means):
    crew = crew_by(means)
    holder, other, ids = held(crew, 8.0)

    holder.pause()

    eventually(lambda: other.events("worker.marked_dead"), SECONDS, what="its death noticed")
    assert words(guard_of(holder))
    holder.resume()
    crew.wait_done(ids, SECONDS)
    eventually(lambda: holder.has_joined(2), SECONDS, what="the sleeper joined anew")
    check_accounts(crew, ids)


@pytest.mark.slow
@pytest.mark.mostly("postgresql")
def test_a_guard_that_is_killed_is_started_again_and_a_guard_that_hangs_is_replaced(crew):
    worker, other = crew.start_many(2, "--concurrency", "5")
    first = guard_of(worker)

    os.kill(first, signal.SIGKILL)
    eventually(lambda: len(worker.events("guard.started")) == 2, SECONDS, what="a second guard")
    second = guard_of(worker)
    os.kill(second, signal.SIGSTOP)
    eventually(lambda: len(worker.events("guard.started")) == 3, SECONDS, what="a third guard")
    holders = ids_of(crew.jobs.hold.enqueue_many([{"seconds": 5.0}] * 4))
    rows = crew.wait_done(holders, SECONDS)

    assert [event["pid"] for event in worker.events("guard.died")] == [first, second]
    assert not words(first)
    assert not words(second)
    assert {(row.attempt, row.lost) for row in rows.values()} == {(1, 0)}
    assert worker.events("worker.lost") == other.events("worker.lost") == []


@pytest.mark.mostly("sqlite")
def test_signals_for_the_worker_are_not_for_its_guard_which_ends_with_the_worker(crew):
    worker = crew.start()
    guard = guard_of(worker)
    assert os.getsid(guard) != os.getsid(worker.pid)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        os.kill(guard, number)
    ids = ids_of(crew.jobs.hold.enqueue_many([{"seconds": 4.0}]))
    crew.wait_done(ids, SECONDS)

    assert guard_of(worker) == guard
    assert worker.events("guard.died") == []
    assert worker.terminate() == 0
    assert not words(guard)
    assert not Path(f"/proc/{guard}").exists()


@pytest.mark.mostly("sqlite")
def test_every_process_of_a_supervisor_has_a_guard_and_none_is_left_over(crew):
    supervisor = crew.start("--processes", "2", joined=False)
    eventually(lambda: len(children_of(supervisor.pid)) == 2, SECONDS, what="two processes")
    guards = eventually(lambda: grandchildren(supervisor, 2), SECONDS, what="two guards")
    victim = children_of(supervisor.pid)[0]

    os.kill(victim, signal.SIGKILL)
    eventually(lambda: any(not words(pid) for pid in guards), what="the end of its guard")
    eventually(lambda: len(children_of(supervisor.pid)) == 2, SECONDS, what="a new process")
    guards += eventually(lambda: grandchildren(supervisor, 2), SECONDS, what="two guards again")
    assert supervisor.terminate(SECONDS) == 0

    assert [pid for pid in guards if words(pid)] == []


@pytest.mark.mostly("sqlite")
def test_a_forked_child_that_outlives_its_worker_keeps_neither_worker_nor_guard_alive(crew):
    worker = crew.start("--concurrency", "2")
    guard = guard_of(worker)
    crew.wait_done(ids_of(crew.jobs.fork.enqueue_many([{"seconds": 20.0}])), SECONDS)
    (child,) = (pid for pid in children_of(worker.pid) if pid != guard)

    worker.kill()

    eventually(lambda: not words(guard), what="the end of the guard")
    assert words(child)
    os.kill(child, signal.SIGKILL)


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
