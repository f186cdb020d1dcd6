"""Type checkers see the types of users' handlers, and refuse calls that do not fit."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import windlass

USER = Path(__file__).parent / "shop.py"


@pytest.fixture
def shop(tmp_path):
    """The code of a user, outside of the project and its settings."""
    return Path(shutil.copy(USER, tmp_path))


def refused(path):
    """The lines that are mistakes."""
    lines = enumerate(path.read_text().splitlines(), 1)
    return {number for number, line in lines if line.endswith("# refused")}


def checked(command, folder):
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_the_package_says_that_it_is_typed():
    assert (Path(windlass.__file__).parent / "py.typed").exists()


def test_mypy_refuses_the_mistakes_of_a_user_and_nothing_else(shop):
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(shop.parent / "cache")]
    done = checked([*command, shop.name], shop.parent)

    found = {int(number) for number in re.findall(r"^shop.py:(\d+): error", done.stdout, re.M)}
    assert found == refused(shop), done.stdout + done.stderr


def test_pyright_refuses_the_mistakes_of_a_user_and_nothing_else(shop):
    settings = {"typeCheckingMode": "strict", "reportUnusedExpression": False}
    (shop.parent / "pyrightconfig.json").write_text(json.dumps(settings))
    command = [str(Path(sys.executable).with_name("basedpyright")), "--outputjson"]
    command += ["--pythonpath", sys.executable, shop.name]
    done = checked(command, shop.parent)

    told = json.loads(done.stdout)["generalDiagnostics"]
    found = {each["range"]["start"]["line"] + 1 for each in told if each["severity"] == "error"}
    assert found == refused(shop), done.stdout
