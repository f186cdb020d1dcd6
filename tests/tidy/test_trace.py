"""A plain task uses few files and none of a face: all that one reads to see how it runs."""

import json
import subprocess
import sys

import pytest

from tests.tidy.source import ROOT

FACES = ("rolling/", "control/", "sweep/", "flow/", "external/", "ledger/", "queue/")
# What they use today: a change may make a journey shorter, not longer.
MOST_FILES = {"task": 35, "sweep": 40, "page": 20, "deduct": 12}


@pytest.fixture(scope="module")
def files():
    """The files that each journey uses, as `scripts/trace.py` counts them."""
    result = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "scripts.trace", "--json"],
        cwd=ROOT,
        capture_output=True,
        check=False,
        text=True,
    )
    assert result.returncode == 0, result.stderr
    return {journey: sorted(calls) for journey, calls in json.loads(result.stdout).items()}


@pytest.mark.parametrize(("journey", "most"), MOST_FILES.items())
def test_a_journey_uses_few_files(files, journey, most):
    assert len(files[journey]) <= most, "\n".join(files[journey])


def test_a_plain_task_uses_no_file_of_a_face(files):
    assert [file for file in files["task"] if file.startswith(FACES)] == []


def test_a_sweep_uses_no_file_of_another_face(files):
    others = tuple(face for face in FACES if face != "sweep/")

    assert [file for file in files["sweep"] if file.startswith(others)] == []
