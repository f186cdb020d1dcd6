"""What the first release left in a database is finished by today's code, on every database."""

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
VERSION = "0.1.0"


def run(*command: str, **more) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, **more)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="session")
def released(tmp_path_factory) -> Path:
    """The package of the released wheel, built from the history."""
    # By its subject, because a clone may lack its tag.
    find = ("git", "log", "-1", "--format=%H", f"--grep=^release: {VERSION}$")
    commit = run(*find, cwd=ROOT).strip()
    if not commit:
        pytest.skip(f"the history of {VERSION} is not here")
    folder = tmp_path_factory.mktemp("released")
    archive = subprocess.run(["git", "archive", commit], cwd=ROOT, check=True, capture_output=True)
    (folder / "source").mkdir()
    subprocess.run(["tar", "-x", "-C", "source"], cwd=folder, input=archive.stdout, check=True)
    without_console = {**os.environ, "WINDLASS_SKIP_CONSOLE": "1"}
    build = ("-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "./source")
    run(sys.executable, *build, cwd=folder, env=without_console)
    (wheel,) = folder.glob("windlass-*.whl")
    assert wheel.name.startswith(f"windlass-{VERSION}-")
    with zipfile.ZipFile(wheel) as package:
        package.extractall(folder / "package")
    return folder / "package"


def shop(verb: str, url: str, package: Path) -> str:
    paths = os.pathsep.join((str(package), str(Path(__file__).parent)))
    environment = {**os.environ, "PYTHONPATH": paths}
    return run(sys.executable, "-m", "upgraded_shop", verb, url, env=environment, cwd=package)


def test_what_the_first_release_left_is_finished_by_todays_code(
    released, empty_database_url, database_engine
):
    if database_engine == "mysql":
        # The first release made its tables there, and then its ledger could not move.
        make = f"import windlass; windlass.App({empty_database_url!r}).migrate()"
        run(sys.executable, "-c", make, env={**os.environ, "PYTHONPATH": str(released)})
        shop("fill", empty_database_url, ROOT / "src")
    else:
        shop("fill", empty_database_url, released)

    told = json.loads(shop("finish", empty_database_url, ROOT / "src"))

    assert told == {
        "order": list(range(20)),
        "product": ["bolt", "nut"],
        "offer": list(range(1, 31)),
        "step": ["box", "label"],
        "gift": "waiting",
        "stock": 7,
        "audit": True,
        "counted": 42,
    }


def test_the_released_package_is_the_one_that_runs(released):
    paths = {**os.environ, "PYTHONPATH": str(released)}
    where = run(sys.executable, "-c", "import windlass; print(windlass.__file__)", env=paths)
    assert Path(where.strip()).is_relative_to(released)
