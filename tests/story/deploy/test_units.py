"""The units of systemd: what they start, how they stop, and what they may do."""

import configparser
import shutil
import subprocess

import pytest

from scripts.deploy import DEPLOY
from tests.story.reader import check_options

UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
ANALYZE = shutil.which("systemd-analyze")
# Shell variables of the units, as an administrator may fill them.
FILLED = {"${WINDLASS_APP}": "shop:app", "$WORKER_OPTIONS": "--kind send_mail --concurrency 500"}


def read(path):
    unit = configparser.ConfigParser(interpolation=None, strict=False)
    unit.optionxform = str
    unit.read_string(path.read_text())
    return unit["Service"]


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_a_unit_starts_a_command_that_there_is(path):
    commands = [
        line.partition("=")[2]
        for line in path.read_text().splitlines()
        if line.startswith("ExecStart=")
    ]

    assert commands
    for command in commands:
        filled = command
        for name, value in FILLED.items():
            filled = filled.replace(name, value)
        check_options(filled)
        assert filled.startswith("/srv/shop/.venv/bin/windlass ")


def test_a_stopping_worker_has_its_grace_and_its_processes_get_one_signal():
    worker = read(DEPLOY / "systemd" / "windlass-worker@.service")

    grace = int(worker["ExecStart"].split("--grace ")[1].split("s")[0])
    assert int(worker["TimeoutStopSec"].removesuffix("s")) >= grace + 15
    assert worker["KillMode"] == "mixed"


def test_all_units_are_confined_alike():
    def confinement(path):
        text = path.read_text()
        return text[text.index("NoNewPrivileges") :].split("\n\n[Install]")[0].strip()

    assert len(UNITS) == 3
    assert len({confinement(path) for path in UNITS}) == 1


@pytest.mark.skipif(ANALYZE is None, reason="systemd is not here")
def test_systemd_finds_nothing_wrong(tmp_path):
    program = tmp_path / "windlass"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    for path in UNITS:
        text = path.read_text().replace("/srv/shop/.venv/bin/windlass", str(program))
        (tmp_path / path.name.replace("@", "@default")).write_text(text)
    written = sorted(tmp_path.glob("*.service"))

    verified = subprocess.run(
        [ANALYZE, "verify", "--man=no", *written], capture_output=True, text=True, check=False
    )

    said = [line for line in verified.stderr.splitlines() if str(tmp_path) in line]
    assert (verified.returncode, said) == (0, [])
