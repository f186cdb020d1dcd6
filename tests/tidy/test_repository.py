"""The repository works on any machine, and its doors are where people look for them."""

import re
import subprocess

import pytest

from tests.tidy.source import PACKAGE, ROOT, name_of, repository_files

# Written in pieces so that this file does not find itself.
ELSEWHERE = re.compile(
    "|".join(
        (
            r"https?://[\w.-]*(py" + r"pi|npm" + r"js|regis" + r"try)",
            r"(?<![\w.<>}])/wo" + r"rk/",
            r"(?<![\w.<>}])/ro" + r"ot/",
        )
    )
)
# Tests of the whole, and what tests stand on.
BESIDE_SOURCE = {"browser", "fault", "fixture", "server", "simulation", "story", "tidy"}
TARGETS = re.compile(r"^([a-z][a-z-]*):", re.MULTILINE)


def test_no_file_names_a_registry_or_a_path_of_one_machine():
    lines = [
        (f"{name_of(path)}:{number}", line)
        for path in repository_files()
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), start=1)
    ]

    assert [place for place, line in lines if ELSEWHERE.search(line)] == []


@pytest.mark.parametrize(
    "name", ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "SECURITY.md"]
)
def test_what_a_visitor_looks_for_is_there(name):
    assert (ROOT / name).read_text().strip()


def test_tests_are_in_the_folder_of_what_they_test():
    folders = [path.parent.relative_to(ROOT / "tests") for path in (ROOT / "tests").rglob("*.py")]
    of_source = {folder for folder in folders if not BESIDE_SOURCE & {*folder.parts[:1]}}

    elsewhere = [
        folder.as_posix()
        for folder in sorted(of_source)
        if not (PACKAGE / folder).is_dir() and not (PACKAGE / folder).with_suffix(".py").exists()
    ]

    assert elsewhere == []


def test_make_help_tells_every_target():
    targets = set(TARGETS.findall((ROOT / "Makefile").read_text()))

    told = subprocess.run(["make"], cwd=ROOT, capture_output=True, check=True, text=True).stdout

    assert {"demo", "test", "check"} <= targets
    assert [target for target in sorted(targets) if f"make {target} " not in told] == []


def test_what_is_pinned_is_pinned_by_hash():
    for name in ("dev", "build", "docs", "demo", "deploy", "image"):
        lines = (ROOT / "requirements" / f"{name}.txt").read_text().splitlines()
        pins = [line for line in lines if line and not line.startswith((" ", "#"))]

        assert pins
        assert [pin for pin in pins if "==" not in pin or not pin.endswith("\\")] == []


def test_continuous_integration_runs_what_people_run():
    script = ROOT / ".ci" / "run"

    assert script.stat().st_mode & 0o100
    assert "make test\n" in script.read_text()
