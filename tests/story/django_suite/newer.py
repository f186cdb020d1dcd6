"""Django 6 and the Python that it needs: an environment in a cache, made once.

Its packages are those of requirements/django.txt. Beside them is the source of that Django, whose
own tests of task backends are run; nothing of it is in this repository.
"""

import fcntl
import functools
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tidy.source import ROOT

REQUIREMENTS = ROOT / "requirements" / "django.txt"
OLDEST = (3, 12)
PATIENCE_SECONDS = 240


@functools.cache
def django_six() -> Path:
    """The folder of the environment; skips the test where no Python is new enough for it."""
    python = next(pythons(), None)
    if python is None:
        pytest.skip("Django 6 needs Python 3.12 or newer, which is not here")
    pinned = hashlib.sha256(REQUIREMENTS.read_bytes() + str(python).encode()).hexdigest()[:16]
    folder = cache() / f"django-{pinned}"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with open(f"{folder}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "made").exists():
            make(folder, python)
    return folder


def cache() -> Path:
    """Where environments are kept between runs."""
    given = os.environ.get("WINDLASS_DJANGO")
    return Path(given) if given else Path.home() / ".cache" / "windlass"


def pythons() -> Iterator[Path]:
    """The Pythons that are new enough, this one first."""
    found = [Path(sys.executable)] if sys.version_info >= OLDEST else []
    for minor in range(12, 20):
        found += sorted(Path.home().glob(f".pyenv/versions/3.{minor}*/bin/python3.{minor}"))
        here = shutil.which(f"python3.{minor}")
        # A shim of pyenv may name a Python that is not chosen.
        if here is not None and "shims" not in here:
            found.append(Path(here))
    yield from found


def make(folder: Path, python: Path) -> None:
    """Make the environment, and unpack the source of its Django."""
    shutil.rmtree(folder, ignore_errors=True)
    made, uv = str(folder / "bin" / "python"), [sys.executable, "-m", "uv", "--quiet"]
    pinned = ["install", "--quiet", "--require-hashes", "-r", str(REQUIREMENTS)]
    try:
        run([*uv, "venv", "--seed", "--python", str(python), str(folder)])
        run([*uv, "pip", *pinned, "--python", made])
    except AssertionError:
        # It is quicker, but does not read the settings of pip.
        run([str(python), "-m", "venv", "--clear", str(folder)])
        run([made, "-m", "pip", *pinned])
    pin = re.search(r"^django==.*\n(?:    --hash=.*\n)+", REQUIREMENTS.read_text(), re.MULTILINE)
    assert pin is not None
    (folder / "django.txt").write_text(pin[0])
    download = ["pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    built = ["--no-binary=:all:", "--no-build-isolation", "--require-hashes", "--dest=source"]
    run(
        [made, "-m", *download, *built, "--requirement=django.txt"],
        folder,
    )
    (archive,) = (folder / "source").glob("*.tar.gz")
    with tarfile.open(archive) as packed:
        packed.extractall(folder / "source", filter="data")
    (folder / "made").touch()


def run(command: list[str], folder: Path | None = None) -> None:
    result = subprocess.run(
        command, cwd=folder, capture_output=True, check=False, text=True, timeout=PATIENCE_SECONDS
    )
    assert result.returncode == 0, result.stderr


def own_tests(folder: Path) -> Path:
    """The folder of Django's own tests."""
    (found,) = (folder / "source").glob("django-*/tests")
    return found
