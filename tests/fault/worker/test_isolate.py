"""Handlers in child processes: what ends them, and that nothing of them is left."""

import os
import signal
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.fault.crew import Crew, Process, check_accounts, ids_of
from tests.fault.worker.isolated import declare
from tests.wait import eventually
from windlass import Status, TaskCancelled, TaskFailed

SERVED = """
from tests.fault.worker.isolated import declare

declare(app)
"""

# How a child ends does not depend on the database.
pytestmark = pytest.mark.mostly("sqlite")


@pytest.fixture
def jobs(crew: Crew):
    return declare(crew.jobs.app)


def start(crew: Crew, *options: str) -> Process:
    source = (crew.folder / "served.py").read_text()
    (crew.folder / "isolated.py").write_text(source + SERVED)
    command = ["windlass", "worker", "isolated:app", "--json", *options]
    number = len(crew.processes)
    process = Process(command, folder=crew.folder, name=f"isolated-{number}", url=crew.url)
    crew.processes.append(process)
    eventually(process.has_joined, 60.0, what="a worker that has joined")
    return process


def pids_in(*paths: Path) -> set[int]:
    """The processes of handlers that run, once all of them do."""
    eventually(lambda: all(path.exists() for path in paths), 60.0, what="handlers that run")
    return {int(pid) for path in paths for pid in path.read_text().split()}


def are_gone(pids: Iterable[int]) -> bool:
    return not any(is_there(pid) for pid in pids)


def is_there(pid: int) -> bool:
    try:
        # A process that has ended, and that nobody has waited for, is not there.
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


def test_no_child_outlives_a_worker_that_is_killed(crew, jobs, tmp_path):
    worker = start(crew)
    idle = jobs["whoami"].enqueue().result(timeout="60s")
    paths = [tmp_path / "gil", tmp_path / "linger"]
    jobs["hold_gil"].enqueue(str(paths[0]))
    jobs["linger"].enqueue(str(paths[1]))
    children = pids_in(*paths) | {idle}

    worker.kill()

    eventually(lambda: are_gone(children), 20.0, what="children that are gone")


def test_a_cancel_kills_a_handler_in_c_and_what_it_has_started(crew, jobs, tmp_path):
    start(crew)
    paths = [tmp_path / "gil", tmp_path / "spawn"]
    refs = [jobs["hold_gil"].enqueue(str(paths[0])), jobs["spawn"].enqueue(str(paths[1]))]
    children = pids_in(*paths)

    for ref in refs:
        ref.cancel("no longer wanted")

    eventually(lambda: are_gone(children), 20.0, what="children that are gone")
    for ref in refs:
        with pytest.raises(TaskCancelled):
            ref.result()
    assert jobs["whoami"].enqueue().result(timeout="60s") not in children


def test_a_second_signal_to_stop_kills_children_and_returns_their_tasks(crew, jobs, tmp_path):
    worker = start(crew)
    path = tmp_path / "gil"
    ref = jobs["hold_gil"].enqueue(str(path))
    children = pids_in(path)

    worker.signal(signal.SIGTERM)
    eventually(lambda: worker.events("worker.stopping"), what="a worker that stops")
    assert is_there(*children)
    assert worker.terminate() == 0

    assert are_gone(children)
    row = crew.rows([ref.id])[ref.id]
    assert (row.status, row.attempt, row.lost) == (Status.WAITING, 0, 0)


def test_children_that_crash_and_eat_memory_disturb_nobody(crew, jobs):
    worker = start(crew, "--concurrency", "20")
    crashing = [jobs["crash"].enqueue(number) for number in range(3)]
    naps = ids_of(crew.jobs.nap.enqueue_many([{"seconds": 0.05}] * 100))
    rows = crew.wait_done(naps, 60.0)

    for ref in crashing:
        with pytest.raises(TaskFailed, match=r"HandlerDied|MemoryError"):
            ref.result(timeout="60s")
    check_accounts(crew, naps)
    assert {row.attempt for row in rows.values()} == {1}
    assert {row.attempt for row in crew.rows(ids_of(crashing)).values()} == {2}
    assert worker.is_running
    assert os.getpid() != jobs["whoami"].enqueue().result(timeout="60s")
