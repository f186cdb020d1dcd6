"""`windlass init`: the first file of a new user."""

import json
import shlex
import sys

import pytest
from typer.testing import CliRunner

from tests.spawn import run_forked
from windlass.cli import cli


@pytest.fixture
def type_in(tmp_path, monkeypatch):
    """Types a command in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return lambda *words: CliRunner().invoke(cli, list(words))


def test_the_file_is_written_and_what_to_run_next_is_said(type_in, tmp_path):
    answer = type_in("init")

    assert answer.exit_code == 0
    assert "tasks.py is written" in answer.stdout
    for command in (
        "python tasks.py",
        "windlass worker tasks:app",
        "windlass status --app tasks:app",
    ):
        assert command in answer.stdout
    assert '"sqlite:///tasks.db"' in (tmp_path / "tasks.py").read_text()


def test_what_it_says_to_run_next_runs(type_in, tmp_path):
    commands = json.loads(type_in("init", "--json").stdout)["next"]

    said = ""
    for command in commands:
        words = shlex.split(command)
        script = f"import runpy; runpy.run_path({words[1]!r}, run_name='__main__')"
        words = ["-c", script] if words[0] == "python" else ["-m", *words]
        if "worker" in words:
            words.append("--once")
        said += run_forked([sys.executable, *words], cwd=tmp_path).stdout

    assert "to ada@example.com: welcome" in said
    assert "the bill is 12" in said
    assert "nightly_report" in said


def test_a_file_that_is_there_is_not_touched(type_in, tmp_path):
    (tmp_path / "tasks.py").write_text("mine\n")

    answer = type_in("init")

    assert answer.exit_code == 1
    assert "tasks.py exists already, and nothing was written" in " ".join(answer.stderr.split())
    assert (tmp_path / "tasks.py").read_text() == "mine\n"


def test_a_file_is_replaced_when_that_is_asked_for(type_in, tmp_path):
    (tmp_path / "tasks.py").write_text("mine\n")

    assert type_in("init", "--force").exit_code == 0
    assert "App(" in (tmp_path / "tasks.py").read_text()


def test_another_name_is_used_throughout(type_in, tmp_path):
    (tmp_path / "jobs").mkdir()

    answer = type_in("init", "jobs/mail.py")

    text = (tmp_path / "jobs" / "mail.py").read_text()
    assert "cd jobs" in answer.stdout
    assert "windlass worker mail:app" in answer.stdout
    assert "sqlite:///mail.db" in text
    assert "Background tasks of this project" in text


@pytest.mark.parametrize("name", ["tasks", "my-tasks.py", "2.py", "tasks.txt"])
def test_a_name_that_python_cannot_import_is_refused(type_in, tmp_path, name):
    answer = type_in("init", name)

    assert answer.exit_code == 2
    assert "cannot be imported" in answer.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_there_is_named(type_in):
    answer = type_in("init", "nowhere/tasks.py")

    assert answer.exit_code == 1
    assert "nowhere/tasks.py cannot be written: No such file or directory" in answer.stderr
