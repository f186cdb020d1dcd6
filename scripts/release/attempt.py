"""Try a wheel on one Python: in an empty environment as users install it, and with the suite."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from scripts.release import ROOT, ReleaseProblem
from scripts.release.content import tracked_files

# What does not depend on a server, and takes about two minutes on two cores.
QUICK = ("tests/value", "tests/core", "tests/cli")
LINK = re.compile(r"http://127\.0\.0\.1:\d+/login\?token=\w+")
DEMO_SECONDS = 90.0
NAMES = """
import windlass
from importlib.metadata import version
from pathlib import Path
assert version("windlass") == windlass.__version__
assert (Path(windlass.__file__).parent / "py.typed").is_file()
assert all(getattr(windlass, name) is not None for name in windlass.__all__)
print(Path(windlass.__file__).parent)
"""


def as_user(python: Path, wheel: Path, folder: Path) -> None:
    """`pip install windlass && windlass demo`, in an empty environment, without an extra."""
    environment = _new(python, folder)
    _pip(environment, "install", str(wheel))
    _pip(environment, "check")
    with _empty_folder() as work:
        _run([environment / "bin" / "windlass", "--version"], work)
        where = _run([environment / "bin" / "python", "-c", NAMES], work).strip()
        if not Path(where).is_relative_to(environment):
            raise ReleaseProblem(f"windlass was imported from {where}, not from {environment}")
        _run([environment / "bin" / "windlass", "init"], work)
        _run([environment / "bin" / "python", "tasks.py"], work)
        _demo(environment, work)


def as_tester(python: Path, wheel: Path, folder: Path, *, jobs: int) -> None:
    """The quick part of the suite on the installed wheel: the tree has no `src` there."""
    pinned = ROOT / "requirements" / "dev.txt"
    stamp = folder / "installed"
    if not stamp.is_file() or stamp.read_bytes() != pinned.read_bytes():
        environment = _new(python, folder)
        _pip(environment, "install", "--require-hashes", "-r", str(pinned))
        stamp.write_bytes(pinned.read_bytes())
    _pip(folder, "install", "--no-deps", "--force-reinstall", str(wheel))
    with _empty_folder() as work:
        for name in tracked_files():
            if not name.startswith("src/"):
                (work / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, work / name)
        # It runs again, alone, what fails: a busy machine may be too slow for a test.
        command = [work / "scripts" / "suite", folder / "bin" / "python", "-n", str(jobs)]
        chosen = ["-m", "not slow", "--database", "sqlite", *QUICK]
        done = subprocess.run([*command, *chosen], cwd=work, env=_plain(), check=False)
    if done.returncode:
        raise ReleaseProblem(f"tests failed on {folder.parent.name}")


def _demo(environment: Path, work: Path) -> None:
    """Start the demo, read its console by HTTP, stop it, and see that nothing is left."""
    temporary = work / "tmp"
    temporary.mkdir()
    said = work / "said.txt"
    with said.open("w") as output:
        process = subprocess.Popen(
            [environment / "bin" / "windlass", "demo", "--port", "0"],
            cwd=work,
            env=_plain() | {"TMPDIR": str(temporary), "PYTHONUNBUFFERED": "1"},
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        _look_at(_wait_for_link(process, said))
        process.send_signal(signal.SIGINT)
        code = process.wait(30)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
    if code or list(temporary.iterdir()) or "Traceback" in said.read_text():
        raise ReleaseProblem(f"the demo ended with {code}:\n{said.read_text()}")


def _wait_for_link(process: subprocess.Popen[bytes], said: Path) -> str:
    deadline = time.monotonic() + DEMO_SECONDS
    while time.monotonic() < deadline:
        found = LINK.search(said.read_text())
        if found:
            return found[0]
        if process.poll() is not None:
            break
        time.sleep(0.2)
    raise ReleaseProblem(f"the demo printed no link to its console:\n{said.read_text()}")


def _look_at(link: str) -> None:
    """Log in by the link; the page, its script and the API must answer, and workers join."""
    base = link.partition("/login")[0]
    opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
    opener.open(link, timeout=20).close()
    with opener.open(f"{base}/", timeout=20) as answer:
        page = answer.read().decode()
    scripts = re.findall(r'src="\.?/?(assets/[\w.-]+\.js)"', page)
    if not scripts:
        raise ReleaseProblem(f"the page of the console has no script:\n{page[:500]}")
    for path in (*scripts, "shop"):
        opener.open(f"{base}/{path}", timeout=20).close()
    deadline = time.monotonic() + DEMO_SECONDS
    while True:
        with opener.open(f"{base}/api/rings", timeout=20) as answer:
            rings = json.load(answer)["rings"]
        if sum(member["is_alive"] for member in rings[0]["members"]) == 2:
            return
        if time.monotonic() > deadline:
            raise ReleaseProblem(f"the demo's workers did not join: {rings}")
        time.sleep(0.3)


def _new(python: Path, folder: Path) -> Path:
    """An empty environment. Its pip is that of this process, as some Pythons have none."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    _run([python, "-m", "venv", "--without-pip", folder], folder.parent)
    return folder


def _pip(environment: Path, *arguments: str) -> None:
    quiet = ["--quiet", "--disable-pip-version-check"]
    command = [sys.executable, "-m", "pip", "--python", environment / "bin" / "python"]
    _run([*command, *arguments[:1], *quiet, *arguments[1:]], environment)


def _run(command: list[Path | str], folder: Path) -> str:
    done = subprocess.run(
        command, cwd=folder, env=_plain(), capture_output=True, text=True, check=False
    )
    if done.returncode:
        said = f"{done.stdout}\n{done.stderr}".strip()
        raise ReleaseProblem(f"{' '.join(map(str, command))} failed:\n{said}")
    return done.stdout


def _plain() -> dict[str, str]:
    """The environment without what would lead Python elsewhere."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTHON", "WINDLASS_")) and name != "VIRTUAL_ENV"
    }


@contextmanager
def _empty_folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="windlass-release-") as name:
        yield Path(name)
