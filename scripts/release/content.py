"""What a wheel and an sdist must have, and what they must not have."""

from __future__ import annotations

import re
import subprocess
import tarfile
import zipfile
from collections.abc import Iterator, Mapping
from email import message_from_bytes
from pathlib import Path

import windlass
from scripts.release import ROOT

STATIC = "windlass/web/static/"
TYPED = "windlass/py.typed"
LINKED = re.compile(r'(?:src|href)="(?:\./|/)?((?:assets/)?[\w.-]+\.(?:js|css|svg))"')
# Files that git does not have, but a release does.
MADE = re.compile(r"^src/windlass/web/static/")
# Only these of the repository's own files are for those who install it from its sdist.
IN_SDIST = re.compile(
    r"^(src|console|docs|examples|monitoring|deploy)/"
    r"|^(pyproject\.toml|build_console\.py|\.gitignore)$"
    r"|^(CHANGELOG|README|README\.zh-CN|SECURITY)\.md$|^LICENSE$"
)
NEVER = re.compile(r"(^|/)(__pycache__|node_modules|\.venv|\.git|tests)(/|$)|\.(pyc|pyo|db|map)$")
# The console's own tests come with its sources.
CONSOLE_TESTS = re.compile(r"^console/")


def check_wheel(wheel: Path) -> list[str]:
    """What is wrong with a wheel."""
    with zipfile.ZipFile(wheel) as packed:
        files = {name: packed.read(name) for name in packed.namelist()}
    info = f"windlass-{windlass.__version__}.dist-info/"
    tracked = {
        name.removeprefix("src/") for name in tracked_files() if name.startswith("src/windlass/")
    }
    allowed = tracked | {f"{info}{name}" for name in ("METADATA", "WHEEL", "RECORD")}
    allowed |= {f"{info}entry_points.txt", f"{info}licenses/LICENSE"}
    missing = sorted((allowed | {TYPED, f"{STATIC}index.html"}) - files.keys())
    strange = sorted(name for name in files if name not in allowed and not name.startswith(STATIC))
    found = [f"{wheel.name} lacks {name}" for name in missing]
    found += [f"{wheel.name} has {name}, which git has not" for name in strange]
    found += [f"{wheel.name}: {said}" for said in (*_console(files), *_no_traces(files))]
    if not missing:
        found += [f"{wheel.name}: {said}" for said in _metadata(files[f"{info}METADATA"])]
    return found


def check_sdist(sdist: Path) -> list[str]:
    """What is wrong with an sdist."""
    top = f"windlass-{windlass.__version__}/"
    with tarfile.open(sdist) as packed:
        files = {
            each.name.removeprefix(top): opened.read()
            for each in packed
            if (opened := packed.extractfile(each)) is not None
        }
    wanted = {name for name in tracked_files() if IN_SDIST.search(name)}
    wanted |= {"PKG-INFO", "src/windlass/web/static/index.html"}
    strange = sorted(name for name in files if name not in wanted and not MADE.search(name))
    found = [f"{sdist.name} lacks {name}" for name in sorted(wanted - files.keys())]
    found += [f"{sdist.name} has {name}, which is not for a release" for name in strange]
    return found + [f"{sdist.name}: {said}" for said in _no_traces(files)]


def tracked_files() -> set[str]:
    """Every file that git tracks or would add, and that is there."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        capture_output=True,
        check=True,
        text=True,
    )
    return {name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()}


def _console(files: Mapping[str, bytes]) -> Iterator[str]:
    """The page of the console, and everything that it links."""
    page = files.get(f"{STATIC}index.html", b"").decode()
    linked = LINKED.findall(page)
    if page and not any(name.endswith(".js") for name in linked):
        yield "the page of the console links no script"
    for name in linked:
        if f"{STATIC}{name}" not in files:
            yield f"the page of the console links {name}, which is not there"


def _no_traces(files: Mapping[str, bytes]) -> Iterator[str]:
    """Nothing of the machine that built it, and nothing that is only for those who build."""
    traces = [str(path).encode() + b"/" for path in (ROOT, Path.home())]
    for name, body in files.items():
        if NEVER.search(name) and not CONSOLE_TESTS.search(name):
            yield f"{name} is not for a release"
        for trace in traces:
            if trace in body:
                yield f"{name} names {trace.decode()}, a folder of this machine"


def _metadata(given: bytes) -> Iterator[str]:
    """What an index shows, and what pip obeys."""
    told = message_from_bytes(given)
    wanted = {
        "Name": "windlass",
        "Version": windlass.__version__,
        "License-Expression": "Apache-2.0",
        "Requires-Python": ">=3.11",
        "Description-Content-Type": "text/markdown",
    }
    for key, value in wanted.items():
        if told[key] != value:
            yield f"{key} is {told[key]!r}, not {value!r}"
    if any(" @ " in each for each in told.get_all("Requires-Dist", [])):
        yield "a dependency is named by its address"
