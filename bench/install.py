"""Each peer in an environment of its own, so that no two have to agree on a version."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
CACHE = HERE / ".cache"
PEER = HERE / "peer"
NODE_TALLY = HERE / "tally.mjs"


class NotInstalled(Exception):
    """A peer or a server that cannot be had here; the message says what is missing."""


def home(peer: str) -> Path:
    """The folder of a peer's environment; it is installed on first use and kept."""
    folder = CACHE / peer
    wanted = _fingerprint(PEER / peer)
    stamp = folder / "installed"
    if stamp.exists() and stamp.read_text() == wanted:
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    print(f"installing {peer}", file=sys.stderr)
    if (PEER / peer / "package.json").exists():
        _install_node(peer, folder)
    else:
        _install_python(peer, folder)
    stamp.write_text(wanted)
    return folder


def python(peer: str) -> str:
    """The interpreter that runs a peer's module."""
    own = home(peer) / "bin" / "python"
    return str(own) if own.exists() else sys.executable


def redis() -> None:
    """See that a Redis server is there, installing Debian's package where we may."""
    if shutil.which("redis-server"):
        return
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        raise NotInstalled("redis-server is missing; install it with your package manager")
    print("installing redis-server", file=sys.stderr)
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
    install = ["apt-get", "install", "--yes", "--no-install-recommends", "redis-server"]
    _run(install, "redis-server", environment)


def _install_python(peer: str, folder: Path) -> None:
    _run([sys.executable, "-m", "venv", str(folder)], peer)
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet"]
    pinned = str(PEER / peer / "requirements.txt")
    _run([*pip, "--disable-pip-version-check", "--requirement", pinned], peer)


def _install_node(peer: str, folder: Path) -> None:
    if not shutil.which("npm"):
        raise NotInstalled(f"{peer} needs Node and npm; install them with your package manager")
    shutil.copytree(PEER / peer, folder, ignore=shutil.ignore_patterns("__pycache__", "*.py"))
    shutil.copy(NODE_TALLY, folder)
    _run(["npm", "ci", "--silent", "--prefix", str(folder)], peer)


def _run(command: list[str], what: str, environment: dict[str, str] | None = None) -> None:
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        reason = (done.stderr + done.stdout).strip()[-2000:]
        raise NotInstalled(f"{what}: {' '.join(command)} ended with {done.returncode}\n{reason}")


def _fingerprint(folder: Path) -> str:
    """What the environment was made from: pinned versions, and copied scripts."""
    made_from = [*folder.glob("requirements.txt"), *folder.glob("*.json"), *folder.glob("*.mjs")]
    if (folder / "package.json").exists():
        made_from.append(NODE_TALLY)
    digest = hashlib.sha256(sys.version.encode())
    for path in sorted(made_from):
        digest.update(path.read_bytes())
    return digest.hexdigest()
