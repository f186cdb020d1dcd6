"""The last released package, built from the history."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
RELEASE = "0.1.0"


def run(*command: str, **more) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, **more)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="session")
def released(tmp_path_factory) -> Path:
    """The package of the released wheel."""
    # By its subject, because a clone may lack its tag.
    find = ("git", "log", "-1", "--format=%H", f"--grep=^release: {RELEASE}$")
    commit = run(*find, cwd=ROOT).strip()
    if not commit:
        pytest.skip(f"the history of {RELEASE} is not here")
    folder = tmp_path_factory.mktemp("released")
    archive = subprocess.run(["git", "archive", commit], cwd=ROOT, check=True, capture_output=True)
    (folder / "source").mkdir()
    subprocess.run(["tar", "-x", "-C", "source"], cwd=folder, input=archive.stdout, check=True)
    without_console = {**os.environ, "WINDLASS_SKIP_CONSOLE": "1"}
    build = ("-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "./source")
    run(sys.executable, *build, cwd=folder, env=without_console)
    (wheel,) = folder.glob("windlass-*.whl")
    assert wheel.name.startswith(f"windlass-{RELEASE}-")
    with zipfile.ZipFile(wheel) as package:
        package.extractall(folder / "package")
    return folder / "package"
