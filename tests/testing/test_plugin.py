"""A test suite of a user, run by pytest as users run it."""

import os
import subprocess
import sys
import tomllib

import pytest

from tests.spawn import run_forked
from tests.story.page import blocks_of
from tests.tidy.source import ROOT

GUIDE = ROOT / "docs" / "guide" / "test.md"


@pytest.fixture
def suite(tmp_path):
    """The files of the guide."""
    for block in blocks_of(GUIDE):
        if block.file is not None:
            (tmp_path / block.file).write_text(block.code)
    return tmp_path


def test_the_tests_of_the_guide_pass_on_every_database(suite, empty_database_url):
    told = run_pytest(suite, "--windlass-database", empty_database_url)

    assert "5 passed" in told


def test_a_conftest_may_ask_for_the_fixtures_by_name(suite):
    (suite / "conftest.py").write_text('pytest_plugins = ["windlass.testing"]\n')

    assert "5 passed" in run_pytest(suite)


def test_pytest_finds_the_fixtures_of_an_installed_windlass():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

    assert project["entry-points"]["pytest11"] == {"windlass.testing": "windlass.testing"}


def test_windlass_itself_needs_no_pytest():
    script = "import sys, windlass, windlass.cli; sys.exit('pytest' in sys.modules)"

    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


def run_pytest(folder, *options: str) -> str:
    result = pytest_of(folder, *options)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def pytest_of(folder, *options: str):
    """What pytest says of the tests in a folder."""
    plugins = ["-p", "windlass.testing", "-p", "no:cacheprovider"]
    return run_forked(
        [sys.executable, "-m", "pytest", "-q", "-rN", *plugins, *options],
        cwd=folder,
        check=False,
        timeout=120,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), "."])},
    )
