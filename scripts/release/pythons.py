"""The Pythons of this machine that a release is tried on, the newest patch of each."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from scripts import newer_servers

VERSIONS = ("3.11", "3.12", "3.13", "3.14")


def find(version: str) -> Path | None:
    """A Python of this version: one of pyenv, one on the PATH, or one that was unpacked."""
    return next((path for path in _candidates(version) if _is(path, version)), None)


def _candidates(version: str) -> Iterator[Path]:
    root = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    installed = root.glob(f"versions/{version}.*/bin/python")
    yield from sorted(installed, key=lambda path: _patch(path.parts[-3]), reverse=True)
    on_path = shutil.which(f"python{version}")
    if on_path:
        yield Path(on_path)
    if newer_servers.is_there("python"):
        yield newer_servers.programs_of("python") / f"python{version}"


def _patch(name: str) -> int:
    last = name.rpartition(".")[2]
    return int(last) if last.isdigit() else -1


def _is(path: Path, version: str) -> bool:
    """Whether it runs, and is what its name says: a shim of pyenv may be neither."""
    if not path.is_file():
        return False
    asked = "import sqlite3, ssl, sys, venv; print('%d.%d' % sys.version_info[:2])"
    done = subprocess.run([path, "-c", asked], capture_output=True, text=True, check=False)
    return done.returncode == 0 and done.stdout.strip() == version
