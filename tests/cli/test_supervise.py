"""What a supervisor does as the first process of a container."""

import ctypes
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.wait import eventually
from windlass.cli.supervise import reap_orphans

SET_CHILD_SUBREAPER = 36
# Leaves a child behind that ends when its input does, and says its pid.
LEAVES_A_CHILD = "import subprocess; print(subprocess.Popen(['cat'], stdout=-3).pid, flush=True)"


@pytest.fixture
def first_process():
    """To this process orphans are left, as to the first one of a container."""
    prctl = ctypes.CDLL(None).prctl
    assert prctl(SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
    yield
    prctl(SET_CHILD_SUBREAPER, 0, 0, 0, 0)


def state(pid: int) -> str:
    path = Path(f"/proc/{pid}/stat")
    return path.read_text().rpartition(")")[2].split()[0] if path.exists() else ""


def test_orphans_that_have_ended_are_let_go_and_own_children_are_not(first_process):
    ours, theirs = os.pipe()
    parent = subprocess.run(
        [sys.executable, "-c", LEAVES_A_CHILD], stdin=ours, stdout=subprocess.PIPE, check=True
    )
    os.close(ours)
    orphan = int(parent.stdout)
    assert state(orphan) in "SR"
    os.close(theirs)
    eventually(lambda: state(orphan) == "Z", what="an orphan that has ended")

    reap_orphans([])

    assert state(orphan) == ""
    own = subprocess.Popen([sys.executable, "-c", "raise SystemExit(7)"])
    eventually(lambda: state(own.pid) == "Z", what="a child that has ended")
    reap_orphans([own.pid])
    assert own.wait() == 7
    reap_orphans([])
