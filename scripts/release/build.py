"""Build the sdist and the wheel, and the wheel once more from the sdist: it must be the same."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

from scripts.release import ROOT, ReleaseProblem
from scripts.release.content import check_sdist, check_wheel

STATIC = ROOT / "src" / "windlass" / "web" / "static"


def build(into: Path) -> list[Path]:
    """Put the sdist and the wheel into a folder, in place of older ones, and check them."""
    if not (STATIC / "index.html").is_file():
        raise ReleaseProblem("the console is not built; run: make dist")
    into.mkdir(parents=True, exist_ok=True)
    for old in (*into.glob("windlass-*.whl"), *into.glob("windlass-*.tar.gz")):
        old.unlink()
    _hatchling(ROOT, into, "sdist")
    _hatchling(ROOT, into, "wheel")
    (sdist,), (wheel,) = into.glob("*.tar.gz"), into.glob("*.whl")
    found = [*check_sdist(sdist), *check_wheel(wheel), *_compare(sdist, wheel)]
    if found:
        raise ReleaseProblem("\n".join(found))
    return [sdist, wheel]


def _compare(sdist: Path, wheel: Path) -> list[str]:
    """How the wheel that the sdist builds differs; nothing, if all is well."""
    with tempfile.TemporaryDirectory(prefix="windlass-sdist-") as name:
        folder = Path(name)
        with tarfile.open(sdist) as packed:
            packed.extractall(folder, filter="data")
        (tree,) = folder.iterdir()
        _hatchling(tree, folder / "dist", "wheel", forbidden=_forbid_npm(folder))
        (again,) = (folder / "dist").glob("*.whl")
        if again.read_bytes() == wheel.read_bytes():
            return []
        ours, theirs = _sums(wheel), _sums(again)
        names = sorted(each for each in ours | theirs if ours.get(each) != theirs.get(each))
        return [f"the sdist builds another wheel; different: {', '.join(names) or 'the order'}"]


def _forbid_npm(folder: Path) -> Path:
    """A folder whose npm fails: the sdist has the built console, and must not build it again."""
    programs = folder / "no-npm"
    programs.mkdir()
    npm = programs / "npm"
    npm.write_text("#!/bin/sh\necho 'the sdist builds the console again' >&2\nexit 1\n")
    npm.chmod(0o755)
    return programs


def _hatchling(tree: Path, into: Path, target: str, *, forbidden: Path | None = None) -> None:
    """Run the build backend as it is installed here: nothing is fetched."""
    environment = dict(os.environ)
    if forbidden is not None:
        environment["PATH"] = f"{forbidden}{os.pathsep}{environment['PATH']}"
    done = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-d", str(into), "-t", target],
        cwd=tree,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise ReleaseProblem(f"the {target} cannot be built:\n{done.stdout}{done.stderr}")


def _sums(wheel: Path) -> dict[str, int]:
    with zipfile.ZipFile(wheel) as packed:
        return {each.filename: each.CRC for each in packed.infolist()}
